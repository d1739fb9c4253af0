"""An alarm that rings on time: the loop's own timers are late by up to a millisecond, since epoll waits in whole ones.

Owns a timer of the kernel's (timerfd). Where there is none the loop's timers do. Must not know what it rings for.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
from collections.abc import Callable

_CLOCK_MONOTONIC = 1
_FLAGS = os.O_NONBLOCK | os.O_CLOEXEC  # TFD_NONBLOCK, TFD_CLOEXEC
_NS = 1_000_000_000


class _Times(ctypes.Structure):
    """struct itimerspec: interval and first expiry, each in seconds and nanoseconds."""

    _fields_ = (
        ("every_s", ctypes.c_long),
        ("every_ns", ctypes.c_long),
        ("first_s", ctypes.c_long),
        ("first_ns", ctypes.c_long),
    )


class Alarm:
    """Calls `ring` in the loop that it is made in. One time at most is set."""

    def __init__(self, ring: Callable[[], None]) -> None:
        self._ring = ring
        self._loop = asyncio.get_running_loop()
        self._libc = ctypes.CDLL(None)
        self._timer: asyncio.TimerHandle | None = None
        try:
            self._fd = int(self._libc.timerfd_create(_CLOCK_MONOTONIC, _FLAGS))
        except AttributeError:  # no such call in this C library
            self._fd = -1
        if self._fd >= 0:
            self._loop.add_reader(self._fd, self._expired)

    def set(self, seconds: float) -> None:
        """Ring once in so many seconds, and not at the time that was set before."""
        if self._fd >= 0:
            left = max(1, int(seconds * _NS))
            self._arm(*divmod(left, _NS))
            return
        self.stop()
        self._timer = self._loop.call_later(seconds, self._ring)

    def stop(self) -> None:
        """Don't ring. Harmless where nothing is set."""
        if self._fd >= 0:
            self._arm(0, 0)
        elif self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def close(self) -> None:
        """Give it back."""
        self.stop()
        if self._fd >= 0:
            self._loop.remove_reader(self._fd)
            os.close(self._fd)
            self._fd = -1

    def _arm(self, seconds: int, nanoseconds: int) -> None:
        self._libc.timerfd_settime(self._fd, 0, ctypes.byref(_Times(0, 0, seconds, nanoseconds)), None)

    def _expired(self) -> None:
        try:
            os.read(self._fd, 8)
        except BlockingIOError:  # set anew, or stopped, since the loop was told
            return
        self._ring()
