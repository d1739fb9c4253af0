"""Descriptors of short commands, watched for a loop of asyncio by one epoll of ours, which the loop watches.

To begin and end a watch costs a fifth of what it costs with `add_reader`, and each command has three. Loop thread only.
"""

from __future__ import annotations

import asyncio
import select
from collections.abc import Callable
from weakref import WeakKeyDictionary, ref


class Readers:
    """Calls back as long as a descriptor can be read, or its other end is closed."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._epoll = select.epoll()
        self._calls: dict[int, Callable[[], object]] = {}
        loop.add_reader(self._epoll.fileno(), self._look)

    def add(self, fd: int, call: Callable[[], object]) -> None:
        """Watch a descriptor that is not watched yet; `call` reads what is there, or ends the watch."""
        self._epoll.register(fd, select.EPOLLIN)
        self._calls[fd] = call

    def remove(self, fd: int) -> None:
        """Watch it no more; not later than it is closed."""
        del self._calls[fd]
        self._epoll.unregister(fd)

    def _look(self) -> None:
        # Whom they are for is looked up first: one call may end the watch of another, and its number may serve again.
        ready = [(fd, self._calls[fd]) for fd, _ in self._epoll.poll(0)]
        for fd, call in ready:
            if self._calls.get(fd) is call:
                call()


_of_loops: WeakKeyDictionary[asyncio.AbstractEventLoop, ref[Readers]] = WeakKeyDictionary()
"""A loop that is open keeps its own."""


def of_loop() -> Readers:
    """Those of the running loop."""
    loop = asyncio.get_running_loop()
    known = _of_loops.get(loop)
    found = known() if known is not None else None
    if found is None:
        found = Readers(loop)
        _of_loops[loop] = ref(found)
    return found
