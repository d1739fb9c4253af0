"""The settings there are: tables, keys, their checks and defaults, and what a mistaken name was meant to be.

Declarations only: nothing is read here, and no value is made absolute or put together with another.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from msgspec import Struct

from .checks import (
    Choice,
    Duration,
    ExitCodes,
    Filters,
    Flag,
    Handlers,
    Name,
    PathText,
    Rate,
    References,
    Texts,
    VariableNames,
    Whole,
    Wrong,
    checks_of,
    nearest,
)
from .circuits import CircuitSettings
from .declarations import LISTS
from .inventory_checks import Needs
from .route_settings import (
    BlockedSettings,
    ChoiceSettings,
    CooldownSettings,
    FreezeSettings,
    RouteSettings,
    ScoreSettings,
)

ENVIRONMENT = ("PATH", "HOME", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "USER", "LOGNAME", "SHELL", "TMPDIR")
"""The variables that a command is given where the configuration names no others."""


class TaskdeckSettings(Struct, frozen=True):
    """`[taskdeck]`: where things are. After loading, paths are absolute and never None."""

    db: Annotated[Path | None, PathText()] = None
    handlers: Annotated[tuple[str, ...], Handlers()] = ()
    logs: Annotated[Path | None, PathText()] = None


class EngineSettings(Struct, frozen=True):
    """`[engine]`: workers, leases and how things end. Durations in seconds."""

    workers: Annotated[int, Whole(1, 64)] = 2
    slots: Annotated[int, Whole(1, 4096)] = 64
    max_running: Annotated[int, Whole(1, 262144)] = 128
    lease: Annotated[float, Duration(1)] = 300.0
    heartbeat: Annotated[float, Duration(0.05)] = 30.0
    suspect_after: Annotated[float, Duration(0.1)] = 90.0
    lock_delay: Annotated[float, Duration(0, 86400)] = 30.0
    stop_grace: Annotated[float, Duration()] = 10.0
    cancel_grace: Annotated[float, Duration()] = 10.0
    max_losses: Annotated[int, Whole(1, 1000)] = 3
    age_after: Annotated[float, Duration()] = 600.0
    keep_checkpoints: Annotated[int, Whole(1, 1000)] = 3
    output_drain: Annotated[float, Duration(0, 3600)] = 2.0
    start_timeout: Annotated[float, Duration(0.1, 3600)] = 30.0
    away_limit: Annotated[float, Duration(0, 86400)] = 600.0
    recycle_tasks: Annotated[int, Whole(0, 10**9)] = 0
    recycle_memory: Annotated[int, Whole(0, 10**7)] = 0
    recycle_age: Annotated[float, Duration()] = 0.0
    cgroups: Annotated[str, Choice("auto", "off")] = "auto"


class RetrySettings(Struct, frozen=True):
    """`[retry]`: the waits between attempts, in seconds, and their bounds."""

    base: Annotated[float, Duration()] = 30.0
    max_delay: Annotated[float, Duration()] = 3600.0
    max_retry: Annotated[int, Whole(0, 10000)] = 5
    max_delays: Annotated[int, Whole(0, 1000000)] = 100


class LoggingSettings(Struct, frozen=True):
    """`[logging]`: the application's log and the output of attempts, and what they may take of the disk.

    Each is kept in so many files of so many bytes at most; the output of all attempts together in `attempts_total_bytes`.
    """

    level: Annotated[str, Choice("debug", "info", "warning", "error")] = "info"
    file: Annotated[Path | None, PathText()] = None
    file_bytes: Annotated[int, Whole(4096, 10**12)] = 50_000_000
    files: Annotated[int, Whole(2, 1000)] = 10
    attempt_bytes: Annotated[int, Whole(4096, 10**12)] = 50_000_000
    attempt_files: Annotated[int, Whole(2, 1000)] = 10
    attempts_total_bytes: Annotated[int, Whole(4096, 10**15)] = 5_000_000_000


class StorageSettings(Struct, frozen=True):
    """`[storage]`: from when on a disk that fills up is told of and from when on nothing new starts (bytes); and where
    the data lies on a disk of its own, that it must be mounted, and for how many seconds an engine waits for that.
    """

    warn_free_bytes: Annotated[int, Whole(0, 10**15)] = 1_000_000_000
    pause_free_bytes: Annotated[int, Whole(0, 10**15)] = 50_000_000
    wal_warn_bytes: Annotated[int, Whole(1 << 20, 10**15)] = 64_000_000
    wal_pause_bytes: Annotated[int, Whole(1 << 20, 10**15)] = 1_000_000_000
    network: Annotated[str, Choice("refuse", "warn")] = "refuse"
    mount: Annotated[Path | None, PathText()] = None
    mount_timeout: Annotated[float, Duration(0, 86400)] = 120.0


class ShellSettings(Struct, frozen=True):
    """`[shell]`: what commands are given, and how many run at once (None: no bound of their own)."""

    environment: Annotated[tuple[str, ...], VariableNames()] = ENVIRONMENT
    concurrency: Annotated[int | None, Whole(1, 262144)] = None


class SecretSettings(Struct, frozen=True):
    """`[secrets]`: references to values that are masked everywhere, further key names that mean a secret."""

    values: Annotated[tuple[str, ...], References()] = ()
    names: Annotated[tuple[str, ...], Texts()] = ()


class RetentionSettings(Struct, frozen=True):
    """`[retention]`: how long ended tasks and events stay in the database before they are archived (0: for ever)."""

    tasks: Annotated[float, Duration(0, 36525 * 86400.0)] = 0.0
    events: Annotated[float, Duration(0, 36525 * 86400.0)] = 0.0
    keep: Annotated[tuple[str, ...], Filters()] = ()
    every: Annotated[float, Duration(1)] = 86400.0
    dir: Annotated[Path | None, PathText()] = None


class BackupSettings(Struct, frozen=True):
    """`[backup]`: copies that the engine makes by itself every so often (0: none), and how many of them are kept."""

    every: Annotated[float, Duration()] = 86400.0
    keep: Annotated[int, Whole(1, 10000)] = 7
    dir: Annotated[Path | None, PathText()] = None


class TypeSettings(Struct, frozen=True):
    """`[types.NAME]`: what differs for one task type; None = as everywhere."""

    concurrency: Annotated[int | None, Whole(1, 262144)] = None
    timeout: Annotated[float | None, Duration(0.001)] = None
    max_retry: Annotated[int | None, Whole(0, 10000)] = None
    base: Annotated[float | None, Duration()] = None
    max_delay: Annotated[float | None, Duration()] = None
    on_lost: Annotated[str | None, Choice("rerun", "review")] = None
    on_exhausted: Annotated[str, Choice("review", "dead")] = "review"
    exit_codes: Annotated[dict[int, str], ExitCodes()] = {}
    needs: Annotated[tuple[str, ...] | None, Needs()] = None
    route: Annotated[str | None, Name("eu")] = None
    allow_direct: Annotated[bool | None, Flag()] = None
    bandwidth: Annotated[float | None, Rate()] = None
    route_labels: Annotated[tuple[str, ...], Texts()] = ()
    regions: Annotated[tuple[str, ...], Texts()] = ()
    strategy: Annotated[str | None, Choice("p2c", "best", "lru", "round_robin")] = None
    unique_exit_ip: Annotated[bool | None, Flag()] = None
    affinity: Annotated[str | None, Name("account")] = None
    affinity_hard: Annotated[bool, Flag()] = False


TABLES: dict[str, type[Struct]] = {
    "taskdeck": TaskdeckSettings,
    "engine": EngineSettings,
    "retry": RetrySettings,
    "logging": LoggingSettings,
    "storage": StorageSettings,
    "shell": ShellSettings,
    "secrets": SecretSettings,
    "backup": BackupSettings,
    "retention": RetentionSettings,
    "routing": RouteSettings,
    "routing.score": ScoreSettings,
    "routing.cooldown": CooldownSettings,
    "routing.blocked": BlockedSettings,
    "routing.choice": ChoiceSettings,
    "routing.freeze": FreezeSettings,
    "circuit": CircuitSettings,
}
"""By dotted name; a table in a table stands after the one that holds it."""


def table_type(path: tuple[str, ...]) -> type[Struct]:
    """The table that the key at the end of `path` stands in."""
    if path[0] == "types":
        return TypeSettings
    return LISTS[path[0]] if path[0] in LISTS else TABLES[".".join(path[:-1])]


def _tables() -> dict[str, type[Struct]]:
    """Every table as it is written."""
    lists = {f"[[{name}]]": table for name, table in LISTS.items()}
    return {f"[{name}]": table for name, table in TABLES.items()} | {"[types.NAME]": TypeSettings} | lists


def _homes(key: str) -> str:
    """The tables that have this key, in words; empty where none has."""
    return " or ".join(name for name, table in _tables().items() if key in checks_of(table))


def _every_key() -> set[str]:
    return {key for table in _tables().values() for key in checks_of(table)}


def _inner(table: str) -> list[str]:
    """The names of the tables in `table`."""
    return [name.removeprefix(f"{table}.") for name in TABLES if name.startswith(f"{table}.")]


def unknown_key(path: tuple[str, ...]) -> Wrong:
    key, known = path[-1], checks_of(table_type(path))
    if homes := _homes(key):
        here = ".".join(path[:-1])
        return Wrong(
            f"unknown key in {f'[[{here}]]' if here in LISTS else f'[{here}]'}", f"it belongs in {homes}"
        )
    if meant := nearest(key, known):
        return Wrong("unknown key", f'did you mean "{meant}"?')
    if meant := nearest(key, _inner(".".join(path[:-1]))):
        return Wrong("unknown key", f"did you mean [{'.'.join(path[:-1])}.{meant}]?")
    if meant := nearest(key, _every_key()):
        return Wrong("unknown key", f'did you mean "{meant}" in {_homes(meant)}?')
    return Wrong("unknown key", f"known here: {', '.join(known)}")


def unknown_table(name: str, is_table: bool) -> Wrong:
    tables = [*(table for table in TABLES if "." not in table), "types", *LISTS]
    if not is_table and (homes := _homes(name)):
        return Wrong("this key stands in no table", f"it belongs in {homes}")
    if meant := nearest(name, tables):
        written = f"[[{meant}]]" if meant in LISTS else f"[{meant}]"
        return Wrong("unknown table" if is_table else "unknown key", f"did you mean {written}?")
    if not is_table and (meant := nearest(name, _every_key())):
        return Wrong("unknown key", f'did you mean "{meant}" in {_homes(meant)}?')
    return Wrong("unknown table" if is_table else "unknown key", f"known tables: {', '.join(tables)}")


def meant_variable(rest: str) -> str | None:
    """The variable that `ENGINE_WORKERS`, `WORKERS` or `DATABASE` was meant to be."""
    if rest in OTHER_NAMES:
        return OTHER_NAMES[rest]
    table, _, key = rest.lower().partition("_")
    if table not in TABLES or key not in checks_of(TABLES[table]):
        key = rest.lower()
        table = next((name for name in TABLES if "." not in name and key in checks_of(TABLES[name])), "")
    return f"TASKDECK_{table.upper()}__{key.upper()}" if table else None


OTHER_NAMES: dict[str, str | None] = {
    **dict.fromkeys(("DATABASE", "DB_PATH", "DB_FILE"), "TASKDECK_DB"),
    **dict.fromkeys(("CONFIG_FILE", "CONFIG_PATH"), "TASKDECK_CONFIG"),
    **dict.fromkeys(("CONF", "CFG", "CONFG", "CONFIGURATION"), "TASKDECK_CONFIG"),
    **dict.fromkeys(("LOG_LEVEL", "LOGLEVEL"), "TASKDECK_LOGGING__LEVEL"),
    "DB": None,
}
"""Names that are likely slips, and one that is none."""
