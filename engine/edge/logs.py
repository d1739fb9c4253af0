"""The raw output of one attempt, in files of bounded size: the first one and the newest ones are kept.

Owns `<path>` (the head) and `<path>.<offset>`: a file's name says at which byte of the whole output it
begins, so whatever is missing between two files (cut by the bounds, lost to a full disk or a removed
directory) shows by itself, even after a crash. Any bytes, lines or none. Must not mask, decode or
interpret; must never hurt the work.
"""

from __future__ import annotations

import os
import re
import stat
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from ..clock import Clock
from .paths import make_private_directory

RECENT = 16 * 1024
"""Bytes kept in memory for `tail`, however long the lines are."""
MAX_LINE = 4 * 1024
"""What `tail` shows of one line (bytes)."""
BLOCK = 64 * 1024
POLL = 0.1
"""How often a followed log is looked at (seconds)."""


class Piece(NamedTuple):
    """One file of a log and the part of the whole output that it holds."""

    offset: int
    size: int
    path: Path

    @property
    def end(self) -> int:
        """Where it ends in the whole output."""
        return self.offset + self.size


class AttemptLog:
    """Takes the output of one attempt. Makes no file before the first byte. One thread at a time."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        head_bytes: int | None = None,
        file_bytes: int = 50_000_000,
        files: int = 10,
    ) -> None:
        """`files` of `file_bytes` at most, the first of `head_bytes` (as `file_bytes` unless given)."""
        self._path = path
        self.trouble = ""
        """The first thing that went wrong, in the system's words."""
        self.lost = 0
        """Bytes lost to trouble, known after `close`; what the bounds cut isn't lost but meant."""
        self._head_bytes = max(1, file_bytes if head_bytes is None else head_bytes)
        self._file_bytes = max(1, file_bytes)
        self._most = max(2, files) - 1
        self.total = 0
        """Bytes of output so far, kept or not; those of an earlier writer among them from the first byte on."""
        self._kept: deque[Piece] = deque()
        """The files behind the first one."""
        self._has_looked = False
        self._cut = 0
        self._current: Piece | None = None
        self._fd: int | None = None
        self._room = 0
        self._recent = b""

    @cached_property
    def path(self) -> Path:
        """The first of its files."""
        return Path(self._path)

    @property
    def incomplete(self) -> bool:
        """Did anything go wrong?"""
        return bool(self.trouble)

    def write(self, data: bytes) -> None:
        """Keep what can be kept; never raises for the disk's sake."""
        if not self._has_looked:
            self._look_back()
        self._recent = (self._recent + data[-RECENT:])[-RECENT:]
        rest = memoryview(data)
        while rest:
            rest = rest[self._write_some(rest) :]

    def tail(self, lines: int) -> list[bytes]:
        """The last lines, from memory: without their newlines, over-long ones shortened."""
        found = self._recent.split(b"\n")
        if not found[-1]:
            found.pop()
        if self.total > len(self._recent) and len(found) > 1:
            found.pop(0)  # its beginning is gone
        return [_shorten(line) for line in found[max(0, len(found) - lines) :]] if lines > 0 else []

    def close(self) -> None:
        """Let go of the file, and note what is missing at the end. Harmless when done before."""
        self._check_removed()
        self._close_file()
        if not self.trouble:
            return
        with suppress(OSError):
            if size(self.path) < self.total:
                self._open()  # empty, but its name says how far the output went
                self._close_file()
        self.lost = max(0, self.total - self._cut - sum(piece.size for piece in pieces(self.path)))

    def _look_back(self) -> None:
        """What an earlier writer left. Not earlier than at the first byte: most attempts say nothing."""
        self._has_looked = True
        found = pieces(self.path) if os.path.exists(self.path) else []
        self.total = found[-1].end if found else 0
        self._kept.extend(piece for piece in found if piece.offset)

    def _write_some(self, data: memoryview) -> int:
        """Deal with the first bytes of `data`, well or badly; returns how many."""
        try:
            self._check_removed()
            if self._fd is None or not self._room:
                self._close_file()
                self._make_room()
                self._fd = self._open()
            done = os.write(self._fd, data[: self._room])
        except OSError as error:
            return self._lose(len(data), error)
        self._room -= done
        self.total += done
        return done

    def _open(self) -> int:
        make_private_directory(self.path.parent)
        path = _piece_path(self.path, self.total)
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
        self._fd = os.open(path, flags, 0o600)
        self._current = Piece(self.total, 0, path)
        self._room = self._file_bytes if self.total else self._head_bytes
        return self._fd

    def _close_file(self) -> None:
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None
        if self._current and self._current.offset:
            self._kept.append(self._current._replace(size=self.total - self._current.offset))
        self._current = None

    def _make_room(self) -> None:
        """Remove the oldest files but the head, so that one more fits; trouble makes many small ones."""
        kept = sum(piece.size for piece in self._kept)
        while self._kept and (kept > (self._most - 1) * self._file_bytes or len(self._kept) > 4 * self._most):
            oldest = self._kept.popleft()
            kept -= oldest.size
            self._cut += oldest.size
            oldest.path.unlink(missing_ok=True)

    def _check_removed(self) -> None:
        """Somebody removed the file, perhaps with its directory: begin another one."""
        if self._fd is not None and os.fstat(self._fd).st_nlink == 0:
            self.trouble = self.trouble or "the log was removed while it was written"
            self._current = None
            self._close_file()

    def _lose(self, count: int, error: OSError) -> int:
        self.trouble = self.trouble or error.strerror or str(error)
        if self._current and self._current.offset == self.total:
            with suppress(OSError):
                self._current.path.unlink()
            self._current = None
        self._close_file()
        self.total += count
        return count


