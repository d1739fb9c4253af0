"""Every write that a person can cause, as verbs. The same units run in the engine's writer or, without one, right here.

`call` is the only way in for the command line and screens: while an engine holds the database the verb goes to it over its
socket; while the lock is free this process takes the lock and writes itself. Nothing heavy is imported for it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import to_builtins

from . import __version__
from .clock import Clock, system_clock
from .config import Config
from .edge.frames import MAX_BODY
from .edge.identity import STOPPED, alive, named_by
from .edge.identity import state as process_state
from .edge.link import Link, LinkError, connect
from .edge.locks import DatabaseLock, Holder
from .errors import (
    AlreadyRunning,
    NoEngine,
    TaskdeckError,
    Unavailable,
    UsageError,
    kept_from,
    rebuild,
)
from .rules.chain import Head
from .run import adding
from .run.disk_fitness import refuse_what_cant_be_written
from .run.messages import Call, Hello, Reply, encode, to_peer
from .silence import Silence, on_silence

if TYPE_CHECKING:
    from .run.engine import Engine
    from .run.importing import Import
    from .run.launches import Launches
    from .run.throwaway import Survey
    from .store.transaction import Transaction

PATIENCE = 10.0
"""Seconds to wait for a lock that another command holds for a moment, or for an engine that is just starting."""
ANSWER_WITHIN = 60.0
"""Seconds in which an engine answers a verb."""
CHECK_FOR = 20.0
"""Seconds after which the checks of routes are answered with what is left of them, since hundreds may take minutes."""
PING_WITHIN = 5.0
"""Seconds in which it says of itself how it is: one that can't is told of as silent."""
DOUBT_AFTER = 1.0
"""Seconds after which one that has not answered a verb is asked how it is."""
PAUSE = 0.02
"""Seconds between two looks whether it is free."""
_IN_PARTS = ("route_check",)
_AWAITED = ("stop", "restart", "ping", "route_check")
"""What only an engine can do, and one that is on its way as well."""


def call(config: Config, verb: str, actor: str, *, clock: Clock | None = None, **args: Any) -> Any:
    """Carry out `verb` for `actor` (e.g. `cli:ann`): through the engine that works, else directly.

    Returns the verb's JSON-able value. Raises the `TaskdeckError` of the refusal, `NoEngine` for verbs that need an engine,
    `Unavailable` when neither way was open for ten seconds.
    """
    while True:
        done = _call(config, verb, actor, clock, args)
        if verb not in _IN_PARTS or not done.get("left"):
            return done
        args |= done["left"]  # it takes long: asked again for the rest


def _call(config: Config, verb: str, actor: str, clock: Clock | None, args: dict[str, Any]) -> Any:
    clock = clock or system_clock()
    deadline = clock.monotonic() + PATIENCE
    coming = _coming(config.db)
    with DatabaseLock(config.db, role="cli") as lock:
        while True:
            holder = DatabaseLock.holder(config.db)
            if holder is not None and holder.role == "engine":
                try:
                    return _through_engine(config, holder, verb, args, actor)
                except NoEngine:
                    pass  # it is starting and does not listen yet, or just ended
            else:
                refuse_what_cant_be_written(config)
                if not take(lock):
                    lock.ask()
                elif not _may_come(config, verb) or clock.monotonic() > deadline or not coming():
                    return _directly(config, verb, args, actor, clock)
                else:
                    lock.release()
            if clock.monotonic() > deadline:
                raise held_by_somebody(config)
            clock.sleep(PAUSE)


def held_by_somebody(config: Config) -> Unavailable:
    """What is told where the lock is not to be had."""
    return Unavailable(
        f"{config.db} is held and its holder does not answer", remedy="try again; see: taskdeck status"
    )


def _coming(database: Path) -> Callable[[], bool]:
    """Tells whether an engine of this database is on its way, that was launched a moment before us."""
    launches: list[Launches] = []

    def coming() -> bool:
        from .run.launches import Launches, is_young
        from .run.supervisors import living

        if not launches:
            launches.append(Launches())
        return bool(any(map(is_young, living(database))) or launches[0].under_way())

    return coming


def _may_come(config: Config, verb: str) -> bool:
    """Is this for an engine, or a database, that is not there yet and may be about to come?"""
    return verb in _AWAITED or (verb not in _BEGINNING and not config.db.exists())


