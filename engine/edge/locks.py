"""The lock that makes one process the only writer of a database.

Owns `<db>.lock`. The held file lock decides, never the number written inside: a stale file means nothing
and kill -9 frees it. The file is never removed, since a lock on a removed file guards nothing. Must not
open the database.

Two kernel locks lie on one descriptor: `flock` excludes; an open-file-description lock can be asked about
without being taken, so that a reader never stands in the way of a starting engine. Who waits holds a shared lock of that kind
on another byte: a holder that can give way asks for it.
"""

from __future__ import annotations

import fcntl
import os
import struct
import threading
import weakref
from contextlib import suppress
from pathlib import Path
from typing import Literal, Self

import msgspec

from .identity import Identity, alive, me
from .paths import make_private_directory

_HELD, _WANTED, _WANTED_BY_ENGINE = range(3)
"""Bytes of the file on which the locks lie; what it says is not meant."""
MAX_TEXT = 4096
"""No lock file written by us is longer (bytes)."""


class Holder(msgspec.Struct, frozen=True):
    """Who holds a database, in its own words: for messages and for finding its socket, never for deciding."""

    pid: int
    start_time: int
    boot_id: str
    role: Literal["engine", "cli"]
    incarnation: str = ""
    socket: str = ""

    @property
    def identity(self) -> Identity:
        """The holder's exact process."""
        return Identity(self.pid, self.start_time, self.boot_id)


