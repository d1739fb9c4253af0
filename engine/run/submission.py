"""Submitting: what a person or program hands in is checked here, completely, before anything is written.

Bad input is refused whole, with what, where and what to do; secrets in a command line or payload are refused with the
remedy. Payloads of Python types are validated further by a worker or a throw-away process, never here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from itertools import islice
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import msgspec

from ..errors import InvalidPayload, SecretInInput, TaskdeckError, UsageError
from ..rules.bandwidth import parse_rate
from ..rules.hosts import bare_host, named_host
from ..rules.needs import needs_text, parse_group, parse_needs
from ..rules.new_task import Kind, NewTask
from ..rules.patterns import pattern
from ..rules.payloads import compacted, encode, read
from ..rules.selection import COMMAND_TYPE
from ..rules.timing import parse_utc, utc_text
from .references import VARIABLE

if TYPE_CHECKING:
    from ..rules.redaction import Redactor
    from ..store.tasks import Run
    from ..store.transaction import Transaction

TYPE_NAME = pattern(r"[A-Za-z0-9_.:-]{1,64}")
NAMED_BY = "use 1 to 64 of A-Z a-z 0-9 _ . : -"
ARGUMENT_LIMIT = 131_071
"""The kernel takes no longer argument (bytes)."""
KEY_LIMIT = 300
PRIORITIES = range(0, 1_000_001)
RETRIES = range(0, 10_001)
IDS = range(1, 2**53)
MOST_ALIKE = 1000
"""Kinds of tasks that are kept: what differs in a time or a target each time gains nothing."""
AT_ONCE, FEWEST = 256, 8
"""Tasks of a list that are looked at together, and from how many on that pays."""
_decode = msgspec.json.Decoder().decode
"""Of a payload that was read, and so is within all limits."""
_NUMBERS, _TEXTS = (int, float, bool), (str, bytes)
_BY_HTTP = ("http://", "https://")
Runs = list[tuple[dict[str, Any], list[str | None], list[str | None] | None]]
"""Tasks as they are handed in one by one. Those that stand together: the spec that they have in common, the payload of each
(JSON text), and the key of each; None where there is none.
"""
_LISTS = (list, Sequence)
"""`list` first: most are, and to ask `Sequence` takes ten times as long."""
COMMAND_FIELDS = frozenset(["argv", "cwd", "env", "pause"])

FIELDS = (set(Kind._fields) - {"scheduled_at", "parent_id"}) | {
    "payload",
    "command",
    "not_before",
    "parent",
}


def prepare(specs: Any, redactor: Redactor, alike: dict[Any, Kind] | None = None) -> list[NewTask]:
    """Check all specs. Raises for the first bad one, named by its place in the list when there are several.

    `alike` keeps what was looked at once, for the next lists of the same caller.
    """
    if not isinstance(specs, _LISTS) or isinstance(specs, str) or not specs:
        raise _nothing_to_add()
    alike = {} if alike is None else alike
    if len(specs) == 1:
        return [_prepare_alike(specs[0], redactor, alike)]
    prepared = list[NewTask]()
    for first in range(0, len(specs), AT_ONCE):
        some = specs[first : first + AT_ONCE]
        if together := _prepare_together(some, redactor, alike):
            prepared += together
            continue
        for number, spec in enumerate(some, first + 1):
            try:
                prepared.append(_prepare_alike(spec, redactor, alike))
            except TaskdeckError as error:
                error.what = f"task {number} of {len(specs)}: {error.what}"
                raise
    return prepared


def prepare_each(
    specs: Sequence[Any], redactor: Redactor, alike: dict[Any, Kind] | None = None
) -> list[NewTask | Exception]:
    """Check specs each of which stands for itself: in the place of one that `prepare` refuses alone stands the error."""
    alike = {} if alike is None else alike
    try:
        return [*prepare(specs, redactor, alike)]
    except Exception:
        return [_prepared_or_refused(spec, redactor, alike) for spec in specs]


def _prepared_or_refused(spec: Any, redactor: Redactor, alike: dict[Any, Kind]) -> NewTask | Exception:
    try:
        return prepare([spec], redactor, alike)[0]
    except Exception as error:  # whatever it is: the others are not refused for it
        return error


def read_runs(told: Any) -> Runs:
    """What is told as `Runs`. Raises `UsageError` where these are none, or no task stands in them."""
    try:
        runs = msgspec.convert(told, Runs)
    except msgspec.ValidationError as error:
        raise UsageError("these are no runs of tasks", str(error)) from None
    if any(keys is not None and len(keys) != len(payloads) for _, payloads, keys in runs):
        raise UsageError("these are no runs of tasks", "there is not a key for each payload")
    if not any(payloads for _, payloads, _ in runs):
        raise _nothing_to_add()
    return runs


def _nothing_to_add() -> UsageError:
    return UsageError("nothing to add", remedy="taskdeck add -- COMMAND, or taskdeck add TYPE JSON")


def specs_of(runs: Runs) -> list[dict[str, Any]]:
    """The specs of these runs, one by one."""
    return [
        _spec(common, *own)
        for common, payloads, keys in runs
        for own in zip(payloads, keys or [None] * len(payloads), strict=True)
    ]


def _spec(common: Mapping[str, Any], payload: str | None, key: str | None) -> dict[str, Any]:
    own = {"payload": payload, "key": key}
    return {**common, **{name: value for name, value in own.items() if value is not None}}


def prepare_runs(runs: Runs, redactor: Redactor, alike: Mapping[Any, Kind]) -> list[Run]:
    """Check runs of many tasks each, without keys, with plain payloads, and of kinds that were looked at before.

    Empty where each task is to be looked at by itself.
    """
    prepared: list[Run] = []
    for common, payloads, keys in runs:
        given = [payload for payload in payloads if payload is not None]
        if keys or "key" in common or not FEWEST <= len(given) == len(payloads):
            return []
        first = {**common, "payload": given[0]}
        known = _known(_rest(first), alike)
        if known is None or not (run := _plain_run(known, first, given, redactor)):
            return []
        prepared.append(run)
    return prepared


def names_a_python_type(spec: Any) -> bool:
    """Is this, as far as one can see, a task whose payload only its handler can judge?"""
    return (
        isinstance(spec, Mapping)
        and spec.get("command") is None
        and spec.get("type") not in (None, COMMAND_TYPE)
    )


def submit_each(tx: Transaction, wishes: Sequence[tuple[list[NewTask], str]]) -> list[Any]:
    """Insert what several callers hand in (tasks, actor): for each its answer as of `submit`, or the error that it met."""
    together = _done_or_undone(tx, _submit_together, wishes)
    if isinstance(together, Exception):
        return [_done_or_undone(tx, submit, *wish) for wish in wishes]
    return together


def submit_runs(tx: Transaction, asked: Sequence[tuple[Sequence[Run], str]]) -> list[list[Any]]:
    """Insert what several callers hand in as runs (runs, actor): for each caller the new ids of its tasks.

    Where one can't be inserted, for each caller what `submit_each` answers to each of its tasks.
    """
    together = _done_or_undone(tx, _submit_runs_together, asked)
    if isinstance(together, Exception):
        return [submit_each(tx, [([task], actor) for task in _tasks_of(runs)]) for runs, actor in asked]
    return together


def _tasks_of(runs: Sequence[Run]) -> list[NewTask]:
    return [NewTask(kind, payload) for kind, payloads in runs for payload in payloads]


def _submit_runs_together(tx: Transaction, asked: Sequence[tuple[Sequence[Run], str]]) -> list[list[int]]:
    from ..store import tasks

    return [list(tasks.create_runs(tx, runs, actor)) for runs, actor in asked]


def _submit_together(tx: Transaction, wishes: Sequence[tuple[list[NewTask], str]]) -> list[Any]:
    actor = wishes[0][1]
    every = list[NewTask]()
    for prepared, whose in wishes:
        every += prepared
        if whose != actor:
            return [submit(tx, *wish) for wish in wishes]
    answers = submit(tx, every, actor)
    if len(every) == len(wishes):
        return [[answer] for answer in answers]
    rest = iter(answers)
    return [list(islice(rest, len(prepared))) for prepared, _ in wishes]


def _done_or_undone(tx: Transaction, unit: Callable[..., Any], *args: Any) -> Any:
    """What a unit returns, or the error that it met, and then nothing of it stays. Trouble of the store is raised."""
    from .setting_aside import refuse_trouble_of_the_store

    try:
        return tx.unit(unit, *args)
    except Exception as error:
        refuse_trouble_of_the_store(error)
        return error


def submit(tx: Transaction, prepared: list[NewTask], actor: str) -> list[dict[str, Any]]:
    """Insert all of them, or none. A known idempotency key returns the task that has it."""
    from ..store import tasks

    keys = [spec.kind.key for spec in prepared if spec.kind.key]
    if not keys:
        return [_created(task_id) for task_id in tasks.create_all(tx, prepared, actor)]
    ids = tasks.known_by_keys(tx, keys)
    new = list[NewTask]()
    for spec in prepared:
        if spec.kind.key in ids:
            continue
        if spec.kind.key:
            ids[spec.kind.key] = _NEW
        new.append(spec)
    created = iter(tasks.create_all(tx, new, actor) if new else ())
    added = []
    for spec in prepared:
        key = spec.kind.key
        if not key:
            added.append(_created(next(created)))
        elif ids[key] == _NEW:
            ids[key] = next(created)
            added.append(_created(ids[key]))
        else:
            added.append({"id": ids[key], "created": False, "state": tasks.state_of(tx, ids[key])})
    return added


_NEW = 0
"""In the place of an id: it is still to be made."""


def _created(task_id: int) -> dict[str, Any]:
    return {"id": task_id, "created": True, "state": "PENDING"}


def _prepare_together(specs: Sequence[Any], redactor: Redactor, alike: dict[Any, Kind]) -> list[NewTask]:
    """Those of a list that stand together, differ in plain payloads alone, and are of a kind that was looked at before.

    Empty where each is to be looked at by itself.
    """
    rest = _rest(first := specs[0])
    known = _known(rest, alike)
    if known is None or len(specs) < FEWEST or not (given := _payloads_of_alike(specs, rest[0])):
        return []
    run = _plain_run(known, first, given, redactor)
    return _tasks_of([run]) if run else []


def _known(rest: tuple[Any, ...], alike: Mapping[Any, Kind]) -> Kind | None:
    """The kind of what has this `_rest`, where it was looked at before."""
    try:
        return alike.get(rest) if rest else None
    except TypeError:  # it holds a list
        return None


def _plain_run(known: Kind, first: Mapping[str, Any], given: Sequence[str], redactor: Redactor) -> Run | None:
    """Kind and compact payloads of tasks like `first`, a spec of this kind; None where one is to be looked at by itself."""
    if known.type == COMMAND_TYPE or not (payloads := compacted(given)):
        return None
    texts = ",".join(payloads)
    if '"url"' in texts or not redactor.surely_clean(texts):
        return None
    target = _target(first.get("target"), "")
    return known if known.target == target else known._replace(target=target), payloads


def _payloads_of_alike(specs: Sequence[Any], names: tuple[Any, ...]) -> list[str]:
    """The payloads' texts of specs that all have these names, and the same but for it. Empty where they are others."""
    if "key" in names or "payload" not in names or set(map(type, specs)) != {dict}:
        return []
    if [*map(tuple, specs)].count(names) != len(specs):
        return []
    payloads: list[Any] = [spec["payload"] for spec in specs]
    others = list(map(_but_its_own(names), specs))
    types = [set(map(type, column)) for column in (payloads, *zip(*others, strict=True))]  # True equals 1
    if types[0] != {str} or any(len(each) > 1 for each in types) or others.count(others[0]) != len(specs):
        return []
    return payloads


