"""Processes that could not be ended: one row each until they are gone, so that they are never shown as clean."""

from __future__ import annotations

from typing import Any

from .tables import Leftover
from .transaction import Transaction


def add(tx: Transaction, **columns: Any) -> bool:
    """Note a process (`pid start_time boot_id name task_id worker_id`), once. Returns whether that is new."""
    query = Leftover.insert(found_at=tx.now, **columns).on_conflict_ignore()
    before = tx.connection.total_changes
    query.execute(tx.db)
    return tx.connection.total_changes > before


def still_there(tx: Transaction, task_id: int | None = None) -> list[dict[str, Any]]:
    """Those that are not known to be gone, of one task or of all."""
    query = Leftover.select().where(Leftover.gone_at.is_null())
    if task_id is not None:
        query = query.where(Leftover.task_id == task_id)
    return list(query.order_by(Leftover.id).dicts().execute(tx.db))


def gone(tx: Transaction, leftover_id: int) -> None:
    """It has ended at last."""
    Leftover.update(gone_at=tx.now).where(Leftover.id == leftover_id).execute(tx.db)
