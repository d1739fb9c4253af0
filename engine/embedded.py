"""Tasks into a database on which no engine works, from the process that submits them: what an engine is to `run.adding`.

A thread holds the database while something comes, gives way to whoever waits for it, and needs nothing of the loop for that:
one that stands still keeps nobody out, as long as Python runs at all. Must not know who submits, nor what a task must be.
"""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from .clock import Clock
from .commands import PAUSE, held_by_somebody, make_redactor, take
from .config import Config
from .edge.locks import DatabaseLock, wanted_by_engine
from .errors import StorageTrouble, TaskdeckError, Unavailable
from .rules.new_task import Kind
from .rules.timing import utc_text
from .run import throwaway
from .run.disk_fitness import refuse_what_cant_be_written
from .run.futures import begun
from .run.storage import hold

if TYPE_CHECKING:
    from peewee import SqliteDatabase

    from .store.writer import Job

REST = 0.02
"""Seconds without anything to write after which the database is let go."""
LEAST, LONGEST = 0.1, 1.0
"""Seconds after which it is let go where another waits (at once for an engine), and at most: not everybody says that."""
TURN = 0.03
"""Seconds for which others can take it then: they try every 0.02 s."""
PATIENCE = 60.0
"""Seconds for which another that holds it is waited for, as long as an engine may take to answer: it may be one of many like
us, who have it in turn."""
SURVEY_HOLDS = 10.0
"""Seconds for which it holds what handlers told of their types, or that they could not be asked: then they are loaded anew,
since they may have changed."""

T = TypeVar("T")

Blocking = Callable[[Callable[[], Any]], "asyncio.Future[Any]"]
"""Has something that blocks done in a thread."""


class GaveWay(Exception):
    """An engine works on the database by now: this was not written, and is the engine's affair."""


def warm_up() -> None:
    """Load what writes, which takes 50 ms the first time: while handlers are being asked."""
    from .store import database, new_database, writer  # noqa: F401