def _prepare_alike(spec: Any, redactor: Redactor, alike: dict[Any, Kind]) -> NewTask:
    """Tasks of a list mostly differ in payload and key alone: all else is looked at once for those that are alike in it."""
    rest = _rest(spec)
    known = _known(rest, alike)
    if known is None:
        found = _prepare_one(spec, redactor)
        if rest and len(alike) < MOST_ALIKE:
            with suppress(TypeError):  # it holds a list
                alike[rest] = found.kind
        return found
    payload = _payload(known.type, spec.get("payload"), redactor)
    key = _key(spec["key"], redactor) if "key" in spec else None
    target = _target(spec.get("target"), payload)
    if key != known.key or target != known.target:
        known = known._replace(key=key, target=target)
    return NewTask(known, payload)


def _rest(spec: Any) -> tuple[Any, ...]:
    """What of a spec is looked at once, with the types of its values (True equals 1). Empty where there is nothing."""
    if not isinstance(spec, dict) or "command" in spec:
        return ()
    names = tuple(spec)
    values = _but_its_own(names)(spec)
    return names, values, *map(type, values)


@lru_cache(maxsize=256)
def _but_its_own(names: tuple[Any, ...]) -> Callable[[dict[Any, Any]], tuple[Any, ...]]:
    """What takes the values of all but the payload and key from a spec that has these names."""
    rest = [name for name in names if name not in ("payload", "key")]
    if len(rest) > 1:
        return itemgetter(*rest)
    return (lambda spec: (spec[rest[0]],)) if rest else lambda spec: ()


