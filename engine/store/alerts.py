"""Alerts that stand: raised once for a reason and subject, over once. Whoever calls twice tells nobody twice."""

from __future__ import annotations

from .transaction import ENGINE, Transaction


def stands(tx: Transaction, reason: str, message: str, subject: str = "", *, level: str = "error") -> bool:
    """Raise this alert unless it stands. Returns whether it is new."""
    added = tx.connection.execute(
        "INSERT OR IGNORE INTO standing_alert(reason, subject, message, since) VALUES (?,?,?,?)",
        (reason, subject, tx.redactor.text(message), tx.now),
    ).rowcount
    if added:
        tx.event("ALERT_RAISED", actor=ENGINE, level=level, reason=reason, message=message)
    return bool(added)


def over(tx: Transaction, reason: str, message: str, subject: str = "") -> bool:
    """What the alert told of is over. Returns whether it stood."""
    sql = "DELETE FROM standing_alert WHERE reason = ? AND subject = ?"
    stood = bool(tx.connection.execute(sql, (reason, subject)).rowcount)
    if stood:
        tx.event("ALERT_CLEARED", actor=ENGINE, reason=reason, message=message)
    return stood


def subjects(tx: Transaction, reason: str) -> list[str]:
    """What this alert stands for now."""
    sql = "SELECT subject FROM standing_alert WHERE reason = ? ORDER BY subject"
    return [row[0] for row in tx.connection.execute(sql, (reason,))]
