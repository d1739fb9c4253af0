"""Which process is at the other end of a connection on loopback: so that a local proxy serves those it was opened for.

Owns the reading of /proc/net/tcp and of processes' descriptors. What can't be found out is a no.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from typing import NamedTuple

_TABLES = ("/proc/net/tcp", "/proc/net/tcp6")
"""The second for clients that speak to an IPv4 address by an IPv6 socket, as Java and Node do."""


class Peer(NamedTuple):
    """The owner of a socket: a user, and the socket's number by which the owner's descriptors name it."""

    uid: int
    inode: int


def peer_of(theirs: tuple[str, int], ours: tuple[str, int]) -> Peer | None:
    """Who connected from `theirs` to `ours` (IPv4 addresses of loopback). None: nobody of this network does any more."""
    local, remote = _place(theirs), _place(ours)
    pattern = re.compile(
        rf"^ *\d+: (?:[0-9A-F]{{24}})?{local} (?:[0-9A-F]{{24}})?{remote} (.*)$", re.MULTILINE
    )
    for table in _TABLES:
        try:
            with open(table, encoding="ascii") as file:
                found = pattern.search(file.read())
        except OSError:
            continue
        if found:
            # state, queues, timer, retransmits, uid, timeout, inode
            fields = found[1].split()
            return Peer(int(fields[4]), int(fields[6]))
    return None


def holder(inode: int, pids: Iterable[int]) -> int | None:
    """The first of these processes that has the socket open; None where none has, or it can't be seen."""
    wanted = f"socket:[{inode}]"
    return next((pid for pid in pids if wanted in _open_files(pid)), None)


def _open_files(pid: int) -> set[str]:
    folder, found = f"/proc/{pid}/fd", set()
    try:
        for name in os.listdir(folder):
            try:
                found.add(os.readlink(f"{folder}/{name}"))
            except OSError:  # closed meanwhile
                continue
    except OSError:  # gone, or another user's
        return found
    return found


def _place(address: tuple[str, int]) -> str:
    """As the kernel writes it: the address in the machine's byte order, then the port."""
    raw = bytes(int(part) for part in address[0].split("."))
    return f"{int.from_bytes(raw, 'little'):08X}:{address[1]:04X}"
