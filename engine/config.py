"""The settings: what they are, where they are read from, and where each effective value came from.

Defaults < file < environment (`TASKDECK_ENGINE__WORKERS=8`) < arguments. Every mistake found is reported at
once, each with file, line, key and remedy; a file with a mistake is never half used. Reads files, writes
nothing, imports nothing heavy.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Collection, Mapping
from functools import partial
from operator import attrgetter
from pathlib import Path, PurePath
from typing import Any, NamedTuple

from msgspec import Struct, field, structs

from .credentials import NoCredential, look_up
from .errors import ConfigError, Problem
from .rules.checks import Wrong, checks_of, nearest, shown
from .rules.circuits import CircuitSettings
from .rules.declarations import ResourceDeclaration, RouteDeclaration
from .rules.gathering import Gathered
from .rules.handler_names import is_file_handler
from .rules.needs import parse_needs
from .rules.origins import Origin
from .rules.references import kind_of
from .rules.route_settings import RouteSettings
from .rules.settings import (
    TABLES,
    BackupSettings,
    EngineSettings,
    LoggingSettings,
    RetentionSettings,
    RetrySettings,
    SecretSettings,
    ShellSettings,
    StorageSettings,
    TaskdeckSettings,
    TypeSettings,
)
from .rules.toml_lines import KeyLine, defined_twice, key_lines, places_named

FILE_NAME = "config.toml"
LARGEST_FILE = 4 << 20


class Config(Struct, frozen=True):
    """The effective settings. `file` is the one that was read, `sources` tells where set values came from."""

    taskdeck: TaskdeckSettings = TaskdeckSettings()
    engine: EngineSettings = EngineSettings()
    retry: RetrySettings = RetrySettings()
    logging: LoggingSettings = LoggingSettings()
    storage: StorageSettings = StorageSettings()
    shell: ShellSettings = ShellSettings()
    secrets: SecretSettings = SecretSettings()
    backup: BackupSettings = BackupSettings()
    retention: RetentionSettings = RetentionSettings()
    types: dict[str, TypeSettings] = field(default_factory=dict)
    routing: RouteSettings = RouteSettings()
    circuit: CircuitSettings = CircuitSettings()
    resources: tuple[ResourceDeclaration, ...] = ()
    routes: tuple[RouteDeclaration, ...] = ()
    file: Path | None = None
    sources: dict[str, str] = field(default_factory=dict)

    @property
    def db(self) -> Path:
        """The database, absolute and free of symbolic links, so that one database has one lock."""
        assert self.taskdeck.db is not None
        return self.taskdeck.db

    @property
    def log_directory(self) -> Path:
        """The directory of the attempts' logs, absolute."""
        assert self.taskdeck.logs is not None
        return self.taskdeck.logs

    @property
    def handlers_root(self) -> Path:
        """What relative handler files are relative to: the configuration file's folder, else the current one."""
        if self.file:
            return self.file.parent
        try:
            return Path.cwd()
        except FileNotFoundError:  # removed meanwhile: nothing is relative to it
            return Path("/")

    @property
    def log_file(self) -> Path:
        """The file of the application's log, absolute."""
        return self.logging.file or self.log_directory / "engine.log"

    @property
    def backup_directory(self) -> Path:
        """The directory of the backups, absolute."""
        return self.backup.dir or self.db.parent / "backups"

    @property
    def archive_directory(self) -> Path:
        """The directory of the archives, absolute."""
        return self.retention.dir or self.db.parent / "archives"

    def for_type(self, name: str) -> TypeSettings:
        """The settings of a task type, with `[retry]` filled in where the type says nothing."""
        own = self.types.get(name, TypeSettings())
        general = {key: getattr(self.retry, key) for key in ("max_retry", "base", "max_delay")}
        return structs.replace(
            own, **{key: value for key, value in general.items() if getattr(own, key) is None}
        )

    def origins(self) -> list[tuple[str, Any, str]]:
        """Every effective value as dotted key, value, origin.

        An origin is `default`, `FILE:LINE`, `environment NAME` or `argument --db`.
        """
        tables = {name: _own_keys(attrgetter(name)(self)) for name in TABLES}
        tables |= {f"types.{name}": _own_keys(settings) for name, settings in self.types.items()}
        tables |= {f"resources.{each.id}": each.settings() for each in self.resources}
        tables |= {f"routes.{each.id}": each.settings() for each in self.routes}
        return [
            (f"{table}.{key}", value, self.sources.get(f"{table}.{key}", "default"))
            for table, values in tables.items()
            for key, value in values.items()
        ]


