"""The command line of the deck: `:task 42`, `:stop`, `:pause 3-7`. Owns the words; acts and pages do the work."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from taskdeck.engine import views
from taskdeck.engine.errors import TaskdeckError, UsageError

from .. import format as look
from .. import holding, stopped
from ..commandline import nearest
from . import keys
from .screens.page import Target

if TYPE_CHECKING:
    from .app import DeckApp

ACTS = ("pause", "resume", "stop", "cancel", "kill", "retry", "discard")
HOLDS = {"pause": "pause", "stop": "stop", "hold": ""}
"""Commands that hold a type, a pool or everything back, and what is asked of what runs in it."""
SAID = {
    "task": "open a task: task 42",
    "log": "its output: log 42",
    "why": "why it does not run: why 42",
    "filter": "filter the list: filter state:failed",
    **{verb: f"{verb} what is chosen, or: {verb} 3-7" for verb in ACTS},
    "pause": "pause what is chosen, or: pause 3-7, pause type:fetch, pause all",
    "resume": "let it go on: resume 3-7, resume type:fetch, resume all",
    "stop": "end the engine (what runs goes on at the next start); stop 3-7: these attempts",
    "start": "start an engine where none works",
    "restart": "let an engine of the code that is on the disk now take over; what runs goes on",
    "kill": "cancel at once, without grace: kill 3-7",
    "hold": "start nothing more: hold, hold type:fetch; what runs goes on",
    "release": "let it go on",
    "import": "import a list of routes, which is shown first: import FILE",
    "kick": "take what is chosen from who holds it: a resource or route",
    "quit": "leave the deck; the engine goes on",
    "detach": "the same",
    "help": "the keys",
    "theme": "other colours: theme textual-light",
    **{name: f"the view {title}" for _, name, title in keys.VIEWS},
}
"""Every command and what it does."""


class Commands:
    """Reads a line and does what it says."""

    def __init__(self, deck: DeckApp) -> None:
        self._deck = deck

    def complete(self, text: str) -> list[str]:
        """The commands that begin so, each with what it does."""
        word = text.strip().lower()
        return [name for name in SAID if name.startswith(word)] if word else []

    def explain(self, text: str) -> str:
        """What the line being typed would do, or which commands begin so."""
        found = self.complete(text.split(" ", maxsplit=1)[0])
        return SAID[found[0]] if len(found) == 1 else "  ".join(found)

    async def run(self, text: str) -> str:
        """Carry out a line. Returns what is wrong with it; then it stays to be mended."""
        words = text.split()
        if not words:
            return ""
        name, rest = words[0].lower(), words[1:]
        try:
            await self._run(_whole(name), rest)
        except TaskdeckError as error:
            return look.tidy(str(error))
        return ""

    async def _run(self, name: str, rest: Sequence[str]) -> None:
        deck = self._deck
        if name.isdecimal():
            await deck.open_item("task", int(name))
        elif name in ("task", "log", "why"):
            await self._open(name, rest)
        elif name in HOLDS.keys() | {"resume", "release"} and (scopes := _scopes(name, rest)):
            await self._hold(name, scopes)
        elif name in ACTS and (rest or name != "stop"):
            await self._act(name, rest)
        elif name == "filter":
            deck.page.set_filter(" ".join(rest))
        elif name in ("stop", "start", "restart"):
            await {"stop": self._stop, "start": self._start, "restart": self._restart}[name]()
        elif name == "theme":
            self._theme(rest)
        elif name in ("import", "kick"):
            await self._on_stock(name, " ".join(rest))
        elif name == "help":
            await deck.action_help()
        elif name in ("quit", "detach"):
            deck.action_detach()
        else:
            await deck.open_view(name)

    async def _on_stock(self, name: str, file: str) -> None:
        if self._deck.read_only:
            raise UsageError("this deck only reads")
        if name == "kick":
            await self._deck.acting.act("kick", self._deck.page.target())
            return
        if not file:
            raise UsageError("import needs a file", remedy=":import proxies.txt")
        if wrong := await self._deck.import_list(file):
            raise UsageError(wrong)

    async def _open(self, name: str, rest: Sequence[str]) -> None:
        first, _ = views.ids(" ".join(rest))[0]
        await self._deck.bridge.ask(lambda view: view.task(first))  # NotFound is told in the prompt
        await self._deck.open_task(name, first)

    async def _act(self, verb: str, rest: Sequence[str]) -> None:
        if self._deck.read_only:
            raise UsageError("this deck only reads")
        if rest:
            wanted = views.parse(" ".join(rest))
            chosen = await self._deck.bridge.ask(lambda view: view.task_ids(wanted))
            if not chosen:
                raise UsageError("no task matches that")
        else:
            chosen = self._deck.page.target().ids
        await self._deck.acting.act_named(verb, Target("task", chosen))

    async def _hold(self, name: str, scopes: Sequence[str]) -> None:
        bridge, said = self._deck.bridge, []
        holds = name in HOLDS
        for scope in scopes:
            what = views.hold_named(scope)
            if holds:
                await bridge.act("hold", scope=scope, running=HOLDS[name])
                slip = await bridge.ask(lambda view, scope=scope: holding.unknown(view, [scope]))
                said.append(slip[0] if slip else f"{what} is held")
            else:
                answer: Any = await bridge.act("release", scope=scope)
                said.append(f"{what} {'goes on' if answer['changed'] else 'is not held'}")
        if not holds and (left := await bridge.ask(holding.still_held)):
            said.append(left)
        self._deck.say(look.tidy("; ".join(said)))

    async def _stop(self) -> None:
        """The engine of this process can be asked only, since it takes the deck along; another one is seen off."""
        deck = self._deck
        if deck.read_only:
            raise UsageError("this deck only reads")
        if deck.in_engine:
            self._tell_asked(await deck.bridge.act("stop"))
        else:
            deck.run_worker(self._end_engine(), group="stop", exit_on_error=False)

    async def _end_engine(self) -> None:
        deck = self._deck
        deck.ends_engine = deck.heading is not None and deck.heading.engine.running
        try:
            done = await deck.bridge.end_engine(self._tell_asked)
        except TaskdeckError as error:
            deck.ends_engine = False
            deck.say(look.tidy(str(error)), wrong=True)
            return
        left = stopped.withstood(done)
        deck.say(look.tidy("; ".join(filter(None, [stopped.story(done), left]))), wrong=bool(left))

    def _tell_asked(self, answer: Any) -> None:
        running = answer.get("running") if isinstance(answer, dict) else None
        end = "ends" if running == 1 else "end"
        first = f"; {look.counted(running, 'attempt')} {end} first" if running else ""
        self._deck.say(f"the engine stops{first}")

    async def _start(self) -> None:
        if self._deck.read_only:
            raise UsageError("this deck only reads")
        from taskdeck.engine import main

        await asyncio.to_thread(main.start, self._deck.config)
        self._deck.say("an engine starts; the header tells when it works")

    async def _restart(self) -> None:
        """Where the engine runs in this process, the next one draws a deck of its own on the same terminal."""
        answer: Any = await self._deck.bridge.act("restart")
        self._deck.say(f"engine {answer['id']} hands over to another one; what runs goes on")

    def _theme(self, rest: Sequence[str]) -> None:
        known = sorted(self._deck.available_themes)
        name = rest[0] if rest else ""
        if name not in known:
            raise UsageError(f"there is no theme {name!r}", remedy=f"one of: {', '.join(known)}")
        self._deck.choose_theme(name)


def _scopes(name: str, rest: Sequence[str]) -> list[str] | None:
    """What is meant as a whole: `all`, a type, a pool; `hold` and `release` alone mean everything."""
    if [word.lower() for word in rest] == [views.EVERYTHING] or (not rest and name in ("hold", "release")):
        return [views.EVERYTHING]
    found = views.hold_scopes(rest)
    if found is None and name in ("hold", "release"):
        raise UsageError(f"`{name}` is for type:NAME, pool:NAME, or all", remedy="single tasks: pause 3-7")
    return found


def _whole(word: str) -> str:
    """The command that is meant: the word itself, or the only one that begins so."""
    if word in SAID or word.lstrip("#").isdecimal():
        return word.lstrip("#") if word not in SAID else word
    short = {"q": "quit", "h": "help"}
    found = [name for name in SAID if name.startswith(word)]
    if word in short or len(found) == 1:
        return short.get(word) or found[0]
    raise UsageError(
        f"`:{word}` is no command{nearest(word, SAID)}", remedy="type : and a letter to see them"
    )
