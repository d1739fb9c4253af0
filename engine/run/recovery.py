"""Start-up recovery: before the first dispatch, everything that an earlier engine left is settled, each thing once.

Idempotent, since it may be killed at any point and run again: it acts on what it finds held, conditionally on the dead owner
still being the owner. It holds the database lock, which proves that every earlier engine is gone.
"""

from __future__ import annotations

import asyncio
import logging
import signal
from pathlib import Path
from typing import Any

from ..clock import Clock
from ..config import Config
from ..edge import identity
from ..edge.identity import Identity
from ..errors import StoreError
from ..store import operations, processes, slots, tasks
from ..store.tasks import ENGINE
from ..store.transaction import Transaction
from ..store.writer import Writer
from . import journal
from .crash import crash_at
from .leftovers import end_leftovers
from .losing import take_all
from .policies import Policies
from .telling import counted

log = logging.getLogger("taskdeck.recovery")

DEATH_TAKES = 10.0
"""Most seconds to wait for a process after SIGKILL; only one that is stuck in the kernel takes longer."""


async def recover(
    config: Config, clock: Clock, writer: Writer, policies: Policies, engine_id: int
) -> list[str]:
    """Settle what earlier engines and workers left. Returns the story of each task, e.g. "#5 resumes at checkpoint 7"."""
    engines, workers = await writer.write(_left_behind, engine_id)
    await writer.write(_end_engines, engines)
    crash_at("after_recovery_engines")
    stories: list[str] = []
    for worker in workers:
        await asyncio.to_thread(_make_sure_it_is_dead, worker, clock)
        held = await writer.write(_held, worker["id"])
        task_ids = [row["id"] for row in held]
        left = await asyncio.to_thread(end_leftovers, config.db, worker["incarnation"], task_ids, clock)
        for problem in left:
            log.error("recovery: %s", problem)
        path = journal_of(config, worker["incarnation"])
        started = _started(path, worker, held)
        stories += await writer.write(_bury, worker, held, started, policies, config.engine.max_losses)
        crash_at("after_recovery_worker")
        path.unlink(missing_ok=True)
    stories += await writer.write(_orphans, policies, config.engine.max_losses)
    await writer.write(_report, stories, len(engines), len(workers))
    return stories


def journal_of(config: Config, incarnation: str) -> Path:
    """Where a worker notes which attempts it began."""
    return config.log_directory / "workers" / f"{incarnation}.starts"


def _started(path: Path, worker: dict[str, Any], held: list[dict[str, Any]]) -> set[int]:
    """The fences that were begun. The journal survives a process, not the power: after a reboot all count as begun."""
    if path.exists() and worker["boot_id"] == identity.boot_id():
        return journal.read(path)
    return {row["fence"] for row in held}


def _left_behind(tx: Transaction, engine_id: int) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    others = [engine for engine in processes.open_engines(tx) if engine["id"] != engine_id]
    return others, processes.open_workers(tx)


def _end_engines(tx: Transaction, engines: list[dict[str, Any]]) -> None:
    for engine in engines:
        processes.end_engine(tx, engine["id"], "lost")
        tx.event(
            "ENGINE_LOST",
            actor=ENGINE,
            level="error",
            reason="process_gone",
            message=f"engine {engine['id']} (pid {engine['pid']}) ended without a word",
            payload={"engine": engine["id"], "pid": engine["pid"], "started_at": engine["started_at"]},
            ours=True,
        )


def _make_sure_it_is_dead(worker: dict[str, Any], clock: Clock) -> None:
    """Proof of death beats waiting: what is still alive of it is ended, by identity."""
    who = Identity(worker["pid"], worker["start_time"], worker["boot_id"])
    if not identity.alive(who):
        return
    identity.kill(who, signal.SIGKILL)
    if identity.wait_gone([who], DEATH_TAKES, clock):
        raise StoreError(
            f"worker {worker['id']} (pid {worker['pid']}) does not die",
            "its tasks can't be taken over while it lives",
            f"look at it: ps -fp {worker['pid']}",
        )


def _held(tx: Transaction, worker_id: int) -> list[dict[str, Any]]:
    return tasks.of_worker(tx, worker_id)


def _bury(
    tx: Transaction,
    worker: dict[str, Any],
    held: list[dict[str, Any]],
    started: set[int],
    policies: Policies,
    max_losses: int,
) -> list[str]:
    if processes.end_worker(tx, worker["id"], "LOST", "its engine was lost"):
        tx.event(
            "WORKER_LOST",
            actor=ENGINE,
            worker_id=worker["id"],
            level="error",
            reason="engine_lost",
            message=f"pid {worker['pid']} ended with its engine; it held {counted(len(held), 'task', 'tasks')}",
            payload={"pid": worker["pid"], "tasks": [row["id"] for row in held]},
            ours=True,
        )
    return take_all(
        tx, held, f"worker {worker['id']} was lost with its engine", started, policies, max_losses
    )


def _orphans(tx: Transaction, policies: Policies, max_losses: int) -> list[str]:
    """Tasks that are held although their worker has ended: found by their own row, with no join needed (TF016)."""
    held = tasks.all_held(tx)
    stories = take_all(tx, held, "its worker is gone", {row["fence"] for row in held}, policies, max_losses)
    slots.sweep(tx)
    for key in operations.doubt_without_attempt(tx):
        tx.event(
            "OPERATION_IN_DOUBT",
            actor=ENGINE,
            level="warning",
            reason="recovery",
            message=f"begun, not recorded: {key}",
        )
    return stories


def _report(tx: Transaction, stories: list[str], engines: int, workers: int) -> None:
    if engines or workers or stories:
        tx.event(
            "ENGINE_RECOVERED",
            actor=ENGINE,
            reason="recovery",
            message="; ".join(stories[:20]) or "nothing was running",
            payload={"engines_lost": engines, "workers_lost": workers, "tasks": len(stories)},
            ours=True,
        )
