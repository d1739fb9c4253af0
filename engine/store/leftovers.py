"""Processes that could not be ended: one row each until they are gone, so that they are never shown as clean."""

from __future__ import annotations

from typing import Any

from .transaction import Transaction

# Constant SQL and no peewee: `show` and `status` pass here.
_ADD = (
    "INSERT OR IGNORE INTO leftover(pid, start_time, boot_id, name, task_id, worker_id, found_at)"
    " VALUES (:pid, :start_time, :boot_id, :name, :task_id, :worker_id, :found_at)"
)
_STILL_THERE = "SELECT * FROM leftover WHERE gone_at IS NULL AND (?1 IS NULL OR task_id = ?1) ORDER BY id"


def add(tx: Transaction, **columns: Any) -> bool:
    """Note a process (`pid start_time boot_id name task_id worker_id`), once. Returns whether that is new."""
    return tx.connection.execute(_ADD, {**columns, "found_at": tx.now}).rowcount > 0


def still_there(tx: Transaction, task_id: int | None = None) -> list[dict[str, Any]]:
    """Those that are not known to be gone, of one task or of all."""
    return tx.rows(_STILL_THERE, task_id)


def gone(tx: Transaction, leftover_id: int) -> None:
    """It has ended at last."""
    tx.connection.execute("UPDATE leftover SET gone_at = ? WHERE id = ?", (tx.now, leftover_id))
