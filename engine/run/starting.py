"""How a worker that was just born is put on record before its first word is answered, and what it is known by."""

from __future__ import annotations

import socket as sockets
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..config import Config
from ..edge.identity import Identity
from ..store import processes
from ..store.tasks import ENGINE
from ..store.transaction import Transaction
from .fingerprints import fingerprint, own_code


def record(
    tx: Transaction,
    engine_id: int,
    incarnation: str,
    who: Identity,
    code_version: str,
    handlers: str,
    journal: Path,
) -> int:
    """Put a worker that was just started on record. Returns its id."""
    worker_id = processes.add_worker(
        tx,
        incarnation=incarnation,
        engine_id=engine_id,
        pid=who.pid,
        start_time=who.start_time,
        boot_id=who.boot_id,
        host=sockets.gethostname(),
        code_version=code_version,
        handlers=handlers,
        journal=str(journal),
    )
    tx.event(
        "WORKER_STARTED",
        actor=ENGINE,
        worker_id=worker_id,
        reason="started",
        message=f"pid {who.pid}",
        ours=True,
    )
    return worker_id


def journal_of(config: Config, worker: Mapping[str, Any]) -> Path:
    """Where a worker (its row) notes which attempts it began; its spool lies beside it."""
    if worker["journal"]:
        return Path(worker["journal"])
    return config.log_directory / "workers" / f"{worker['incarnation']}.starts"


def handlers_fingerprint(config: Config) -> str:
    """Of the handler files, and of taskdeck itself, as they are now."""
    return f"{fingerprint(config.taskdeck.handlers, config.handlers_root)}-{own_code()}"