def _own_keys(table: Struct) -> dict[str, Any]:
    """The values of a table without the tables in it."""
    return {key: getattr(table, key) for key in checks_of(type(table))}


def load(
    *,
    path: Path | None = None,
    db: Path | None = None,
    environ: Mapping[str, str] = os.environ,
    cwd: Path | None = None,
) -> Config:
    """The effective settings of `--config path`, `--db db`, the environment and the files that may be there.

    Raises ConfigError with every mistake. A relative path is relative to the file that names it, or else to
    `cwd`.
    """
    here = cwd if cwd is not None else _current_directory()
    source = _find(path, environ, here)
    gathered = _gathered(source, db, environ, here)
    if gathered.problems:
        raise ConfigError(gathered.problems)
    return _config(gathered, source, environ)


def load_what_stands(
    *,
    path: Path | None = None,
    db: Path | None = None,
    environ: Mapping[str, str] = os.environ,
    cwd: Path | None = None,
) -> Config:
    """Of settings with mistakes those that are right, to reach an engine that runs without them. Never for starting one.

    Of a text that is no TOML, the places in `[taskdeck]`; of a file that can't be read, nothing, where the database is named
    elsewhere. Raises ConfigError where it can't be told which database is meant.
    """
    here = cwd if cwd is not None else _current_directory()
    try:
        source = _find(path, environ, here, whole=False)
    except _Unreadable:
        if db is None and not environ.get("TASKDECK_DB"):
            raise
        source = None
    gathered = _gathered(source, db, environ, here)
    if gathered.is_broken("taskdeck", "db"):
        raise ConfigError(gathered.problems)
    return _config(gathered, source, environ)


def _gathered(
    source: _Source | None, db: Path | None, environ: Mapping[str, str], here: Path | None
) -> Gathered:
    gathered = Gathered(partial(_placed, environ))
    if source:
        gathered.file(source.name, source.path.parent, source.data, source.lines)
    gathered.variables(environ, here)
    if named := environ.get("TASKDECK_DB"):
        origin = Origin("environment TASKDECK_DB", "environment", None, "TASKDECK_DB", here)
        gathered.put(("taskdeck", "db"), named, origin)
    if db is not None:
        gathered.put(("taskdeck", "db"), str(db), Origin("argument --db", "command line", None, "--db", here))
    gathered.relations()
    return gathered


def _config(gathered: Gathered, source: _Source | None, environ: Mapping[str, str]) -> Config:
    """The whole, with the paths that nobody named."""
    tables = {name: gathered.values(*name.split(".")) for name in TABLES}
    places = tables["taskdeck"]
    places.setdefault("db", _default_db(environ))
    places.setdefault("logs", _default_logs(places["db"]))
    types = {name: TypeSettings(**gathered.values("types", name)) for name in sorted(gathered.types)}
    made: dict[str, Any] = {
        name: TABLES[name](**values) for name, values in tables.items() if "." not in name
    }
    for inner in (name for name in TABLES if "." in name):
        outer, _, key = inner.partition(".")
        made[outer] = structs.replace(made[outer], **{key: TABLES[inner](**tables[inner])})
    return Config(
        **made,
        types=types,
        resources=tuple(gathered.declared.resources),
        routes=tuple(gathered.declared.routes),
        file=source.path if source else None,
        sources=gathered.sources(),
    )


def _default_db(environ: Mapping[str, str]) -> Path:
    state = base_folder(environ, "XDG_STATE_HOME", os.path.join(".local", "state"))
    try:
        return _storable(os.path.realpath(os.path.join(state, "taskdeck", "taskdeck.db")))
    except Wrong as wrong:
        raise ConfigError(
            [Problem("environment", None, "XDG_STATE_HOME", wrong.what, wrong.remedy)]
        ) from None


def _default_logs(db: Path) -> Path:
    """`logs` beside the database; where that is another database's, `logs-NAME`, and so for good."""
    shared, own = db.parent / "logs", db.parent / f"logs-{db.stem}"
    return own if own.is_dir() or owner_of(shared) not in (None, db) else shared


