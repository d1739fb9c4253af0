"""The watch over the storage: notices what fills up, holds back or goes away, and tells of it until it is over.

An alert is an event when it can be written; meanwhile it stands in memory, for the log, `taskdeck status` and the deck. While
one that pauses holds, nothing new starts; what runs is written down as soon as that is possible. How it is judged is
`rules.storage`'s business.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from ..clock import Clock
from ..config import Config
from ..edge import applog, disks, log_budget
from ..edge.locks import DatabaseLock
from ..errors import StorageTrouble, Unavailable
from ..rules.storage import Alert, Fault, Figures, Trouble, alerts, pause, size_text
from ..rules.timing import utc_text
from ..store import attempts
from ..store.database_file import Standing
from ..store.tasks import ENGINE
from ..store.transaction import Transaction
from ..store.writer import Writer

log = logging.getLogger("taskdeck.storage")

EVERY = 5.0
"""Seconds between two looks."""
IN_TROUBLE = 1.0
"""And while nothing can be written."""
BUDGET_EVERY = 300.0
"""Seconds between two counts of the attempts' logs at least; a count that takes long is made less often."""
BUDGET_SHARE = 50.0
"""A count is followed by a pause of this many times its length."""


class StorageWatch:
    """One for the life of an engine.

    `on_change` is called when something new may start again, `on_taken` when another process has taken the database.
    """

    def __init__(
        self,
        config: Config,
        clock: Clock,
        writer: Writer,
        lock: DatabaseLock,
        *,
        on_change: Callable[[], None],
        on_taken: Callable[[], None],
    ) -> None:
        self.config = config
        self._clock = clock
        self._writer = writer
        self._lock = lock
        self._on_change = on_change
        self._on_taken = on_taken
        self._raised: dict[str, Alert] = {}
        self._since: dict[str, str] = {}
        self._unwritten: list[tuple[str, Alert, str]] = []
        self._figures = Figures({})
        self._rest = BUDGET_EVERY

    @property
    def pause(self) -> str:
        """Why nothing new may start, with the remedy; empty = it may."""
        return pause(self._raised.values())

    @property
    def paused(self) -> bool:
        """May nothing new start?"""
        return bool(self.pause)

    def description(self) -> dict[str, Any]:
        """For `ping`: bytes of the log and free ones, why nothing new starts, and the alerts that hold, the worst first."""
        held = sorted(self._raised.values(), key=lambda each: (not each.pauses, each.level, each.reason))
        return {
            "wal_bytes": self._figures.wal,
            "free_bytes": self._figures.free,
            "pause": self.pause,
            "alerts": [
                {
                    "reason": each.reason,
                    "level": each.level,
                    "message": each.message,
                    "remedy": each.remedy,
                    "pauses": each.pauses,
                    "since": self._since[each.reason],
                }
                for each in held
            ],
        }

    # ---- the watch -----------------------------------------------------------------------------------------------

    async def tick(self) -> None:
        """Look, judge, tell."""
        self._hold_the_lock()
        if self._writer.file.standing() is not Standing.HERE or self._figures.wal:
            with suppress(StorageTrouble, Unavailable):
                await self._writer.write(_nothing)  # lets the writer see it, and tidy up behind a reader
        self._figures = await asyncio.to_thread(self._look)
        log.debug("free %s, write-ahead log %d bytes", self._figures.free, self._figures.wal)
        was_paused = self.paused
        now = utc_text(self._clock.utc())
        found = alerts(self._figures, self.config.storage, self._raised)
        for reason, alert in found.items():
            if reason not in self._raised:
                self._since[reason] = now
                self._unwritten.append(("ALERT_RAISED", alert, now))
                log.log(logging.ERROR if alert.level == "error" else logging.WARNING, "%s", alert)
        for reason in self._raised.keys() - found.keys():
            self._unwritten.append(("ALERT_CLEARED", self._raised[reason], now))
            log.warning("it is over: %s", self._raised[reason].message)
        self._raised = found
        await self._tell()
        if was_paused and not self.paused:
            self._on_change()

    def _hold_the_lock(self) -> None:
        """A lock whose file was removed guards nothing: another engine could start."""
        trouble = hold(self._lock, self.config.db)
        if trouble is not None and trouble.fault is Fault.TAKEN:
            self._writer.forbid(trouble)
            self._on_taken()

    async def rest(self) -> None:
        """Until the next look."""
        await self._clock.pause(IN_TROUBLE if self._writer.failing else EVERY)

    async def _tell(self) -> None:
        """Write what could not be written yet; that also shows whether the disk is usable again."""
        if self._unwritten:
            told = list(self._unwritten)
            with suppress(StorageTrouble, Unavailable):
                await self._writer.write(_record, told)
                del self._unwritten[: len(told)]

    def _look(self) -> Figures:
        writer = self._writer
        free: dict[str, int] = {}
        for place, path in (("database", self.config.db), ("logs", self.config.log_directory)):
            with suppress(OSError):
                free[place] = disks.free_bytes(path)
        applog.shorten(self.config.log_directory / "workers" / "output.log", self.config.logging.file_bytes)
        return Figures(
            free=free,
            wal=writer.file.wal_size(),
            held_back=writer.held_back,
            readers=disks.readers_of(self.config.db) if writer.held_back else (),
            trouble=writer.trouble,
        )

    # ---- the attempts' logs --------------------------------------------------------------------------------------

    async def keep_logs_within(self) -> None:
        """Have the output of all attempts take no more than its budget."""
        began = self._clock.monotonic()
        running = await self._writer.write(attempts.open_logs)
        settings = self.config.logging
        done = await asyncio.to_thread(
            log_budget.keep_within, self.config.log_directory, settings.attempts_total_bytes, running
        )
        self._rest = max(BUDGET_EVERY, BUDGET_SHARE * (self._clock.monotonic() - began))
        if done.files:
            told = (
                f"{done.files} files of attempts' output ({size_text(done.bytes)}) were removed, the oldest first:"
                f" all may take {size_text(settings.attempts_total_bytes)}"
            )
            log.info("%s", told)
            await self._writer.write(_record_removal, told)

    async def rest_of_logs(self) -> None:
        """Until the logs are counted again."""
        await self._clock.pause(self._rest)


def hold(lock: DatabaseLock, database: Path) -> Trouble | None:
    """Hold the lock again where its file was removed; otherwise why the database is not ours. For any thread."""
    try:
        if lock.intact():
            return None
        if lock.take_again():
            log.warning("%s was removed; it is made and held again", lock.file)
            return None
    except OSError as error:
        why = f"{lock.file} was removed and can't be made again: {error.strerror or error}"
        return Trouble(Fault.BROKEN, why, f"let this user write in {lock.file.parent}")
    holder = DatabaseLock.holder(database)
    who = f"pid {holder.pid}" if holder else "another process"
    why = f"{lock.file} was removed, and {who} took the database meanwhile"
    return Trouble(Fault.TAKEN, why, "see: taskdeck status")


def _nothing(tx: Transaction) -> None:
    return


def _record(tx: Transaction, told: list[tuple[str, Alert, str]]) -> None:
    for event_type, alert, at in told:
        raised = event_type == "ALERT_RAISED"
        tx.event(
            event_type,
            actor=ENGINE,
            level=alert.level if raised else "info",
            reason=alert.reason,
            message=str(alert) if raised else alert.message,
            payload={"at": at, "pauses": alert.pauses},
        )


def _record_removal(tx: Transaction, message: str) -> None:
    tx.event("LOGS_REMOVED", actor=ENGINE, reason="budget", message=message, ours=True)
