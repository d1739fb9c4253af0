"""What a task has on record: its kept checkpoints, its operations and its undo steps. Text only."""

from __future__ import annotations

from taskdeck.engine import views

from .. import format as look
from .. import output


def checkpoints(task: views.TaskView) -> list[str]:
    """The kept checkpoints, newest first; `retry --from` takes them but for those that are undone."""
    if not isinstance(task.checkpoints, list) or not task.checkpoints:
        return []
    now = views.now()
    rows = [
        (
            str(each.number),
            look.local(each.saved_at, now=now),
            _age(each.saved_at),
            str(each.version) if each.version else "",
            "" if each.attempt is None else str(each.attempt),
            _what(each),
        )
        for each in task.checkpoints
    ]
    headers = ("CHECKPOINT", f"SAVED ({look.zone(now)})", "AGE", "VERSION", "ATTEMPT", "WHAT")
    return ["", *look.table(headers, rows, width=output.width())]


def _what(found: views.CheckpointView) -> str:
    if found.again_from == 0:
        why = "since it was rolled back" if found.stage == "rolled_back" else "as a person wants it"
        return f"from the beginning, {why}"
    again = f"again from {found.again_from}: " if found.again_from else ""
    again = f"undone: {again}" if found.undone else again
    return again + look.tidy(found.summary)


def operations(task: views.TaskView) -> list[str]:
    """What was done at most once, and how it stands."""
    if not isinstance(task.operations, list) or not task.operations:
        return []
    now = views.now()
    rows = [
        (
            look.tidy(each.key),
            each.state.lower().replace("_", " "),
            look.local(each.doubt_at or each.ended_at or each.begun_at, now=now),
            "" if each.attempt is None else str(each.attempt),
            "" if each.result is None else look.tidy(output.json_text(each.result)),
        )
        for each in task.operations
    ]
    headers = ("OPERATION", "STATE", f"SINCE ({look.zone(now)})", "ATTEMPT", "RESULT")
    return ["", *look.table(headers, rows, width=output.width())]


def rollback(task: views.TaskView) -> list[str]:
    """The undo steps, in the order in which they were registered; they run from the last to the first."""
    if not isinstance(task.rollback, list) or not task.rollback:
        return []
    rows = [
        (str(each.number), look.tidy(each.name), step_state(task, each), _given(each), _story(each))
        for each in task.rollback
    ]
    return ["", *look.table(("UNDO", "STEP", "STATE", "WITH", "ERROR"), rows, width=output.width())]


def step_state(task: views.TaskView, step: views.StepView) -> str:
    """How a step stands: `registered`, `done`, `in doubt` …"""
    if step.state == "REGISTERED" and task.state == "SUCCESS":
        return "not needed"
    return step.state.lower().replace("_", " ")


def _given(step: views.StepView) -> str:
    arguments = step.arguments
    if not arguments or (isinstance(arguments, dict) and set(arguments) == {"argv"}):
        return ""
    return look.tidy(output.json_text(arguments))


def _story(step: views.StepView) -> str:
    return look.tidy(str(step.error.get("message", ""))) if isinstance(step.error, dict) else ""


def _age(since: str) -> str:
    return look.span(views.seconds_between(since, views.utc_text(views.now())))
