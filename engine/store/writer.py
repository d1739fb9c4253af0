"""The one writer thread of an engine: takes all units that wait, commits them together, then answers.

Group commit without linger: the fsync of one group is the time in which the next gathers. Checkpoints of the write-ahead
log are made here only, between commits (a second thread that checkpoints beside the writer met a bug of SQLite). Where no
engine works, a process that submits lends its writer a thread for a while.
"""

from __future__ import annotations

import asyncio
import contextlib
import queue
import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from peewee import SqliteDatabase

from ..clock import Clock
from ..errors import Unavailable
from ..rules.storage import Fault, Trouble
from .database_file import DatabaseFile, Standing
from .diagnosis import diagnosis, is_passing, refusal
from .transaction import Redacts, Transaction

T = TypeVar("T")

GROUP = 256
"""Most units in one commit: past a hundred the gain is small and the latency grows."""

WAL_TARGET = 8 * 1024 * 1024
"""Size of the write-ahead log, in bytes, from which on it is checkpointed between commits."""

WAL_STEP = 1024 * 1024
"""Bytes by which the file must have grown for the next checkpoint: until then it is written anew from its beginning."""

WAL_KEPT = 16 * 1024 * 1024
"""What the file of the write-ahead log may keep for its next use, in bytes; above it, it is cut once nobody reads it."""

BUSY = 10_000
"""Milliseconds for which a lock of somebody else is waited for."""

Job = tuple["asyncio.Future[Any]", Callable[..., Any], tuple[Any, ...]]


