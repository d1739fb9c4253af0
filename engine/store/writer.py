"""The one writer thread of an engine: takes all units that wait, commits them together, then answers.

Group commit without linger: the fsync of one group is the time in which the next gathers. Checkpoints of the write-ahead
log are made here only, between commits (a second thread that checkpoints beside the writer met a bug of SQLite).
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import queue
import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from peewee import SqliteDatabase

from ..clock import Clock
from ..errors import StoreError, Unavailable
from .transaction import Redacts, Transaction

T = TypeVar("T")

GROUP = 256
"""Most units in one commit: past a hundred the gain is small and the latency grows."""

WAL_TARGET = 8 * 1024 * 1024
"""Size of the write-ahead log, in bytes, from which on it is checkpointed between commits."""

Job = tuple["asyncio.Future[Any]", Callable[..., Any], tuple[Any, ...]]


class Writer:
    """Runs units of work on the write connection in a thread of its own; what `write` answers is durable."""

    def __init__(
        self, database: SqliteDatabase, path: Path, *, clock: Clock, boot_id: str, redactor: Redacts
    ) -> None:
        self._database = database
        self._wal = path.with_name(path.name + "-wal")
        self._transaction = Transaction(database.connection(), clock, boot_id, redactor, database)
        self._jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="writer", daemon=True)
        self._loop = asyncio.get_running_loop()
        self._closed = False
        self.commits = 0
        self.failing = False
        """The last group could not be committed: disk full, read-only, locked. Nobody may be judged by what isn't written."""

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def write(self, unit: Callable[..., T], *args: Any) -> asyncio.Future[T]:
        """Queue `unit(transaction, *args)`; the future is done when its group is committed, or has its error."""
        if self._closed:
            raise Unavailable(
                "the engine is stopping and takes no more changes", remedy="try again in a moment"
            )
        future: asyncio.Future[T] = self._loop.create_future()
        self._jobs.put((future, unit, args))
        return future

    async def close(self) -> None:
        """Finish what is queued, truncate the write-ahead log and close the connection."""
        self._closed = True
        self._jobs.put(None)
        await asyncio.to_thread(self._thread.join)

    def _run(self) -> None:
        while (job := self._jobs.get()) is not None:
            group = [job]
            while len(group) < GROUP:
                try:
                    following = self._jobs.get_nowait()
                except queue.Empty:
                    break
                if following is None:
                    self._jobs.put(None)
                    break
                group.append(following)
            self._commit(group)
            self._checkpoint("PASSIVE", WAL_TARGET)
        self._checkpoint("TRUNCATE", 0)
        self._database.close()

    def _commit(self, group: list[Job]) -> None:
        settled: list[tuple[asyncio.Future[Any], Any, BaseException | None]] = []
        try:
            self._transaction.begin()
            for future, unit, args in group:
                settled.append(self._one(future, unit, args))
                if not self._transaction.connection.in_transaction:
                    raise sqlite3.OperationalError("the transaction was rolled back by SQLite")
            self._transaction.commit()
            self.commits += 1
            self.failing = False
        except Exception as error:
            self._transaction.roll_back()
            self.failing = True
            # A full disk may be full of our own log: its pages can often still go where the database has room.
            self._checkpoint("TRUNCATE", 0)
            failure = error if isinstance(error, Unavailable) else _refusal(error)
            settled = [(future, None, failure) for future, _, _ in group]
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
            self._loop.call_soon_threadsafe(_settle, settled)

    def _one(
        self, future: asyncio.Future[Any], unit: Callable[..., Any], args: tuple[Any, ...]
    ) -> tuple[asyncio.Future[Any], Any, BaseException | None]:
        try:
            return future, self._transaction.unit(unit, *args), None
        except Exception as error:
            return future, None, _refusal(error) if is_passing(error) else error

    def _checkpoint(self, mode: str, above: int) -> None:
        try:
            if os.stat(self._wal).st_size > above:
                self._transaction.connection.execute(f"PRAGMA wal_checkpoint({mode})").fetchone()
        except (OSError, sqlite3.Error):
            return  # the next round tries again; nothing committed depends on it


_PASSING = frozenset({sqlite3.SQLITE_FULL, sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_IOERR})
_PASSING |= {sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_NOMEM}


def is_passing(error: BaseException | None) -> bool:
    """Is it the disk's or a lock's affair, which may be over in a moment? Looks behind peewee's own error too."""
    while error is not None:
        code = getattr(error, "sqlite_errorcode", None)
        if code is not None:
            return code & 0xFF in _PASSING
        error = error.__cause__ or error.__context__
    return False


def _refusal(error: Exception) -> StoreError:
    return StoreError("the database could not be written", str(error), "check disk space and permissions")


def _settle(settled: list[tuple[asyncio.Future[Any], Any, BaseException | None]]) -> None:
    for future, result, error in settled:
        if future.done():
            continue
        if error is None:
            future.set_result(result)
        else:
            future.set_exception(error)
