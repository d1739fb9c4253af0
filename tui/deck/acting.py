"""Acts from the deck: what is done at once, what waits five seconds for second thoughts, what is asked about first.

Owns the countdown only: what waits is a request in the database. Whether an act is allowed is decided by the engine alone;
its answers are told as they come.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from taskdeck.engine.errors import TaskdeckError, Unavailable
from taskdeck.engine.silence import Silence

from .. import format as look
from . import reads, tables
from .screens.confirm import Confirm, Typed
from .screens.page import Target
from .widgets.panes import Table, moment

if TYPE_CHECKING:
    from taskdeck.engine.commands import Import

    from .app import DeckApp

DEFER = 5.0
"""Seconds in which what waits can be taken back."""
SAMPLES = 5
"""Tasks that are told by what they are, where many are asked about."""
FEW = 10
"""More tasks than these are asked about instead."""
TOGGLES = {"resource": ("resource_enable", "resource_disable"), "route": ("route_enable", "route_disable")}
VERBS = {
    ("resource", "reset"): "resource_reset",
    ("route", "reset"): "route_reset",
    ("route", "check"): "route_check",
}


WAITING = ("cancel", "retry", "discard", "stop")
"""What waits for second thoughts, in the database: a deck that is killed meanwhile changes nothing about it."""
CALLED = {"stop": "stop_tasks"}


@dataclass
class _Deferred:
    """What was asked for, for the countdown alone."""

    verb: str
    ids: list[Any]
    due: float
    refused: str = ""


class Acting:
    """What a person asks for."""

    def __init__(self, deck: DeckApp) -> None:
        self._deck = deck
        self._waiting: list[_Deferred] = []
        self._asking: set[asyncio.Task[None]] = set()

    async def act(self, verb: str, target: Target) -> None:
        """Do this to what is meant: the keys p, c and r. What does not fit the kind is said."""
        if self._deck.read_only:
            self._deck.say("this deck only reads (--read-only)", wrong=True)
        elif not target.ids:
            self._deck.say(f"there is nothing to {verb} here")
        elif target.kind == "task":
            await self._act_on_tasks(verb, target)
        elif verb == "toggle" and target.kind in TOGGLES:
            on, off = TOGGLES[target.kind]
            enabling = all(target.states.get(each) == "DISABLED" for each in target.ids)
            self._begin(on if enabling else off, _whole(target.ids))
        elif verb == "kick" and target.kind in TOGGLES:
            await self._kick(target)
        elif (target.kind, verb) in VERBS:
            self._begin(VERBS[target.kind, verb], _whole(target.ids))

    async def _kick(self, target: Target) -> None:
        """Take them from who holds them, once the name (or how many) is typed: nothing gives an attempt its lease back."""
        held = [each for each in target.ids if target.held.get(each)]
        if not held:
            self._deck.say(f"nobody holds {names(target.ids)}")
            return
        word = str(held[0]) if len(held) == 1 else str(len(held))
        what = f"kick {_held_by(target, held)}?"
        told = "its attempt is stopped and its task stays paused; nobody gets it before that has ended"
        # What was seen is meant: a lease that another attempt has taken since is left alone.
        fence = target.fences.get(held[0], 0) if len(held) == 1 else 0
        await self._deck.push_screen(
            Typed(what, told, word),
            lambda yes: self._begin(f"{target.kind}_kick", held, fence=fence) if yes else None,
        )

    async def act_named(self, verb: str, target: Target) -> None:
        """The same by name, as it was typed."""
        if not target.ids:
            self._deck.say(f"there is nothing to {verb} here")
        elif verb in WAITING or verb == "kill" or len(target.ids) > FEW:
            await self._act_on_tasks(verb, target)
        else:
            self._begin(verb, target.ids)

    async def _act_on_tasks(self, verb: str, target: Target) -> None:
        ids = target.ids
        if verb == "pause" and target.states:
            paused = [each for each in ids if target.states.get(each) == "PAUSED"]
            others = [each for each in ids if each not in paused]
            for name, chosen in (("resume", paused), ("pause", others)):
                if chosen:
                    self._begin(name, chosen)
        elif len(ids) > FEW or verb == "kill":
            few = f"{verb} {len(ids)} tasks?" if len(ids) > 1 else f"{verb} {names(ids)}?"
            await self._deck.push_screen(
                Confirm(few, await self._samples(ids), verb),
                lambda yes: self._begin(verb, ids) if yes else None,
            )
        else:
            self._begin(verb, ids, delay=DEFER)

    async def _samples(self, ids: Sequence[Any]) -> list[str]:
        """What some of these tasks are, a line each: a number alone tells nobody what would end."""
        first = list(ids[:SAMPLES])
        try:
            found = await self._deck.bridge.ask(reads.tasks(first))
        except TaskdeckError:  # then they are asked about by their numbers
            found = {}
        told = [
            f"{_name(each)} {tables.what(found[each])}" if each in found else _name(each) for each in first
        ]
        return [*told, f"and {len(ids) - SAMPLES:,} more"] if len(ids) > SAMPLES else told

    def import_list(self, found: Import | None) -> None:
        """Import a list of routes that was looked at, in a thread."""
        if found is not None:
            self._ask(self._import(found))

    async def _import(self, found: Import) -> None:
        try:
            lines = await self._deck.bridge.import_list(found)
        except TaskdeckError as error:
            self._deck.say(f"nothing was imported: {error}", wrong=True)
        else:
            self._deck.say(f"imported {look.counted(len(lines), 'route')}")

    def undo(self) -> None:
        """Take back the last thing that has not been done yet."""
        self._ask(self._undo())

    async def _undo(self) -> None:
        self._waiting = self._waiting[:-1]
        try:
            last = await self._deck.bridge.act("undo", waits=lambda silence: self._wait("undo", silence))
        except TaskdeckError as error:
            self._deck.say(look.tidy(error.what))
        else:
            self._deck.say(f"{last['verb']} of {names(last['ids'])} taken back")

    def tick(self) -> None:
        """Count down; tell what became of what is due."""
        for each in self._waiting:
            if each.due <= moment():
                self._begin("settle", each.ids)
        self._waiting = [each for each in self._waiting if each.due > moment()]
        if self._waiting:
            last = self._waiting[-1]
            left = max(round(last.due - moment()), 1)
            self._deck.say(f"{last.verb} {names(last.ids)} in {left} s; u takes it back{last.refused}")

    async def finish(self) -> None:
        """Hand over what was just asked for; what waits stands in the database already."""
        await asyncio.gather(*self._asking, return_exceptions=True)

    def _begin(self, verb: str, ids: Sequence[Any], **more: Any) -> None:
        self._ask(self.carry_out(verb, ids, **more))

    def _ask(self, asking: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(asking)
        self._asking.add(task)
        task.add_done_callback(self._asking.discard)

    async def carry_out(self, verb: str, ids: Sequence[Any], **more: Any) -> None:
        """Ask the engine, tell what it answers. What was done loses its mark, what was refused keeps it."""
        what, waited = f"{verb.replace('_', ' ')} {names(ids)}", list[Silence]()

        def wait(silence: Silence) -> None:
            waited.append(silence)
            self._wait(what, silence)

        try:
            answers = await self._deck.bridge.act(CALLED.get(verb, verb), waits=wait, ids=list(ids), **more)
        except TaskdeckError as error:
            is_unknown = waited and isinstance(error, Unavailable)
            before = f"{what} was not answered and may still be done: " if is_unknown else ""
            self._deck.say(before + str(error), wrong=True)
            return
        except Exception as error:
            self._deck.say(f"{verb}: {type(error).__name__}: {error}", wrong=True)
            return
        if isinstance(answers, Mapping):
            self._deck.say(f"{verb.replace('_', ' ')}: {names(ids)} done")
            return
        done = [each["id"] for each in answers if each["ok"]]
        self._unmark(done)
        if more.get("delay") and done:
            self._waiting.append(_Deferred(verb, done, moment() + more["delay"], _refusals(answers)))
            self.tick()
        else:
            self._tell(verb, answers)

    def _wait(self, what: str, silence: Silence) -> None:
        """Nobody has answered yet; what becomes of it is told when it is known."""
        self._deck.say(f"{what} asked; the engine is silent: {silence}", wrong=True)

    def _unmark(self, done: Sequence[Any]) -> None:
        for table in self._deck.page.query(Table):
            if table.marked.intersection(done):
                table.marked = table.marked.difference(done)
                table.refresh()

    def _tell(self, verb: str, answers: Sequence[Mapping[str, Any]]) -> None:
        refused = [each for each in answers if not each["ok"]]
        done = [each for each in answers if each["ok"]]
        if refused:
            first = look.tidy(str(refused[0]["message"]))
            before = f"{len(done)} done, {len(refused)} refused: " if len(answers) > 1 else ""
            self._deck.say(before + first, wrong=True)
        elif len(done) == 1:
            self._deck.say(f"{_name(done[0]['id'])} {look.tidy(str(done[0]['message']))}")
        elif done:
            self._deck.say(f"{verb.replace('_', ' ')}: {names([each['id'] for each in done])}")


def _refusals(answers: Sequence[Mapping[str, Any]]) -> str:
    refused = [each for each in answers if not each["ok"]]
    return f"; {len(refused)} refused: {look.tidy(str(refused[0]['message']))}" if refused else ""


def names(ids: Sequence[Any]) -> str:
    """`#4, #5`, of many the first and how many more."""
    shown = ", ".join(_name(each) for each in ids[:3])
    return shown if len(ids) <= 3 else f"{shown} and {len(ids) - 3} more"


def _held_by(target: Target, ids: Sequence[Any]) -> str:
    """`browser-1 from #42`, of many the first and how many more."""
    shown = [f"{each} from {names(list(target.held[each]))}" for each in ids[:3]]
    return ", ".join(shown) + (f" and {len(ids) - 3} more" if len(ids) > 3 else "")


def _name(each: Any) -> str:
    return f"#{each}" if isinstance(each, int) else str(each)


def _whole(ids: Sequence[Any]) -> list[str]:
    """Resources and routes are acted on as a whole, not by slot."""
    return list(dict.fromkeys(str(each).partition("/")[0] for each in ids))
