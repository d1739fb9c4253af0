"""What resources and routes have in common on the command line: acts on some of them by id, and how their states look."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated

import typer

from taskdeck.engine import views

from .. import format as look
from .. import output
from ..commandline import CommandLine

Ids = Annotated[list[str], typer.Argument(metavar="ID...", help="Its id, or several.")]


def act(line: CommandLine, verb: str, ids: Sequence[str]) -> int:
    """Do it to each; one line an id. The exit code is 0, or that of the first that was refused."""
    from taskdeck.engine import commands

    found = commands.call(line.config, verb, line.actor, ids=list(dict.fromkeys(ids)))
    return output.results(
        found, as_json=line.json, told=lambda each: f"{each['id']} {look.tidy(each['message'])}"
    )


def paints() -> dict[str, str]:
    """The colours of states in a table."""
    return {look.state(name): code for name, code in look.COLOURS.items()} if output.coloured() else {}


def now_doing(
    *,
    tasks: Sequence[int],
    since: str | None,
    reason: str | None,
    until: str | None,
    drain: bool,
    pending: str | None,
    now: datetime,
) -> str:
    """Who holds it, or until when it rests and why."""
    parts = []
    if tasks:
        shown = " ".join(f"#{task}" for task in tasks[:3]) + (" …" if len(tasks) > 3 else "")
        parts.append(f"{shown} since {look.local(since, now=now)}" if since else shown)
    if until:
        parts.append(f"until {look.local(until, now=now)} {reason or ''}".strip())
    if pending:
        parts.append(f"then {pending.lower()}")
    elif drain:
        parts.append("then disabled")
    return ", ".join(parts)


def slot_now(slot: views.SlotView, now: datetime) -> str:
    """The same of one slot."""
    return now_doing(
        tasks=[] if slot.task is None else [slot.task],
        since=slot.held_since,
        reason=slot.cooldown_reason,
        until=slot.cooldown_until,
        drain=slot.drain,
        pending=slot.pending,
        now=now,
    )


def labels(found: dict[str, str]) -> str:
    """Labels in a line."""
    return ", ".join(f"{look.tidy(name)}={look.tidy(value)}" for name, value in found.items())
