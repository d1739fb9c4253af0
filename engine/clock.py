"""The only place where time comes from.

Three clocks, never mixed: `utc` for what is stored and shown, `monotonic` for durations inside a process, `boot` for lease
ends (common to all processes, counts suspend, knows no NTP step). Tests use `ManualClock`, which moves only when told to.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Protocol


class Timer(Protocol):
    """Something that is to come."""

    def cancel(self) -> object:
        """Keep it from coming."""
        ...


class Clock(Protocol):
    """What the engine asks of time."""

    def utc(self) -> datetime:
        """Now, aware, in UTC."""
        ...

    def monotonic(self) -> float:
        """Seconds on a clock that never steps; for durations inside this process."""
        ...

    def boot(self) -> float:
        """Seconds since the host booted, suspend included; for lease ends."""
        ...

    def sleep(self, seconds: float) -> None:
        """Block this thread."""
        ...

    async def pause(self, seconds: float) -> None:
        """Suspend this coroutine."""
        ...

    def call_after(self, seconds: float, act: Callable[[], object]) -> Timer:
        """Have this loop call `act` later; a third of what a task costs that pauses."""
        ...


class SystemClock:
    """The operating system's clocks."""

    def utc(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return time.monotonic()

    def boot(self) -> float:
        return time.clock_gettime(time.CLOCK_BOOTTIME)

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)

    async def pause(self, seconds: float) -> None:
        import asyncio  # 60 ms that the quick verbs of the command line don't pay

        await asyncio.sleep(seconds)

    def call_after(self, seconds: float, act: Callable[[], object]) -> Timer:
        import asyncio

        return asyncio.get_running_loop().call_later(seconds, act)


class SteppedClock(SystemClock):
    """The system's clocks, but the wall clock is off by as many seconds as stand in a file, which is read each time.

    How `taskdeck chaos` steps the clock of the engines that it starts, as NTP or a person would, and of nobody else.
    """

    def __init__(self, file: str) -> None:
        self._file = os.open(file, os.O_RDONLY | os.O_CLOEXEC)

    def utc(self) -> datetime:
        return super().utc() + timedelta(seconds=float(os.pread(self._file, 64, 0) or 0))


OFFSET_VARIABLE = "TASKDECK_CLOCK_OFFSET"
"""Names the file of a `SteppedClock`."""


def system_clock(environ: Mapping[str, str] = os.environ) -> Clock:
    """The clock of a process: the system's, or where the environment says so a stepped one."""
    file = environ.get(OFFSET_VARIABLE)
    return SteppedClock(file) if file else SystemClock()


class ManualClock:
    """A clock for tests. All hands move together by `advance`, the wall alone by `step`; `suspend` lets the host sleep."""

    def __init__(self, start: datetime = datetime(2026, 11, 29, 12, 0, tzinfo=UTC)) -> None:
        self._utc = start
        self._elapsed = 1000.0
        self._suspended = 0.0
        self._lock = threading.Lock()

    def utc(self) -> datetime:
        return self._utc

    def monotonic(self) -> float:
        return self._elapsed

    def boot(self) -> float:
        return self._elapsed + self._suspended

    def sleep(self, seconds: float) -> None:
        self.advance(seconds)

    async def pause(self, seconds: float) -> None:
        import asyncio

        self.advance(seconds)
        await asyncio.sleep(0)

    def call_after(self, seconds: float, act: Callable[[], object]) -> Timer:
        import asyncio

        self.advance(seconds)
        return asyncio.get_running_loop().call_soon(act)

    def advance(self, seconds: float) -> None:
        """Let `seconds` pass on every hand."""
        with self._lock:
            self._utc += timedelta(seconds=seconds)
            self._elapsed += seconds

    def suspend(self, seconds: float) -> None:
        """Let the host sleep for `seconds`: the monotonic hand stands still, as Linux has it."""
        with self._lock:
            self._utc += timedelta(seconds=seconds)
            self._suspended += seconds

    def step(self, seconds: float) -> None:
        """Step the wall clock alone, as NTP or a person would."""
        with self._lock:
            self._utc += timedelta(seconds=seconds)
