"""The task state machine: the only table of which change is legal, for which reason.

Source of every row: the task table of the domain. Pure data and two questions; who writes the change is `store.tasks`.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from ..errors import IllegalTransition


class TaskState(StrEnum):
    """Spelled as in the database."""

    PENDING = "PENDING"
    RUNNING = "RUNNING"
    PAUSED = "PAUSED"
    RETRYING = "RETRYING"
    SUCCESS = "SUCCESS"
    FAILED = "FAILED"
    DEAD = "DEAD"
    CANCELLED = "CANCELLED"
    LOST = "LOST"
    NEEDS_REVIEW = "NEEDS_REVIEW"


PENDING, RUNNING, PAUSED, RETRYING = (
    TaskState.PENDING,
    TaskState.RUNNING,
    TaskState.PAUSED,
    TaskState.RETRYING,
)
SUCCESS, FAILED, DEAD, CANCELLED = (
    TaskState.SUCCESS,
    TaskState.FAILED,
    TaskState.DEAD,
    TaskState.CANCELLED,
)
LOST, NEEDS_REVIEW = TaskState.LOST, TaskState.NEEDS_REVIEW

WAITING = frozenset({PENDING, RETRYING})
"""States from which the scheduler may dispatch."""

FINISHED = frozenset({SUCCESS, FAILED, DEAD, CANCELLED})
"""States that the engine never leaves (invariant 8)."""


def _reasons(text: str) -> frozenset[str]:
    return frozenset(text.split())


TRANSITIONS: Mapping[TaskState, Mapping[TaskState, frozenset[str]]] = {
    PENDING: {
        RUNNING: _reasons("dispatched"),
        PAUSED: _reasons("user_pause blocked_by_alert"),
        CANCELLED: _reasons("user_cancel upstream_failed expired superseded"),
        NEEDS_REVIEW: _reasons("restored"),
    },
    RUNNING: {
        SUCCESS: _reasons("done"),
        FAILED: _reasons("fatal_error invalid_payload check_failed"),
        RETRYING: _reasons("retryable_error delayed_error timeout lease_expired"),
        NEEDS_REVIEW: _reasons("retries_exhausted resource_faults_exhausted worker_lost in_doubt"),
        DEAD: _reasons("retries_exhausted"),
        PAUSED: _reasons("user_pause"),
        CANCELLED: _reasons("user_cancel expired"),
        LOST: _reasons("worker_lost"),
        PENDING: _reasons("drained resource_fault"),
    },
    PAUSED: {
        RUNNING: _reasons("resumed"),
        PENDING: _reasons("user_resume"),
        CANCELLED: _reasons("user_cancel"),
        NEEDS_REVIEW: _reasons("restored"),
    },
    RETRYING: {
        RUNNING: _reasons("dispatched"),
        PENDING: _reasons("user_retry"),
        PAUSED: _reasons("user_pause"),
        NEEDS_REVIEW: _reasons("retries_exhausted restored"),
        DEAD: _reasons("retries_exhausted"),
        CANCELLED: _reasons("user_cancel expired"),
    },
    LOST: {
        RUNNING: _reasons("worker_returned"),
        PENDING: _reasons("taken_over"),
        RETRYING: _reasons("taken_over"),
        NEEDS_REVIEW: _reasons("retries_exhausted"),
        DEAD: _reasons("retries_exhausted"),
        CANCELLED: _reasons("user_cancel"),
    },
    NEEDS_REVIEW: {
        PENDING: _reasons("user_retry"),
        DEAD: _reasons("user_discard"),
        CANCELLED: _reasons("user_cancel"),
    },
    FAILED: {PENDING: _reasons("user_retry")},
    DEAD: {PENDING: _reasons("user_retry")},
    CANCELLED: {PENDING: _reasons("user_retry")},
    SUCCESS: {},
}

POLICY = ("type", "timeout", "max_retry", "on_lost", "needs", "route", "allow_direct", "bandwidth")
"""The columns of a task that say what applies to it."""

OPERATOR_ONLY = frozenset(
    {"user_pause", "user_resume", "user_cancel", "user_retry", "user_discard", "restored"}
)
"""Reasons that only a person may give; the engine relays them with the person as actor."""


def check(task_id: int, state: TaskState, to: TaskState, reason: str, actor: str) -> None:
    """Raise `IllegalTransition` unless the table has this row and this actor may use it.

    `actor` is `engine` or `<channel>:<name>`, e.g. `cli:ann`.
    """
    reasons = TRANSITIONS[state].get(to)
    if reasons is None or reason not in reasons:
        allowed = ", ".join(sorted(TRANSITIONS[state])) or "nothing"
        raise IllegalTransition(
            f"#{task_id} is {state} and can't become {to} ({reason})",
            f"from {state} it may become: {allowed}",
            f"see: taskdeck why {task_id}",
        )
    if reason in OPERATOR_ONLY and actor == "engine":
        raise IllegalTransition(
            f"#{task_id}: {reason} is a person's act",
            "the engine may not do it by itself",
        )
