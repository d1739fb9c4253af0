"""The task table: creation, the one function that changes a state, and the claims.

Nobody else writes `task.state`. `transition` asks `rules.tasks` whether the change is legal, writes the row conditionally on
the state (and fence) that the caller saw, and adds the one event of the change to the same transaction.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import groupby
from operator import attrgetter
from typing import Any, NamedTuple

import msgspec

from ..errors import IllegalTransition, NotFound, StaleLease
from ..rules.new_task import Kind, NewTask
from ..rules.tasks import CANCELLED, DEAD, FAILED, FINISHED, POLICY, RUNNING, SUCCESS, TaskState, check
from ..rules.timing import add_seconds, seconds_between
from . import archive_rows, slots
from .events import AlikeEvents, payload_text
from .inserting import FEWEST_ALIKE, insert, insert_alike, insert_one
from .transaction import ENGINE, Transaction, marks

NO_LEASE: Mapping[str, Any] = {
    "worker_id": None,
    "lease_until": None,
    "lease_until_boot": None,
    "boot_id": None,
    "wanted": None,
}
"""Columns of a task that nobody holds."""

LET_GO = ", ".join(f"{column} = NULL" for column in NO_LEASE)
"""The same in SQL."""

FAMILY = (
    "WITH RECURSIVE up(id, parent_id) AS (SELECT id, parent_id FROM task WHERE id = ? UNION"
    " SELECT task.id, task.parent_id FROM task JOIN up ON task.id = up.parent_id) SELECT min(id) FROM up"
)
"""The oldest ancestor of a task, which names the scope of what it shares with its retries and clones."""

_LEVELS = {FAILED: "error", DEAD: "error", TaskState.NEEDS_REVIEW: "warning", TaskState.LOST: "warning"}
_NEW = (
    "INSERT INTO task(payload, type, state, reason, priority, effective_priority, scheduled_at, next_run_at,"
    " idempotency_key, schedule, parent_id, tags, timeout, max_retry, on_lost, needs, route, allow_direct, lane,"
    " target, bandwidth, created_at, updated_at)"
)
_VALUES = "?, 'PENDING', 'created', ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?"
_CREATE = f"{_NEW} VALUES ", f"(?, {_VALUES})"
_CREATE_ALIKE = f"{_NEW} SELECT value, {_VALUES} FROM json_each(?)"
_KNOWN = (
    "SELECT idempotency_key, id FROM task WHERE idempotency_key IN (SELECT value FROM json_each(?1))"
    " UNION ALL SELECT idempotency_key, task_id FROM archived_task"
    " WHERE idempotency_key IN (SELECT value FROM json_each(?1))"
)
_LAST_ID = "SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = 'task'"
BY_LANE, BY_DUE = "task {} INDEXED BY task_lane", "task {} INDEXED BY task_due"
"""The table with an alias. SQLite's planner would rather read every waiting row by its state: a tick would cost what the
queue is long."""

WAITING_ROWS = "state IN ('PENDING','RETRYING')"
DATED_ROWS = f"{WAITING_ROWS} AND next_run_at <> created_at"
"""All that waits, and of that what is not due when it was added. Spelled as in the partial indexes, or they are not used."""

_BY_LANE, _BY_DUE, _WAITING = BY_LANE.format(""), BY_DUE.format(""), WAITING_ROWS

LANES = (
    f"WITH RECURSIVE found(lane) AS (SELECT min(lane) FROM {_BY_LANE} WHERE {_WAITING} UNION ALL SELECT"
    f" (SELECT min(lane) FROM {_BY_LANE} WHERE {_WAITING} AND lane > found.lane)"
    " FROM found WHERE found.lane IS NOT NULL)"
    " SELECT lane FROM found WHERE lane IS NOT NULL"
)
"""The lanes that have waiting tasks, found by jumping through the index, not by reading it."""


class Claim(NamedTuple):
    """One task to start: what the caller saw and who shall run it."""

    task_id: int
    state: TaskState
    worker_id: int


def create(tx: Transaction, new: NewTask, actor: str) -> tuple[int, bool]:
    """Insert a task with its TASK_CREATED event. A known idempotency key returns the task that has it: (id, created).

    Raises `NotFound` where its parent is not here.
    """
    kind, key = new.kind, new.kind.key
    if key is not None and (known := known_by_keys(tx, [key])):
        return known[key], False
    _see_parents(tx, (kind,))
    task_id = insert_one(tx.connection, *_CREATE, (new.payload, *_values(tx, kind)))
    tx.add([(task_id, *_created(tx, kind, actor))])
    return task_id, True


def known_by_keys(tx: Transaction, keys: Sequence[str]) -> dict[str, int]:
    """The tasks that have these idempotency keys, archived ones included: ids by key."""
    asked = (msgspec.json.encode(keys).decode(),)
    return dict(tx.connection.execute(_KNOWN, asked).fetchall())


def create_all(tx: Transaction, new: Sequence[NewTask], actor: str) -> list[int]:
    """Insert tasks (one at least), each with its event, by few statements. Returns their ids.

    An idempotency key of one is known to no task, and stands once among them.

    Raises `NotFound` where the parent of one is not here.
    """
    return list(create_runs(tx, _runs(new), actor))


def create_runs(tx: Transaction, runs: Sequence[Run], actor: str) -> range:
    """The same, for tasks that are given as runs of one kind each. Returns their ids, which follow each other."""
    _see_parents(tx, (kind for kind, _ in runs))
    last = tx.connection.execute(_LAST_ID).fetchone()[0]
    _insert_all(tx, runs)
    ids = range(last + 1, last + 1 + sum(len(payloads) for _, payloads in runs))
    # Each is greater than the one before, and so many are new: if the last is right, all are.
    assert tx.connection.execute("SELECT last_insert_rowid()").fetchone()[0] == ids[-1]
    _tell_all(tx, ids, runs, actor)
    return ids


def _see_parents(tx: Transaction, kinds: Iterable[Kind]) -> None:
    for parent_id in {kind.parent_id for kind in kinds}:
        if parent_id is not None and not tx.row("SELECT 1 FROM task WHERE id = ?", parent_id):
            raise _not_here(tx, parent_id)


def _insert_all(tx: Transaction, runs: Iterable[Run]) -> None:
    others = list[tuple[Any, ...]]()
    for kind, payloads in runs:
        common = _values(tx, kind)
        if len(payloads) < FEWEST_ALIKE:
            others += [(payload, *common) for payload in payloads]
            continue
        insert(tx.connection, *_CREATE, others)
        others.clear()
        insert_alike(tx.connection, _CREATE_ALIKE, common, payloads)
    insert(tx.connection, *_CREATE, others)


def _tell_all(tx: Transaction, ids: range, runs: Iterable[Run], actor: str) -> None:
    told: dict[Any, tuple[Any, ...]] = {}
    first = 0
    for key, some in groupby(runs, lambda run: _told_of(run[0])):
        (kind, payloads), *more = some
        if key not in told:
            told[key] = _created(tx, kind, actor)
        count = len(payloads) + sum(len(each) for _, each in more)
        here = ids[first : first + count]
        first += count
        if count < FEWEST_ALIKE:
            tx.add([(task_id, *told[key]) for task_id in here])
        else:
            tx.add([AlikeEvents(here, told[key])])


_told_of = attrgetter("type", "priority", "scheduled_at", "parent_id")
"""What `_created` tells of a task."""

Run = tuple[Kind, Sequence[str]]
"""The kind of tasks that stand together, and the payload of each."""


def _runs(new: Iterable[NewTask]) -> Sequence[Run]:
    runs = list[tuple[Kind, list[str]]]()
    last, payloads = None, list[str]()
    for each in new:
        if (kind := each.kind) is not last and kind != last:
            last, payloads = kind, []
            runs.append((kind, payloads))
        payloads.append(each.payload)
    return runs


def _values(tx: Transaction, kind: Kind) -> tuple[Any, ...]:
    """All columns behind the payload."""
    when = kind.scheduled_at or tx.now
    return (
        kind.type,
        kind.priority,
        kind.priority,
        when,
        when,
        kind.key,
        kind.schedule,
        kind.parent_id,
        kind.tags,
        kind.timeout,
        kind.max_retry,
        kind.on_lost,
        kind.needs,
        kind.route,
        None if kind.allow_direct is None else int(kind.allow_direct),
        kind.lane,
        kind.target,
        kind.bandwidth,
        tx.now,
        tx.now,
    )


def _created(tx: Transaction, kind: Kind, actor: str) -> tuple[Any, ...]:
    """The event TASK_CREATED without the task's id, which comes first."""
    payload: dict[str, Any] = {"type": kind.type, "priority": kind.priority}
    if (kind.scheduled_at or tx.now) > tx.now:
        payload["scheduled_at"] = kind.scheduled_at
    if kind.parent_id is not None:
        payload["parent"] = kind.parent_id
    text, message = payload_text(tx.redactor.value(payload)), tx.redactor.text(kind.type)
    return None, None, None, "TASK_CREATED", "info", "created", actor, message, text, tx.now