LOG_OWNER = ".database"
"""The file in a directory of logs that names the database whose logs they are, as a path relative to the directory."""


def owner_of(logs: Path) -> Path | None:
    """The database that these logs belong to; None where that is nobody, or one that is no longer there."""
    try:
        named = (logs / LOG_OWNER).read_bytes()[:4096].removesuffix(b"\n")
        found = Path(os.path.realpath(logs / os.fsdecode(named))) if named and b"\0" not in named else None
        return found if found and found.is_file() else None
    except OSError:
        return None


def base_folder(environ: Mapping[str, str], name: str, usual: str) -> str:
    """The folder that this variable of the XDG standard names, or `usual` in the home.

    A relative one is passed over, as the standard has it: it would be another folder from each working directory.
    """
    given = environ.get(name, "")
    return given if os.path.isabs(given) else os.path.join(_home(environ), usual)


def _home(environ: Mapping[str, str]) -> str:
    home = environ.get("HOME", "")
    if os.path.isabs(home):
        return home
    import pwd  # without a home, or with one that each directory reads differently, the system's own word counts

    try:
        return pwd.getpwuid(os.getuid()).pw_dir
    except KeyError:  # a container's user without a name
        return "/"


def read_secrets(config: Config, environ: Mapping[str, str] = os.environ) -> tuple[list[str], list[Problem]]:
    """The secrets that can be looked up now (`secrets.values`, routes' passwords), and a problem for each that can't.

    Commands (`cmd:`) are not run for it.
    """
    values: list[str] = []
    problems: list[Problem] = []
    for key, reference in _references(config):
        try:
            values.append(look_up(reference, environ, to_mask=True))
            look_up(reference, environ)
        except NoCredential as error:
            origin = config.sources.get(key, "configuration")
            problems.append(Problem(origin, None, key, f"{error.what}: {error.why}", error.remedy))
    return values, problems


def meant_for_nobody(config: Config, known: Collection[str] | None) -> list[Problem]:
    """Settings of a type that no handler declares, or a need of a pool that holds nothing: right, and of no use.

    `known`: every type that there is; None where that can't be told.
    """
    found: list[Problem] = []
    pools = {each.pool for each in config.resources}
    for name, settings in config.types.items():
        origins = {key: config.sources.get(f"types.{name}.{key}") for key in _own_keys(settings)}
        place = next(filter(None, origins.values()), "configuration")
        if known is not None and name not in known:
            meant = nearest(name, known)
            remedy = f'did you mean "{meant}"?' if meant else f"known types: {', '.join(sorted(known))}"
            found.append(Problem(place, None, f"types.{name}", "no handler declares this type", remedy))
        for pool in sorted(set(parse_needs(settings.needs or ())) - pools):
            what, remedy = (
                f"no resource is in the pool {pool}",
                "its tasks wait until [[resources]] declares one",
            )
            found.append(Problem(origins["needs"] or place, None, f"types.{name}.needs", what, remedy))
    return found


def _references(config: Config) -> list[tuple[str, str]]:
    """Every reference to a secret that can be looked up, with the dotted key that names it."""
    routes = [(f"routes.{each.id}.password", each.secret_ref) for each in config.routes if each.secret_ref]
    named = [("secrets.values", reference) for reference in config.secrets.values] + routes
    return [(key, reference) for key, reference in named if kind_of(reference) != "cmd"]


class _Unreadable(ConfigError):
    """The file is there, and nothing of it can be known."""


class _Source(NamedTuple):
    """A file that was read: as it is named in messages, where it is, its values and the lines of its keys."""

    name: str
    path: Path
    data: dict[str, Any]
    lines: list[KeyLine]


def _current_directory() -> Path | None:
    try:
        return Path.cwd()
    except OSError:  # it was removed under us; absolute paths still work
        return None


def _find(
    path: Path | None, environ: Mapping[str, str], here: Path | None, *, whole: bool = True
) -> _Source | None:
    """The file that counts. `whole`: it must be TOML; else what can be made out of it is taken."""
    named = [("--config", str(path))] if path else [("TASKDECK_CONFIG", environ.get("TASKDECK_CONFIG", ""))]
    for name, text in named:
        if text:
            return _read_named(name, text, environ, here, whole=whole)
    if here and (local := _read(here / FILE_NAME, FILE_NAME, whole=whole)) and _is_ours(local.data):
        return local
    home = base_folder(environ, "XDG_CONFIG_HOME", ".config")
    usual = Path(home, "taskdeck", FILE_NAME)
    return _read(usual, str(usual), whole=whole)


