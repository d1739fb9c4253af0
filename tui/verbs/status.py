"""`status`, and `taskdeck` alone where there is no deck to draw: who runs, what waits, what is held. Changes nothing."""

from __future__ import annotations

from typing import Any

import typer

from taskdeck.engine import views
from taskdeck.engine.errors import NotFound, TaskdeckError

from .. import format as look
from .. import output
from ..commandline import CommandLine

HINT = "Add work with `taskdeck add -- COMMAND`, run it with `taskdeck run`. All verbs: taskdeck --help"
DECK = "The full-screen deck comes next; until then every verb works here."


def status(ctx: typer.Context) -> int:
    """Show the engine, the counts, the workers and what is held; works with and without an engine."""
    _show(ctx.obj)
    return 0


def alone(ctx: typer.Context) -> int:
    """What `taskdeck` prints without a verb."""
    line: CommandLine = ctx.obj
    _show(line)
    if not line.json:
        output.line()
        if output.on_terminal():
            output.line(DECK)
        output.line(HINT)
    return 0


def _show(line: CommandLine) -> None:
    found = _gather(line)
    if line.json:
        output.json_line(found)
        return
    for text in _human(found):
        output.line(text)


def _gather(line: CommandLine) -> dict[str, Any]:
    base: dict[str, Any] = {"database": str(line.config.db)}
    try:
        with views.open_view(line.config) as view:
            anchors = view.anchors()
            engine = view.engine()
            return base | {
                "exists": True,
                "engine": engine,
                "config": _config(line) if engine.running else None,
                "counts": view.counts(),
                "workers": view.workers(),
                "holds": view.holds(),
                "anchor": anchors[-1] if anchors else None,
            }
    except NotFound:
        nothing = {"counts": {}, "workers": [], "holds": [], "anchor": None}
        return base | {"exists": False, "engine": views.holder(line.config), "config": None} | nothing


def _config(line: CommandLine) -> dict[str, Any] | None:
    """Which configuration the engine works with, in its own words; None where it doesn't answer."""
    from taskdeck.engine import commands

    try:
        return commands.call(line.config, "ping", line.actor).get("config")
    except TaskdeckError:
        return None


def _human(found: dict[str, Any]) -> list[str]:
    counts = {name: n for name, n in found["counts"].items() if n}
    tasks = ", ".join(f"{n} {look.state(name)}" for name, n in counts.items()) or "none"
    lines = look.fields(
        [
            ("engine", _engine(found["engine"])),
            ("config", _settings(found["config"])),
            ("database", found["database"] + ("" if found["exists"] else " (not made yet)")),
            ("tasks", tasks),
            ("workers", _workers(found["workers"])),
            ("held", ", ".join(f"{hold.scope} by {look.tidy(hold.actor)}" for hold in found["holds"])),
            ("audit", _anchor(found["anchor"])),
        ]
    )
    return [look.cut(text, output.width()) if output.width() else text for text in lines]


def _engine(engine: views.EngineView) -> str:
    if engine.running:
        parts = [f"running, pid {engine.pid}" if engine.pid else "running"]
        parts += [f"since {look.local(engine.since)}"] if engine.since else []
        parts += [f"version {engine.version}"] if engine.version else []
        parts += [f"supervisor {engine.supervisor}" if engine.supervisor else "no supervisor"]
        return ", ".join(parts)
    if not engine.since:
        return "not running"
    end = (
        f"ended {look.local(engine.ended_at)} ({engine.end_reason})"
        if engine.ended_at
        else "did not say how it ended"
    )
    return f"not running; the last one {end}"


def _settings(config: dict[str, Any] | None) -> str:
    """Which file is in force, and whether a newer state of it was rejected (TF205)."""
    if not config:
        return ""
    text = f"{config['file'] or 'defaults'}, version {config['version']} of {look.local(config['loaded_at'])}"
    rejected = config["rejected"]
    if rejected:
        why = look.tidy(rejected["why"].splitlines()[0])
        text = f"file REJECTED at {look.local(rejected['at'])}, running on version {config['version']}: {why}"
    return text


def _workers(workers: list[views.WorkerView]) -> str:
    return ", ".join(
        f"{worker.pid} {worker.state.lower()} with {len(worker.attempts)} running" for worker in workers
    )


def _anchor(anchor: views.AnchorView | None) -> str:
    return f"anchored to event {anchor.event_id} at {look.local(anchor.at)}" if anchor else ""