def get(tx: Transaction, task_id: int) -> dict[str, Any]:
    """The whole row. Raises `NotFound`."""
    row = tx.row("SELECT * FROM task WHERE id = ?", task_id)
    if row is None:
        raise _not_here(tx, task_id)
    row["state"] = TaskState(row["state"])
    return row


def state_of(tx: Transaction, task_id: int) -> str:
    """The state of a task, also of one that was archived. Raises `NotFound`."""
    archived = archive_rows.where_is(tx.connection, task_id)
    return archived["state"] if archived else get(tx, task_id)["state"].value


def _not_here(tx: Transaction, task_id: int) -> NotFound:
    if archived := archive_rows.where_is(tx.connection, task_id):
        what = f"#{task_id} ({archived['type']}, {archived['state']}) was archived on {archived['created_at'][:10]}"
        return NotFound(what, f"it is in {archived['file']}", f"see: taskdeck show {task_id}")
    return NotFound(f"there is no task #{task_id}", remedy="see: taskdeck list")


@lru_cache(maxsize=128)
def _update(columns: tuple[str, ...]) -> str:
    assignments = "".join(f", {column} = ?" for column in columns)
    return f"UPDATE task SET state = ?, reason = ?, updated_at = ?{assignments} WHERE id = ? AND state = ? AND fence = ?"


