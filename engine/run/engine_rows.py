"""What an engine writes about itself: its row, its start, its stop, and what a person should hear of. Units."""

from __future__ import annotations

import socket

from ..edge import identity
from ..store import processes
from ..store.tasks import ENGINE
from ..store.transaction import Transaction
from .telling import counted

DURABILITY = ("journal_mode", "synchronous")
"""What decides whether a commit is on the disk; as the connection has them, they are told at the start."""


def record_start(
    tx: Transaction, incarnation: str, code_version: str, supervisor: int | None
) -> tuple[int, str]:
    """The row of this process as an engine, with its event. Returns its id and when it began (UTC text)."""
    me = identity.me()
    engine_id = processes.add_engine(
        tx,
        incarnation=incarnation,
        pid=me.pid,
        start_time=me.start_time,
        boot_id=me.boot_id,
        host=socket.gethostname(),
        code_version=code_version,
        supervisor_pid=supervisor,
    )
    tx.event(
        "ENGINE_STARTED",
        actor=ENGINE,
        reason="started",
        message=f"engine {engine_id}, pid {me.pid}",
        payload={name: tx.connection.execute(f"PRAGMA {name}").fetchone()[0] for name in DURABILITY},
        ours=True,
    )
    return engine_id, tx.now


def record_stopping(tx: Transaction, running: int) -> None:
    """It takes no more; `running` attempts are asked to end."""
    message = counted(running, "attempt runs", "attempts run")
    tx.event("ENGINE_STOPPING", actor=ENGINE, reason="stop", message=message, ours=True)


def record_end(tx: Transaction, engine_id: int) -> None:
    """It has ended in order."""
    processes.end_engine(tx, engine_id, "stopped")
    tx.event("ENGINE_STOPPED", actor=ENGINE, reason="stopped", message=f"engine {engine_id}", ours=True)


def record_handover(tx: Transaction, engine_id: int, running: int, actor: str) -> None:
    """It has ended in order, and what its workers run goes on under the next one, which they wait for."""
    for worker in processes.open_workers(tx):
        if processes.set_worker(
            tx, worker["id"], "AWAY", only_from="READY", evidence="its engine has handed over to the next"
        ):
            tx.event(
                "WORKER_AWAY",
                actor=ENGINE,
                worker_id=worker["id"],
                reason="handed_over",
                message=f"pid {worker['pid']} waits for the next engine",
                ours=True,
            )
    processes.end_engine(tx, engine_id, "handed_over")
    goes_on = counted(running, "attempt goes on", "attempts go on")
    message = f"engine {engine_id} hands over to the next; {goes_on}"
    tx.event("ENGINE_STOPPED", actor=actor, reason="handed_over", message=message, ours=True)


def record_alert(tx: Transaction, reason: str, message: str) -> None:
    """What a person should hear of."""
    record_alert_change(tx, reason, "ALERT_RAISED", message)


def record_alert_change(tx: Transaction, reason: str, event_type: str, message: str) -> None:
    """An alert that is raised, or over (ALERT_CLEARED)."""
    level = "error" if event_type == "ALERT_RAISED" else "info"
    tx.event(event_type, actor=ENGINE, level=level, reason=reason, message=message)
