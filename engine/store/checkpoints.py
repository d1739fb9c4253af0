"""Checkpoints: the last few of each task, each with the handler's version, newest first when asked for."""

from __future__ import annotations

from collections.abc import Mapping
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


def add_choice(tx: Transaction, task: Mapping[str, Any], number: int, stage: str = "") -> None:
    """A person chose where the next attempt goes on: behind the last checkpoint stands a copy of `number` (0 = nothing).

    A copy, so that whatever happens next, nobody resumes behind it, and what was saved since stays to be seen.
    `stage` is that of the beginning; a copy has its own.
    """
    tx.connection.execute(
        "INSERT INTO checkpoint(task_id, attempt_id, fence, seq, version, stage, data, created_at, again_from)"
        " SELECT task_id, id, fence, (SELECT coalesce(max(seq), 0) + 1 FROM checkpoint WHERE task_id = :task),"
        " coalesce((SELECT version FROM checkpoint WHERE task_id = :task AND seq = :number), 0),"
        " coalesce((SELECT stage FROM checkpoint WHERE task_id = :task AND seq = :number), :stage),"
        " coalesce((SELECT data FROM checkpoint WHERE task_id = :task AND seq = :number), '{}'), :now, :number"
        " FROM attempt WHERE task_id = :task ORDER BY number DESC LIMIT 1",
        {"task": task["id"], "number": number, "stage": stage, "now": tx.now},
    )


def saved_with(tx: Transaction, task_id: int, fence: int) -> bool:
    """Has the attempt with this fence saved any? What a person chose for it to go on from does not count."""
    sql = "SELECT 1 FROM checkpoint WHERE task_id = ? AND fence = ? AND again_from IS NULL LIMIT 1"
    return tx.connection.execute(sql, (task_id, fence)).fetchone() is not None


def newest_first(tx: Transaction, task_id: int) -> list[dict[str, Any]]:
    """The kept checkpoints of a task: seq, fence, version, stage, data (JSON text, unchecked), created_at, again_from."""
    return tx.rows(
        "SELECT seq, fence, version, stage, data, created_at, again_from FROM checkpoint WHERE task_id = ?"
        " ORDER BY seq DESC",
        task_id,
    )


def resume_point(tx: Transaction, task_id: int, version: int, *, migrates: bool = False) -> Resume:
    """Where an attempt by this version of the handler goes on; `migrates`: it can take over older versions."""
    return latest_valid(newest_first(tx, task_id), version, migrates=migrates)


def base_of(tx: Transaction, attempt: Mapping[str, Any]) -> str:
    """What a merge patch of this attempt changes (JSON text): its last checkpoint, else the one that it resumed from."""
    row = tx.connection.execute(
        "SELECT data FROM checkpoint WHERE task_id = ? AND (attempt_id = ? AND again_from IS NULL OR seq = ?)"
        " ORDER BY seq DESC LIMIT 1",
        (attempt["task_id"], attempt["id"], attempt["resumed_from"]),
    ).fetchone()
    return row[0] if row else "{}"