def passed_over(
    path: Path | None = None, *, environ: Mapping[str, str] = os.environ, cwd: Path | None = None
) -> Path | None:
    """A `config.toml` in the current directory that is not read because it has no [taskdeck] table; None = there is none."""
    here = cwd if cwd is not None else _current_directory()
    if path or environ.get("TASKDECK_CONFIG") or here is None:
        return None
    import tomllib

    file = here / FILE_NAME
    try:
        data = tomllib.loads(_bytes_of(file).decode("utf-8-sig"))
    except (OSError, ValueError, RecursionError):
        return None  # where it can't be read, `load` says so
    return None if _is_ours(data) else file


def _read_named(
    name: str, text: str, environ: Mapping[str, str], here: Path | None, *, whole: bool
) -> _Source:
    try:
        found = _absolute(text, environ, here)
    except Wrong as wrong:
        raise ConfigError([Problem(text, None, name, wrong.what, wrong.remedy)]) from None
    source = _read(found, text, whole=whole)
    if source is None:
        remedy = f"create it, or correct {name}"
        raise ConfigError([Problem(text, None, "", f"there is no such file (named by {name})", remedy)])
    return source


def _is_ours(data: Mapping[str, Any]) -> bool:
    """Whether a `config.toml` found in the current directory is ours; another program's is left alone.

    Only a file that can be read as a whole tells: a slip in ours must not lead to another database.
    """
    return "taskdeck" in data