def _prepare_one(spec: Any, redactor: Redactor) -> NewTask:
    if not isinstance(spec, Mapping):
        raise UsageError("a task is an object", f"this is {type(spec).__name__}")
    if unknown := sorted(set(spec) - FIELDS, key=str):
        raise UsageError(f"unknown field {unknown[0]!r}", f"known fields: {', '.join(sorted(FIELDS))}")
    type_name, payload = _what(spec, redactor)
    kind = Kind(
        type=type_name,
        priority=_whole(spec, "priority", PRIORITIES, 100),
        scheduled_at=_when(spec.get("not_before")),
        key=_key(spec.get("key"), redactor),
        schedule=_schedule(spec.get("schedule"), redactor),
        parent_id=_whole(spec, "parent", IDS, None),
        tags=encode(_tags(spec.get("tags") or [], redactor)),
        timeout=_timeout(spec.get("timeout")),
        max_retry=_whole(spec, "max_retry", RETRIES, None),
        on_lost=_one_of(spec, "on_lost", ("rerun", "review")),
        target=_target(spec.get("target"), payload),
        bandwidth=_bandwidth(spec.get("bandwidth")),
        **_holdings(spec),
    )
    return NewTask(kind, payload)


def _what(spec: Mapping[str, Any], redactor: Redactor) -> tuple[str, str]:
    """The type and the payload's text."""
    if (command := spec.get("command")) is not None:
        if spec.get("payload") is not None or spec.get("type") not in (None, COMMAND_TYPE):
            raise UsageError("a task is either a command or a type with a payload, not both")
        return COMMAND_TYPE, encode(_command(command, redactor))
    type_name = spec.get("type")
    if not isinstance(type_name, str) or not TYPE_NAME.fullmatch(type_name):
        raise UsageError(f"bad task type {type_name!r}", NAMED_BY)
    return type_name, _payload(type_name, spec.get("payload"), redactor)


