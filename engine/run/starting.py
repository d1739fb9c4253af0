"""How a worker process is started, and put on record before its first word is answered."""

from __future__ import annotations

import os
import socket as sockets
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .. import cores
from ..config import Config
from ..edge import adoption, trees
from ..edge.identity import Identity
from ..edge.paths import open_private
from ..store import processes
from ..store.tasks import ENGINE
from ..store.transaction import Transaction
from . import announce, foundlings, groups
from .fingerprints import fingerprint, own_code
from .leftovers import worker_mark


def spawn(config: Config, socket: Path, incarnation: str, journal: Path) -> subprocess.Popen[bytes]:
    """Start a worker in a session of its own, away from our terminal; what it prints goes beside its journal.

    It gets a group of its own (cgroup) where one can be made, and enters that as the first thing it does.
    """
    group = groups.make(journal) if config.engine.cgroups == "auto" else None
    command = [sys.executable, "-m", "taskdeck.engine.run.worker", "--socket", str(socket)]
    command += ["--incarnation", incarnation, "--logs", str(config.log_directory)]
    command += ["--journal", str(journal), "--handlers-root", str(handlers_root(config))]
    command += ["--group", str(group.path)] if group else []
    for handler in config.taskdeck.handlers:
        command += ["--handler", handler]
    of_the_engine = (announce.VARIABLE, foundlings.VARIABLE)
    environment = {key: value for key, value in os.environ.items() if key not in of_the_engine}
    environment[trees.VARIABLE] = worker_mark(config.db, incarnation)
    environment |= cores.handed_on()
    with open(journal.parent / "output.log", "ab", opener=open_private) as output:
        return adoption.start(
            lambda: subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=environment,
                start_new_session=True,
            )
        )


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
    return f"{fingerprint(config.taskdeck.handlers, handlers_root(config))}-{own_code()}"


def handlers_root(config: Config) -> Path:
    """What handler files are relative to."""
    return config.file.parent if config.file else Path.cwd()
