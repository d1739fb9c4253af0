"""What is put on record of a worker that lives: that it is away, suspect, busy, or to be replaced. Nothing here judges."""

from __future__ import annotations

from ..edge import identity
from ..rules.liveness import Signs, evidence
from ..store import processes, tasks
from ..store.tasks import ENGINE
from ..store.transaction import Transaction
from .workforce import WorkerHandle


def away(tx: Transaction, handle: WorkerHandle) -> None:
    """Its link broke, and it has not come back yet."""
    why = "its link to the engine broke; its process lives and is waited for"
    if processes.set_worker(tx, handle.id, "AWAY", evidence=why):
        tx.event(
            "WORKER_AWAY",
            actor=ENGINE,
            worker_id=handle.id,
            level="warning",
            reason="link_broke",
            message=f"pid {handle.identity.pid}: {why}",
            ours=True,
        )


def suspect(tx: Transaction, handle: WorkerHandle, signs: Signs) -> None:
    """It is silent, and nothing shows that it is busy: the evidence."""
    state = identity.state(handle.identity.pid)
    why = evidence(signs, state)
    if processes.set_worker(tx, handle.id, "SUSPECT", evidence=why):
        tx.event(
            "WORKER_SUSPECT",
            actor=ENGINE,
            worker_id=handle.id,
            level="warning",
            reason="silent",
            message=f"pid {handle.identity.pid}: {why}; nothing is taken from it yet",
            payload={
                "silent_seconds": round(signs.silent_for, 1),
                "process_state": state,
                "cpu_seconds": signs.cpu,
                "lease_left": round(signs.lease_left, 1),
                "running": len(handle.running),
            },
            ours=True,
        )


def busy(tx: Transaction, handle: WorkerHandle, lease: float) -> None:
    """It is silent, but its CPU time grows: that counts as a beat, and ends a suspicion."""
    tasks.renew(tx, handle.id, lease)
    if not handle.suspect:
        return
    state = "AWAY" if handle.away else "DRAINING" if handle.retiring else "READY"
    told = "busy: its CPU time grows" if handle.away else None
    if processes.set_worker(tx, handle.id, state, only_from="SUSPECT", evidence=told):
        tx.event(
            "WORKER_READY",
            actor=ENGINE,
            worker_id=handle.id,
            reason="busy",
            message=f"pid {handle.identity.pid} says nothing, but its CPU time grows",
            ours=True,
        )


def retired(tx: Transaction, handle: WorkerHandle, why: str) -> None:
    """It gets nothing new from now on."""
    if not handle.away:
        processes.set_worker(tx, handle.id, "DRAINING")
    tx.event(
        "WORKER_RETIRED",
        actor=ENGINE,
        worker_id=handle.id,
        reason="outdated" if handle.outdated else "recycled",
        message=f"pid {handle.identity.pid} gets nothing new: {why}",
        payload={"running": len(handle.running)},
    )