def _read(path: Path, shown_as: str, *, whole: bool) -> _Source | None:
    """The file's values; None where there is none, ConfigError where it can't be read."""

    def fail(line: int | None, key: str, what: str, remedy: str) -> ConfigError:
        return ConfigError([Problem(shown_as, line, key, what, remedy)])

    try:
        raw = _bytes_of(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise _Unreadable(
            [Problem(shown_as, None, "", f"it can't be read: {error.strerror}", "make it a readable file")]
        ) from None
    if len(raw) > LARGEST_FILE:
        what = f"it is larger than {LARGEST_FILE >> 20} MiB"
        raise _Unreadable([Problem(shown_as, None, "", what, "is it the right file?")])
    try:
        text = raw.decode("utf-8-sig", "strict" if whole else "replace")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise fail(line, "", "a byte here is not UTF-8", "save the file as UTF-8") from None
    import tomllib  # where there is no file, it is not needed

    lines = key_lines(text)
    try:
        data = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        data = None if whole else places_named(text, lines)
        if data is None:
            raise fail(*_syntax_problem(text, lines, error)) from None
    return _Source(shown_as, Path(os.path.abspath(path)), data, lines)


def _bytes_of(path: Path) -> bytes:
    """At most one byte more than the limit; a pipe or socket is refused, for it could block for ever."""
    mode = os.stat(path).st_mode
    if not (stat.S_ISREG(mode) or stat.S_ISCHR(mode)):
        raise OSError(0, "it is a directory" if stat.S_ISDIR(mode) else "it is no regular file")
    with open(path, "rb") as file:
        return file.read(LARGEST_FILE + 1)


def _syntax_problem(text: str, lines: list[KeyLine], error: Exception) -> tuple[int | None, str, str, str]:
    """Line, key, what and remedy of a text that is no TOML; the line may hold a secret and isn't repeated."""
    if isinstance(error, RecursionError):
        return None, "", "it is nested too deeply", "write it flat"
    found = re.search(r"\(at (?:line (\d+), column (\d+)|end of document)\)$", str(error))
    what = str(error)[: found.start()].strip() if found else "a value is out of range"
    line = int(found[1]) if found and found[1] else text.count("\n") + 1 if found else None
    twice = defined_twice(lines)
    if twice and line and twice[1].line <= line and re.match(r"Cannot (overwrite|declare|mutate)", what):
        first, second = twice
        key = ".".join(second.key)
        return second.line, key, f"defined twice, first on line {first.line}", "remove one of the two"
    place = f", column {found[2]}" if found and found[2] else ""
    if not what.startswith(
        "Expected "
    ):  # that quotes a sign of TOML's own, the others what stands in the file
        what = re.sub(r"['\"].*", "", what).strip(" (:") or "it is not valid"
    unquoted = what.startswith(("Invalid value", "Expected newline"))
    remedy = 'texts stand in quotes: key = "text"' if unquoted else "correct it there"
    return line, "", f"this is not TOML: {what}{place}", remedy


_DIRECTORIES: dict[tuple[str, ...], str] = {
    ("taskdeck", "logs"): "each attempt has a file of its own",
    ("backup", "dir"): "each backup is a file",
    ("retention", "dir"): "each archive is a file",
}

_LATER = frozenset({("routing", "ca_file"), ("routing", "geo_db"), ("storage", "mount")})
"""Paths of what is only looked at when it is used, and may come later."""


def _placed(environ: Mapping[str, str], key: tuple[str, ...], value: Any, base: PurePath | None) -> Any:
    """The value in force: paths absolute, and what they name of the right kind."""
    if key == ("taskdeck", "db"):
        return _database(_absolute(value, environ, base))
    if key in _DIRECTORIES:
        return _directory(_absolute(value, environ, base), f"name a directory; {_DIRECTORIES[key]} in it")
    if key == ("logging", "file"):
        return _log_file(_absolute(value, environ, base))
    if key in _LATER:
        return _absolute(value, environ, base)
    if key == ("taskdeck", "handlers"):
        return tuple(_handler(item, environ, base) for item in value)
    return value


def _absolute(text: str, environ: Mapping[str, str], base: PurePath | None) -> Path:
    """`text` with `~` and `$VAR` replaced, absolute; `..` is taken out textually, symbolic links are kept."""
    expanded = _expanded(text, environ)
    if not os.path.isabs(expanded) and base is None:
        raise Wrong("a relative path, but the current directory is gone", "write an absolute path")
    return _storable(os.path.abspath(os.path.join(base or "/", expanded)))


def _storable(path: str) -> Path:
    """A path that a message to a worker and a row of the database can hold."""
    try:
        path.encode()
    except UnicodeEncodeError:
        raise Wrong(f"{shown(path)} is not UTF-8", "rename it, or name another place") from None
    return Path(path)


def _expanded(text: str, environ: Mapping[str, str]) -> str:
    if text == "~" or text.startswith("~/"):
        text = _home(environ) + text[1:]
    elif text.startswith("~"):
        text = os.path.expanduser(text)
        if text.startswith("~"):
            raise Wrong(f"there is no user {shown(text.partition('/')[0][1:])}", "write the whole path")

    def value(found: re.Match[str]) -> str:
        name = found[1] or found[2]
        if name not in environ:
            raise Wrong(f"the variable ${name} is not set", "set it, or write the path without it")
        return environ[name]

    return re.sub(r"\$(?:(\w+)|\{(\w+)\})", value, text, flags=re.ASCII)


def _database(path: Path) -> Path:
    if path.name == ":memory:":
        raise Wrong("the database must be a file", 'write a path such as "~/data/taskdeck.db"')
    if path.is_dir():
        raise Wrong(f"{path} is a directory", "name a file in it, such as taskdeck.db")
    return _storable(os.path.realpath(path))


def _directory(path: Path, remedy: str) -> Path:
    if path.exists() and not path.is_dir():
        raise Wrong(f"{path} is not a directory", remedy)
    return path


def _log_file(path: Path) -> Path:
    if path.is_dir():
        raise Wrong(f"{path} is a directory", "name a file in it, such as engine.log")
    real = _storable(os.path.realpath(path))  # the log itself follows no link
    if real != Path(os.devnull) and os.path.lexists(real) and not real.is_file():
        raise Wrong(
            f"{path} is no regular file", "name a file, or leave it out; warnings go to standard error too"
        )
    return real


def _handler(item: str, environ: Mapping[str, str], base: PurePath | None) -> str:
    if not is_file_handler(item):
        return item
    found = _absolute(item, environ, base)
    if not found.is_file():
        raise Wrong(f"there is no file {found}", "create it, or correct the path (relative to this file)")
    return str(found)