def take(lock: DatabaseLock) -> bool:
    """Take the lock, if it is free. Raises `StoreError` or `NotPermitted` where it can't even be made."""
    try:
        return lock.acquire()
    except OSError as error:
        raise kept_from(error, f"{lock.file} can't be made", "name another database with --db") from None


def stop(
    config: Config,
    actor: str,
    *,
    now: bool = False,
    clock: Clock | None = None,
    asked: Callable[[dict[str, Any]], object] = lambda answer: None,
) -> dict[str, Any]:
    """End the engine in order, or the supervisor that would start one again, and what outlived its engine. Blocks.

    `now`: without waiting for checkpoints. `asked` is called with what an engine says of itself once it has been asked.
    Returns a `run.stopping.Stopped` as plain data. Raises `Unavailable` where
    something is still there after the stop's grace, `StoreError`.
    """
    from .run import stopping, supervisors
    from .run.outlived import Outlived
    from .run.outlived import end_outlived as end

    clock = clock or system_clock()

    def end_outlived() -> Outlived | None:
        if not config.db.exists():
            return Outlived()
        from .store.reading import Reader

        lock = DatabaseLock(config.db, role="cli")
        if not take(lock):
            return None
        with lock:
            if supervisors.living(config.db):
                return None
            with Reader(config.db) as reader:
                return end(config, reader, clock, now=now)

    def ask() -> None:
        asked(call(config, "stop", actor, clock=clock, now=now))

    return to_builtins(stopping.stop(config, ask, end_outlived, clock))


def restart(config: Config, actor: str, *, clock: Clock | None = None) -> dict[str, Any]:
    """Have a new engine, of the code that is on the disk now, take over from the one that works. Blocks.

    Returns the descriptions of both, as `ping` gives them: `old` and `new`. Raises `NoEngine`; `Refused` where the new code
    can't be loaded (then nothing has changed); `Unavailable` where the new engine does not come.
    """
    from .run import handing_over

    clock = clock or system_clock()
    old = call(config, "restart", actor, clock=clock)
    who = named_by(old)
    new = handing_over.wait_for_next(config, who, partial(call, config, "ping", actor, clock=clock), clock)
    return {"old": old, "new": new}


def back_up(
    config: Config,
    actor: str,
    target: Path | str | None = None,
    keep: int | None = None,
    clock: Clock | None = None,
) -> dict[str, Any]:
    """Write a checked copy of the database, also while an engine works on it, and put it on record.

    Returns its `path`, `bytes`, `schema`, `tasks`, `events`, what was `removed` for it, and `noted`: empty, or why it could
    not be put on record. Raises what `run.backing_up.back_up` raises.
    """
    from .run.backing_up import back_up as write

    clock = clock or system_clock()
    report = to_builtins(write(config, target, keep, clock))
    try:
        call(config, "backup_done", actor, clock=clock, **report)
    except (
        TaskdeckError
    ) as error:  # the copy is good all the same: a database that can't be written is copied most
        return {**report, "noted": str(error)}
    return {**report, "noted": ""}


def restore(
    config: Config,
    actor: str,
    source: Path,
    *,
    rerun: bool = False,
    dry_run: bool = False,
    clock: Clock | None = None,
) -> dict[str, Any]:
    """Put the backup `source` in the place of the database, while no engine works on it. Returns a
    `run.restoring.RestoreReport` as plain data. Raises `AlreadyRunning`, and what `run.restoring.restore` raises.
    """
    from .run import restoring, supervisors

    clock = clock or system_clock()
    deadline = clock.monotonic() + PATIENCE
    with DatabaseLock(config.db, role="cli") as lock:
        while not take(lock):
            holder = DatabaseLock.holder(config.db)
            if (holder is not None and holder.role == "engine") or clock.monotonic() > deadline:
                pid = f" (pid {holder.pid})" if holder else ""
                raise AlreadyRunning(
                    f"an engine works on {config.db}{pid}",
                    "a database is replaced only while nobody works on it",
                    "first: taskdeck stop",
                )
            lock.ask()
            clock.sleep(PAUSE)
        if living := supervisors.living(config.db):
            raise AlreadyRunning(
                f"a supervisor (pid {living[0].pid}) starts an engine on {config.db} again",
                "that would work on what is being restored",
                "first: taskdeck stop",
            )
        redactor = make_redactor(config)
        return to_builtins(
            restoring.restore(config, source, actor, clock, redactor, rerun=rerun, dry_run=dry_run)
        )


