"""Attempts: one row an execution, opened at the claim, closed once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from . import slots
from .transaction import Transaction

OPEN = (
    "INSERT INTO attempt(task_id, number, worker_id, fence, resumed_from, dispatched_at, log_path) VALUES ",
    "(?,?,?,?,?,?,?)",
)
CLOSE = "ended_at = ?1, outcome = ?2, reason = ?3, exit_code = ?4, error = ?5, tail = ?6"
"""What the end of an attempt sets."""


def open_logs(tx: Transaction) -> set[str]:
    """The paths of the logs that are still written."""
    sql = "SELECT log_path FROM attempt WHERE ended_at IS NULL AND log_path IS NOT NULL"
    return {row[0] for row in tx.connection.execute(sql)}


def open_attempt(tx: Transaction, task: Mapping[str, Any], log_path: str | None) -> int:
    """Open the attempt of a task that was just claimed (its new row). Returns the attempt's id."""
    cursor = tx.connection.execute(
        "".join(OPEN),
        (
            task["id"],
            task["attempt"],
            task["worker_id"],
            task["fence"],
            task["resumed_from"],
            tx.now,
            log_path,
        ),
    )
    assert cursor.lastrowid is not None
    return cursor.lastrowid


def mark_started(tx: Transaction, fence: int, command_pid: int, command_start_time: int = 0) -> None:
    """The worker is about to enter the handler (or has started the command): what it leased is in use.

    The command's pid and start time (clock ticks since boot) are its identity, with the boot id of its worker.
    """
    slots.started(tx, fence)
    tx.connection.execute(
        "UPDATE attempt SET started_at = coalesce(started_at, ?), command_pid = coalesce(?, command_pid),"
        " command_start_time = coalesce(?, command_start_time) WHERE fence = ? AND ended_at IS NULL",
        (tx.now, command_pid or None, command_start_time or None, fence),
    )


def close_attempt(
    tx: Transaction,
    fence: int,
    outcome: str,
    reason: str,
    *,
    exit_code: int | None = None,
    error: str | None = None,
    tail: str | None = None,
    faulty: str = "",
    stuck: str = "",
) -> None:
    """Close the attempt that ran under `fence`, and give back all that it held; a closed one is never rewritten.

    `faulty` names the resource that the attempt found broken; `stuck` says what of it could not be ended.
    """
    slots.release(
        tx,
        fence,
        dead=outcome == "lost",
        faulty=faulty.split(),
        stuck=bool(stuck),
        message=stuck or (faulty and reason),
    )
    tx.connection.execute(
        f"UPDATE attempt SET {CLOSE} WHERE fence = ?7 AND ended_at IS NULL",
        (tx.now, outcome, reason, exit_code, error, tail, fence),
    )


def of_fence(tx: Transaction, fence: int) -> dict[str, Any] | None:
    """The attempt that was claimed under `fence`."""
    return tx.row("SELECT * FROM attempt WHERE fence = ?", fence)
