"""Circuits of (type, target): what is remembered of each, and how many attempts each lets through now.

What opens and closes one is decided in `rules.circuits`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ..rules import circuits as rules
from ..rules.circuits import CLOSED, Cause, Circuit, CircuitSettings
from ..rules.selection import Gate
from .transaction import ENGINE, Transaction

IN_FLIGHT = "SELECT fence FROM task WHERE type = ? AND target = ? AND state IN ('RUNNING','LOST')"


def failed(tx: Transaction, task: Mapping[str, Any], settings: CircuitSettings) -> None:
    """The attempt of `task` failed at its target."""
    _change(
        tx,
        task,
        lambda known, newest: rules.failed(known, task["fence"], tx.boot, newest, settings),
    )


def succeeded(tx: Transaction, task: Mapping[str, Any], cause: Cause = Cause.FAILURES) -> None:
    """The attempt of `task` succeeded at its target, or (`REFUSALS`) was answered there without a refusal."""
    _change(tx, task, lambda known, _: rules.succeeded(known, task["fence"], cause))


def refused(tx: Transaction, task: Mapping[str, Any], rest_s: float, settings: CircuitSettings) -> None:
    """The target of `task` refuses so many routes that it is its own affair."""
    _change(
        tx,
        task,
        lambda known, newest: rules.refused(known, task["fence"], tx.boot, newest, rest_s, settings),
    )


def of(tx: Transaction, type_name: str, target: str) -> Circuit:
    """The circuit of this type and target; closed where nothing is known of it."""
    row = tx.row("SELECT * FROM circuit WHERE type = ? AND target = ?", type_name, target)
    return _circuit(row) if row else CLOSED


def refuses_all(tx: Transaction, target: str) -> bool:
    """Is there a circuit that is open since this target refuses too many routes?"""
    sql = "SELECT 1 FROM circuit WHERE target = ? AND cause = ? AND until_boot IS NOT NULL LIMIT 1"
    return tx.connection.execute(sql, (target, Cause.REFUSALS)).fetchone() is not None


def gates(tx: Transaction, settings: CircuitSettings) -> dict[tuple[str, str], Gate]:
    """Every circuit that is not closed: how many attempts of its type may start at its target now, and why no more."""
    found: dict[tuple[str, str], Gate] = {}
    for row in tx.rows("SELECT * FROM circuit WHERE until_boot IS NOT NULL"):
        circuit = _circuit(row)
        fences = [
            each[0] for each in tx.connection.execute(IN_FLIGHT, (row["type"], row["target"])).fetchall()
        ]
        free = rules.room(circuit, tx.boot, fences, settings)
        if free is not None:
            found[row["type"], row["target"]] = Gate(free, _words(row, circuit, tx.boot))
    return found


def next_half_open(tx: Transaction) -> str | None:
    """When the next circuit that rests lets a trial through (UTC text)."""
    sql = "SELECT min(until) FROM circuit WHERE until_boot > ?"
    return tx.connection.execute(sql, (tx.boot,)).fetchone()[0]


def rebase(tx: Transaction) -> None:
    """After a reboot the boot clock starts anew: rests go on by the UTC time at which they end."""
    for row in tx.rows("SELECT * FROM circuit WHERE boot_id IS NOT ?", tx.boot_id):
        until = tx.boot_at(row["until"]) if row["until"] else None
        tx.connection.execute(
            "UPDATE circuit SET until_boot = ?, last_boot = NULL, boot_id = ? WHERE type = ? AND target = ?",
            (until, tx.boot_id, row["type"], row["target"]),
        )


def _circuit(row: Mapping[str, Any]) -> Circuit:
    return Circuit(
        row["failures"],
        row["last_boot"],
        row["level"],
        Cause(row["cause"]) if row["cause"] else None,
        row["opened_fence"] or 0,
        row["until_boot"],
    )


def _words(row: Mapping[str, Any], circuit: Circuit, now: float) -> str:
    why = "refuses too many routes" if circuit.cause is Cause.REFUSALS else "keeps failing"
    if circuit.until is not None and now < circuit.until:
        return f"{row['target']} {why}: a trial at {row['until']}"
    return f"{row['target']} {why}: one trial at a time, and it has not ended"


def _change(tx: Transaction, task: Mapping[str, Any], rule: Callable[[Circuit, int], Circuit]) -> None:
    """Let `rule` say what becomes of the circuit of this task; nothing for a task whose target is unknown."""
    if not task["target"]:
        return
    known = of(tx, task["type"], task["target"])
    newest = tx.connection.execute("SELECT value FROM sequence WHERE name = 'fence'").fetchone()[0]
    changed = rule(known, newest)
    if changed == known:
        return
    _save(tx, task["type"], task["target"], changed)
    if changed.is_open and changed.level != known.level:
        _tell(tx, task, "CIRCUIT_OPENED", changed, "warning")
    elif known.is_open and not changed.is_open:
        _tell(tx, task, "CIRCUIT_CLOSED", known, "info")


def _save(tx: Transaction, type_name: str, target: str, circuit: Circuit) -> None:
    if circuit == CLOSED:
        tx.connection.execute("DELETE FROM circuit WHERE type = ? AND target = ?", (type_name, target))
        return
    until = None if circuit.until is None else tx.utc_at(circuit.until)
    tx.connection.execute(
        "INSERT OR REPLACE INTO circuit(type, target, failures, level, cause, opened_fence, opened_at, until, until_boot,"
        " last_boot, boot_id, updated_at) VALUES (?,?,?,?,?,?,?,?,?,?,?,?)",
        (
            type_name,
            target,
            circuit.failures,
            circuit.level,
            circuit.cause,
            circuit.opened_fence,
            tx.now if circuit.is_open else None,
            until,
            circuit.until,
            circuit.last_at,
            tx.boot_id,
            tx.now,
        ),
    )


def _tell(tx: Transaction, task: Mapping[str, Any], event: str, circuit: Circuit, level: str) -> None:
    tx.event(
        event,
        actor=ENGINE,
        task_id=task["id"],
        level=level,
        reason=str(circuit.cause),
        message=f"{task['type']} at {task['target']}",
        payload={"type": task["type"], "target": task["target"], "failures": circuit.failures}
        | (
            {"seconds": round(circuit.until - tx.boot, 3)}
            if event == "CIRCUIT_OPENED" and circuit.until
            else {}
        ),
    )