def _payload(type_name: str, given: Any, redactor: Redactor) -> str:
    if given is None:
        given = "{}"
    elif not isinstance(given, _TEXTS):
        given = encode(given)
    value, compact = read(given, where="payload")
    if type_name == COMMAND_TYPE:
        return encode(_command(value, redactor))
    if type(value) not in _NUMBERS and not redactor.surely_clean(compact):
        _refuse_secrets(redactor, value, "payload")
    return compact


def _command(command: Any, redactor: Redactor) -> dict[str, Any]:
    if not isinstance(command, Mapping):
        raise InvalidPayload("a command is an object with argv", f"this is {type(command).__name__}")
    if unknown := sorted(set(command) - COMMAND_FIELDS, key=str):
        raise InvalidPayload(
            f"unknown field {unknown[0]!r} in a command", f"known: {', '.join(sorted(COMMAND_FIELDS))}"
        )
    argv = command.get("argv")
    if not isinstance(argv, list | tuple) or not argv or not all(isinstance(each, str) for each in argv):
        raise InvalidPayload(
            "argv must be a list of texts, the program first", remedy="taskdeck add -- COMMAND ARG …"
        )
    if not argv[0]:
        raise InvalidPayload("the command is empty", remedy="name a program after --")
    for number, argument in enumerate(argv):
        if "\0" in argument:
            raise InvalidPayload(f"argument {number} holds a NUL", "no program can be given one")
        if len(argument.encode("utf-8", "surrogateescape")) > ARGUMENT_LIMIT:
            raise InvalidPayload(
                f"argument {number} is longer than {ARGUMENT_LIMIT} bytes", remedy="put it in a file"
            )
    _refuse_secrets(redactor, list(argv), "command line")
    return {"argv": list(argv), **_surroundings(command, redactor)}


def _surroundings(command: Mapping[str, Any], redactor: Redactor) -> dict[str, Any]:
    """Where and how a command runs."""
    cwd = command.get("cwd") or "/"
    if not isinstance(cwd, str) or "\0" in cwd or not cwd.startswith("/"):
        raise InvalidPayload("cwd must be the whole path of a directory", f"this is {str(cwd)[:80]!r}")
    environment = command.get("env") or {}
    if not isinstance(environment, Mapping) or not all(
        isinstance(value, str) for value in environment.values()
    ):
        raise InvalidPayload("env must map names to texts or references")
    for name in environment:
        if not isinstance(name, str) or not VARIABLE.fullmatch(name):
            raise InvalidPayload(f"{str(name)[:40]!r} can't be the name of a variable")
    _refuse_secrets(redactor, dict(environment), "env")
    pause = command.get("pause") or "stop"
    if pause not in ("stop", "checkpoint"):
        raise InvalidPayload(f"pause must be stop or checkpoint, not {pause!r}")
    return {"cwd": cwd, "env": dict(environment), "pause": pause}


