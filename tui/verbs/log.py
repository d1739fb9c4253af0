"""`log`: the output of an attempt; without secrets always, without control characters on a terminal."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

import typer

from taskdeck.engine import views

from .. import output
from ..commandline import CommandLine
from ..masking import Masked
from . import targets
from .settings import BUILT_IN

Target = Annotated[list[str], typer.Argument(metavar="ID", help="42, #42 or key:NAME")]
Number = Annotated[
    int | None, typer.Option("--attempt", "-a", min=1, help="Which attempt; the last by default.")
]
Follow = Annotated[bool, typer.Option("--follow", "-f", help="Go on until the attempt ends.")]
Raw = Annotated[bool, typer.Option("--raw", help="Leave control characters in, on a terminal too.")]
Tail = Annotated[int | None, typer.Option("--tail", "-n", min=0, help="Only the last lines.")]


def log(
    ctx: typer.Context,
    target: Target,
    attempt: Number = None,
    follow: Follow = False,
    raw: Raw = False,
    tail: Tail = None,
) -> int:
    """Print the output of an attempt."""
    line: CommandLine = ctx.obj
    plain = raw or not output.on_terminal()
    with views.open_view(line.config) as view:
        found = view.log(targets.one(view, target), attempt)
        chunks = _followed(view, found, tail) if follow else view.read_log(found, tail=tail)
        nothing = tail != 0
        for data in Masked(view.mask if plain else lambda text: view.mask(_shown(text))).all(chunks):
            output.raw(data)
            output.flush()
            nothing = False
        if nothing and not line.json:
            output.note(_no_output(view, found, ended=found.ended or follow))
    return 0


def _no_output(view: views.View, log: views.LogView, *, ended: bool) -> str:
    told = f"attempt {log.attempt} of #{log.task_id} has no output{'' if ended else ' yet'}"
    if view.task(log.task_id).type in BUILT_IN:
        return told
    return f"{told}; handlers write it by ctx.log, and what async ones print is in {view.prints}"


def _shown(text: str) -> str:
    """Text for a terminal; a line that was overwritten by `\\r` becomes a line of its own."""
    return views.clean(text.replace("\r\n", "\n").replace("\r", "\n"))


def _followed(view: views.View, found: views.LogView, tail: int | None) -> Iterator[bytes]:
    # `check_reader` is asked at every look for more, so that `log -f | grep -m1 x` ends with its reader.
    return view.follow_log(found, tail=tail, each_look=output.check_reader)