def look_at_list(config: Config, raw: bytes, *, scheme: str = "http", group: str = "") -> Import:
    """What importing this list of routes would change, line by line; writes nothing. Raises `StoreError`."""
    from .run import importing

    if not config.db.exists():
        return importing.look(None, raw, scheme, group)
    from .store.reading import Reader

    with Reader(config.db) as reader:
        return importing.look(reader, raw, scheme, group)


def import_list(
    config: Config, actor: str, found: Import, clock: Clock | None = None
) -> list[dict[str, Any]]:
    """Import what was looked at, except for bad lines: all of it or nothing. Returns `ImportLine`s as plain data.

    Raises what `call` raises, and `Refused` where something was changed since it was looked at.
    """
    from .run import importing
    from .store.inventory import known_routes
    from .store.reading import Reader

    def known() -> list[Any]:
        with Reader(config.db) as reader:
            return reader.ask(known_routes)

    def write(offers: list[Any]) -> list[dict[str, Any]]:
        return call(config, "route_import", actor, clock=clock, offers=offers)

    return importing.carry_out(config, found, write, known)


# ---- through the engine -----------------------------------------------------------------------------------------------


def _through_engine(config: Config, holder: Holder, verb: str, args: dict[str, Any], actor: str) -> Any:
    """Who leaves without an answer has closed the connection: what the engine had not begun by then it leaves alone."""
    asked = encode([Hello("client", code_version=__version__), Call(1, verb, args, actor)])
    refuse_too_large(verb, len(asked))
    with connect(holder.socket, 5.0) as link:
        try:
            link.send(asked, ANSWER_WITHIN)
            body = link.receive(PING_WITHIN) if verb == "ping" else _patiently(link, config, holder, actor)
        except LinkError as error:
            raise unknown_fate(verb) from error
        except Unavailable as error:
            raise unanswered(silence_of(config, holder), verb, args) from error
        if body is None:
            raise unknown_fate(verb)
        reply = to_peer(body)[0]
    assert isinstance(reply, Reply)
    if reply.error is not None:
        raise rebuild(reply.error)
    return reply.value


def refuse_too_large(verb: str, size: int) -> None:
    """Raise `UsageError` where a message of so many bytes is larger than any may be."""
    if size > MAX_BODY:
        raise UsageError(
            f"{verb!r} is too large for an engine to take at once",
            f"it is {size} bytes, at most {MAX_BODY}; nothing was done",
            "do it in parts",
        )


def _patiently(link: Link, config: Config, holder: Holder, actor: str) -> bytes | None:
    """The answer, however long it takes; who waits is told once that the engine says nothing of itself either."""
    clock = system_clock()
    deadline = clock.monotonic() + ANSWER_WITHIN
    told = False
    while True:
        left = deadline - clock.monotonic()
        try:
            return link.receive(max(left, 0.0) if told else min(DOUBT_AFTER, max(left, 0.0)))
        except Unavailable:
            if told or left <= DOUBT_AFTER:
                raise
        try:
            _through_engine(config, holder, "ping", {}, actor)
        except TaskdeckError:
            told = True
            if alive(holder.identity):
                on_silence.get()(silence_of(config, holder))


def describe(config: Config, actor: str) -> tuple[dict[str, Any], Silence | None]:
    """What the engine says of itself. Else nothing, and of one that holds the database its silence: the rule of it."""
    try:
        return call(config, "ping", actor), None
    except TaskdeckError:
        holder = DatabaseLock.holder(config.db)
        return {}, silence_of(config, holder) if holder and holder.role == "engine" else None


def silence_of(config: Config, holder: Holder) -> Silence:
    """What can be told of an engine that did not say how it is within `PING_WITHIN`."""
    from .run import supervisors

    is_stopped = process_state(holder.pid) in STOPPED
    return Silence(holder.pid, is_stopped, is_stopped or bool(supervisors.living(config.db)))


def unknown_fate(verb: str) -> Unavailable:
    """What is told of a verb whose engine has gone: nobody knows whether it carried it out."""
    return Unavailable(
        f"the engine went away before it answered {verb!r}",
        "it may or may not have been carried out",
        "look first: taskdeck list; with --key an add can safely be repeated",
    )


