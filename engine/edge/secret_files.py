"""Files that hold one secret each: 0600 in a directory that only its owner may enter (0700).

Owns how they are written, so that a crash leaves a whole file or none, and which are taken away again. Reads no secret.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
from collections.abc import Collection, Iterator
from pathlib import Path

from ..errors import StoreError
from ..rules.patterns import pattern
from .paths import check_private_directory, make_private_directory


def folder_of(db: Path) -> Path:
    """Where the passwords of imported routes of this database are."""
    return db.with_name(f"{db.stem}.passwords")


@contextlib.contextmanager
def held(folder: Path) -> Iterator[None]:
    """The directory, made where it is missing, for one writer at a time. Raises `NotPermitted`, `StoreError`."""
    try:
        make_private_directory(folder)
        check_private_directory(folder)
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise _trouble(folder, error) from None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def write(folder: Path, values: dict[str, str]) -> dict[str, Path]:
    """A new file for each value under its name and some digits; on the disk when this returns. Raises `StoreError`.

    Where one can't be written none is left.
    """
    written: dict[str, Path] = {}
    try:
        for name, value in values.items():
            written[name] = folder / f"{name}.{secrets.token_hex(4)}"
            _write(written[name], value.encode())
        _settle(folder)
    except OSError as error:
        remove(written.values())
        raise _trouble(folder, error) from None
    return written


def _write(path: Path, data: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with open(descriptor, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(descriptor)


def _settle(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def remove(paths: Collection[Path]) -> None:
    """These files are gone, as far as they can be."""
    for path in paths:
        with contextlib.suppress(OSError):
            path.unlink()


_OURS = pattern(r"\.[0-9a-f]{8}")


def sweep(folder: Path, keep: Collection[str], names: Collection[str]) -> None:
    """Remove what `write` made and nobody refers to: files whose path is not among `keep`, except those of these names."""
    with contextlib.suppress(OSError):
        for path in list(folder.iterdir()):
            if _OURS.fullmatch(path.suffix) and str(path) not in keep and path.stem not in names:
                remove([path])


def _trouble(folder: Path, error: OSError) -> StoreError:
    return StoreError(
        f"{folder} can't be written", error.strerror or str(error), "make room, or mend its mode"
    )
