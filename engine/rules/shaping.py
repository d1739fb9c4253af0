"""Rows of the store as read models: JSON decoded, secrets masked, a line that says what the task does.

Pure: rows in, models out. Which rows, and why a task waits, comes from the caller.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from typing import Any

import msgspec

from .checkpoints import is_undone
from .models import AttemptView, CheckpointView, OperationView, Progress, StepView, TaskView, WorkerView
from .redaction import Redactor
from .selection import COMMAND_TYPE

Row = dict[str, Any]

SUMMARY = 200
"""Characters of a checkpoint that are shown in a line."""

_SAME_IN_TASK = (
    "id",
    "type",
    "state",
    "reason",
    "priority",
    "next_run_at",
    "retry_count",
    "attempt",
    "schedule",
    "scheduled_at",
    "created_at",
    "started_at",
    "finished_at",
    "updated_at",
    "wanted",
    "timeout",
    "on_lost",
    "bandwidth",
)
_SAME_IN_ATTEMPT = (
    "fence",
    "dispatched_at",
    "started_at",
    "ended_at",
    "outcome",
    "reason",
    "exit_code",
    "log_path",
    "command_pid",
    "resumed_from",
)


class Shaper:
    """Makes models of rows, without the secrets that `redactor` knows."""

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor

    def task(self, row: Row, *, max_retry: int, waits: list[str], **more: Any) -> TaskView:
        """A task; `more` are the fields that only one task has (payload, attempts)."""
        return TaskView(
            max_retry=max_retry,
            waits=waits,
            worker=row["worker_id"],
            progress=self._progress(row),
            checkpoint=self.json(row.get("checkpoint")),
            result=self.json(row.get("result")),
            error=self.json(row["error"]),
            key=row["idempotency_key"],
            tags=msgspec.json.decode(row["tags"], type=list[str]),
            summary=self._redactor.text(summary(row)),
            parent=row["parent_id"],
            losses=row["losses_total"],
            attempt_started_at=row["attempt_started_at"],
            ending=ending(row),
            **{name: row[name] for name in _SAME_IN_TASK},
            **more,
        )

    def attempt(self, row: Row, *, resources: list[str], route: str | None) -> AttemptView:
        """One attempt, and what it held."""
        return AttemptView(
            attempt=row["number"],
            worker=row["worker_id"],
            error=self.json(row["error"]),
            tail=row["tail"] and self._redactor.text(row["tail"]),
            resources=resources,
            route=route,
            **{name: row[name] for name in _SAME_IN_ATTEMPT},
        )

    def checkpoint(self, row: Row, attempts: Mapping[int, int], undone: int = 0) -> CheckpointView:
        """One kept checkpoint; `attempts` are numbers by row id, `undone` is the fence of the last undo step done."""
        return CheckpointView(
            number=row["seq"],
            attempt=attempts.get(row["attempt_id"]),
            version=row["version"],
            stage=self._redactor.text(row["stage"]),
            saved_at=row["created_at"],
            bytes=len(row["data"].encode()),
            summary=self._redactor.text(row["stage"] or row["data"][:SUMMARY]),
            again_from=row["again_from"],
            undone=is_undone(row, undone),
        )

    def operation(self, row: Row, attempts: Mapping[int, int]) -> OperationView:
        """One business effect; its key holds no secret, since it was refused with one."""
        return OperationView(
            key=row["operation_key"],
            attempt=attempts.get(row["attempt_id"]),
            result=self.json(row["result"]),
            **{name: row[name] for name in ("scope", "state", "begun_at", "ended_at", "doubt_at")},
        )

    def step(self, row: Row) -> StepView:
        """One undo step."""
        error = self.json(row["error"])
        kinds = {"in_doubt": "IN_DOUBT"}
        state = kinds.get(error.get("class"), "FAILED") if error else row["state"]
        return StepView(
            number=row["number"],
            name=self._redactor.text(row["name"]),
            arguments=self.json(row["arguments"]),
            state=state,
            tries=row["tries"],
            error=error,
            registered_at=row["created_at"],
            ended_at=row["ended_at"],
        )

    def json(self, text: str | None) -> Any:
        """Stored JSON as a value without secrets; what is damaged is shown as such, never hidden."""
        if text is None:
            return None
        try:
            value = json.loads(text)  # not msgspec: whole numbers of any length stay exact
            return self._redactor.value(value)
        except (ValueError, RecursionError):
            return {"unreadable": self._redactor.text(text[:200])}

    def _progress(self, row: Row) -> Progress | None:
        done, total, note = row["progress_done"], row["progress_total"], row["progress_note"]
        if (done, total, note) == (None, None, None):
            return None
        return Progress(done, total, note and self._redactor.text(note))


def ending(row: Row) -> str | None:
    """The state that a task will have once it is rolled back."""
    return msgspec.json.decode(row["ending"])["state"] if row["ending"] else None


def worker(row: Row, attempts: list[str], *, alive: bool) -> WorkerView:
    """A worker, what it runs, and whether its process exists."""
    same = {name: row[name] for name in WorkerView.__struct_fields__ if name not in ("attempts", "alive")}
    return WorkerView(attempts=attempts, alive=alive, **same)


def summary(row: Row) -> str:
    """What a task does, in a line: the command, or the payload's beginning."""
    text = row["summary"] or ""
    if row["type"] != COMMAND_TYPE:
        return "" if text in ("null", "{}") else text
    try:
        return shlex.join(json.loads(text))
    except (ValueError, TypeError):  # cut in the middle
        return text
