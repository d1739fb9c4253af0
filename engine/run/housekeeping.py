"""What the engine does by itself every few minutes or once a day: anchors of the audit outside the
database, backups, retention.

A failure is an alert and is tried again later; it never touches the work.
"""

from __future__ import annotations

import asyncio
import json
import logging
import subprocess
import sys
from collections.abc import Mapping
from functools import partial
from typing import Any

import msgspec

from ..clock import Clock
from ..config import Config
from ..errors import TaskdeckError
from ..rules.chain import Head
from ..rules.cleaning import clean
from ..rules.timing import add_seconds, utc_text
from ..store import anchors, events, processes
from ..store.tasks import ENGINE
from ..store.transaction import Transaction
from ..store.writer import Writer
from .telling import counted

log = logging.getLogger("taskdeck.housekeeping")

TRY_AGAIN = 3600.0
"""Seconds after a backup or prune that failed, at most, until the next try."""
PRUNE_FOR = 20.0
"""Seconds of one prune, after which it goes on anew."""


class Housekeeping:
    """The engine's own duties for one database."""

    def __init__(self, config: Config, clock: Clock, writer: Writer) -> None:
        self.config = config
        self._clock = clock
        self._writer = writer
        self._not_before = 0.0
        self._prune_at = 0.0
        self._pruning = asyncio.Lock()
        self._child: subprocess.Popen[bytes] | None = None

    async def anchor(self) -> None:
        """Note the head of the audit outside the database, unless it stands there already."""
        event_id, count, digest, now = await self._writer.write(events.head)
        await asyncio.to_thread(anchors.note, self.config.db, Head(event_id, count, digest), now)

    async def back_up_if_due(self) -> None:
        """Make the next backup in a process of its own, if the last is old enough. What came of it is an event."""
        if await self._backup_is_due():
            result = await asyncio.to_thread(self._back_up)
            if result is not None:
                await self._writer.write(_failed if "error" in result else note_backup, result, ENGINE)
                await self.anchor()

    async def prune_if_due(self) -> None:
        """Archive what the configured ages let go, every so often; without ages, nothing."""
        settings = self.config.retention
        if (settings.tasks or settings.events) and self._clock.monotonic() >= self._prune_at:
            self._prune_at = self._clock.monotonic() + settings.every
            try:
                while (await self.prune(None, None, ENGINE, PRUNE_FOR))["more"]:
                    pass
            except TaskdeckError as error:
                self._prune_at = self._clock.monotonic() + min(TRY_AGAIN, settings.every)
                await self._writer.write(_retention_failed, str(error))

    async def prune(
        self, tasks: float | None, events_: float | None, actor: str, seconds: float
    ) -> dict[str, Any]:
        """Archive what is older, for about so many seconds, beside the loop; the cuts join the writer's commits."""
        loop = asyncio.get_running_loop()

        async def write(unit: Any, *args: Any) -> Any:
            return await self._writer.write(unit, *args)

        def submit(unit: Any, *args: Any) -> Any:
            return asyncio.run_coroutine_threadsafe(write(unit, *args), loop).result()

        from . import pruning  # with gzip and what archives are; an engine loads it in a quiet moment

        ages = pruning.ages_of(self.config, tasks, events_)
        work = partial(pruning.prune, self.config, ages, actor, self._clock, submit, seconds=seconds)
        async with self._pruning:
            report = await asyncio.to_thread(work)
        if report.files:
            await self.anchor()
        return msgspec.to_builtins(report)

    def stop(self) -> None:
        """End a backup that is on its way; its unfinished file is never taken for a backup."""
        if self._child is not None:
            self._child.kill()

    async def _backup_is_due(self) -> bool:
        every = self.config.backup.every
        if not every or self._clock.monotonic() < self._not_before:
            return False
        from .backing_up import newest

        last = await asyncio.to_thread(newest, self.config.backup_directory, self.config.db)
        last = last or await self._writer.write(processes.first_start)
        return last is not None and add_seconds(last, every) <= utc_text(self._clock.utc())

    def _back_up(self) -> Mapping[str, Any] | None:
        """The report of the process, or its error; None where it was ended with this engine."""
        self._not_before = self._clock.monotonic() + min(TRY_AGAIN, self.config.backup.every)
        command = [sys.executable, "-m", "taskdeck.engine.run.backing_up", "--db", str(self.config.db)]
        if self.config.file is not None:
            command += ["--config", str(self.config.file)]
        with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=-1, stderr=-1) as self._child:
            told, complaint = self._child.communicate()
        try:
            return json.loads(told)
        except ValueError:
            if self._child.returncode < 0:
                return None
            return {"error": clean(complaint.decode("utf-8", "replace"), limit=300)}


def note_backup(tx: Transaction, report: Mapping[str, Any], actor: str) -> None:
    """Put a backup on record."""
    size = f"{counted(report['tasks'], 'task', 'tasks')}, {counted(report['events'], 'event', 'events')}"
    message = f"{report['path']}: {size}, checked"
    tx.event("BACKUP_WRITTEN", actor=actor, reason="backup", message=message, payload=dict(report))


def _retention_failed(tx: Transaction, why: str) -> None:
    message = f"nothing was archived: {why}"
    tx.event("ALERT_RAISED", actor=ENGINE, level="error", reason="retention_failed", message=message)
    log.error("%s", message)


def _failed(tx: Transaction, result: Mapping[str, Any], actor: str) -> None:
    message = f"the backup failed: {result['error']}"
    tx.event("ALERT_RAISED", actor=actor, level="error", reason="backup_failed", message=message)
    log.error("%s", message)
