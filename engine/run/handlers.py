"""Handlers: how a type is declared with `@task`, how the files that declare types are loaded, and the registry of them.

A mistake in one declaration or file becomes a problem text and costs only itself. Must not run a handler.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import os
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib.machinery import PathFinder, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from msgspec import Struct, field

from ..errors import InvalidPayload
from ..rules import payloads
from ..rules.cleaning import clean
from ..rules.patterns import pattern
from ..rules.redaction import Redactor
from ..rules.timing import parse_duration
from . import declared, params, undo
from .attempt_messages import TypeInfo
from .http_payload import HttpPayload
from .shell import ShellPayload
from .undo import Step

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP = "taskdeck.handlers"
"""The entry-point group through which other packages ship handlers."""

NAME = pattern(r"[A-Za-z0-9_.:-]{1,64}")
SHELL = "shell"
HTTP = "http"

Duration = str | int | float
Function = TypeVar("Function", bound=Callable[..., Any])
Verify = Callable[[Any, str], Any]
"""A coroutine function for async handlers, a plain one for sync ones."""
Migrate = Callable[[dict[str, Any], int], dict[str, Any]]
"""Makes a checkpoint of this version from one of an older version (its data and number)."""


class Declaration(Struct, frozen=True):
    """What one `@task` said, mistakes included: the decorator never raises, so that the other types load."""

    name: str
    function: Callable[..., Any]
    options: dict[str, Any]


class Handler(Struct, frozen=True):
    """One type that this process can run. `function` is None for the built-in `shell`."""

    info: TypeInfo
    function: Callable[..., Any] | None = None
    params: Any = None
    verify: Verify | None = None
    verify_after: float = 10.0
    checkpoint: Any = None
    """The type that a checkpoint must fit; None = any object."""
    migrate: Migrate | None = None
    steps: Mapping[str, Step] = field(default_factory=dict)
    """Its undo steps by name."""
    source: str = ""
    """The file or module by whose import it was declared; empty = built in."""
    root: str = ""
    """What a relative `source` is relative to."""

    def arguments(self, payload: str) -> tuple[Any, ...]:
        """What the function takes after the context. Raises `InvalidPayload`."""
        value = params.convert(self.params, payloads.read(payload, where="payload")[0])
        return () if self.params is params.NOTHING else (value,)

    def check_checkpoint(self, data: dict[str, Any]) -> Any:
        """The checkpoint as the declared type, or as it is. Raises `InvalidPayload`."""
        if self.checkpoint is None:
            return data
        try:
            return params.convert(self.checkpoint, data)
        except InvalidPayload as error:
            raise InvalidPayload("the checkpoint does not fit its type", error.why) from None


class Registry(Struct):
    """All types by name, and what failed to load (`where: why`)."""

    handlers: dict[str, Handler] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    barren: list[str] = field(default_factory=list)
    """The files and modules that load and declare no task."""

    def get(self, name: str) -> Handler | None:
        """The handler of a type, or None."""
        return self.handlers.get(name)

    def infos(self) -> list[TypeInfo]:
        """The manifest: every type, by name."""
        return [self.handlers[name].info for name in sorted(self.handlers)]


_declared: list[Declaration] = []


def task(
    name: str,
    *,
    timeout: Duration | None = None,
    max_retry: int | None = None,
    base: Duration | None = None,
    max_delay: Duration | None = None,
    concurrency: int | None = None,
    on_lost: Literal["rerun", "review"] | None = None,
    on_exhausted: Literal["review", "dead"] | None = None,
    checkpoint: Any = None,
    checkpoint_version: int = 1,
    migrate: Migrate | None = None,
    verify: Verify | None = None,
    verify_after: Duration = "10s",
    needs: Sequence[str] = (),
    route: str | None = None,
    allow_direct: bool = False,
    bandwidth: str | None = None,
) -> Callable[[Function], Function]:
    """Declare `async def f(ctx: Context, params: P)`, or a plain `def` with a `SyncContext`, as the handler of a task type.

    Durations are "10m" texts or seconds; None leaves a limit to the configuration. `verify(ctx, key)` settles an operation
    in doubt: it returns the result, or raises `NotDone`; it is asked once the old request must be dead (`verify_after`).
    `checkpoint` is the type that a checkpoint must fit; one that doesn't, or is of another `checkpoint_version`, is passed
    over, unless `migrate(data, version)` makes a present one of it.
    `needs` are pools to lease from (`"browser"`, `"gpu:2"`), `route` a group of network exits; without one of these free,
    tasks wait, unless `allow_direct`. `bandwidth` ("2MB/s") bounds what an attempt receives.
    """
    options = dict(locals())
    del options["name"]

    def declare(function: Function) -> Function:
        _declared.append(Declaration(name, function, options))
        return function

    return declare


def load(
    entries: Sequence[str], root: Path, *, plugins: bool = True, begins: Callable[[str], object] = str
) -> Registry:
    """Import handler files (relative to `root`), modules and, with `plugins`, entry points; never raises for theirs.

    `begins` is told each before it is imported, since that may take for ever.
    """
    root = root.resolve()
    registry = Registry({SHELL: _shell(), HTTP: _http()})
    for entry in entries:
        begins(entry)
        _load_one(registry, entry, entry, root, lambda entry=entry: _import_entry(entry, root))
    for point in _plugins() if plugins else ():
        begins(f"{point.name} = {point.value}")
        _load_one(
            registry,
            f"{point.name} = {point.value}",
            point.module,
            root,
            lambda point=point: importlib.import_module(point.module),
        )
    return registry


def load_type(name: str, source: str, root: Path) -> Registry:
    """Import the one file or module that declares a type, for a process that runs nothing else: of what is declared there
    only this type is looked at. Never raises for theirs."""
    root = root.resolve()
    registry = Registry()
    _load_one(registry, source, source, root, lambda: _import_entry(source, root), only=name)
    return registry


def _load_one(
    registry: Registry,
    where: str,
    source: str,
    root: Path,
    import_it: Callable[[], ModuleType],
    only: str | None = None,
) -> None:
    before = len(_declared)
    module: ModuleType | None = None
    try:
        module = import_it()
    except BaseException as error:  # somebody else's code, whatever it raises; a file's failure is its own
        registry.problems.append(f"{where}: {_story(error)}")
    found = list(_new(before, module))
    if module is not None and not found:
        registry.barren.append(where)
    for declaration in found:
        if only in (None, declaration.name):
            _register(registry, declaration, where, source, root)


def _new(before: int, module: ModuleType | None) -> Iterable[Declaration]:
    """What this import declared, also where the module had been imported already. Types before a failure count too."""
    if module is not None:
        yield from (
            one for one in _declared[:before] if getattr(one.function, "__globals__", None) is vars(module)
        )
    yield from _declared[before:]


def _register(registry: Registry, declaration: Declaration, where: str, source: str, root: Path) -> None:
    place = _place(declaration.function, where, root)
    known = registry.handlers.get(declaration.name) if isinstance(declaration.name, str) else None
    if known is not None and known.function is declaration.function:
        return
    if known is not None:
        registry.problems.append(
            f'{place}: type "{declaration.name}" is declared already in {known.info.origin}'
        )
        return
    try:
        registry.handlers[declaration.name] = _handler(declaration, place, source, root)
    except Exception as error:  # annotations are code too
        registry.problems.append(f"{place}: {_story(error, bare=True)}")


def _handler(declaration: Declaration, place: str, source: str, root: Path) -> Handler:
    name, function, options = declaration.name, declaration.function, declaration.options
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise ValueError(f"bad type name {name!r}: use 1 to 64 of A-Z a-z 0-9 _ . : -")
    sync = declared.is_sync(function, name)
    kind = declared.payload_kind(function)
    if refusal := params.refusal(kind):
        raise ValueError(f'type "{name}": {refusal}')
    verify = options["verify"]
    declared.check_verify(verify, name, sync=sync)
    checkpoint, migrate = options["checkpoint"], options["migrate"]
    declared.check_checkpoint(checkpoint, migrate, name)
    info = TypeInfo(
        name,
        place,
        doc=clean((inspect.getdoc(function) or "").partition("\n")[0], limit=200),
        schema=params.schema(kind),
        shape=params.shape(kind),
        sync=sync,
        typed_checkpoint=checkpoint is not None,
        migrates=migrate is not None,
        verifies=verify is not None,
        **declared.limits(options),
        **declared.held(options),
    )
    after = parse_duration(options["verify_after"])
    steps = undo.steps_of(function, sync=sync)
    return Handler(info, function, kind, verify, after, checkpoint, migrate, steps, source, str(root))


def _place(function: Callable[..., Any], where: str, root: Path) -> str:
    """File and line, relative to the root where it lies there."""
    code = getattr(function, "__code__", None)
    if code is None:
        return where
    path = Path(code.co_filename)
    shown = path.relative_to(root) if path.is_relative_to(root) else path
    return f"{shown}:{code.co_firstlineno}"


def _import_entry(entry: str, root: Path) -> ModuleType:
    if entry.endswith(".py") or "/" in entry:
        return _import_file((root / Path(entry).expanduser()).resolve())
    if str(root) not in sys.path:
        sys.path.insert(0, str(root))
    return importlib.import_module(entry)


def _plugins() -> Iterable[EntryPoint]:
    others = [
        each for each in sys.meta_path if hasattr(each, "find_distributions") and each is not PathFinder
    ]
    if not others and not any(map(_may_name_us, sys.path)):
        return ()  # so it nearly always is, and to load what reads them is a tenth of the start of a worker
    from importlib.metadata import entry_points

    return entry_points(group=GROUP)


def _may_name_us(place: str) -> bool:
    """May a distribution in this entry of `sys.path` declare handlers? In an archive nobody has looked."""
    try:
        with os.scandir(place or ".") as entries:
            return any(map(_names_us, entries))
    except NotADirectoryError:
        return True
    except OSError:
        return False


def _names_us(distribution: os.DirEntry[str]) -> bool:
    if not distribution.name.lower().endswith("-info"):
        return False
    try:
        text = Path(distribution.path, "entry_points.txt").read_bytes()
    except OSError:
        return False
    return GROUP.encode() in text


class _AsItStands(SourceFileLoader):
    """Compiles what stands in the file now: bytecode kept of a text of the same size and second would pass for it."""

    def get_code(self, fullname: str) -> CodeType:
        path = self.get_filename(fullname)
        return self.source_to_code(self.get_data(path), path)


def _import_file(path: Path) -> ModuleType:
    """Import by path; its neighbours can be imported by name, as with a script."""
    if not path.is_file():
        raise FileNotFoundError(f"no such file: {path}")
    if str(path.parent) not in sys.path:
        sys.path.insert(0, str(path.parent))
    known = sys.modules.get(path.stem)
    if known is not None and getattr(known, "__file__", None) == str(path):
        return known
    name = _module_name(path)
    if path.suffix != ".py":
        raise ImportError(f"not a Python file: {path.name}")
    loader = _AsItStands(name, str(path))
    spec = importlib.util.spec_from_file_location(name, path, loader=loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        loader.exec_module(module)
    except BaseException:
        sys.modules.pop(name, None)
        raise
    return module


def _module_name(path: Path) -> str:
    """The file's own name where nothing else has it: then `import tasks` elsewhere finds this one and not a second."""
    taken = path.stem in sys.modules or path.stem in sys.stdlib_module_names
    if path.stem.isidentifier() and not taken:
        return path.stem
    return f"taskdeck_handlers_{abs(hash(str(path))):x}_{re.sub(r'[^A-Za-z0-9_]', '_', path.stem)}"


def _shell() -> Handler:
    info = TypeInfo(
        SHELL, "built-in", doc="Run a command in a session of its own.", schema=params.schema(ShellPayload)
    )
    return Handler(info, params=ShellPayload)


def _http() -> Handler:
    async def send(ctx: Any, asked: HttpPayload) -> Any:
        from .http_type import send as really  # brings asyncio, which a sync handler's process may do without

        return await really(ctx, asked)

    doc = "Send one HTTP request through the task's route."
    info = TypeInfo(HTTP, "built-in", doc=doc, schema=params.schema(HttpPayload))
    return Handler(info, send, HttpPayload)


def _story(error: BaseException, *, bare: bool = False) -> str:
    """One clean line about somebody's error, without secrets."""
    text = str(error) or type(error).__name__
    if isinstance(error, SyntaxError) and error.lineno:
        text = f"{error.msg} (line {error.lineno})"
    if not bare:
        text = f"{type(error).__name__}: {text}"
    return clean(Redactor((), ()).text(text), limit=500).replace("\n", " ")
