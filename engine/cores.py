"""No core file tells a secret: what a process that knows any leaves when it crashes holds nothing of its memory.

Owns the filter by which the kernel is told so (core(5)); it binds collectors too, as a limit of size does not. Programs that
are started and know none of our secrets get their own filter back.
"""

from __future__ import annotations

import os
from contextlib import suppress

HEADERS_ALONE = 0x10
"""Of the memory only the first page of each program file, by which a debugger still tells what crashed where."""
VARIABLE = "TASKDECK_COREDUMP_FILTER"
_own: int | None = None
"""The filter that this process would have had; None = it still has it."""


def leave_out_secrets() -> None:
    """From now on no core file of this process holds its memory. Harmless when done before."""
    global _own  # noqa: PLW0603 -- the filter is the process's, and so is what is known of it
    if _own is None:
        told = os.environ.pop(VARIABLE, "")  # by who had a filter already when it started us
        _own = int(told) if told.isdecimal() else _filter()
        _set_filter("self", HEADERS_ALONE)


def handed_on() -> dict[str, str]:
    """The environment by which a child that will know secrets too learns what filter those that it starts may have."""
    return {} if _own is None else {VARIABLE: str(_own)}


def give_back(pid: int) -> None:
    """A child that knows none of our secrets: let it dump as whoever started us wanted it."""
    if _own is not None:
        _set_filter(str(pid), _own)


def _filter() -> int:
    try:
        with open("/proc/self/coredump_filter", encoding="ascii") as file:
            return int(file.read(), 16)
    except (OSError, ValueError):  # a kernel without core files
        return HEADERS_ALONE


def _set_filter(process: str, value: int) -> None:
    with suppress(OSError):  # with each start of a command, hence as little Python as can be
        fd = os.open(f"/proc/{process}/coredump_filter", os.O_WRONLY | os.O_CLOEXEC)
        try:
            os.write(fd, b"%#x" % value)
        finally:
            os.close(fd)
