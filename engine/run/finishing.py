"""The end of a task: at once, or held back until its rollback steps have run. The one way to FAILED, DEAD and CANCELLED.

There is no state for it: the task waits and runs as any other (PENDING, RUNNING, RETRYING …) with the end noted in its
row, and only what its attempts do is different (`rollback`). Source: docs/decisions/0006-rollback-holds-the-end.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from ..rules.checkpoints import ROLLED_BACK, is_undone, undone_under
from ..rules.rollback import Ending
from ..rules.tasks import CANCELLED, DEAD, LOST, NEEDS_REVIEW, PAUSED, PENDING, RETRYING, RUNNING, TaskState
from ..store import checkpoints, operations, requests, rollback, tasks
from ..store.tasks import ENGINE, NO_LEASE
from ..store.transaction import Transaction
from .telling import counted

Task = Mapping[str, Any]

_BACK = {
    RUNNING: "drained",
    LOST: "taken_over",
    PAUSED: "user_resume",
    RETRYING: "user_retry",
    NEEDS_REVIEW: "user_retry",
}
"""The reason with which a task in this state goes back to PENDING, to be rolled back."""


def finish(
    tx: Transaction,
    task: Task,
    state: TaskState,
    reason: str,
    *,
    actor: str,
    message: str = "",
    columns: Mapping[str, Any] | None = None,
) -> str:
    """End `task` (as the caller saw it), or hold its end until what it registered is rolled back.

    Returns "", or the story of the rollback that comes first. One that is rolled back already is not ended here.
    """
    steps = rollback.open_steps(tx, task["id"])
    more = dict(columns or {})
    if not steps:
        tasks.transition(tx, task, state, reason, actor=actor, message=message, columns=more)
        return ""
    ending = Ending(
        state.value,
        reason,
        actor,
        message,
        error=more.get("error", task["error"]),
        retry_count=more.get("retry_count", task["retry_count"]),
        was=task["reason"] if task["state"] is NEEDS_REVIEW and state is DEAD else "",
    )
    told = f"{counted(len(steps), 'step is', 'steps are')} rolled back first, then it is {state.lower()}"
    _hold(tx, task, ending, more, told)
    tx.event(
        "ROLLBACK_STARTED",
        actor=actor,
        task_id=task["id"],
        reason=reason,
        message=told,
        payload={"steps": len(steps), "then": state.value},
        ours=True,
    )
    return told


def _hold(tx: Transaction, task: Task, ending: Ending, columns: Mapping[str, Any], told: str) -> None:
    fresh = {"retry_count": 0, "delays": 0, "resource_faults": 0}
    columns = {
        **columns,
        **fresh,
        **tasks.wait_again(task, tx.now),
        "ending": rollback.stored(ending),
    }
    if task["state"] is PENDING:
        tasks.set_columns(tx, task, columns)
        return
    reason = _BACK[task["state"]]
    actor = ending.actor if reason.startswith("user_") else ENGINE
    tasks.transition(tx, task, PENDING, reason, actor=actor, message=told, columns=columns, ours=True)


def give_up(tx: Transaction, task: Task, actor: str) -> int:
    """A person wants no (further) rollback of this task: its steps are dropped. Returns how many."""
    steps = rollback.open_steps(tx, task["id"])
    for step in steps:
        rollback.close(tx, step["id"], "DROPPED")
    if steps:
        tx.event(
            "ROLLBACK_DROPPED",
            actor=actor,
            task_id=task["id"],
            level="warning",
            reason="user_cancel",
            message=", ".join(f"{step['number']}:{step['name']}" for step in reversed(steps)),
            payload={"steps": len(steps)},
        )
    kept = checkpoints.newest_first(tx, task["id"])
    if kept and is_undone(kept[0], undone_under(operations.of_task(tx, task["id"]))):
        _forget_progress(tx, task)  # the steps that were done before stay done
    return len(steps)


def abandon(tx: Transaction, task: Task, actor: str = "") -> None:
    """A person wants it cancelled as it is: no (further) rollback. The attempt, if there was one, is closed."""
    actor = actor or requests.actor_of(tx, task["id"], "cancel") or "operator"
    give_up(tx, task, actor)
    columns = {**NO_LEASE, "ending": None}
    tasks.transition(tx, task, CANCELLED, "user_cancel", actor=actor, columns=columns)


def conclude(tx: Transaction, task: Task, ending: Ending) -> None:
    """Everything is rolled back: the end that was held, of a task whose attempt is closed (RUNNING)."""
    tx.event(
        "ROLLBACK_FINISHED",
        actor=ENGINE,
        task_id=task["id"],
        reason=ending.reason,
        payload={"then": ending.state},
        ours=True,
    )
    _forget_progress(tx, task)
    columns = {**NO_LEASE, "ending": None, "error": ending.error, "retry_count": ending.retry_count}
    if ending.was:  # a person discarded a review: the task is in review again, for a moment
        tasks.transition(tx, task, NEEDS_REVIEW, ending.was, actor=ENGINE, columns=columns)
        task = {**task, **columns, "state": NEEDS_REVIEW}
    tasks.transition(
        tx,
        task,
        TaskState(ending.state),
        ending.reason,
        actor=ending.actor,
        message=ending.message,
        columns=columns,
    )


def _forget_progress(tx: Transaction, task: Task) -> None:
    """Where the handler was means nothing any more: should a person run it again, it starts from the beginning."""
    kept = checkpoints.newest_first(tx, task["id"])
    if kept and kept[0]["again_from"] != 0:
        checkpoints.add_choice(tx, task, 0, ROLLED_BACK)
        tx.event(
            "CHECKPOINT_CHOSEN",
            actor=ENGINE,
            task_id=task["id"],
            reason=ROLLED_BACK,
            message="starts again from the beginning, should it run again",
            payload={"seq": kept[0]["seq"] + 1, "from": 0},
            ours=True,
        )


def next_round(ending: Ending) -> Ending:
    """All steps that are left may be tried once more."""
    return msgspec.structs.replace(ending, round=ending.round + 1)
