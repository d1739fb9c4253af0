"""`wait`: until tasks have ended, then say by the exit code how."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from taskdeck.engine import views
from taskdeck.engine.errors import WaitTimeout

from .. import format as look
from .. import output
from ..commandline import CommandLine
from ..moments import duration
from . import targets

SETTLED = ("SUCCESS", "FAILED", "DEAD", "CANCELLED", "NEEDS_REVIEW")
FAILED, NEEDS_REVIEW = 1, 6

Words = Annotated[list[str], typer.Argument(metavar="ID|FILTER...", help=targets.EXAMPLES)]
Timeout = Annotated[
    str | None, typer.Option("--timeout", metavar="DURATION", help="Give up after 30s, 5m …: exit 124.")
]


def wait(ctx: typer.Context, words: Words, timeout: Timeout = None) -> int:
    """Wait until tasks have ended: exit 0 all succeeded, 1 some failed, 6 some need a review, 124 timed out."""
    line: CommandLine = ctx.obj
    with views.open_view(line.config) as view:
        return until_settled(view, line, targets.many(view, words), duration(timeout, "--timeout"))


def until_settled(view: views.View, line: CommandLine, ids: Sequence[int], seconds: float | None) -> int:
    """Wait for these tasks, tell how each ended, and return the exit code. Raises `WaitTimeout`."""
    states = view.states(ids)
    if not view.engine().running and _open(states):
        output.note("no engine runs, so nothing will move until one is started (taskdeck run)")
    left = seconds
    while _open(states):
        if left is not None and left <= 0:
            raise _timed_out(states, seconds or 0)
        began = views.now()
        view.wait_for_change(5 if left is None else min(left, 5))
        if left is not None:
            left -= max((views.now() - began).total_seconds(), 0)
        states = view.states(ids)
    _tell(states, line)
    return _code(states)


def _open(states: dict[int, str]) -> list[int]:
    return [task_id for task_id, state in states.items() if state not in SETTLED]


def _timed_out(states: dict[int, str], seconds: float) -> WaitTimeout:
    waiting = _open(states)
    shown = ", ".join(f"#{task_id} is {look.state(states[task_id])}" for task_id in waiting[:5])
    more = f" and {len(waiting) - 5} more" if len(waiting) > 5 else ""
    return WaitTimeout(
        f"the wait of {views.format_duration(seconds)} is over",
        shown + more,
        f"see: taskdeck why {waiting[0]}",
    )


def _tell(states: dict[int, str], line: CommandLine) -> None:
    for task_id, state in states.items():
        if line.json:
            output.json_line({"id": task_id, "state": state})
        else:
            output.line(f"#{task_id} {look.state(state, colour=output.coloured())}")


def _code(states: dict[int, str]) -> int:
    ends = set(states.values())
    if ends & {"FAILED", "DEAD", "CANCELLED"}:
        return FAILED
    return NEEDS_REVIEW if "NEEDS_REVIEW" in ends else 0
