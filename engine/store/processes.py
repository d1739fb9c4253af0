"""Rows of engines and workers, and what workers can run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from peewee import fn

from .tables import Engine, TaskType, Worker
from .transaction import Transaction


def add_engine(tx: Transaction, **columns: Any) -> int:
    """Record the start of an engine. Returns its id."""
    return Engine.insert(started_at=tx.now, **columns).execute(tx.db)


def end_engine(tx: Transaction, engine_id: int, reason: str) -> None:
    """Record how an engine ended, once."""
    Engine.update(ended_at=tx.now, end_reason=reason).where(
        Engine.id == engine_id, Engine.ended_at.is_null()
    ).execute(tx.db)


def first_start(tx: Transaction) -> str | None:
    """When the first engine started on this database (UTC text)."""
    return Engine.select(fn.MIN(Engine.started_at)).scalar(tx.db)


def open_engines(tx: Transaction) -> list[dict[str, Any]]:
    """Engines that never said how they ended."""
    return list(Engine.select().where(Engine.ended_at.is_null()).order_by(Engine.id).dicts().execute(tx.db))


def add_worker(tx: Transaction, **columns: Any) -> int:
    """Record a worker process; committed before its first frame is answered."""
    defaults = {"handlers": "", "recorded": 0, "tasks": 0}
    return Worker.insert(state="STARTING", started_at=tx.now, **(defaults | columns)).execute(tx.db)


def open_workers(tx: Transaction) -> list[dict[str, Any]]:
    """Workers that are not known to have ended."""
    return list(Worker.select().where(Worker.ended_at.is_null()).order_by(Worker.id).dicts().execute(tx.db))


def worker_of(tx: Transaction, incarnation: str) -> dict[str, Any] | None:
    """The worker of this incarnation, living or not; None = it was never one of this database."""
    return tx.row("SELECT * FROM worker WHERE incarnation = ?", incarnation)


def set_worker(
    tx: Transaction, worker_id: int, state: str, *, only_from: str | None = None, evidence: str | None = None
) -> bool:
    """Change the state of a live worker (only one in state `only_from`, if given). Returns whether that was a change.

    `evidence`: what makes it suspect, or away; nothing for other states.
    """
    changed = Worker.update(state=state, evidence=evidence).where(
        Worker.id == worker_id, Worker.ended_at.is_null(), Worker.state != state
    )
    if only_from is not None:
        changed = changed.where(Worker.state == only_from)
    return changed.execute(tx.db) == 1


def beat(tx: Transaction, worker_id: int, rss: int) -> None:
    """Record a heartbeat."""
    Worker.update(last_heartbeat=tx.now, rss=rss).where(
        Worker.id == worker_id, Worker.ended_at.is_null()
    ).execute(tx.db)


def recorded(tx: Transaction, worker_id: int) -> int:
    """The number of the last report of a worker that is recorded; 0 = none is."""
    row = tx.connection.execute("SELECT recorded FROM worker WHERE id = ?", (worker_id,)).fetchone()
    return row[0] if row else 0


def note_recorded(tx: Transaction, worker_id: int, number: int, begun: int) -> None:
    """Its reports up to this number are recorded in this transaction; with them, `begun` attempts were begun."""
    tx.connection.execute(
        "UPDATE worker SET recorded = ?, tasks = tasks + ? WHERE id = ? AND recorded < ?",
        (number, begun, worker_id, number),
    )


def end_worker(tx: Transaction, worker_id: int, state: str, reason: str) -> bool:
    """Record the end (ENDED) or loss (LOST) of a worker, once. Returns whether it was still open."""
    ended = Worker.update(ended_at=tx.now, state=state, end_reason=reason, evidence=None).where(
        Worker.id == worker_id, Worker.ended_at.is_null()
    )
    return ended.execute(tx.db) == 1


def publish_types(tx: Transaction, types: Sequence[tuple[str, str]]) -> list[str]:
    """Record what the newest worker can run: (name, settings JSON). Returns the names that are new or changed."""
    known = type_settings(tx)
    changed = [name for name, settings in types if known.get(name) != settings]
    for name, settings in types:
        if name in changed:
            TaskType.replace(name=name, settings=settings, published_at=tx.now).execute(tx.db)
    gone = set(known) - {name for name, _ in types}
    if gone:
        TaskType.delete().where(TaskType.name.in_(gone)).execute(tx.db)
    return changed


def type_settings(tx: Transaction) -> dict[str, str]:
    """The published types: name → settings JSON."""
    return dict(TaskType.select(TaskType.name, TaskType.settings).tuples().execute(tx.db))