def transition(
    tx: Transaction,
    task: Mapping[str, Any],
    to: TaskState,
    reason: str,
    *,
    actor: str,
    message: str = "",
    payload: Mapping[str, Any] | None = None,
    columns: Mapping[str, Any] | None = None,
    ours: bool = False,
) -> None:
    """Change the state of `task` (its row as the caller saw it: id, state, fence), with the event, in this transaction.

    `columns` are further columns to set; `ours` says that `message` and `payload` hold no outside text. Raises
    `IllegalTransition` when the table has no such change, `StaleLease` when the row has moved on since the caller saw it.
    """
    task_id, state, fence = task["id"], task["state"], task["fence"]
    check(task_id, state, to, reason, actor)
    more = dict(columns or {})
    if to in FINISHED:
        more["finished_at"] = tx.now
    changed = tx.connection.execute(
        _update(tuple(more)), (to.value, reason, tx.now, *more.values(), task_id, state.value, fence)
    ).rowcount
    if changed != 1:
        raise _moved_on(tx, task_id, state, to, fence)
    attempt = more.get("attempt", task["attempt"])
    tx.event(
        "TASK_STATE",
        actor=actor,
        task_id=task_id,
        worker_id=more.get("worker_id") or task.get("worker_id"),
        level=_LEVELS.get(to, "info"),
        reason=reason,
        message=message,
        payload={
            "from": state.value,
            "to": to.value,
            "attempt": attempt,
            "fence": more.get("fence", fence),
            **(payload or {}),
        },
        ours=ours or not (message or payload),
    )
    if to in (SUCCESS, FAILED, DEAD, CANCELLED):
        _finished(tx, task, to, reason, actor)


