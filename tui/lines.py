"""A file of tasks, one JSON object a line: all mistakes are found at once, with their line numbers."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import msgspec

from taskdeck.engine.errors import TaskdeckError, UsageError

from .adding import checked_key, choice, directory

MOST_SHOWN = 20
AT_ONCE = 256
"""Lines that are looked at together, where they are the same around their payloads."""
COMMAND_FIELDS = ("cwd", "env", "pause")


class Line(msgspec.Struct, forbid_unknown_fields=True):
    """One task: a `type` with its `payload`, or a `command` (with `cwd`, `env`, `pause`); the rest as on `add`."""

    type: str | msgspec.UnsetType = msgspec.UNSET
    payload: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    command: list[str] | msgspec.UnsetType = msgspec.UNSET
    cwd: str | msgspec.UnsetType = msgspec.UNSET
    env: dict[str, str] | msgspec.UnsetType = msgspec.UNSET
    pause: str | msgspec.UnsetType = msgspec.UNSET
    priority: int | msgspec.UnsetType = msgspec.UNSET
    key: str | msgspec.UnsetType = msgspec.UNSET
    at: str | msgspec.UnsetType = msgspec.UNSET
    retries: int | msgspec.UnsetType = msgspec.UNSET
    timeout: str | float | msgspec.UnsetType = msgspec.UNSET
    on_lost: str | msgspec.UnsetType = msgspec.UNSET
    tags: list[str] | msgspec.UnsetType = msgspec.UNSET
    needs: list[str] | msgspec.UnsetType = msgspec.UNSET
    route: str | msgspec.UnsetType = msgspec.UNSET
    allow_direct: bool | msgspec.UnsetType = msgspec.UNSET
    target: str | msgspec.UnsetType = msgspec.UNSET
    bandwidth: str | msgspec.UnsetType = msgspec.UNSET


_decoder = msgspec.json.Decoder(Line)
_parts = msgspec.json.Decoder(dict[str, msgspec.Raw])


def read_specs(name: str, text: str) -> dict[int, dict[str, Any]]:
    """The specs by line number; empty lines are skipped. Raises `UsageError` that names every bad line."""
    specs: dict[int, dict[str, Any]] = {}
    alike: dict[Any, dict[str, Any]] = {}
    frame: Frame | None = None
    problems: list[str] = []
    lines = text.split("\n")
    for first in range(0, len(lines), AT_ONCE):
        some = lines[first : first + AT_ONCE]
        if frame is not None and (payloads := frame.payloads_of(some)):
            spec = frame.spec
            specs.update(enumerate([{**spec, "payload": payload} for payload in payloads], first + 1))
            continue
        for number, line in enumerate(some, first + 1):
            if frame is not None and (payloads := frame.payloads_of([line])):
                specs[number] = {**frame.spec, "payload": payloads[0]}
                continue
            if not line.strip():
                continue
            try:
                specs[number] = spec = _read(line, alike)
                frame = _framed(line, spec)
            except RecursionError:
                problems.append(f"{name}:{number}: it is nested too deeply")
            except (msgspec.DecodeError, ValueError, UsageError) as error:
                problems.append(f"{name}:{number}: {error}")
    if problems:
        more = [f"and {len(problems) - MOST_SHOWN} more"] if len(problems) > MOST_SHOWN else []
        bad = "1 line is" if len(problems) == 1 else f"{len(problems)} lines are"
        raise UsageError(
            f"{bad} wrong, so nothing was added", "\n  ".join(["", *problems[:MOST_SHOWN], *more]).rstrip()
        )
    if not specs:
        raise UsageError(
            f"{name} holds no task", remedy='write one JSON object a line: {"command": ["true"]}'
        )
    return specs


def placed(error: TaskdeckError, name: str, lines: list[int]) -> TaskdeckError:
    """The refusal of `task N of M`, told by the line of the file."""
    found = re.match(r"task (\d+) of \d+: ", error.what)
    if found and int(found[1]) <= len(lines):
        error.what = f"{name}:{lines[int(found[1]) - 1]}: {error.what[found.end() :]}"
    elif len(lines) == 1:
        error.what = f"{name}:{lines[0]}: {error.what}"
    return error


class Frame(NamedTuple):
    """A line around its payload: one that is the same around another value says the same of another payload."""

    head: str
    tail: str
    signs: tuple[str, ...]
    """With one of them in its payload, a key may stand twice in the line."""
    spec: dict[str, Any]

    def payloads_of(self, lines: list[str]) -> list[str]:
        """What each has in the place of the payload. Empty where one is another line, or not just a value stands there."""
        head, tail = self.head, self.tail
        start, end = len(head), -len(tail)
        payloads = [line[start:end] for line in lines if line.startswith(head) and line.endswith(tail)]
        together = ",".join(payloads)
        if len(payloads) < len(lines) or any(sign in together for sign in self.signs):
            return []
        try:
            values = _values.decode(f"[{together}]")
        except (msgspec.DecodeError, ValueError, RecursionError):
            return []
        return payloads if list(map(bytes, values)) == list(map(str.encode, payloads)) else []


_values = msgspec.json.Decoder(list[msgspec.Raw])
_NAME = re.compile(r'("\w+")\s*:\s*')


def _framed(line: str, spec: dict[str, Any]) -> Frame | None:
    """The frame of a line of a type that has no key, which would be each task's own."""
    if "command" in spec or "key" in spec:
        return None
    place = next((found.end() for found in _NAME.finditer(line) if found[1] == '"payload"'), 0)
    head, tail = line[:place], line[place + len(spec["payload"]) :]
    if not place or line != f"{head}{spec['payload']}{tail}":
        return None
    rest = head + tail
    names = {found[1] for found in _NAME.finditer(rest)}
    if "\\u" in rest or any(rest.count(name) > 1 for name in names):
        return None
    return Frame(head, tail, ("\\u", *names), spec)


