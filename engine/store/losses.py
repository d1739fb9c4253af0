"""Lost attempts, many at once: what there is of their tasks beside the row, and the ways of those that have nothing.

The same changes, checks and events as `run.losing` makes one by one, by few statements. A statement that did not change
exactly the rows that it was meant for raises `IllegalTransition`: the caller's savepoint takes all of it back.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from ..rules.losses import Loss
from ..rules.tasks import LOST, NEEDS_REVIEW, PENDING, POLICY, RUNNING, TaskState, check
from .attempts import CLOSE
from .batches import THESE, as_json, event, expect
from .events import Event
from .tasks import LET_GO
from .transaction import ENGINE, Transaction

# Sets that are made once a statement: all of them are short, whatever the list of tasks is.
_BARE = (
    "state = 'RUNNING' AND worker_id IS NOT NULL AND wanted IS NULL AND ending IS NULL"
    " AND fence NOT IN (SELECT fence FROM operation INDEXED BY operation_open"
    " WHERE state IN ('BEGUN','IN_DOUBT') AND state = 'BEGUN')"
    " AND fence NOT IN (SELECT fence FROM resource_slot WHERE state IN ('LEASED','RUNNING'))"
    " AND fence NOT IN (SELECT fence FROM route_slot WHERE state IN ('LEASED','RUNNING'))"
    " AND id NOT IN (SELECT task_id FROM leftover WHERE gone_at IS NULL AND task_id IS NOT NULL)"
    " AND NOT EXISTS (SELECT 1 FROM request WHERE request.task_id = task.id AND done_at IS NULL)"
    " AND NOT EXISTS (SELECT 1 FROM checkpoint WHERE checkpoint.task_id = task.id)"
)
_LOOK = (
    f"SELECT id, fence, worker_id, attempt, ({_BARE}), losses, losses_total, {', '.join(POLICY)} FROM task"
    f" WHERE id IN {THESE(1)}"
)
_MOVE = (
    f"UPDATE task SET state = :state, reason = :reason, updated_at = :now, {LET_GO}, fence = :first + these.key{{}}"
    " FROM json_each(:these) AS these WHERE task.id = these.value AND +task.state = 'RUNNING'"
)
_CHARGED = ", losses = losses + :counted, losses_total = losses_total + :total, suspect = :suspect"
_NEVER_BEGUN = _MOVE.format(", effective_priority = priority")
_TAKE_OVER = _MOVE.format(f", effective_priority = priority, next_run_at = :now{_CHARGED}")
_REVIEW = _MOVE.format(f", error = :error{_CHARGED}")
_CLOSE = f"UPDATE attempt SET {CLOSE} WHERE fence IN {THESE(7)} AND ended_at IS NULL"


class Lost(NamedTuple):
    """A task as its lost attempt left it.

    `kind` is what its way hangs on: whether it has nothing beside its row, `losses`, `losses_total`, the columns `POLICY`.
    """

    task_id: int
    fence: int
    worker_id: int
    attempt: int
    kind: tuple[Any, ...]


def look(tx: Transaction, task_ids: Iterable[int]) -> dict[int, Lost]:
    """What there is of these tasks, by id."""
    rows = tx.connection.execute(_LOOK, (as_json(task_ids),))
    return {row[0]: Lost._make((*row[:4], row[4:])) for row in rows}


def wait_again_all(tx: Transaction, lost: Sequence[Lost], message: str) -> None:
    """They were never begun: PENDING as they were, free of charge."""
    fences = _move(tx, lost, _NEVER_BEGUN, PENDING, "drained")
    _close(tx, lost, "never_started", "drained")
    text = tx.redactor.text(message)
    tx.add(
        _moved(each, fence, RUNNING, PENDING, "drained", text, tx.now)
        for each, fence in zip(lost, fences, strict=True)
    )


def take_over_all(tx: Transaction, lost: Sequence[Lost], loss: Loss, cause: str, story: str) -> None:
    """LOST because of `cause`, and PENDING at once; `story` says where they go on."""
    check(lost[0].task_id, RUNNING, LOST, "worker_lost", ENGINE)
    fences = _move(tx, lost, _TAKE_OVER, PENDING, "taken_over", source=LOST, **_charge(loss))
    _close(tx, lost, "lost", "worker_lost")
    tx.add(_taken_over(tx, lost, fences, cause, story))


def review_all(tx: Transaction, lost: Sequence[Lost], loss: Loss, why: str, error: str) -> None:
    """NEEDS_REVIEW because of `why`; `error` is the JSON text for the tasks."""
    fences = _move(tx, lost, _REVIEW, NEEDS_REVIEW, "worker_lost", error=error, **_charge(loss))
    _close(tx, lost, "lost", "worker_lost")
    text = tx.redactor.text(why)
    tx.add(
        _moved(each, fence, RUNNING, NEEDS_REVIEW, "worker_lost", text, tx.now, "warning")
        for each, fence in zip(lost, fences, strict=True)
    )


def _charge(loss: Loss) -> dict[str, Any]:
    suspect = int(
        loss.suspected and loss.charged
    )  # those that have nothing beside their row have saved no checkpoint
    return {"counted": loss.counted, "total": loss.total, "suspect": suspect}


def _move(
    tx: Transaction,
    lost: Sequence[Lost],
    sql: str,
    to: TaskState,
    reason: str,
    source: TaskState = RUNNING,
    **args: Any,
) -> range:
    check(lost[0].task_id, source, to, reason, ENGINE)
    fences = tx.next_fences(len(lost))
    named = {"state": to.value, "reason": reason, "now": tx.now, "first": fences[0], **args}
    ids = as_json(each.task_id for each in lost)
    expect(len(lost), tx.connection.execute(sql, {**named, "these": ids}))
    return fences


def _close(tx: Transaction, lost: Sequence[Lost], outcome: str, reason: str) -> None:
    fences = as_json(each.fence for each in lost)
    tx.connection.execute(_CLOSE, (tx.now, outcome, reason, None, None, None, fences))


def _taken_over(
    tx: Transaction, lost: Sequence[Lost], fences: Iterable[int], cause: str, story: str
) -> Iterator[Event]:
    cause, story, now = tx.redactor.text(cause), tx.redactor.text(story), tx.now
    for each, fence in zip(lost, fences, strict=False):
        yield _moved(each, fence, RUNNING, LOST, "worker_lost", cause, now, "warning")
        yield _moved(each, fence, LOST, PENDING, "taken_over", story, now)


def _moved(
    lost: Lost,
    fence: int,
    source: TaskState,
    to: TaskState,
    reason: str,
    message: str,
    now: str,
    level: str = "info",
) -> Event:
    payload = f'{{"from":"{source}","to":"{to}","attempt":{lost.attempt},"fence":{fence}}}'
    return event(lost.task_id, lost.worker_id, "TASK_STATE", reason, message, payload, now, level)