def set_columns(tx: Transaction, task: Mapping[str, Any], columns: Mapping[str, Any]) -> None:
    """Set columns of a task that stays in the state in which the caller saw it. Raises as `transition` does."""
    assignments = "".join(f", {column} = ?" for column in columns)
    changed = tx.connection.execute(
        f"UPDATE task SET updated_at = ?{assignments} WHERE id = ? AND state = ? AND fence = ?",
        (tx.now, *columns.values(), task["id"], task["state"].value, task["fence"]),
    ).rowcount
    if changed != 1:
        raise _moved_on(tx, task["id"], task["state"], task["state"], task["fence"])


def _finished(tx: Transaction, task: Mapping[str, Any], to: TaskState, reason: str, actor: str) -> None:
    started = task.get("started_at")
    summary: dict[str, Any] = {"state": to.value, "attempts": task["attempt"], "retries": task["retry_count"]}
    if started:
        summary["seconds"] = round(max(0.0, seconds_between(started, tx.now)), 3)
    tx.event("TASK_FINISHED", actor=actor, task_id=task["id"], reason=reason, payload=summary, ours=True)


def _moved_on(tx: Transaction, task_id: int, state: TaskState, to: TaskState, fence: int) -> Exception:
    now = get(tx, task_id)
    if now["fence"] != fence:
        return StaleLease(
            f"#{task_id} can't become {to}", f"fence {fence} is older than the task's {now['fence']}"
        )
    return IllegalTransition(f"#{task_id} is {now['state']} by now, not {state}", f"so it can't become {to}")


def held(tx: Transaction, task_id: int, fence: int) -> dict[str, Any]:
    """The row of a task that is RUNNING (or suspended in memory) under exactly this fence; else raises `StaleLease`.

    Every write of a worker passes here first (invariant 4).
    """
    row = tx.row("SELECT * FROM task WHERE id = ?", task_id)
    if row is None or row["fence"] != fence or row["worker_id"] is None:
        seen = "gone" if row is None else f"{row['state']} with fence {row['fence']}"
        raise StaleLease(f"attempt with fence {fence} no longer owns #{task_id}", f"the task is {seen}")
    row["state"] = TaskState(row["state"])
    return row


def lanes(tx: Transaction) -> list[str]:
    """The lanes that have waiting tasks, found by jumping through the index, not by reading it."""
    return [row[0] for row in tx.connection.execute(LANES)]


def type_of_lane(lane: str) -> str:
    """The type of the tasks in a lane."""
    return lane.partition("|")[0]


class Aside:
    """Tasks to pass over, by the value of one field of their payload (its JSON text) and their target."""

    def __init__(self, field: str) -> None:
        self.path = f'$."{field}"'
        self._known: list[str] = []

    def put(self, value: str, target: str) -> None:
        """Pass over all that are like this from now on."""
        self._known.append(f"[{value},{value}] {target}")

    @property
    def known(self) -> str:
        """As JSON."""
        return msgspec.json.encode(self._known).decode()


class Waiting(NamedTuple):
    """What the scheduler reads of a waiting task. Behind `started_at` come the columns `POLICY`, in their order."""

    id: int
    state: str
    effective_priority: int
    next_run_at: str
    scheduled_at: str
    suspect: int
    target: str
    attempt: int
    retry_count: int
    started_at: str | None
    type: str
    timeout: float | None
    max_retry: int | None
    on_lost: str | None
    needs: str | None
    route: str | None
    allow_direct: int | None
    bandwidth: float | None
    kept_by: str | None
    """With an `Aside`: the value of its field, as a JSON array that holds it twice."""

    @property
    def own(self) -> tuple[Any, ...]:
        """The values of `POLICY`."""
        return self[_OWN]


