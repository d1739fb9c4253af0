"""`chaos`: breaks a scratch engine for some minutes, and judges what must be true all the same.

Owns what is shown; `engine.chaos` does the rest.
"""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from taskdeck.engine.errors import UsageError

from .. import format as look
from .. import output
from ..commandline import CommandLine
from .demo import PROGRAM, any_seed, watch_signals

if TYPE_CHECKING:
    from taskdeck.engine.chaos.runner import Report

MOST_SHOWN = 10
"""Problems of one invariant that are shown."""


def chaos(
    ctx: typer.Context,
    minutes: Annotated[
        float, typer.Option("--minutes", min=0.05, max=10_000, metavar="M", help="How long the storm lasts.")
    ] = 3.0,
    seed: Annotated[
        int | None, typer.Option("--seed", min=0, metavar="N", help="Draw faults, tasks and acts from N.")
    ] = None,
    keep: Annotated[
        bool, typer.Option("--keep", help="Keep the scratch directory; after a failure it is always kept.")
    ] = False,
) -> int:
    """Kill, stop, cut and fill whatever a scratch engine stands on: exit 0 only if the nine invariants hold."""
    line: CommandLine = ctx.obj
    if line.paths:
        raise UsageError(
            "chaos works on a scratch database of its own", remedy=f"leave {sorted(line.paths)[0]} out"
        )
    from taskdeck.engine.chaos.runner import Options, Runner

    seed = any_seed() if seed is None else seed
    folder = Path(tempfile.mkdtemp(prefix="taskdeck-chaos-"))
    tell = _nothing if line.json else _say
    tell(0.0, f"seed {seed}, {minutes:g} minutes, in {folder}")
    well = False
    try:
        report = Runner(Options(folder, PROGRAM, seed, minutes * 60), tell, watch_signals()).run()
        well = report.verdicts.hold
        _show(line, report, seed, folder)
    finally:
        if well and not keep:
            shutil.rmtree(folder, ignore_errors=True)
        elif not line.json:
            output.line(f"kept: {folder}")
    return 0 if well else 1


def _say(seconds: float, text: str) -> None:
    output.line(f"{seconds:6.1f}  {look.tidy(text)}")
    output.flush()


def _nothing(seconds: float, text: str) -> None:
    """Say nothing."""


def _show(line: CommandLine, report: Report, seed: int, folder: Path) -> None:
    if line.json:
        output.json_line({"ok": report.verdicts.hold, "seed": seed, "folder": str(folder), **asdict(report)})
        return
    from taskdeck.engine.demo.invariants import INVARIANTS

    verdicts = report.verdicts
    faults = sum(report.faults.values())
    rows = [
        [kind, str(report.faults.get(kind, 0)), str(report.missed.get(kind, 0))]
        for kind in sorted({*report.faults, *report.missed})
    ]
    lines = ["", *look.table(["fault", "done", "nobody there"], rows, width=output.width()), ""]
    lines.append(
        "tasks: " + (", ".join(f"{count} {state}" for state, count in verdicts.tasks.items()) or "none")
    )
    lines.append(
        "acts: " + (", ".join(f"{count} {act}" for act, count in sorted(report.acts.items())) or "none")
    )
    lines.append(
        f"{verdicts.attempts} attempts, {verdicts.operations} operations, {verdicts.events} events;"
        f" {report.unanswered} acts without an answer, {report.restarts} starts from outside"
    )
    if report.disk:
        lines.append(f"not done: fill disk (no small disk can be mounted here: {report.disk})")
    lines.append("")
    for number, problems in verdicts.problems.items():
        lines.append(f"{'✗' if problems else '✓'} {number}. {INVARIANTS[number]}")
        lines += [f"     {look.tidy(each)}" for each in problems[:MOST_SHOWN]]
        if len(problems) > MOST_SHOWN:
            lines.append(f"     and {len(problems) - MOST_SHOWN} more")
    held = "all nine hold" if verdicts.hold else "not all of them hold"
    lines.append(f"{'✓' if verdicts.hold else '✗'} {held} after {faults} faults, {report.seconds:.0f} s")
    for each in lines:
        output.line(each)
