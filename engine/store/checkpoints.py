"""Checkpoints: the last few of each task, each with the handler's version, newest first when asked for."""

from __future__ import annotations

from typing import Any

from ..rules.checkpoints import Resume, latest_valid
from .transaction import Transaction


def add(
    tx: Transaction,
    task_id: int,
    attempt_id: int,
    fence: int,
    data: str,
    *,
    version: int,
    stage: str,
    keep: int,
) -> int:
    """Save a checkpoint behind the last one and drop all but the newest `keep`. Returns its number in the task."""
    last = tx.connection.execute("SELECT max(seq) FROM checkpoint WHERE task_id = ?", (task_id,)).fetchone()[
        0
    ]
    seq = (last or 0) + 1
    tx.connection.execute(
        "INSERT INTO checkpoint(task_id, attempt_id, fence, seq, version, stage, data, created_at)"
        " VALUES (?,?,?,?,?,?,?,?)",
        (task_id, attempt_id, fence, seq, version, stage, data, tx.now),
    )
    tx.connection.execute("DELETE FROM checkpoint WHERE task_id = ? AND seq <= ?", (task_id, seq - keep))
    return seq


def newest_first(tx: Transaction, task_id: int) -> list[dict[str, Any]]:
    """The kept checkpoints of a task: seq, version, stage, data (JSON text, unchecked), created_at."""
    return tx.rows(
        "SELECT seq, version, stage, data, created_at FROM checkpoint WHERE task_id = ? ORDER BY seq DESC",
        task_id,
    )


def resume_point(tx: Transaction, task_id: int, version: int) -> Resume:
    """Where an attempt by this version of the handler goes on."""
    return latest_valid(newest_first(tx, task_id), version)


def last_seq(tx: Transaction, task_id: int) -> int:
    """The number of the newest checkpoint of a task, 0 for none."""
    row = tx.connection.execute("SELECT max(seq) FROM checkpoint WHERE task_id = ?", (task_id,)).fetchone()
    return row[0] or 0
