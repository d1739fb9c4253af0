"""How well each probe URL answers, so that one that is down is asked last."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..rules.route_errors import ErrorType
from .transaction import Transaction


def note(tx: Transaction, asked: Iterable[tuple[str, ErrorType | None]]) -> None:
    """Take over what one check saw of them. A failure is one of the URL only where another one then answered."""
    told = list(asked)
    if not any(error is None for _, error in told):
        return
    for url, error in told:
        tx.connection.execute(
            "INSERT INTO probe_url(url, updated_at) VALUES (:url, :now) ON CONFLICT DO NOTHING",
            {"url": url, "now": tx.now},
        )
        if error is None:
            change = "ok = ok + 1, consecutive_failures = 0, last_ok_at = :now"
        else:
            change = "fail = fail + 1, consecutive_failures = consecutive_failures + 1, last_error = :error"
        tx.connection.execute(
            f"UPDATE probe_url SET {change}, updated_at = :now WHERE url = :url",
            {"url": url, "now": tx.now, "error": error and error.value},
        )


def in_order(tx: Transaction, urls: Sequence[str]) -> list[str]:
    """These URLs, the ones that failed lately last, otherwise as they are configured."""
    rows = tx.rows("SELECT url, consecutive_failures FROM probe_url WHERE consecutive_failures > 0")
    failing = {row["url"]: row["consecutive_failures"] for row in rows}
    return sorted(urls, key=lambda url: failing.get(url, 0))