def _read(line: str, alike: dict[Any, dict[str, Any]]) -> dict[str, Any]:
    """The spec of a line. What it says beside payload and key is read once for all lines that say it in the same words."""
    try:
        parts = _parts.decode(line)
    except msgspec.DecodeError:
        parts = {}
    if _may_repeat(line, parts):
        _refuse_repeated(line)
    if "type" not in parts or "command" in parts or not bytes(parts.get("key", b'"')).startswith(b'"'):
        return _spec(_decoder.decode(line))
    same = tuple((name, bytes(part)) for name, part in parts.items() if name not in ("payload", "key"))
    known = alike.get(same)
    if known is None:
        spec = _spec(_decoder.decode(line))
        alike[same] = {name: value for name, value in spec.items() if name != "key"}
        return spec
    spec = {**known, "payload": bytes(parts.get("payload", b"{}")).decode()}
    if "key" in parts:
        spec["key"] = checked_key(msgspec.json.decode(parts["key"]))
    return spec


def _may_repeat(line: str, parts: dict[str, msgspec.Raw]) -> bool:
    """May a key stand twice in it? The parser takes the last then; what is in a payload is looked at by the engine."""
    return "env" in parts or "\\u" in line or any(line.count(f'"{name}"') > 1 for name in parts)


def _refuse_repeated(line: str) -> None:
    from .once_each import Unclear, read_json

    try:
        read_json(line)
    except Unclear as error:
        raise UsageError(str(error)) from None


def _spec(line: Line) -> dict[str, Any]:
    given = {name: getattr(line, name) for name in line.__struct_fields__}
    given = {name: value for name, value in given.items() if value is not msgspec.UNSET}
    if ("command" in given) == ("type" in given):
        raise UsageError("a task has either `type` or `command`")
    if "command" in given:
        return _command(given)
    if wrong := [name for name in COMMAND_FIELDS if name in given]:
        raise UsageError(f"`{wrong[0]}` belongs to a command")
    payload = given.pop("payload", msgspec.Raw(b"{}"))
    return _common(given) | {"type": given["type"], "payload": bytes(payload).decode()}


def _command(given: dict[str, Any]) -> dict[str, Any]:
    if "payload" in given:
        raise UsageError("`payload` belongs to a type, not to a command")
    if not given["command"]:
        raise UsageError("`command` is empty")
    choice("pause", given.get("pause"), ("stop", "checkpoint"))
    command = {"argv": given["command"], "cwd": directory(given.get("cwd"))}
    command |= {name: given[name] for name in ("env", "pause") if name in given}
    return _common(given) | {"command": command}


def _common(given: dict[str, Any]) -> dict[str, Any]:
    checked_key(given.get("key"))
    choice("on_lost", given.get("on_lost"), ("rerun", "review"))
    same = ("priority", "key", "on_lost", "tags", "needs", "route", "allow_direct", "target", "bandwidth")
    spec = {name: given[name] for name in same if name in given}
    if "retries" in given:
        spec["max_retry"] = given["retries"]
    if "at" in given:
        from .moments import at_time

        spec["not_before"] = at_time(given["at"])
    if "timeout" in given:
        from .moments import duration

        spec["timeout"] = duration(str(given["timeout"]), "timeout")
    return spec
