"""`add`: commands and tasks of a type, from arguments, standard input or a file; prints the ids.

Reads and checks what was typed; whether a task is right is decided by `commands.submit`. Loads nothing that only looks.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Annotated, Any

import typer

from taskdeck.engine.errors import UsageError

from .. import output
from ..commandline import CommandLine

Type = Annotated[str | None, typer.Argument(metavar="[TYPE]", help="A task type; leave it out before `-- COMMAND`.")]
Payload = Annotated[str | None, typer.Argument(metavar="[JSON]", help="Its payload; `-` reads standard input.")]
File = Annotated[str | None, typer.Option("--file", "-f", metavar="FILE.jsonl", help="One task a line, all or none; `-` = stdin.")]
Param = Annotated[list[str] | None, typer.Option("--param", "-p", metavar="NAME=VALUE", help="One field of the payload.")]
Priority = Annotated[int | None, typer.Option("--priority", help="Smaller starts first; 100 by default.")]
Key = Annotated[str | None, typer.Option("--key", help="Idempotency key: a known one adds nothing and prints its task.")]
At = Annotated[str | None, typer.Option("--at", metavar="TIME", help="17:00, '2026-12-24 17:00' (local), or UTC with Z.")]
In = Annotated[str | None, typer.Option("--in", metavar="DURATION", help="Not before 30s, 5m, 1h30m from now.")]
Retries = Annotated[int | None, typer.Option("--retries", min=0, help="Retries before a person must look.")]
Timeout = Annotated[str | None, typer.Option("--timeout", metavar="DURATION", help="End an attempt after so long.")]
OnLost = Annotated[str | None, typer.Option("--on-lost", metavar="rerun|review", help="When its worker was lost.")]
Env = Annotated[
    list[str] | None,
    typer.Option("--env", metavar="NAME[=VALUE]", help="Pass a variable as it is now, or VALUE, or env:NAME, file:/PATH."),
]
Cwd = Annotated[str | None, typer.Option("--cwd", metavar="DIR", help="Working directory; this one by default.")]
Pause = Annotated[str | None, typer.Option("--pause", metavar="stop|checkpoint", help="How the command is paused.")]
Tag = Annotated[list[str] | None, typer.Option("--tag", help="A tag; may be repeated.")]
Wait = Annotated[bool, typer.Option("--wait", help="Wait until it has ended; exit as `wait` does.")]


def add(
    ctx: typer.Context,
    type_: Type = None,
    payload: Payload = None,
    file: File = None,
    param: Param = None,
    priority: Priority = None,
    key: Key = None,
    at: At = None,
    in_: In = None,
    retries: Retries = None,
    timeout: Timeout = None,
    on_lost: OnLost = None,
    env: Env = None,
    cwd: Cwd = None,
    pause: Pause = None,
    tag: Tag = None,
    wait: Wait = False,
) -> int:
    """Add a command (add [OPTIONS] -- COMMAND...), a task of a type (add TYPE [JSON]) or a file of tasks (add -f FILE)."""
    line: CommandLine = ctx.obj
    _one_way(line, type_, file)
    options = {
        "priority": priority,
        "key": _key(key),
        "not_before": _moment(at, in_),
        "max_retry": retries,
        "timeout": _seconds(timeout),
        "on_lost": _choice("--on-lost", on_lost, ("rerun", "review")),
        "tags": tag or None,
    }
    if line.command is not None:
        _refuse(line, {"--param": param, "JSON": payload}, "a command takes no payload")
        what = {"command": _command(line.command, cwd, env, pause)}
    elif file is not None:
        _refuse(line, options | {"--param": param, "--env": env, "--cwd": cwd}, "a file's lines say it themselves")
        return _add_file(line, file, wait)
    else:
        _refuse(line, {"--env": env, "--cwd": cwd, "--pause": pause}, "only a command (`-- COMMAND`) takes it")
        what = {"type": type_, "payload": _payload(payload, param)}
    spec = what | {name: value for name, value in options.items() if value is not None}
    return _submit(line, [spec], wait)


def _one_way(line: CommandLine, type_: str | None, file: str | None) -> None:
    if line.command is not None and not line.command:
        raise UsageError("no command stands behind `--`", remedy="write: taskdeck add -- COMMAND [ARGUMENTS]")
    ways = [line.command is not None, type_ is not None, file is not None]
    if sum(ways) == 1:
        return
    if not any(ways):
        raise UsageError("nothing to add", remedy="write: add -- COMMAND, add TYPE [JSON], or add -f FILE.jsonl")
    raise UsageError(
        "a command, a type and a file exclude each other",
        f"`{type_}` stands before `--`" if type_ and line.command else "",
        "a command stands behind `--` as a whole: taskdeck add [OPTIONS] -- COMMAND",
    )


def _refuse(line: CommandLine, options: dict[str, Any], why: str) -> None:
    names = {"not_before": "--at/--in", "max_retry": "--retries", "tags": "--tag"}
    for name, value in options.items():
        if value is not None:
            shown = name if name.startswith("-") or name.isupper() else names.get(name, f"--{name.replace('_', '-')}")
            raise UsageError(f"{shown} does not fit here", why, "see: taskdeck add --help")


def _command(argv: list[str], cwd: str | None, env: Sequence[str] | None, pause: str | None) -> dict[str, Any]:
    command: dict[str, Any] = {"argv": argv, "cwd": _directory(cwd)}
    if env:
        command["env"] = dict(_variable(text) for text in env)
    if pause is not None:
        command["pause"] = _choice("--pause", pause, ("stop", "checkpoint"))
    return command


def _directory(named: str | None) -> str:
    try:
        found = os.path.abspath(os.path.expanduser(named)) if named else os.getcwd()
    except FileNotFoundError:
        raise UsageError("the working directory does not exist any more", remedy="name one with --cwd") from None
    if not os.path.isdir(found):
        raise UsageError(f"--cwd {found} is no directory", remedy="name one that exists")
    return found


def _variable(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not name:
        raise UsageError(f"--env {text} names no variable", remedy="write --env NAME or --env NAME=VALUE")
    if equals:
        return name, value
    if name not in os.environ:
        raise UsageError(f"the variable {name} is not set here", remedy=f"set it, or write --env {name}=VALUE")
    return name, os.environ[name]


def _payload(text: str | None, param: Sequence[str] | None) -> str:
    if text == "-":
        text = _standard_input()
    if not param:
        return text if text is not None else "{}"
    import json

    try:
        fields = json.loads(text) if text is not None else {}
    except ValueError as error:
        raise UsageError("the payload is no JSON", str(error), "see: taskdeck add --help") from None
    if not isinstance(fields, dict):
        raise UsageError("--param adds to an object, and the payload is none", remedy="write the payload as {…}")
    named: set[str] = set()
    for each in param:
        name, value = _param(each)
        if name in named:
            raise UsageError(f"--param {name} is given twice")
        named.add(name)
        fields[name] = value
    return json.dumps(fields, ensure_ascii=False)


def _param(text: str) -> tuple[str, Any]:
    """`NAME=VALUE`: the value is JSON where it reads as JSON, else text."""
    import json

    name, equals, value = text.partition("=")
    if not equals or not name:
        raise UsageError(f"--param {text} names no value", remedy="write --param NAME=VALUE")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value


def _standard_input() -> str:
    if sys.stdin is None:
        raise UsageError("standard input is closed, and `-` reads it")
    data = sys.stdin.buffer.read()
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise UsageError("standard input is no UTF-8 text", f"at byte {error.start}") from None


def _key(key: str | None) -> str | None:
    if key is None:
        return None
    if not key.strip():
        raise UsageError("an empty key can't be addressed", remedy="leave --key out, or give it a name")
    return key


def _moment(at: str | None, in_: str | None) -> str | None:
    if at is not None and in_ is not None:
        raise UsageError("--at and --in exclude each other")
    if at is None and in_ is None:
        return None
    from .moments import after, at_time

    return at_time(at) if at is not None else after(str(in_))


def _seconds(text: str | None) -> float | None:
    if text is None:
        return None
    from .wait import duration

    seconds = duration(text, "--timeout")
    if seconds == 0:
        raise UsageError("--timeout 0 would end every attempt at once", remedy="leave it out for no timeout")
    return seconds


def _choice(option: str, value: str | None, known: Sequence[str]) -> str | None:
    if value is not None and value not in known:
        raise UsageError(f"{option} {value} is unknown", f"known: {', '.join(known)}")
    return value


def _add_file(line: CommandLine, file: str, wait: bool) -> int:
    from .lines import read_specs

    if file == "-":
        return _submit(line, read_specs("standard input", _standard_input()), wait, many=True)
    try:
        with open(file, encoding="utf-8") as source:
            text = source.read()
    except UnicodeDecodeError as error:
        raise UsageError(f"{file} is no UTF-8 text", f"at byte {error.start}") from None
    except OSError as error:
        raise UsageError(f"{file} can't be read", error.strerror or "") from None
    return _submit(line, read_specs(file, text), wait, many=True)


def _submit(line: CommandLine, specs: list[dict[str, Any]], wait: bool, *, many: bool = False) -> int:
    from taskdeck.engine import commands

    results = commands.call(line.config, "submit", line.actor, specs=specs)
    for each in results:
        if line.json:
            output.json_line(each)
        else:
            output.line(str(each["id"]))
            if not each["created"] and not many:
                output.note(f"#{each['id']} has this key already and is {each['state'].lower()}; nothing was added")
    return _wait(line, [each["id"] for each in results]) if wait else 0


def _wait(line: CommandLine, ids: list[int]) -> int:
    from taskdeck.engine import views

    from .wait import until_settled

    output.flush()
    with views.open_view(line.config) as view:
        return until_settled(view, line, ids, None)