def unanswered(silence: Silence, verb: str, args: Mapping[str, Any]) -> Unavailable:
    """It is told as unknown: the engine may have begun it a moment before its asker left."""
    look = "taskdeck list; with --key an add can safely be repeated"
    if ids := [str(each) for each in args.get("ids", ()) if isinstance(each, int)]:
        look = f"taskdeck show {ids[0]}" + (f" (and {len(ids) - 1} more)" if len(ids) > 1 else "")
    return Unavailable(
        f"the engine (pid {silence.pid}) has not answered {verb!r}: {silence.what}",
        "it may still carry it out when it goes on",
        f"{silence.remedy}; look then: {look}",
    )


async def _in_engine_stop(engine: Engine, args: dict[str, Any], actor: str) -> Any:
    engine.request_stop(now=bool(args.get("now")))
    return engine.description()


async def _in_engine_restart(engine: Engine, args: dict[str, Any], actor: str) -> Any:
    import asyncio

    from .edge import identity
    from .run import handing_over

    await asyncio.to_thread(handing_over.refuse_unfit_code, engine.config)
    engine.request_handover(actor)
    me = identity.me()
    return {**engine.description(), "start_time": me.start_time, "boot_id": me.boot_id}


async def _in_engine_ping(engine: Engine, args: dict[str, Any], actor: str) -> Any:
    return engine.description()


async def _in_engine_route_check(engine: Engine, args: dict[str, Any], actor: str) -> Any:
    ids, waiting = ([str(each) for each in args.get(name, ())] for name in ("ids", "waiting"))
    left = await engine.prober.check_now(ids, waiting, CHECK_FOR)
    engine.wake()
    return {"checked": [*ids, *waiting], "left": left._asdict() if any(left) else None}


async def _in_engine_backup_done(engine: Engine, args: dict[str, Any], actor: str) -> Any:
    result = await engine.writer.write(_backup_done, args, actor)
    await engine.housekeeping.anchor()
    return result


def _as_configured(config: Config, verb: str, args: dict[str, Any]) -> dict[str, Any]:
    """The arguments, with what a kick goes by in the configuration of whoever carries it out."""
    return {**args, "lock_delay": config.engine.lock_delay} if verb in _KICKS else args


_KICKS = frozenset({"resource_kick", "route_kick"})


def _in_engine(verb: str) -> Any:
    async def carry_out(engine: Engine, args: dict[str, Any], actor: str) -> Any:
        result = await engine.writer.write(_UNITS[verb], _as_configured(engine.config, verb, args), actor)
        engine.prober.wake()
        engine.wake()
        return result

    return carry_out


# ---- directly ---------------------------------------------------------------------------------------------------------


def _directly(config: Config, verb: str, args: dict[str, Any], actor: str, clock: Clock) -> Any:
    if verb in _AWAITED:
        raise NoEngine("no engine runs on this database", f"{config.db} is free", "start one: taskdeck run")
    if verb not in _UNITS and verb not in ("submit", "prune"):
        raise UsageError(f"there is no verb {verb!r}")
    if verb not in _BEGINNING and not config.db.exists():
        raise _no_database(config.db)
    from .store.direct import write_once

    redactor = make_redactor(config)
    if verb == "submit":
        return adding.add_directly(config, args.get("specs"), actor, redactor, clock)
    if verb == "prune":
        result = _prune_alone(config, args, actor, clock)
    else:
        result = write_once(
            config.db,
            clock,
            redactor,
            _after_what_is_due,
            _UNITS[verb],
            _as_configured(config, verb, args),
            actor,
        )
    if verb in _ANCHORED:
        from .store import anchors, events

        event_id, count, digest, now = write_once(config.db, clock, redactor, events.head)
        anchors.note(config.db, Head(event_id, count, digest), now)
    return result


def _no_database(path: Path) -> TaskdeckError:
    from .errors import NotFound

    return NotFound(f"there is no database at {path}", remedy="add a task first: taskdeck add -- COMMAND")


def survey_handlers(config: Config) -> Survey:
    """What the configured handlers declare, and their mistakes; loaded in a process of its own that is gone again.

    Raises `Unavailable` when they do not load in time.
    """
    from .run import throwaway

    return throwaway.survey(config, system_clock())


def make_redactor(config: Config) -> Any:
    """The redactor with the configured secrets."""
    from .config import read_secrets
    from .rules.redaction import Redactor

    values, _ = read_secrets(config)
    return Redactor(values, config.secrets.names)


def _after_what_is_due(tx: Transaction, unit: Any, args: Mapping[str, Any], actor: str) -> Any:
    """Acts that waited for second thoughts come first; an undo that comes too late finds nothing."""
    from .run import dated

    dated.apply_due(tx)
    return unit(tx, args, actor)