def read_log(path: str | os.PathLike[str], *, tail: int | None = None, start: int = 0) -> Iterator[bytes]:
    """The output in chunks, from byte `start` or only the last `tail` lines, a line of ours where bytes are
    missing.

    Constant memory. Nothing where there is no log. A log that is being written is read as far as it goes.
    """
    if tail is not None:
        start = _start_of_tail(pieces(path), tail)
    for _, chunk in _read(path, start):
        yield chunk


def follow_log(
    path: str | os.PathLike[str], ended: Callable[[], bool], clock: Clock, *, tail: int | None = None
) -> Iterator[bytes]:
    """As `read_log`, and then what is added, until `ended()` says that nothing more will be."""
    position = 0 if tail is None else _start_of_tail(pieces(path), tail)
    while True:
        last = ended()  # asked before reading: what came before the end is still read
        for end, chunk in _read(path, position):
            position = end
            yield chunk
        if last:
            return
        clock.sleep(POLL)


def read_on(
    path: str | os.PathLike[str], position: int | None, *, tail: int, most: int = 1 << 20
) -> tuple[int, bytes]:
    """What stands behind byte `position` (None = the last `tail` lines), some `most` bytes of it, and where to go on."""
    reached = _start_of_tail(pieces(path), tail) if position is None else position
    found: list[bytes] = []
    for end, chunk in _read(path, reached):
        reached = end
        found.append(chunk)
        if sum(map(len, found)) >= most:
            break
    return reached, b"".join(found)


def size(path: str | os.PathLike[str]) -> int:
    """The length of the whole output so far (bytes), missing parts included."""
    return max((piece.end for piece in pieces(path)), default=0)


def pieces(path: str | os.PathLike[str]) -> list[Piece]:
    """The files of a log in order: to read, copy or remove."""
    path = Path(path)
    pattern = re.compile(re.escape(path.name) + r"(?:\.(\d{15}))?")
    found: list[Piece] = []
    with suppress(FileNotFoundError, NotADirectoryError), os.scandir(path.parent) as entries:
        for entry in entries:
            if (match := pattern.fullmatch(entry.name)) and (piece := _piece(entry, int(match[1] or 0))):
                found.append(piece)
    return sorted(found)


def _piece(entry: os.DirEntry[str], offset: int) -> Piece | None:
    try:
        found = entry.stat(follow_symlinks=False)
    except FileNotFoundError:  # rotated away meanwhile
        return None
    return Piece(offset, found.st_size, Path(entry.path)) if stat.S_ISREG(found.st_mode) else None


def _piece_path(path: Path, offset: int) -> Path:
    return path.with_name(f"{path.name}.{offset:015d}") if offset else path


def _read(path: str | os.PathLike[str], start: int) -> Iterator[tuple[int, bytes]]:
    """Chunks, each with the position after it."""
    position, at_line_start = start, start == 0
    for piece in pieces(path):
        if piece.end <= position:
            continue
        if piece.offset > position:
            missing, position = piece.offset - position, piece.offset
            yield position, (b"" if at_line_start else b"\n") + _marker(missing)
            at_line_start = True
        for chunk in _read_piece(piece.path, position - piece.offset):
            position += len(chunk)
            at_line_start = chunk.endswith(b"\n")
            yield position, chunk


def _read_piece(path: Path, start: int) -> Iterator[bytes]:
    with suppress(FileNotFoundError), open(path, "rb", buffering=0) as file:  # else it was rotated away
        file.seek(start)
        while chunk := file.read(BLOCK):
            yield chunk


def _start_of_tail(found: list[Piece], lines: int) -> int:
    """Where the last `lines` lines begin."""
    end = found[-1].end if found else 0
    wanted = lines
    for position, block in _read_backwards(found):
        if position + len(block) == end and block.endswith(b"\n"):
            wanted += 1  # the newline that ends the last line begins none
        if block.count(b"\n") >= wanted:
            return position + _nth_from_end(block, wanted) + 1 if wanted else end
        wanted -= block.count(b"\n")
    return 0


def _read_backwards(found: list[Piece]) -> Iterator[tuple[int, bytes]]:
    for piece in reversed(found):
        with suppress(FileNotFoundError), open(piece.path, "rb", buffering=0) as file:
            for begin in reversed(range(0, piece.size, BLOCK)):
                file.seek(begin)
                yield piece.offset + begin, file.read(min(BLOCK, piece.size - begin))


def _nth_from_end(block: bytes, number: int) -> int:
    place = len(block)
    for _ in range(number):
        place = block.rfind(b"\n", 0, place)
    return place


def _marker(missing: int) -> bytes:
    return b"[taskdeck: %d bytes were cut here]\n" % missing


def _shorten(line: bytes) -> bytes:
    return line if len(line) <= MAX_LINE else line[:MAX_LINE] + "…".encode()