_KEPT_BY = "json_extract(payload, :path, :path)"
"""Two paths give both values as a JSON array, in which 1, "1" and true differ."""
_READ = ", ".join(Waiting._fields[:-1])
_OWN = slice(Waiting._fields.index(POLICY[0]), Waiting._fields.index(POLICY[-1]) + 1)
_BESIDE = f" AND {_KEPT_BY} || ' ' || target NOT IN (SELECT value FROM json_each(:aside))"
_AFTER = (
    " AND next_run_at >= CASE level.priority WHEN :priority THEN :due ELSE '' END"
    " AND (effective_priority, next_run_at, id) > (:priority, :due, :id)"
)
_HIGHEST = f"SELECT min(effective_priority) FROM {_BY_LANE} WHERE lane = :lane AND {_WAITING}"
_LEVELS_OF_LANE = (
    f"WITH RECURSIVE level(priority) AS ({_HIGHEST} AND effective_priority >= :priority UNION ALL SELECT"
    f" ({_HIGHEST} AND effective_priority > level.priority) FROM level WHERE level.priority IS NOT NULL) "
)
"""The priorities that wait in a lane, one by one as they are asked for, by jumps through the index."""


def due(
    tx: Transaction,
    lane: str,
    limit: int,
    condition: str = "TRUE",
    args: Mapping[str, Any] | None = None,
    *,
    aside: Aside | None = None,
    after: Waiting | None = None,
) -> list[Waiting]:
    """The first `limit` due tasks of one lane that fit the `condition`, in the order in which they shall start.

    With `aside` none of those. `after` a row, only what comes behind it.
    """
    more: dict[str, Any] = {"priority": -(2**63), **(args or {})}
    if aside is not None:
        condition += _BESIDE
        more |= {"path": aside.path, "aside": aside.known}
    if after is not None:
        condition += _AFTER
        more |= {"priority": after.effective_priority, "due": after.next_run_at, "id": after.id}
    # Priority by priority, and of each only what is due: to walk along the lane's index would be to read all that is not due
    # yet with each tick. The join goes through both in order, so that it ends with the limit, with nothing sorted.
    sql = (
        f"{_LEVELS_OF_LANE}SELECT {_READ}, {'NULL' if aside is None else _KEPT_BY}"
        f" FROM level CROSS JOIN {_BY_LANE} WHERE lane = :lane AND effective_priority = level.priority AND {_WAITING}"
        f" AND next_run_at <= :now AND {condition} LIMIT :limit"
    )
    rows = tx.connection.execute(sql, {"lane": lane, "now": tx.now, "limit": limit, **more})
    return [Waiting._make(row) for row in rows.fetchall()]


ELSEWHERE = (
    "target NOT IN (SELECT value FROM json_each(:shut))"
    " AND (allow_direct = 1 OR target NOT IN (SELECT value FROM json_each(:refused)))"
)
"""Tasks that work on none of these targets: what is shut for all, and what refuses every route that they could take."""


def next_due(tx: Transaction) -> str | None:
    """When the next waiting task that is not due yet becomes due (UTC text)."""
    sql = f"SELECT min(next_run_at) FROM {_BY_DUE} WHERE {DATED_ROWS} AND next_run_at > ?"
    return tx.connection.execute(sql, (tx.now,)).fetchone()[0]


def next_dated(tx: Transaction) -> tuple[int, str, str, str | None] | None:
    """The waiting task that becomes due next: its id, its state, when (UTC text), and its last error (JSON)."""
    sql = (
        f"SELECT id, state, next_run_at, error FROM {_BY_DUE} WHERE {DATED_ROWS} AND next_run_at > ?"
        " ORDER BY next_run_at LIMIT 1"
    )
    return tx.connection.execute(sql, (tx.now,)).fetchone()


def running_by_type(tx: Transaction) -> dict[str, int]:
    """How many attempts are alive, by type: what RUNNING or suspended tasks hold, and nothing else (TF017, TF039)."""
    sql = (
        "SELECT type, count(*) FROM task INDEXED BY task_held"
        " WHERE worker_id IS NOT NULL AND state IN ('RUNNING','PAUSED','LOST') GROUP BY type"
    )
    return dict(tx.connection.execute(sql).fetchall())


def leased(tx: Transaction, worker_id: int, lease: float) -> dict[str, Any]:
    """Columns of a task that a worker holds from now on; how far it gets nobody knows yet."""
    return {
        "worker_id": worker_id,
        "lease_until": add_seconds(tx.now, lease),
        "lease_until_boot": tx.boot + lease,
        "boot_id": tx.boot_id,
        "progress_done": None,
        "progress_total": None,
        "progress_note": None,
    }