# ---- units ------------------------------------------------------------------------------------------------------------


def _act(verb: str) -> Any:
    """An act on tasks by id; with `delay` (seconds) one that can be taken back until then."""

    def unit(tx: Transaction, args: Mapping[str, Any], actor: str) -> list[dict[str, Any]]:
        from .run import control, dated

        act = dated.ask if args.get("delay") else control.act
        return [_one(tx, partial(act, verb=verb), task_id, args, actor) for task_id in args.get("ids", ())]

    return unit


def _take_back(tx: Transaction, args: Mapping[str, Any], actor: str) -> dict[str, Any]:
    from .run import dated

    return dated.take_back(tx, args, actor)


def _settle(tx: Transaction, args: Mapping[str, Any], actor: str) -> list[dict[str, Any]]:
    from .run import dated

    return dated.settle(tx, args, actor)


def _one(tx: Transaction, act: Any, task_id: int, args: Mapping[str, Any], actor: str) -> dict[str, Any]:
    """One task of many: a refusal is this task's own and keeps none of the others."""
    from .store import tasks

    try:
        message = tx.unit(lambda tx: act(tx, task=tasks.get(tx, task_id), actor=actor, args=args))
    except TaskdeckError as error:
        state = tx.row("SELECT state FROM task WHERE id = ?", task_id)
        return {"id": task_id, "ok": False, "state": state["state"] if state else None, **_refusal(error)}
    return {"id": task_id, "ok": True, "state": tasks.get(tx, task_id)["state"].value, "message": message}


def _operation(state: str) -> Any:
    """A person settles an operation; with `retry` its task runs again, where nothing else keeps it."""

    def unit(tx: Transaction, args: Mapping[str, Any], actor: str) -> dict[str, Any]:
        from .run import control, doubt

        found = doubt.settle(tx, args, state, actor)
        if args.get("retry"):
            found["retried"] = _one(tx, control.retry, found["id"], {}, actor)
        return found

    return unit


def _hold(tx: Transaction, args: Mapping[str, Any], actor: str) -> dict[str, Any]:
    from .run import holding

    return holding.hold(tx, args, actor)


def _release(tx: Transaction, args: Mapping[str, Any], actor: str) -> dict[str, Any]:
    from .run import holding

    return holding.release(tx, args, actor)


def _inventory(parent: str, verb: str) -> Any:
    """An act on whole resources or routes, by id; each is answered for itself."""

    def unit(tx: Transaction, args: Mapping[str, Any], actor: str) -> list[dict[str, Any]]:
        from .store import slots

        table = slots.RESOURCES if parent == "resource" else slots.ROUTES
        return [
            _named(tx, lambda tx, name=name: slots.act(tx, table, name, verb, actor), name)
            for name in args["ids"]
        ]

    return unit


def _route_remove(tx: Transaction, args: Mapping[str, Any], actor: str) -> list[dict[str, Any]]:
    from .store.inventory import remove_route

    return [_named(tx, lambda tx, name=name: remove_route(tx, name, actor), name) for name in args["ids"]]


def _rest(parent: str) -> Any:
    """Let resources or routes rest for `seconds`."""

    def unit(tx: Transaction, args: Mapping[str, Any], actor: str) -> list[dict[str, Any]]:
        from .rules.timing import LONGEST
        from .store import slots

        table, seconds = slots.RESOURCES if parent == "resource" else slots.ROUTES, float(args["seconds"])
        if not 0 < seconds <= LONGEST:
            raise UsageError("a rest lasts longer than nothing, and at most ten years")
        return [
            _named(tx, lambda tx, name=name: slots.rest(tx, table, name, seconds, actor), name)
            for name in args["ids"]
        ]

    return unit


def _kick(parent: str) -> Any:
    """Take resources or routes (or single slots) away from their holders; `fence`: only that lease."""

    def unit(tx: Transaction, args: Mapping[str, Any], actor: str) -> list[dict[str, Any]]:
        from .run.kicking import kick
        from .store import slots

        table, fence = slots.RESOURCES if parent == "resource" else slots.ROUTES, int(args.get("fence") or 0)
        return [
            _named(tx, lambda tx, name=name: kick(tx, table, name, actor, args["lock_delay"], fence), name)
            for name in args["ids"]
        ]

    return unit


