"""Lost attempts, many at once: what there is of their tasks beside the row, and the ways of those that have nothing.

The same changes, checks and events as `run.losing` makes one by one, by few statements. A statement that did not change
exactly the rows that it was meant for raises `IllegalTransition`: the caller's savepoint takes all of it back.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import groupby
from operator import attrgetter
from typing import Any, NamedTuple

from ..rules.losses import Loss
from ..rules.tasks import LOST, NEEDS_REVIEW, PENDING, POLICY, RUNNING, TaskState, check
from .attempts import CLOSE
from .batches import THESE, as_json, events, expect
from .events import AlikeEvents
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
_KIND = f"({_BARE}), losses, losses_total, {', '.join(POLICY)}"
_LOOK = f"SELECT id, fence, worker_id, attempt, {_KIND} FROM task WHERE id IN {THESE('?1')}"
# Two are enough to know that they are not all alike.
_ALIKE = (
    f"SELECT DISTINCT worker_id, fence IN {THESE('?2')}, {_KIND} FROM task WHERE id IN {THESE('?1')} LIMIT 2"
)
# A fence by the number of its task: UPDATE … FROM json_each, which could count them, keeps all rows aside first.
_MOVE = (
    f"UPDATE task SET state = :state, reason = :reason, updated_at = :now, {LET_GO}, fence = id + :ahead{{}}"
    " WHERE id IN (SELECT value FROM json_each(:these)) AND +state = 'RUNNING'"
)
_CHARGED = ", losses = losses + :counted, losses_total = losses_total + :total, suspect = :suspect"
_NEVER_BEGUN = _MOVE.format(", effective_priority = priority")
_TAKE_OVER = _MOVE.format(f", effective_priority = priority, next_run_at = :now{_CHARGED}")
_REVIEW = _MOVE.format(f", error = :error{_CHARGED}")
_CLOSE = f"UPDATE attempt SET {CLOSE} WHERE fence IN {THESE('?7')} AND ended_at IS NULL"


class Lost(NamedTuple):
    """A task as its lost attempt left it."""

    task_id: int
    fence: int
    worker_id: int
    attempt: int


class Kind(NamedTuple):
    """What the way of a lost attempt's task hangs on, but whether it was begun: the same for all that are alike.

    `bare`: it has nothing beside its row (0 or 1); `policy` are the columns `POLICY`.
    """

    bare: int
    losses: int
    losses_total: int
    policy: tuple[Any, ...]


def look(tx: Transaction, held: Sequence[Mapping[str, Any]]) -> dict[Kind, list[Lost]]:
    """Those of these tasks (`id`, `fence`, `worker_id`, `attempt`) that are held as is said there, by their kinds."""
    lost = {row["id"]: Lost(row["id"], row["fence"], row["worker_id"], row["attempt"]) for row in held}
    alike = _look_for_one_kind(tx, lost.values())
    if alike is not None:
        return {alike: list(lost.values())}
    found: defaultdict[tuple[Any, ...], list[Lost]] = defaultdict(list)
    for row in tx.connection.execute(_LOOK, (as_json(lost),)):
        if row[:4] == lost[row[0]]:
            found[row[4:]].append(lost[row[0]])
    return {_kind(*kind): those for kind, those in found.items()}


def _look_for_one_kind(tx: Transaction, lost: Collection[Lost]) -> Kind | None:
    """The kind of all of them, where all are alike and held as is said: not a value of each has to be fetched then.

    A fence is one task's alone, so that one that is among these fences is the fence under which it was held.
    """
    ids, fences = as_json(each.task_id for each in lost), as_json(each.fence for each in lost)
    found = tx.connection.execute(_ALIKE, (ids, fences)).fetchall()
    if len(found) != 1:
        return None
    worker_id, held, *kind = found[0]
    return _kind(*kind) if held and {each.worker_id for each in lost} == {worker_id} else None


def _kind(bare: int, losses: int, losses_total: int, *policy: Any) -> Kind:
    return Kind(bare, losses, losses_total, policy)


def wait_again_all(tx: Transaction, lost: Sequence[Lost], message: str) -> None:
    """They were never begun: PENDING as they were, free of charge."""
    ahead = _move(tx, lost, _NEVER_BEGUN, PENDING, "drained")
    _close(tx, lost, "never_started", "drained")
    tx.add(_moves(tx, lost, ahead, RUNNING, PENDING, "drained", message))


def take_over_all(tx: Transaction, lost: Sequence[Lost], loss: Loss, cause: str, story: str) -> None:
    """LOST because of `cause`, and PENDING at once; `story` says where they go on."""
    check(lost[0].task_id, RUNNING, LOST, "worker_lost", ENGINE)
    ahead = _move(tx, lost, _TAKE_OVER, PENDING, "taken_over", source=LOST, **_charge(loss))
    _close(tx, lost, "lost", "worker_lost")
    tx.add(_moves(tx, lost, ahead, RUNNING, LOST, "worker_lost", cause, "warning"))
    tx.add(_moves(tx, lost, ahead, LOST, PENDING, "taken_over", story))


def review_all(tx: Transaction, lost: Sequence[Lost], loss: Loss, why: str, error: str) -> None:
    """NEEDS_REVIEW because of `why`; `error` is the JSON text for the tasks."""
    ahead = _move(tx, lost, _REVIEW, NEEDS_REVIEW, "worker_lost", error=error, **_charge(loss))
    _close(tx, lost, "lost", "worker_lost")
    tx.add(_moves(tx, lost, ahead, RUNNING, NEEDS_REVIEW, "worker_lost", why, "warning"))


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
) -> int:
    """Change their rows. Returns by how much the new fence of each is ahead of the task's number."""
    check(lost[0].task_id, source, to, reason, ENGINE)
    ids = [each.task_id for each in lost]
    ahead = tx.next_fences_of(ids)
    named = {"state": to.value, "reason": reason, "now": tx.now, "ahead": ahead, **args}
    expect(len(lost), tx.connection.execute(sql, {**named, "these": as_json(ids)}))
    return ahead


def _close(tx: Transaction, lost: Sequence[Lost], outcome: str, reason: str) -> None:
    fences = as_json(each.fence for each in lost)
    tx.connection.execute(_CLOSE, (tx.now, outcome, reason, None, None, None, fences))


def _moves(
    tx: Transaction,
    lost: Sequence[Lost],
    ahead: int,
    source: TaskState,
    to: TaskState,
    reason: str,
    message: str,
    level: str = "info",
) -> Iterator[AlikeEvents]:
    """The events of one change of all of them."""
    text, change = tx.redactor.text(message), f'{{"from":"{source}","to":"{to}","attempt":'
    for worker_id, those in groupby(lost, attrgetter("worker_id")):
        told = list(those)
        payloads = [f'{change}{each.attempt},"fence":{each.task_id + ahead}}}' for each in told]
        ids = [each.task_id for each in told]
        yield events(ids, worker_id, "TASK_STATE", reason, text, payloads, tx.now, level)
