"""`demo`: a small world, sixty tasks, and a judgement of what became of them.

Owns what is shown; `engine.demo` does the rest.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import textwrap
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from taskdeck.engine.errors import NotFound, UsageError

from .. import format as look
from .. import output
from ..commandline import CommandLine
from ..opening import can_draw

if TYPE_CHECKING:
    from taskdeck.engine.demo.checking import Findings

PROGRAM = (sys.executable, "-c", "from taskdeck.tui.cli import script; script()")
"""`taskdeck` as a process of its own, whatever this one was started by."""
MOST_SHOWN = 20


def demo(
    ctx: typer.Context,
    headless: Annotated[
        bool, typer.Option("--headless", help="Draw nothing, only say what happens.")
    ] = False,
    check: Annotated[
        bool, typer.Option("--check", help="Judge the demo that ran with --db before; run nothing.")
    ] = False,
    chaos: Annotated[
        bool, typer.Option("--chaos", help="Kill workers and the engine meanwhile; nothing may differ.")
    ] = False,
    seed: Annotated[
        int | None, typer.Option("--seed", min=0, metavar="N", help="Draw order, payloads and kills from N.")
    ] = None,
    keep: Annotated[
        bool, typer.Option("--keep", help="Keep the scratch directory; after a failure it is always kept.")
    ] = False,
    watched: Annotated[bool, typer.Option("--watched", hidden=True)] = False,
) -> int:
    """Run the demo on a scratch database (or a new one named by --db): exit 0 only if all came out as it must."""
    line: CommandLine = ctx.obj
    if "--config" in line.paths:
        raise UsageError("the demo writes its own configuration", remedy="leave --config out")
    if check:
        return _check(line)
    seed = any_seed() if seed is None else seed
    if not headless and not line.json and can_draw():
        return _on_deck(line, chaos=chaos, seed=seed, keep=keep)
    return _run(line, headless=headless, chaos=chaos, seed=seed, keep=keep, watched=watched)


def _check(line: CommandLine) -> int:
    from taskdeck.engine.demo import checking

    named = line.paths.get("--db") or os.environ.get("TASKDECK_DB")
    if not named:
        raise UsageError("--check judges a demo that was kept", remedy="name its database: --db PATH")
    database = Path(named).absolute()
    folder = checking.folder_of(database)
    if folder is None or not database.is_file():
        raise NotFound(
            f"{database} is no database of a demo",
            "the site's ledger and run.json must lie beside it, or in the folder NAME.demo",
            "of a copy, copy the folder too",
        )
    return _judge(line, checking.examine(database, folder), None)


def _on_deck(line: CommandLine, *, chaos: bool, seed: int, keep: bool) -> int:
    """The same demo as a process of its own, and a deck that looks at it."""
    from taskdeck.engine.demo import checking, plan

    from .demo_on_deck import watch

    named = line.paths.get("--db")
    scratch = None if named else _scratch()
    database = named.absolute() if named else Path(f"{scratch}/taskdeck.db")
    folder = checking.folder_beside(database)
    command = [*PROGRAM, "demo", "--headless", "--watched", "--seed", str(seed), "--db", str(database)]
    code = watch([*command, "--chaos"] if chaos else command, database, folder / plan.CONFIG_FILE)
    if code == 0 and scratch and not keep:
        shutil.rmtree(scratch, ignore_errors=True)
    elif folder.exists() and code is not None:
        output.line(_kept(folder, database))
    return 128 + signal.SIGHUP if code is None else code


def _kept(folder: Path, database: Path) -> str:
    return f"kept: {folder}; judge it again: taskdeck demo --check --db {database}"


def _run(line: CommandLine, *, headless: bool, chaos: bool, seed: int, keep: bool, watched: bool) -> int:
    """The demo in this process. `watched`: whoever started it says what is kept."""
    from taskdeck.engine.demo import plan, runner

    named = line.paths.get("--db")
    database, folder = _places(named)
    options = runner.Options(folder, database, PROGRAM, seed, chaos, folder_made=named is None)
    live = LiveLine(wanted=not headless and not line.json)
    tell = live.say if not line.json else _nothing
    tell(f"seed {seed}{', with chaos' if chaos else ''}, in {folder}")
    tell(_settings(plan.settings(chaos=chaos)))
    well, interrupted = False, watch_signals()
    try:
        report = runner.Runner(options, tell, live.show, interrupted).run()
        live.clear()
        well = _judge(line, report.findings, report.seconds) == 0
    finally:
        live.clear()
        kept = keep or named is not None or not well
        if not kept:
            shutil.rmtree(folder, ignore_errors=True)
        elif folder.exists() and not watched:
            tell(_kept(folder, database))
    return 0 if well else 1


def _places(named: Path | None) -> tuple[Path, Path]:
    """The database and the folder of everything else."""
    if named is not None:
        from taskdeck.engine.demo import checking

        database = named.absolute()
        return database, checking.folder_beside(database)
    folder = _scratch()
    return folder / "taskdeck.db", folder


def _scratch() -> Path:
    import tempfile

    return Path(tempfile.mkdtemp(prefix="taskdeck-demo-"))


def any_seed() -> int:
    import secrets

    return secrets.randbelow(10_000)


def watch_signals() -> Callable[[], bool]:
    """Ctrl+C, SIGTERM and a hang-up end the demo with all that it started; returns what tells whether one came."""
    came: list[int] = []
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, frame: came.append(number))
    return lambda: bool(came)


# ---- showing ----------------------------------------------------------------------------------------------------------


class LiveLine:
    """Sentences, and under them, on a terminal, one line that is written over and over."""

    def __init__(self, *, wanted: bool) -> None:
        self._live = wanted and output.on_terminal() and os.environ.get("TERM") != "dumb"
        self._shown = ""

    def say(self, text: str) -> None:
        """A sentence that stays."""
        self.clear()
        output.line(text)
        output.flush()

    def show(self, counts: Mapping[str, int]) -> None:
        """How many tasks are in which state."""
        text = "  ".join(f"{n} {look.state(name)}" for name, n in counts.items() if n)
        if self._live and text != self._shown:
            self._shown = text
            sys.stdout.write(f"\r\x1b[K{look.cut(text, max(output.width() - 1, 20))}")
            sys.stdout.flush()

    def clear(self) -> None:
        """Take the line away."""
        if self._live and self._shown:
            self._shown = ""
            sys.stdout.write("\r\x1b[K")
            sys.stdout.flush()


def _nothing(text: str) -> None:
    """Say nothing."""


def _settings(text: str) -> str:
    """The shortened times, a paragraph a table."""
    lines = ["set shorter than usual, in its config.toml:"]
    for table in text.strip().split("\n\n"):
        name, *keys = table.splitlines()
        lines += textwrap.wrap(
            f"{name} {', '.join(keys)}", output.width() or 100, initial_indent="  ", subsequent_indent="    "
        )
    return "\n".join(lines)


def _judge(line: CommandLine, findings: Findings, seconds: float | None) -> int:
    """Show what was found. Returns the exit code."""
    if line.json:
        output.json_line({"ok": not findings.problems, "seconds": seconds, **asdict(findings)})
        return 1 if findings.problems else 0
    for text in [*_tables(findings), "", *_verdict(findings, seconds)]:
        output.line(text)
    return 1 if findings.problems else 0


def _tables(found: Findings) -> list[str]:
    width = output.width()
    tasks = [
        [
            line.kind,
            str(line.count),
            line.expected,
            ", ".join(f"{count} {state}" for state, count in sorted(line.seen.items())),
            str(line.attempts),
            str(line.retries),
        ]
        for line in found.lines
    ]
    routes = [
        [each["id"], each["nature"], each["state"], _score(each), each["exit_ip"] or "", str(each["leases"])]
        for each in found.routes
    ]
    return [
        "",
        *look.table(["tasks", "n", "expected", "seen", "attempts", "retries"], tasks, width=width),
        "",
        *look.table(["route", "nature", "state", "score", "exit", "leases"], routes, width=width),
        "",
        *look.table(
            ["resource", "state", "leases"],
            [[each["id"], each["state"], str(each["leases"])] for each in found.resources],
            width=width,
        ),
    ]


def _score(route: Mapping[str, Any]) -> str:
    return "" if route["score"] is None else f"{route['score']:.1f}"


def _verdict(found: Findings, seconds: float | None) -> list[str]:
    lines = [
        f"uploads: {found.uploads_expected} expected, {found.uploads_seen} arrived,"
        f" {found.uploads_duplicated} more than once",
        f"audit: {found.events} events",
    ]
    if found.kills:
        lines.append(
            "killed: " + ", ".join(f"{each['what']} {each['pid']} ({each['how']})" for each in found.kills)
        )
    took = "" if seconds is None else f", {seconds:.1f} s"
    if not found.problems:
        return [*lines, f"✓ everything is as it must be{took}"]
    shown = [f"✗ {look.tidy(problem)}" for problem in found.problems[:MOST_SHOWN]]
    more = len(found.problems) - len(shown)
    lines += shown + ([f"  and {more} more"] if more else [])
    return [*lines, f"✗ {len(found.problems)} things are not as they must be{took}"]