def _named(tx: Transaction, act: Any, name: str) -> dict[str, Any]:
    try:
        return {"id": name, "ok": True, "message": tx.unit(act)}
    except TaskdeckError as error:
        return {"id": name, "ok": False, **_refusal(error)}


def _refusal(error: TaskdeckError) -> dict[str, Any]:
    return {**error.as_told(), "message": str(error)}


def _route_add(tx: Transaction, args: Mapping[str, Any], actor: str) -> dict[str, Any]:
    from .run.inventory import add_route
    from .run.known_secrets import learn_all

    added = add_route(tx, args, actor)
    learn_all(tx)
    return added


def _route_import(tx: Transaction, args: Mapping[str, Any], actor: str) -> list[dict[str, Any]]:
    from .run.importing import import_routes
    from .run.known_secrets import learn_all

    lines = import_routes(tx, args, actor)
    learn_all(tx)
    return lines


def _backup_done(tx: Transaction, args: Mapping[str, Any], actor: str) -> bool:
    from .run.housekeeping import note_backup

    note_backup(tx, args, actor)
    return True


PRUNE_FOR = 20.0
"""Seconds after which a prune answers and is called again, so that no call lasts longer than an answer may take."""


async def _in_engine_prune(engine: Engine, args: dict[str, Any], actor: str) -> Any:
    return await engine.housekeeping.prune(args.get("tasks"), args.get("events"), actor, PRUNE_FOR)


def _prune_alone(config: Config, args: Mapping[str, Any], actor: str, clock: Clock) -> Any:
    from .run import pruning
    from .store.direct import write_once

    redactor = make_redactor(config)

    def submit(unit: Any, *rest: Any) -> Any:
        return write_once(config.db, clock, redactor, unit, *rest)

    write_once(config.db, clock, redactor, lambda tx: None)  # an older schema has no archives yet
    ages = pruning.ages_of(config, args.get("tasks"), args.get("events"))
    return to_builtins(pruning.prune(config, ages, actor, clock, submit, seconds=PRUNE_FOR))


def prune(
    config: Config,
    actor: str,
    tasks: float | None = None,
    events: float | None = None,
    clock: Clock | None = None,
) -> dict[str, Any]:
    """Archive what is older than these ages (seconds; None: as configured), through the engine where one works.

    Returns a `run.pruning.PruneReport` as plain data. Raises `UsageError` where no age is set, `StoreError`.
    """
    total: dict[str, Any] = {"tasks": 0, "events": 0, "kept": 0, "files": []}
    more = True
    while more:
        done = call(config, "prune", actor, clock=clock, tasks=tasks, events=events)
        more = done.pop("more")
        total = {name: total[name] + value for name, value in done.items()}
    return total


_ANCHORED = frozenset({"backup_done", "prune"})
"""After these the head of the audit is noted outside the database."""

_UNITS: Mapping[str, Any] = {
    "backup_done": _backup_done,
    **{verb: _act(verb) for verb in ("pause", "resume", "cancel", "kill", "retry", "discard")},
    "stop_tasks": _act("stop"),
    "undo": _take_back,
    "settle": _settle,
    "operation_done": _operation("DONE"),
    "operation_redo": _operation("NOT_DONE"),
    "hold": _hold,
    "release": _release,
    "resource_enable": _inventory("resource", "enable"),
    "resource_disable": _inventory("resource", "disable"),
    "resource_reset": _inventory("resource", "reset"),
    "resource_rest": _rest("resource"),
    "route_rest": _rest("route"),
    "resource_kick": _kick("resource"),
    "route_kick": _kick("route"),
    "route_enable": _inventory("route", "enable"),
    "route_disable": _inventory("route", "disable"),
    "route_reset": _inventory("route", "reset"),
    "route_add": _route_add,
    "route_remove": _route_remove,
    "route_import": _route_import,
}

_BEGINNING = frozenset({"submit", "route_add", "route_import"})
"""What may make the database."""

ENGINE_VERBS: Mapping[str, Any] = {
    "stop": _in_engine_stop,
    "restart": _in_engine_restart,
    "ping": _in_engine_ping,
    "route_check": _in_engine_route_check,
    **{verb: _in_engine(verb) for verb in _UNITS},
    "backup_done": _in_engine_backup_done,
    "prune": _in_engine_prune,
}
"""What a client may ask of a running engine; the composition root hands it to the engine."""

TOGETHER: Mapping[str, Any] = {"submit": adding.add, "submit_each": adding.add_each}
"""Those of them that are carried out for all calls at once that have come."""
