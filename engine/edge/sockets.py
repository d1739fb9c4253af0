"""Unix sockets as files: where they lie, who may use them, and when a left one may go.

Must not know what is said on them.
"""

from __future__ import annotations

import os
import socket
import stat
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from ..errors import AlreadyRunning, NotPermitted, Refused
from .paths import database_hash

MAX_PATH = 107
"""The kernel's limit for a socket's path (bytes)."""


class Peer(NamedTuple):
    """The process at the other end, by the kernel's word."""

    pid: int
    uid: int
    gid: int


def socket_path(db_path: str | os.PathLike[str], environ: Mapping[str, str]) -> Path:
    """Where the engine of this database listens: in `$XDG_RUNTIME_DIR/taskdeck`, else in
    `/tmp/taskdeck-<uid>`.

    Creates nothing. Two processes with different environments may differ: prefer the path the lock's holder
    names.
    """
    name = database_hash(db_path, 16) + ".sock"
    runtime = Path(environ.get("XDG_RUNTIME_DIR") or "-")
    path = runtime / "taskdeck" / name
    if runtime.is_absolute() and _can_be_told(path) and _is_ours(runtime):
        return path
    return Path(f"/tmp/taskdeck-{os.getuid()}") / name


def _can_be_told(path: Path) -> bool:
    """Short enough for the kernel, and UTF-8, for the holder of the lock writes it down."""
    try:
        return len(str(path).encode()) <= MAX_PATH
    except UnicodeEncodeError:
        return False


def address(path: str | os.PathLike[str]) -> str:
    """The path as the kernel takes it; refuses one that is too long."""
    if len(os.fsencode(path)) > MAX_PATH:
        raise Refused(f"can't use the socket {path}", f"its path is longer than {MAX_PATH} bytes")
    return os.fspath(path)


def peer_of(sock: socket.socket) -> Peer:
    """Who is at the other end of a connected socket."""
    return Peer(*struct.unpack("3i", sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)))


def check_user(peer: Peer, uid: int) -> None:
    """Refuse a peer of another user (`NotPermitted`)."""
    if peer.uid != uid:
        raise NotPermitted("the link was refused", f"the other end belongs to user {peer.uid}")


def remove_stale(path: Path) -> None:
    """Make way for a new socket: remove one that nobody answers; `AlreadyRunning` where somebody does."""
    try:
        mode = os.lstat(path).st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(mode):
        raise Refused(f"can't listen at {path}", "something that is not a socket lies there", "move it away")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)
        try:
            probe.connect(str(path))
        except (ConnectionRefusedError, FileNotFoundError):
            path.unlink(missing_ok=True)
            return
        except BlockingIOError:
            pass  # its queue is full: somebody is there
    raise AlreadyRunning(f"can't listen at {path}", "another engine answers there", "see: taskdeck status")


def _is_ours(directory: Path) -> bool:
    try:
        found = os.stat(directory)
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid()
