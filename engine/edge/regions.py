"""The region of an address by data on this host: a MaxMind database where one is named, else the registries' of `iptocc`.

Owns the lookup and its memory. Both libraries come with the extra `geo`. Nothing is asked online: who checks a hundred exits
would tell somebody else of all of them. Registry data says where a block was registered, which is not always where it is.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol

from ..errors import Unavailable

REMEMBERED = 4096
"""Addresses whose region is remembered."""


class Regions(Protocol):
    """Upper-case ISO 3166 codes of countries by address. `source` says whose word it is; it is stored with the region."""

    source: str

    def region(self, address: str) -> str | None:
        """None where nothing is known of it."""
        ...


class Remembered:
    """A lookup with the answers it gave: an address keeps its region while this process lives."""

    def __init__(self, source: str, look_up: Callable[[str], str | None]) -> None:
        self.source = source
        self._look_up = lru_cache(REMEMBERED)(look_up)

    def region(self, address: str) -> str | None:
        return self._look_up(address)


def open_regions(database: Path | None = None) -> Regions:
    """The regions of this MaxMind file, or without one of the registries. `Unavailable` says what is missing."""
    return _registries() if database is None else _maxmind(database)


def _registries() -> Regions:
    try:
        from iptocc import country_code  # pyright: ignore[reportMissingImports]
    except ImportError:
        raise _missing("iptocc") from None
    return Remembered(f"iptocc {_version('iptocc')}", country_code)


def _maxmind(file: Path) -> Regions:
    try:
        import maxminddb  # pyright: ignore[reportMissingImports]
    except ImportError:
        raise _missing("maxminddb") from None
    try:
        reader = maxminddb.open_database(file)
    except (OSError, ValueError, maxminddb.InvalidDatabaseError) as error:
        why = getattr(error, "strerror", None) or "it is no MaxMind database"
        raise Unavailable(f"{file} can't be read", why, "correct geo_db of [routing]") from None
    return Remembered(
        f"{file.name} of {_day(reader.metadata().build_epoch)}", lambda ip: _country(reader.get(ip))
    )


def _country(record: Any) -> str | None:
    """The country an address is used in, else the one it is registered in."""
    for name in ("country", "registered_country"):
        found = record.get(name) if isinstance(record, dict) else None
        code = found.get("iso_code") if isinstance(found, dict) else None
        if isinstance(code, str):
            return code.upper()
    return None


def _day(epoch: float) -> str:
    from datetime import UTC, datetime

    return f"{datetime.fromtimestamp(epoch, UTC):%Y-%m-%d}"


def _version(distribution: str) -> str:
    from importlib.metadata import version

    return version(distribution)


def _missing(library: str) -> Unavailable:
    return Unavailable(
        "regions of routes can't be looked up",
        f"{library} is not installed",
        "install taskdeck[geo], or give each route an expected_ip",
    )
