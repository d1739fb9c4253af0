"""Which route a key keeps to. What a binding means for the choice is decided in `rules.route_choice`."""

from __future__ import annotations

from ..rules.route_filter import Affinity
from ..rules.timing import add_seconds
from .transaction import Transaction


def of(tx: Transaction, key: str) -> Affinity | None:
    """The route of this key, unless it was unused for too long."""
    if not key:
        return None
    row = tx.row("SELECT route_id, hard FROM affinity WHERE key = ? AND expires_at > ?", key, tx.now)
    return Affinity(row["route_id"], bool(row["hard"])) if row else None


def bind(tx: Transaction, key: str, route_id: str, hard: bool, seconds: float) -> None:
    """The key keeps to this route from now on, until it has not been used for so many seconds."""
    if not key:
        return
    tx.connection.execute("DELETE FROM affinity WHERE expires_at <= ?", (tx.now,))
    tx.connection.execute(
        "INSERT OR REPLACE INTO affinity(key, route_id, hard, expires_at, updated_at) VALUES (?,?,?,?,?)",
        (key, route_id, int(hard), add_seconds(tx.now, seconds), tx.now),
    )
