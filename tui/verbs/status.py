"""`status`, and `taskdeck` alone where no deck can be drawn: who runs, what waits, what is held. Changes nothing."""

from __future__ import annotations

from typing import Any

import msgspec
import typer

from taskdeck.engine import views
from taskdeck.engine.errors import NotFound, NotPermitted
from taskdeck.engine.silence import Silence

from .. import format as look
from .. import output
from ..commandline import CommandLine
from ..other_settings import other_settings
from . import task_page
from .task_page import STRANDED

HINTS = (
    "Add work with `taskdeck add -- COMMAND`, run it with `taskdeck run`.",
    "All verbs: taskdeck --help",
)


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
        for text in HINTS:
            output.line(text)
    return 0


TROUBLE = ("NEEDS_REVIEW", "LOST", "FAILED", "DEAD")
"""States that a person should hear of first."""

UNSUPERVISED = "taskdeck stop, then taskdeck run   (no supervisor: after a crash the engine stays down)"


def _show(line: CommandLine) -> None:
    found, silence = _gather(line)
    if line.json:
        output.json_line(found)
        return
    for text in _human(found, silence, line):
        output.line(text)


def _gather(line: CommandLine) -> tuple[dict[str, Any], Silence | None]:
    """All that is shown, and of an engine that does not answer its silence."""
    base: dict[str, Any] = {"database": str(line.config.db), "gave_up": views.gave_up(line.config) or None}
    try:
        with views.open_view(line.config) as view:
            engine = view.engine()
            told, silence = _ask(line, engine)
            if told:  # a supervisor may have been killed since the engine noted it
                engine = msgspec.structs.replace(engine, supervisor=told["supervisor_pid"])
            found = base | {
                "exists": True,
                "engine": engine,
                "answers": bool(told) if engine.running else None,
                "stopping": bool(told.get("stopping")),
                "config": told.get("config"),
                "storage": told.get("storage"),
                "descendants": told.get("descendants"),
                "counts": view.counts(),
                "workers": view.workers(),
                "holds": view.holds(),
                "alerts": view.alerts(),
                "unhandled": view.unhandled(),
                "leftovers": view.leftovers(),
                **_anchored(view),
            }
            return found, silence
    except NotFound:
        nothing = {
            "counts": {},
            "workers": [],
            "holds": [],
            "alerts": [],
            "unhandled": [],
            "leftovers": [],
            "anchor": None,
        }
        engine = views.holder(line.config)
        told, silence = _ask(line, engine)  # its database may have been deleted under it
        running = {"engine": engine, "stopping": bool(told.get("stopping"))}
        running |= {"answers": bool(told) if engine.running else None}
        running |= {key: told.get(key) for key in ("config", "storage", "descendants")}
        return base | {"exists": False} | running | nothing, silence


def _ask(line: CommandLine, engine: views.EngineView) -> tuple[dict[str, Any], Silence | None]:
    if not engine.running:
        return {}, None
    from taskdeck.engine import commands  # only where there is an engine to ask

    return commands.describe(line.config, line.actor)


def _anchored(view: views.View) -> dict[str, Any]:
    """The last anchor; where another user may not read it, that is all that is not told."""
    try:
        anchors = view.anchors()
    except NotPermitted as error:
        return {"anchor": None, "anchor_trouble": str(error)}
    return {"anchor": anchors[-1] if anchors else None}


def _human(found: dict[str, Any], silence: Silence | None, line: CommandLine) -> list[str]:
    running = found["engine"].running
    return look.fields(
        [
            ("engine", _engine(found["engine"], found["stopping"])),
            ("SILENT", f"it does not answer: {silence}" if silence else ""),
            ("tasks", _tasks(found["counts"], running=running or any(map(_goes_on, found["workers"])))),
            ("workers", _workers([each for each in found["workers"] if running or each.alive])),
            ("held", "\n".join(map(_hold, found["holds"]))),
            ("GAVE UP", found["gave_up"] or ""),
            ("LEFT", "\n".join(map(task_page.left, found["leftovers"]))),
            ("ALERT", "\n".join(map(_alert, (found["storage"] or {}).get("alerts", ())))),
            ("ROUTES", "\n".join(map(_routes_alert, found["alerts"]))),
            ("HANDLERS", "\n".join(task_page.local_times(look.tidy(each)) for each in found["unhandled"])),
            ("config", _settings(found["config"])),
            ("", other_settings(line, {"config": found["config"]})),
            ("database", found["database"] + ("" if found["exists"] else " (not made yet)")),
            ("storage", _storage(found["storage"])),
            ("trees", found["descendants"] or ""),
            ("audit", found.get("anchor_trouble") or _anchor(found["anchor"])),
            ("next", "\n".join(next_steps(found["counts"], found["engine"]))),
        ],
        width=output.width(),
    )