class Judge:
    """What handlers say of payloads where no worker can be asked: a process that is gone again loads them. Loop only.

    One process at a time: what is asked meanwhile is asked of the next, together.
    """

    def __init__(self, config: Config, clock: Clock, blocking: Blocking) -> None:
        self._config = config
        self._clock = clock
        self._blocking = blocking
        self._shapes: dict[str, str] = {}
        self._mute: TaskdeckError | None = None
        """Why handlers could not be asked."""
        self._until = 0.0
        """Until when these two hold."""
        self._waiting: list[tuple[tuple[str, str], asyncio.Future[TaskdeckError | None]]] = []
        self._is_asking = False

    def shape_of(self, type_name: str) -> str:
        """The shape of a type's payloads, as it was told a moment ago; empty where it was not."""
        return self._shapes.get(type_name, "") if self._clock.monotonic() < self._until else ""

    async def validate(self, type_name: str, payload: str) -> str:
        """Always "", or raises why this is refused."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[TaskdeckError | None] = loop.create_future()
        self._waiting.append(((type_name, payload), answer))
        if not self._is_asking:
            self._is_asking = True
            loop.call_soon(self._ask)
        if refusal := await answer:
            raise refusal
        return ""

    def _ask(self) -> None:
        some, self._waiting = self._waiting, []
        self._is_asking = bool(some)
        if not some:
            return
        asked = begun(lambda: self._blocking(partial(self._refusals, [spec for spec, _ in some])))
        asked.add_done_callback(partial(self._tell, [answer for _, answer in some]))

    def _tell(
        self,
        answers: Sequence[asyncio.Future[TaskdeckError | None]],
        asked: asyncio.Future[Sequence[TaskdeckError | None]],
    ) -> None:
        try:
            told = asked.result()
        except (Exception, asyncio.CancelledError) as error:
            told = [Unavailable("the handlers could not be asked", str(error))] * len(answers)
        for answer, refusal in zip(answers, told, strict=True):
            if not answer.done():  # who asked was cancelled
                answer.set_result(refusal)
        self._ask()

    def _refusals(self, asked: list[tuple[str, str]]) -> Sequence[TaskdeckError | None]:
        """In a thread."""
        if self._mute and self._clock.monotonic() < self._until:
            return [self._mute] * len(asked)
        with throwaway.Handlers.of(self._config, self._clock) as handlers:
            refusals = handlers.refusals(asked)
            survey = handlers.surveyed
        self._shapes, self._mute = (survey.types, None) if survey else ({}, refusals[0])
        self._until = self._clock.monotonic() + SURVEY_HOLDS
        return refusals


class Known:
    """What one who submits knows of the database, however often it was let go in between."""

    was_there = False
    """It has been written: if it is gone, it is not begun anew, since a copy of it is what is to be put back."""


class Embedded:
    """Adds tasks as an engine does (`run.hosts.Host`).

    To be made in a thread: it reads the secrets, and raises why the database can't be written. All else is for the loop.
    """

    def __init__(
        self,
        config: Config,
        clock: Clock,
        judge: Judge,
        known: Known,
        blocking: Blocking,
        loop: asyncio.AbstractEventLoop,
        on_rest: Callable[[], object],
    ) -> None:
        """`on_rest`: called by the loop when the database has been let go, and nothing is queued."""
        refuse_what_cant_be_written(config)
        self.redactor = make_redactor(config)
        self.alike: dict[Any, Kind] = {}
        self.reception = judge
        self.writer = self
        self.queued = 0
        """Units that are not written yet."""
        self._config = config
        self._clock = clock
        self._known = known
        self._blocking = blocking
        self._loop = loop
        self._on_rest = on_rest
        self._jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._working: asyncio.Future[None] | None = None
        self._is_closing = False
        self._rests = True
        self._mutex = threading.Lock()
        """Guards `_rests`."""

    def write(self, unit: Callable[..., T], *args: Any) -> asyncio.Future[T]:
        """Queue `unit(transaction, *args)`; the future is done when it is durable, or has its error, or `GaveWay`."""
        future: asyncio.Future[T] = self._loop.create_future()
        with self._mutex:
            self._jobs.put((future, unit, args))
            begins, self._rests = self._rests, False
        self.queued += 1
        future.add_done_callback(self._is_written)
        if begins:
            self._working = self._blocking(self._work)
            self._working.add_done_callback(lambda _: self._on_rest())
        return future

    @property
    def rests(self) -> bool:
        """Is nothing queued, and the database free?"""
        return self._rests

    def wake_for(self, due: Iterable[str]) -> None:
        """Nobody sleeps here."""

    def refusal(self, error: Exception) -> TaskdeckError:
        """What is told of an error that kept one task out."""
        if isinstance(error, TaskdeckError):
            return error
        return TaskdeckError(f"the task could not be added: {type(error).__name__}")

    async def close(self) -> None:
        """Let the database go. What is still queued, and nobody awaits, is written if that can be done at once."""
        self._is_closing = True
        if self._working is not None:
            self._jobs.put(None)
            await self._working

    def _is_written(self, _: object) -> None:
        self.queued -= 1

    # ---- in a thread -----------------------------------------------------------------------------------------------

    def _work(self) -> None:
        while True:
            try:
                self._hold_and_write()
            except Exception as error:
                self._tell_queued(error)
            with self._mutex:
                if self._jobs.empty():
                    self._rests = True
                    return
            self._clock.sleep(TURN)

    def _hold_and_write(self) -> None:
        from .store.writer import Writer

        with DatabaseLock(self._config.db, role="cli") as lock:
            self._take(lock)
            writer = Writer(
                self._opened(),
                self._config.db,
                clock=self._clock,
                boot_id="",  # no lease is taken here
                redactor=self.redactor,
                guard=partial(hold, lock, self._config.db),
                loop=self._loop,
                jobs=self._jobs,
            )
            began = self._clock.monotonic()

            def goes_on() -> bool:
                held = self._clock.monotonic() - began
                return held < LONGEST and not lock.is_wanted(by_engine=held < LEAST)

            writer.work(REST, goes_on)

    def _take(self, lock: DatabaseLock) -> None:
        """Raises `GaveWay` where an engine has it or nobody waits any more, `Unavailable` where somebody else keeps it."""
        db, deadline = self._config.db, self._clock.monotonic() + PATIENCE
        refuse_what_cant_be_written(self._config)
        while wanted_by_engine(db) or not take(lock):
            lock.ask()
            self._clock.sleep(PAUSE)
            holder = DatabaseLock.holder(db)
            if (holder is not None and holder.role == "engine") or self._is_closing or self._loop.is_closed():
                raise GaveWay
            if self._clock.monotonic() > deadline:
                raise held_by_somebody(self._config)

    def _opened(self) -> SqliteDatabase:
        from .store.database import open_for_writing
        from .store.new_database import is_new, new_database

        db = self._config.db
        if is_new(db):
            if self._known.was_there:
                raise StorageTrouble(
                    f"{db} was deleted or moved",
                    "what was in it is not begun anew",
                    "put it back, or a copy of it",
                )
            with new_database(db):
                pass
        opened = open_for_writing(db, utc_text(self._clock.utc()))
        self._known.was_there = True
        return opened

    def _tell_queued(self, error: Exception) -> None:
        futures: list[asyncio.Future[Any]] = []
        with suppress(queue.Empty):
            while True:
                if job := self._jobs.get_nowait():
                    futures.append(job[0])
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            self._loop.call_soon_threadsafe(_fail, futures, error)


def _fail(futures: Iterable[asyncio.Future[Any]], error: Exception) -> None:
    for future in futures:
        if not future.done():
            future.set_exception(error)