class DatabaseLock:
    """The exclusive right to write the database at `path`, from `acquire` to `release` or death."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        role: Literal["engine", "cli"] = "engine",
        incarnation: str = "",
        socket: str | os.PathLike[str] = "",
    ) -> None:
        self.file = lock_file(path)
        self._words = (role, incarnation, os.fspath(socket))
        self._fd: int | None = None
        self._tried: int | None = None
        """What is open meanwhile, so that a child that is forked just then does not keep it."""
        self._mark: int | None = None
        """Open while others are to know that we wait."""
        self._taking = threading.Lock()

    @property
    def held(self) -> bool:
        """Do we hold it?"""
        return self._fd is not None

    def acquire(self) -> bool:
        """Take the lock without waiting; False = someone else has it. Asking again while held is True."""
        if self._fd is not None:
            return True
        make_private_directory(self.file.parent)
        _ours.add(self)
        self._tried = fd = self._open()
        taken = _lock(fd)
        self._tried = None
        if not taken:
            os.close(fd)
            return False
        self._fd = fd
        self._sign(fd)
        self._unmark()
        return True

    def ask(self) -> None:
        """Let the holder know that we wait, until we have it or `release` it."""
        if self._mark is not None or self._fd is not None:
            return
        _ours.add(self)
        self._mark = self._open()
        which = _WANTED_BY_ENGINE if self._words[0] == "engine" else _WANTED
        with suppress(BlockingIOError):  # nobody but one who marks touches these bytes
            fcntl.fcntl(self._mark, fcntl.F_OFD_SETLK, _byte(fcntl.F_RDLCK, which))

    def is_wanted(self, *, by_engine: bool = False) -> bool:
        """Does somebody wait for what we hold: anybody, or an engine?"""
        if self._fd is None:
            return False
        return _is_locked(self._fd, _WANTED_BY_ENGINE) or (not by_engine and _is_locked(self._fd, _WANTED))

    def release(self) -> None:
        """Give it up, or wait no more; harmless otherwise."""
        self._unmark()
        if self._fd is None:
            return
        with suppress(OSError):
            os.ftruncate(self._fd, 0)
        self._forget()

    def intact(self) -> bool:
        """Does the name still lead to the file we hold? If not, another engine could start."""
        with self._taking:
            return self._is_intact()

    def take_again(self) -> bool:
        """Have the name lead to our lock again, where somebody removed it. False = another process holds it by now."""
        with self._taking:
            return self._take_again()

    def sign(self, socket: str | os.PathLike[str]) -> None:
        """Say in the lock file that we listen at `socket` from now on."""
        with self._taking:
            self._words = (*self._words[:2], os.fspath(socket))
            if self._fd is not None:
                self._sign(self._fd)

    def _is_intact(self) -> bool:
        if self._fd is None:
            return False
        try:
            return os.path.samestat(os.fstat(self._fd), os.stat(self.file))
        except FileNotFoundError:
            return False

    def _take_again(self) -> bool:
        if self._fd is None or self._is_intact():
            return self._fd is not None
        make_private_directory(self.file.parent)
        fd = self._open()
        if not _lock(fd):
            os.close(fd)
            return False
        os.close(self._fd)
        self._fd = fd
        self._sign(fd)
        return True

    @staticmethod
    def holder(path: str | os.PathLike[str]) -> Holder | None:
        """Who holds the database at `path` now; None = nobody, or it has not signed yet. Changes nothing.

        Whoever has just taken the lock of one that was killed holds it, for a moment, below the words of the dead.
        """
        fd = _open_existing(path)
        if fd is None:
            return None
        try:
            holder = _signature(fd) if _is_locked(fd) else None
            return holder if holder is not None and alive(holder.identity) else None
        finally:
            os.close(fd)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def _sign(self, fd: int) -> None:
        own = me()
        role, incarnation, socket = self._words
        text = msgspec.json.encode(Holder(own.pid, own.start_time, own.boot_id, role, incarnation, socket))
        try:
            os.ftruncate(fd, os.pwrite(fd, text + b"\n", 0))
        except OSError:  # a full disk: the lock counts, the words don't, but the last holder's must go
            os.ftruncate(fd, 0)

    def _open(self) -> int:
        return os.open(self.file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)

    def _unmark(self) -> None:
        mark, self._mark = self._mark, None
        if mark is not None:
            os.close(mark)

    def _forget(self) -> None:
        for fd in (self._fd, self._tried):
            if fd is not None:
                os.close(fd)
        self._fd = self._tried = None
        _ours.discard(self)


def is_held(path: str | os.PathLike[str]) -> bool:
    """Does anyone (this process included) hold the database at `path`? Creates, takes and changes nothing."""
    return _is_locked_at(path, _HELD)


def lock_file(path: str | os.PathLike[str]) -> Path:
    """`<db>.lock` beside the real database, so that a link to it meets the same lock."""
    return Path(os.path.realpath(path) + ".lock")


def wanted_by_engine(path: str | os.PathLike[str]) -> bool:
    """Does an engine wait for the database at `path`? As `is_held`."""
    return _is_locked_at(path, _WANTED_BY_ENGINE)


_ours: weakref.WeakSet[DatabaseLock] = weakref.WeakSet()


def _close_in_forked_child() -> None:
    # A forked child would share the lock and keep it after our death; closing its copy doesn't unlock ours.
    for lock in list(_ours):
        lock._unmark()
        lock._forget()


os.register_at_fork(after_in_child=_close_in_forked_child)


def _open_existing(path: str | os.PathLike[str]) -> int | None:
    try:
        return os.open(lock_file(path), os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        return None


def _is_locked_at(path: str | os.PathLike[str], which: int) -> bool:
    fd = _open_existing(path)
    if fd is None:
        return False
    try:
        return _is_locked(fd, which)
    finally:
        os.close(fd)


def _lock(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        fcntl.fcntl(fd, fcntl.F_OFD_SETLK, _byte(fcntl.F_WRLCK, _HELD))
    except BlockingIOError:
        return False
    return True


def _is_locked(fd: int, which: int = _HELD) -> bool:
    answer = fcntl.fcntl(fd, fcntl.F_OFD_GETLK, _byte(fcntl.F_WRLCK, which))
    return struct.unpack_from("h", answer)[0] != fcntl.F_UNLCK


def _byte(kind: int, which: int) -> bytes:
    """A `struct flock`: type, whence, start, length, pid (0 for this kind of lock)."""
    return struct.pack("hhqqi0q", kind, os.SEEK_SET, which, 1, 0)


def _signature(fd: int) -> Holder | None:
    try:
        return msgspec.json.decode(os.pread(fd, MAX_TEXT, 0), type=Holder)
    except msgspec.DecodeError:  # not signed yet, or not by us
        return None