def _refuse_secrets(redactor: Redactor, value: Any, where: str) -> None:
    if value is None or type(value) in _NUMBERS:
        return
    if findings := redactor.find(value):
        found = findings[0]
        raise SecretInInput(
            f"a secret stands in the {where} ({found.where}: {found.rule})",
            "what is added is stored and shown",
            "pass a reference instead: --env NAME for a variable of the worker's environment, or file:/path",
        )


def _holdings(spec: Mapping[str, Any]) -> dict[str, Any]:
    """What an attempt must hold, where the task says so itself."""
    needs, route, direct = spec.get("needs"), spec.get("route"), spec.get("allow_direct")
    if direct is not None and not isinstance(direct, bool):
        raise UsageError("allow_direct must be true or false", f"this is {direct!r}")
    try:
        words = needs_text(parse_needs(needs)) if needs else []
        group = parse_group(route) if route is not None else None
    except ValueError as error:
        raise UsageError("what the task needs can't be read", str(error)) from None
    return {"needs": encode(words) if words else None, "route": group, "allow_direct": direct}


def _target(given: Any, payload: str) -> str:
    """The host that the task works on: as it is named, else that of the `url` in its payload."""
    if given is not None:
        try:
            return named_host(str(given))
        except ValueError:
            raise UsageError(
                "the target is no host", remedy="name the host that it works on, such as shop.example.org"
            ) from None
    if '"url"' not in payload:
        return ""
    url = _decode(payload).get("url") if payload.startswith("{") else None
    return bare_host(url) if isinstance(url, str) and url.startswith(_BY_HTTP) else ""


def _whole(spec: Mapping[str, Any], field: str, allowed: range, default: int | None) -> Any:
    value = spec.get(field)
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, int) or value not in allowed:
        raise UsageError(
            f"{field} must be a whole number from {allowed[0]} to {allowed[-1]}", f"this is {value!r}"
        )
    return value


def _one_of(spec: Mapping[str, Any], field: str, words: tuple[str, ...]) -> str | None:
    value = spec.get(field)
    if value is not None and value not in words:
        raise UsageError(f"{field} must be {' or '.join(words)}", f"this is {value!r}")
    return value


def _when(text: Any) -> str:
    if text in (None, ""):
        return ""
    try:
        return utc_text(parse_utc(str(text)))
    except ValueError as error:
        raise UsageError(
            f"bad time {text!r}", str(error), "write UTC like 2026-11-29T17:12:40.000000Z"
        ) from None


def _timeout(value: Any) -> float | None:
    """Seconds; 0 or less means "none", also where the type has one (TF027)."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value or value > 10**9:
        raise UsageError("timeout must be a number of seconds", f"this is {value!r}")
    return float(max(0, value))


def _bandwidth(value: Any) -> float | None:
    """Bytes a second."""
    if value is None:
        return None
    try:
        return parse_rate(value if isinstance(value, str) else "")
    except ValueError as error:
        raise UsageError(str(error), f"this is {str(value)[:40]!r}") from None


def _key(value: Any, redactor: Redactor) -> str | None:
    if value is None:
        return None
    if not isinstance(value, str) or not value or len(value) > KEY_LIMIT or not value.isprintable():
        raise UsageError(f"a key is 1 to {KEY_LIMIT} printable characters", f"this is {str(value)[:40]!r}")
    if '"' in value or not redactor.surely_clean(f'"{value}"'):
        _refuse_secrets(redactor, value, "key")
    return value


def _schedule(value: Any, redactor: Redactor) -> str | None:
    """The name of the schedule that it comes from."""
    if value is None:
        return None
    if not isinstance(value, str) or not TYPE_NAME.fullmatch(value):
        raise UsageError(f"bad name of a schedule {value!r:.60}", NAMED_BY)
    _refuse_secrets(redactor, value, "schedule")
    return value


def _tags(tags: Any, redactor: Redactor) -> list[str]:
    if not isinstance(tags, list | tuple) or len(tags) > 20:
        raise UsageError("tags must be a list of at most 20 texts")
    for tag in tags:
        if not isinstance(tag, str) or not tag.strip() or len(tag) > 64 or not tag.isprintable():
            raise UsageError("a tag is 1 to 64 printable characters", f"this is {str(tag)[:40]!r}")
    _refuse_secrets(redactor, list(tags), "tags")
    return list(tags)