def claim(
    tx: Transaction, wish: Claim, task: dict[str, Any], lease: float, *, resumes_at: int, story: str = ""
) -> dict[str, Any]:
    """Make `task` (its row, read in this transaction) RUNNING under a new fence; the caller has checked the caps.

    `story` says in words where it goes on. Returns the new row.

    Raises `IllegalTransition` when the task is no longer in the state that the caller saw (TF004).
    """
    if task["state"] is not wish.state:
        raise IllegalTransition(f"#{wish.task_id} is {task['state']} by now, not {wish.state}")
    columns = {
        "attempt": task["attempt"] + 1,
        "fence": tx.next_fences(1)[0],
        "started_at": task["started_at"] or tx.now,
        **leased(tx, wish.worker_id, lease),
    }
    message = f"attempt {columns['attempt']}" + (f", {story}" if story else "")
    payload = {"worker": wish.worker_id, "resumes_at": resumes_at}
    transition(
        tx,
        task,
        RUNNING,
        "dispatched",
        actor=ENGINE,
        message=message,
        payload=payload,
        columns=columns,
        ours=True,
    )
    return {**task, **columns, "state": RUNNING, "resumed_from": resumes_at}


def renew(tx: Transaction, worker_id: int, lease: float) -> int:
    """Give all attempts of a worker a fresh lease. Returns how many."""
    sql = (
        "UPDATE task SET lease_until = ?, lease_until_boot = ?, boot_id = ?"
        " WHERE worker_id = ? AND state IN ('RUNNING','PAUSED','LOST')"
    )
    slots.renew(tx, worker_id, lease)
    args = (add_seconds(tx.now, lease), tx.boot + lease, tx.boot_id, worker_id)
    return tx.connection.execute(sql, args).rowcount


def of_worker(tx: Transaction, worker_id: int) -> list[dict[str, Any]]:
    """The tasks that a worker holds: RUNNING, or suspended in its memory."""
    sql = "SELECT * FROM task WHERE worker_id = ? AND state IN ('RUNNING','PAUSED','LOST') ORDER BY id"
    return _typed(tx.rows(sql, worker_id))


def held_by(tx: Transaction, worker_id: int) -> list[dict[str, Any]]:
    """The same, only `id`, `fence`, `worker_id` and `attempt`: there may be a hundred thousand."""
    sql = (
        "SELECT id, fence, attempt FROM task"
        " WHERE worker_id = ? AND state IN ('RUNNING','PAUSED','LOST') ORDER BY id"
    )
    rows = tx.connection.execute(sql, (worker_id,))
    return [
        {"id": task_id, "fence": fence, "worker_id": worker_id, "attempt": attempt}
        for task_id, fence, attempt in rows
    ]


def all_held(tx: Transaction) -> list[dict[str, Any]]:
    """Every task that some worker holds, and LOST ones that nobody has decided on; all of them, never a page (TF014).

    Only `id`, `fence`, `worker_id` and `attempt`.
    """
    sql = (
        "SELECT id, fence, worker_id, attempt FROM task"
        " WHERE state IN ('RUNNING','LOST') OR (state = 'PAUSED' AND worker_id IS NOT NULL) ORDER BY id"
    )
    return tx.rows(sql)