def _tasks(counts: dict[str, int], *, running: bool) -> str:
    """How many are in each state, trouble first; without an engine nothing runs."""
    present = [name for name, n in counts.items() if n]
    ordered = [name for name in TROUBLE if name in present] + [
        name for name in present if name not in TROUBLE
    ]
    words = {name: look.state(name) for name in ordered}
    if not running:
        words["RUNNING"] = STRANDED
    return ", ".join(f"{counts[name]} {words[name]}" for name in ordered) or "none"


def next_steps(counts: dict[str, int], engine: views.EngineView) -> list[str]:
    """What a person should do now, if anything: what has failed for good comes last."""
    lines = []
    if counts.get("NEEDS_REVIEW"):
        lines.append("taskdeck list state:needs_review   (then: taskdeck why ID)")
    open_ = sum(counts.get(name, 0) for name in ("PENDING", "RUNNING", "RETRYING", "LOST"))
    if open_ and not engine.running:
        lines.append(
            f"taskdeck run   ({'1 task waits' if open_ == 1 else f'{open_} tasks wait'} for an engine)"
        )
    if engine.running and not engine.supervisor:
        lines.append(UNSUPERVISED)
    if counts.get("FAILED"):
        lines.append("taskdeck list state:failed")
    return lines


def _hold(hold: views.HoldView) -> str:
    what, target = views.hold_named(hold.scope), views.hold_target(hold.scope)
    return look.tidy(f"{what}, by {hold.actor} (let it go on: taskdeck resume {target})")


def _engine(engine: views.EngineView, stopping: bool) -> str:
    if engine.running:
        parts = ["stopping" if stopping else "running"]
        parts += [f"pid {engine.pid}"] if engine.pid else []
        parts += [f"since {look.local(engine.since)}"] if engine.since else []
        parts += [f"version {engine.version}"] if engine.version else []
        parts += [f"supervisor pid {engine.supervisor}" if engine.supervisor else "no supervisor"]
        return ", ".join(parts)
    if not engine.since:
        return "not running"
    end = (
        f"ended {look.local(engine.ended_at)} ({engine.end_reason})"
        if engine.ended_at
        else "was killed, or died without a word"
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


def _alert(alert: dict[str, Any]) -> str:
    return look.tidy(f"{alert['message']}, since {look.local(alert['since'])} ({alert['remedy']})")


def _routes_alert(alert: views.AlertView) -> str:
    about = f" {alert.subject}" if alert.subject else ""
    return look.tidy(f"{alert.reason}{about} since {look.local(alert.since)}: {alert.message}")


def _storage(storage: dict[str, Any] | None) -> str:
    """The room there is, and how large the write-ahead log has become."""
    if not storage:
        return ""
    free = [f"{views.size_text(size)} free for the {place}" for place, size in storage["free_bytes"].items()]
    return ", ".join([*free, f"write-ahead log {views.size_text(storage['wal_bytes'])}"])


def _goes_on(worker: views.WorkerView) -> bool:
    """Does it run something, with an engine or without?"""
    return worker.alive and bool(worker.attempts)


def _workers(workers: list[views.WorkerView]) -> str:
    """All of them in a line; those in doubt in lines of their own, with the evidence."""
    told = ", ".join(
        f"pid {worker.pid} {worker.state.lower()} with {len(worker.attempts)} running" for worker in workers
    )
    doubted = [f"pid {each.pid}: {look.tidy(each.evidence)}" for each in workers if each.evidence]
    return "\n".join([told, *doubted]) if told else ""


def _anchor(anchor: views.AnchorView | None) -> str:
    return f"anchored to event {anchor.event_id} at {look.local(anchor.at)}" if anchor else ""
