"""Archives: compressed JSON lines that a person can read with `zcat`, whole or not there, for their owner only.

The first line says what it is; then one object a line: an event with its hash, or a task with all rows that belong to it.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from ..rules.chain import COLUMNS, Row

FORMAT = 1
_NAMES = (*COLUMNS, "hash")
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode


class DamagedArchive(Exception):
    """The file can't be read to its end as what it is said to be."""


def write(path: Path, header: dict[str, Any], lines: Iterable[Any]) -> None:
    """Write a new archive at `path` (an unfinished name). The same content makes the same bytes."""
    with open(path, "wb") as raw, gzip.GzipFile("", "wb", 6, raw, mtime=0) as file:
        file.write(_encode({"archive": "taskdeck", "format": FORMAT, **header}) + b"\n")
        for line in lines:
            file.write(_encode(line) + b"\n")


def event_line(row: Row) -> dict[str, Any]:
    """An event as a line."""
    return dict(zip(_NAMES, row, strict=True))


class ArchiveReader:
    """Reads an archive once, in constant memory. After the last line `sha256` is that of the whole file."""

    def __init__(self, path: Path) -> None:
        self._raw = _Hashing(open(path, "rb"))  # noqa: SIM115 - closed by `close`
        self._lines = gzip.GzipFile(fileobj=io.BufferedReader(self._raw, 1 << 16), mode="rb")
        try:
            self.header: dict[str, Any] = self._next() or {}
        except DamagedArchive:
            self.close()
            raise

    def __enter__(self) -> ArchiveReader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        self._lines.close()
        self._raw.close()

    @property
    def sha256(self) -> str:
        """Of what was read so far, hex."""
        return self._raw.digest.hexdigest()

    def lines(self) -> Iterator[dict[str, Any]]:
        """Every object after the header. Raises `DamagedArchive`."""
        while (line := self._next()) is not None:
            yield line
        while self._raw.read(1 << 16):
            pass  # whatever stands behind the compressed stream belongs to the file as well

    def rows(self) -> Iterator[Row]:
        """The events, as `rules.chain` takes them. Raises `DamagedArchive`."""
        for line in self.lines():
            try:
                yield tuple(line[name] for name in _NAMES)
            except KeyError as error:
                raise DamagedArchive(f"a line has no {error}") from None

    def _next(self) -> dict[str, Any] | None:
        try:
            line = self._lines.readline()
            found = _decode(line) if line else None
        except (OSError, EOFError, ValueError, zlib.error, msgspec.DecodeError) as error:
            raise DamagedArchive(str(error)) from None
        if found is not None and not isinstance(found, dict):
            raise DamagedArchive("a line is no object")
        return found


class _Hashing(io.RawIOBase):
    """The file, and the hash of what was read of it."""

    def __init__(self, file: io.BufferedReader) -> None:
        self._file = file
        self.digest = hashlib.sha256()

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._file.read(len(buffer))
        self.digest.update(data)
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        self._file.close()
        super().close()