def _typed(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    for row in rows:
        row["state"] = TaskState(row["state"])
    return rows


def age(tx: Transaction, after: float) -> int:
    """Let tasks that have been due for longer than `after` seconds gain one priority step each time it is called.

    A batch update of `effective_priority`, never below 0, so that no task starves behind newer ones of higher priority.
    """
    sql = (
        f"UPDATE task SET effective_priority = max(0, effective_priority - 10) WHERE {_WAITING}"
        " AND next_run_at <= ? AND effective_priority > 0"
    )
    return tx.connection.execute(sql, (add_seconds(tx.now, -after),)).rowcount


def wait_again(task: Mapping[str, Any], next_run_at: str) -> dict[str, Any]:
    """Columns of a task that goes back to waiting until `next_run_at`."""
    return {**NO_LEASE, "next_run_at": next_run_at, "effective_priority": task["priority"]}


def family_scope(tx: Transaction, task_id: int) -> str:
    """The default scope of operations: the task with its retries and clones, named by the oldest ancestor."""
    return f"task:{tx.connection.execute(FAMILY, (task_id,)).fetchone()[0]}"


def set_wanted(tx: Transaction, task_id: int, wish: str | None) -> None:
    """What a person wants of an attempt that is alive: cancel, pause, resume, or nothing any more."""
    tx.connection.execute("UPDATE task SET wanted = ?, updated_at = ? WHERE id = ?", (wish, tx.now, task_id))


def let_go_suspended(tx: Transaction, task_id: int) -> None:
    """The suspended attempt of a PAUSED task was ended as a person wished: nobody holds it any more."""
    tx.connection.execute(
        f"UPDATE task SET {LET_GO}, updated_at = ? WHERE id = ? AND state = 'PAUSED'",
        (tx.now, task_id),
    )


def drop_suspended(tx: Transaction, task_id: int) -> int:
    """The suspended attempt of a PAUSED task is gone: nobody holds it any more. Returns the new fence."""
    fence = tx.next_fences(1)[0]
    tx.connection.execute(
        f"UPDATE task SET {LET_GO}, fence = ?, losses = losses + 1, losses_total = losses_total + 1, updated_at = ?"
        " WHERE id = ? AND state = 'PAUSED'",
        (fence, tx.now, task_id),
    )
    return fence


def note_progress(
    tx: Transaction, task_id: int, fence: int, done: float | None, total: float | None, note: str
) -> None:
    """How far the attempt is; changes nothing once the task has moved on."""
    tx.connection.execute(
        "UPDATE task SET progress_done = ?, progress_total = ?, progress_note = ?, updated_at = ?"
        " WHERE id = ? AND fence = ? AND worker_id IS NOT NULL",
        (done, total, note, tx.now, task_id, fence),
    )


def forgive_losses(tx: Transaction, task_id: int) -> None:
    """The attempt has made durable progress: what was lost before it is no sign of a poisoned task any more."""
    tx.connection.execute("UPDATE task SET losses = 0, suspect = 0 WHERE id = ? AND losses > 0", (task_id,))


def any_runs(tx: Transaction) -> bool:
    """Is a task running, or lost and not decided on?"""
    sql = "SELECT EXISTS (SELECT 1 FROM task WHERE state IN ('RUNNING','LOST'))"
    return bool(tx.connection.execute(sql).fetchone()[0])


def unfinished(tx: Transaction, since: str, types: tuple[str, ...]) -> dict[str, int]:
    """What decides how `run --until-idle` ends: open tasks, those stuck without a handler among `types`,
    reviews left, failures since `since` (UTC text)."""
    stuck = _count(tx, f"{_WAITING} AND type NOT IN ({marks(len(types)) or 'NULL'})", *types)
    return {
        "open": _count(tx, "state IN ('PENDING','RUNNING','RETRYING','LOST')") - stuck,
        "stuck": stuck,
        "review": _count(tx, "state = 'NEEDS_REVIEW'"),
        "failed": _count(
            tx, "state IN ('FAILED','DEAD') AND reason <> 'user_discard' AND finished_at >= ?", since
        ),
    }


def ended_since(tx: Transaction, since: str) -> dict[str, int]:
    """How many tasks have ended (or gone to review) since `since` (UTC text), by state."""
    sql = (
        "SELECT state, count(*) FROM task WHERE state IN ('SUCCESS','FAILED','DEAD','CANCELLED','NEEDS_REVIEW')"
        " AND updated_at >= ? GROUP BY state ORDER BY state"
    )
    return dict(tx.connection.execute(sql, (since,)).fetchall())


def _count(tx: Transaction, condition: str, *args: Any) -> int:
    return tx.connection.execute(f"SELECT count(*) FROM task WHERE {condition}", args).fetchone()[0]
