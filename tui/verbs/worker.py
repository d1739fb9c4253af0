"""`worker list`: the processes that run attempts."""

from __future__ import annotations

from typing import Annotated

import typer

from taskdeck.engine import views

from .. import format as look
from .. import output
from ..commandline import CommandLine
from ..other_settings import other_settings

ENDED = 20

workers = typer.Typer(
    add_completion=False, help="Look at the workers.", rich_markup_mode=None, no_args_is_help=True
)


@workers.callback()
def _workers() -> None:
    pass


@workers.command("list")
def list_workers(
    ctx: typer.Context,
    everyone: Annotated[bool, typer.Option("--ended", help="Also the last that ended.")] = False,
) -> int:
    """List the workers that live."""
    line: CommandLine = ctx.obj
    with views.open_view(line.config) as view:
        found = view.workers(ended=ENDED if everyone else 0)
        running, types = view.engine().running, sorted(view.types())
    if line.json:
        for worker in found:
            output.json_line(worker)
    elif found:
        for text in _human(found):
            output.line(text)
        output.line()
        for text in look.fields(_about(line, types, running), width=output.width()):
            output.line(text)
    else:
        output.note("no worker lives; the engine starts them (taskdeck run)")
    return 0


def _about(line: CommandLine, types: list[str], running: bool) -> list[tuple[str, str]]:
    """What all of them can run, and whether this command line reads another configuration than they."""
    if not running:
        return [
            (
                "no engine runs",
                "those alive run on and wait for one: taskdeck run; or end them: taskdeck stop",
            )
        ]
    return [("types", look.tidy(", ".join(["shell", *(name for name in types if name != "shell")])))] + [
        ("config", text) for text in [other_settings(line)] if text
    ]


def _runs(worker: views.WorkerView) -> str:
    """What it runs, and what is the matter with it."""
    runs = " ".join(worker.attempts)
    matter = look.tidy(worker.evidence or worker.end_reason or "")
    return f"{runs} ({matter})" if runs and matter else runs or matter


def _human(found: list[views.WorkerView]) -> list[str]:
    now = views.now()
    headers = ("ID", "PID", "STATE", f"SINCE ({look.zone(now)})", "LAST BEAT", "MEMORY", "RUNS")
    rows = [
        (
            str(worker.id),
            str(worker.pid),
            worker.state.lower() if worker.alive or worker.ended_at else "gone",
            look.local(worker.started_at, now=now),
            look.local(worker.last_heartbeat, now=now),
            f"{worker.rss // 2**20} MB" if worker.rss else "",
            _runs(worker),
        )
        for worker in found
    ]
    return look.table(headers, rows, width=output.width())