class Writer:
    """Runs units of work on the write connection in a thread of its own; what `write` answers is durable."""

    def __init__(
        self,
        database: SqliteDatabase,
        path: Path,
        *,
        clock: Clock,
        boot_id: str,
        redactor: Redacts,
        guard: Callable[[], Trouble | None] = lambda: None,
        loop: asyncio.AbstractEventLoop | None = None,
        jobs: queue.SimpleQueue[Job | None] | None = None,
    ) -> None:
        """`loop`: whose futures it settles; by default the running one. `jobs`: what is queued already."""
        self._database = database
        self._path = path
        self.file = DatabaseFile(path)
        self._transaction = Transaction(database.connection(), clock, boot_id, redactor, database)
        self._jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue() if jobs is None else jobs
        self._thread = threading.Thread(target=self._run, name="writer", daemon=True)
        self._loop = loop or asyncio.get_running_loop()
        self._closed = False
        self.commits = 0
        self.trouble: Trouble | None = None
        """Why the last group could not be committed. It is over once something has really been written again."""
        self._guard = guard
        """Asked before each commit, in the writer's thread: why the database is not ours to write; None = it is."""
        self._forbidden: Trouble | None = None
        self._taken_over = 0
        """Size of the log's file when all of it had last been copied; 0: not all of it is."""
        self.held_back = False
        """Somebody reads an old state of the database, so that the write-ahead log can't be taken over whole."""

    @property
    def failing(self) -> bool:
        """Can nothing be written? Then nobody may be judged by what isn't written."""
        return self.trouble is not None

    def forbid(self, trouble: Trouble) -> None:
        """Write nothing more, for good: the database is another process's by now."""
        self._forbidden = trouble

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

    def work(self, rest: float, goes_on: Callable[[], bool]) -> None:
        """Do what is queued in this thread, instead of one of its own, until nothing came for `rest` seconds, or `None`.

        `goes_on`: asked before each commit; where not, this ends with whatever is still queued.
        """
        try:
            while goes_on() and (job := self._next(rest)) is not None:
                self._do(job)
        finally:
            self._end()

    def _next(self, within: float) -> Job | None:
        try:
            return self._jobs.get(timeout=within)
        except queue.Empty:
            return None

    def _run(self) -> None:
        while (job := self._jobs.get()) is not None:
            self._do(job)
        self._end()

    def _do(self, job: Job) -> None:
        """Commit this one with all that wait."""
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
        self._take_over_log()

    def _end(self) -> None:
        """Leave the database in order."""
        if self.file.standing() is Standing.HERE and self._forbidden is None:
            self._checkpoint("TRUNCATE")
        self._database.close()

    def _commit(self, group: list[Job]) -> None:
        settled: list[tuple[asyncio.Future[Any], Any, BaseException | None]] = []
        try:
            self._see_that_it_is_ours()
            written = self._transaction.connection.total_changes
            self._transaction.begin()
            for future, unit, args in group:
                settled.append(self._one(future, unit, args))
                if not self._transaction.connection.in_transaction:
                    raise sqlite3.OperationalError("the transaction was rolled back by SQLite")
            # Within the transaction: whoever takes the database from here on waits for this commit, and sees it.
            self._see_that_none_took_it()
            self._transaction.commit()
            self.commits += 1
            if self._transaction.connection.total_changes != written:
                self.trouble = None  # an empty commit proves nothing
        except Exception as error:
            with contextlib.suppress(sqlite3.Error):
                self._transaction.roll_back()
            self.trouble = error.trouble if isinstance(error, _Lost) else diagnosis(error)
            if self.trouble.fault is Fault.FULL:
                # It may be full of our own log: its pages can often still go where the database has room.
                self._checkpoint("TRUNCATE")
            settled = [(future, None, refusal(self.trouble)) for future, _, _ in group]
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
            self._loop.call_soon_threadsafe(_settle, settled)

    def _see_that_it_is_ours(self) -> None:
        """Raise `_Lost` where the name leads to no file, or to a stranger's; go on in our own copy, or with a new log."""
        if self._forbidden is not None:
            raise _Lost(self._forbidden)
        standing = self.file.standing()
        if standing is Standing.HERE:
            return
        if standing in (Standing.GONE, Standing.REPLACED):
            raise _Lost(self._loss(standing))
        if standing is Standing.NO_LOG:
            self._checkpoint("TRUNCATE")  # what it held is in our hands, and goes into the database now
        self._database.close()  # SQLite sees for itself that a moved file's log is none of its business
        self._database.connect()
        self._transaction.use(self._database.connection())
        self.file = DatabaseFile(self._path)

    def _see_that_none_took_it(self) -> None:
        """Raise `_Lost` where the guard objects; once another process has taken the database, for good."""
        trouble = self._forbidden or self._guard()
        if trouble is None:
            return
        if trouble.fault is Fault.TAKEN:
            self._forbidden = trouble
        raise _Lost(trouble)

    def _loss(self, standing: Standing) -> Trouble:
        gone = standing is Standing.GONE
        why = f"{self._path} was deleted or moved" if gone else f"another file stands at {self._path}"
        try:
            copy = self.file.save_copy(self._transaction.connection)
            remedy = f"put it back, or the copy of all that was in it: mv {copy} {self._path}"
        except (OSError, sqlite3.Error) as error:
            remedy = f"put it back; no copy of it could be made yet: {error}"
        return Trouble(Fault.GONE if gone else Fault.REPLACED, why, remedy)

    def _one(
        self, future: asyncio.Future[Any], unit: Callable[..., Any], args: tuple[Any, ...]
    ) -> tuple[asyncio.Future[Any], Any, BaseException | None]:
        try:
            return future, self._transaction.unit(unit, *args), None
        except Exception as error:
            return future, None, refusal(diagnosis(error)) if is_passing(error) else error

    def _take_over_log(self) -> None:
        """Copy the write-ahead log into the database once it has grown, and cut its file once nobody reads it."""
        size = self.file.wal_size()
        if self.failing or size <= WAL_TARGET:
            self.held_back = self.held_back and self.failing
            return
        if self._taken_over <= size < self._taken_over + WAL_STEP:
            return
        taken = self._checkpoint("PASSIVE")
        if taken is None:
            return
        _, frames, copied = taken
        self.held_back = copied < frames
        self._taken_over = 0 if self.held_back else size
        if not self.held_back and self.file.wal_size() > WAL_KEPT:
            self._checkpoint("TRUNCATE")

    def _checkpoint(self, mode: str) -> tuple[int, int, int] | None:
        """Whether it was busy, frames of the log, frames that are copied; waits for nobody."""
        connection = self._transaction.connection
        try:
            connection.execute("PRAGMA busy_timeout = 0")
            return connection.execute(f"PRAGMA wal_checkpoint({mode})").fetchone()
        except sqlite3.Error:
            return None  # the next round tries again; nothing committed depends on it
        finally:
            with contextlib.suppress(sqlite3.Error):
                connection.execute(f"PRAGMA busy_timeout = {BUSY}")


class _Lost(Exception):
    """The file is not where it was."""

    def __init__(self, trouble: Trouble) -> None:
        super().__init__(trouble.why)
        self.trouble = trouble


def _settle(settled: list[tuple[asyncio.Future[Any], Any, BaseException | None]]) -> None:
    for future, result, error in settled:
        if future.done():
            continue
        if error is None:
            future.set_result(result)
        else:
            future.set_exception(error)
