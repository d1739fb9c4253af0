"""What resources and routes have in common on the command line: acts on some of them by id, and how their states look."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any

import typer

from taskdeck.engine import views
from taskdeck.engine.errors import UsageError, WaitTimeout

from .. import format as look
from .. import output, stock_words
from ..commandline import CommandLine
from ..moments import duration

Ids = Annotated[list[str], typer.Argument(metavar="ID...", help="Its id, or several.")]
Kicked = Annotated[list[str], typer.Argument(metavar="ID...", help="Its id; gpu/2 is one slot of several.")]
Wait = Annotated[
    str | None,
    typer.Option(
        "--wait", metavar="DURATION", help="Wait until nobody holds them; 124 where they still do then."
    ),
]
For = Annotated[str, typer.Option("--for", metavar="DURATION", help="For so long, such as 10m.")]
Fence = Annotated[
    int | None,
    typer.Option(
        "--fence", metavar="N", min=1, help="Only this lease, as `show` tells it; else it is left alone."
    ),
]


def act(line: CommandLine, verb: str, ids: Sequence[str], **more: Any) -> int:
    """Do it to each; one line an id. The exit code is 0, or that of the first that was refused."""
    from taskdeck.engine import commands

    output.acting(as_json=line.json)
    found = commands.call(line.config, verb, line.actor, ids=list(dict.fromkeys(ids)), **more)
    return output.results(
        found, as_json=line.json, told=lambda each: f"{each['id']} {look.tidy(each['message'])}"
    )


def rest(line: CommandLine, parent: str, ids: Sequence[str], how_long: str) -> int:
    """Let them rest for so long; what is in use or out already stays as it is."""
    return act(line, f"{parent}_rest", ids, seconds=duration(how_long, "--for"))


def kick(line: CommandLine, parent: str, ids: Sequence[str], fence: int | None) -> int:
    """Take them away from whoever holds them."""
    if fence is not None and len(ids) != 1:
        raise UsageError("--fence is for one lease", remedy="name one resource, route or slot")
    return act(line, f"{parent}_kick", ids, fence=fence)


def drain(line: CommandLine, parent: str, ids: Sequence[str], wait: str | None) -> int:
    """Take them out of service when their attempts end, and wait for that if asked to."""
    seconds = duration(wait, "--wait")
    code = act(line, f"{parent}_disable", ids)
    if seconds is None or code:
        return code
    output.flush()
    with views.open_view(line.config) as view:
        while holders := _holders(view, parent, ids):
            if seconds <= 0:
                shown = ", ".join(f"{name} by {tasks}" for name, tasks in holders.items())
                raise WaitTimeout(
                    f"the wait of {wait} is over", f"held: {shown}", "they are drained all the same"
                )
            began = views.now()
            view.wait_for_change(min(seconds, 5))
            seconds -= max((views.now() - began).total_seconds(), 0.0)
    return code


def _holders(view: views.View, parent: str, ids: Sequence[str]) -> dict[str, str]:
    """Which of these are held, and by which tasks."""
    if parent == "route":
        found = {each.id: list(each.tasks) for each in view.routes() if each.id in ids}
    else:
        found: dict[str, list[int]] = {}
        for slot in view.resources():
            if slot.resource in ids and slot.task is not None:
                found.setdefault(slot.resource, []).append(slot.task)
    return {name: " ".join(f"#{task}" for task in tasks) for name, tasks in found.items() if tasks}


def paints() -> dict[str, str]:
    """The colours of states in a table."""
    return {look.state(name): code for name, code in look.COLOURS.items()} if output.coloured() else {}


def now_doing(
    *,
    tasks: Sequence[int],
    since: str | None,
    reason: str | None,
    until: str | None,
    then: str,
    now: datetime,
) -> str:
    """Who holds it, or until when it rests and why."""
    parts = []
    if tasks:
        shown = " ".join(f"#{task}" for task in tasks[:3]) + (" …" if len(tasks) > 3 else "")
        parts.append(f"{shown} since {look.local(since, now=now)}" if since else shown)
    if until:
        parts.append(f"until {look.local(until, now=now)} {reason or ''}".strip())
    if then:
        parts.append(f"then {then}")
    return ", ".join(parts)


def slot_now(slot: views.SlotView, now: datetime) -> str:
    """The same of one slot."""
    return now_doing(
        tasks=[] if slot.task is None else [slot.task],
        since=slot.held_since,
        reason=slot.cooldown_reason,
        until=slot.cooldown_until,
        then=stock_words.then(slot),
        now=now,
    )
