"""`add`: commands and tasks of a type, from arguments, standard input or a file; prints the ids.

Reads and checks what was typed; whether a task is right is decided by `commands.submit`. Loads nothing that only looks,
and no parser: `quick` reads the plain options itself, so that adding a task is as fast as it can be.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO

from taskdeck.engine.errors import InvalidPayload, TaskdeckError, UsageError
from taskdeck.engine.garbage import uncollected

from . import output
from .commandline import CommandLine


@dataclass
class Options:
    """What was typed behind `add`, before `--`; None = not given."""

    type: str | None = None
    payload: str | None = None
    file: str | None = None
    param: list[str] | None = None
    priority: int | None = None
    key: str | None = None
    at: str | None = None
    in_: str | None = None
    retries: int | None = None
    timeout: str | None = None
    on_lost: str | None = None
    env: list[str] | None = None
    cwd: str | None = None
    pause: str | None = None
    tag: list[str] | None = None
    needs: list[str] | None = None
    route: str | None = None
    allow_direct: bool | None = None
    target: str | None = None
    bandwidth: str | None = None
    wait: bool = False


LARGEST_INPUT = 256 << 20
"""Bytes of a file or of standard input: some hundreds of thousands of tasks."""
SHELL_CHARACTERS = " ;|&<>$`\t\n"
"""What only a shell takes apart."""

TEXTS = {
    "--file": "file",
    "-f": "file",
    "--key": "key",
    "--at": "at",
    "--in": "in_",
    "--timeout": "timeout",
    "--on-lost": "on_lost",
    "--cwd": "cwd",
    "--pause": "pause",
    "--route": "route",
    "--target": "target",
    "--bandwidth": "bandwidth",
}
LISTS = {"--param": "param", "-p": "param", "--env": "env", "--tag": "tag", "--needs": "needs"}
NUMBERS = {"--priority": "priority", "--retries": "retries"}
SWITCHES = {"--wait": "wait", "--allow-direct": "allow_direct"}


def quick(words: Sequence[str]) -> Options | None:
    """Read plain, correct words; None for all else (mistakes, `--help`), which the full parser then explains."""
    found = Options()
    rest = iter(words)
    for word in rest:
        name, equals, value = word.partition("=") if word.startswith("--") else (word, "", "")
        if name in SWITCHES and not equals:
            setattr(found, SWITCHES[name], True)
        elif name in TEXTS or name in LISTS or name in NUMBERS:
            value = value if equals else next(rest, None)
            if value is None or not _set(found, name, value):
                return None
        elif word.startswith("-") and word != "-":
            return None
        elif found.type is None:
            found.type = word
        elif found.payload is None:
            found.payload = word
        else:
            return None
    return found


def _set(options: Options, name: str, value: str) -> bool:
    if name in TEXTS:
        setattr(options, TEXTS[name], value)
    elif name in LISTS:
        field = LISTS[name]
        setattr(options, field, [*(getattr(options, field) or []), value])
    elif value.isascii() and value.isdecimal():
        setattr(options, NUMBERS[name], int(value))
    else:
        return False
    return True


def add(line: CommandLine, options: Options) -> int:
    """Add what was typed and print the ids. Raises what `commands.submit` refuses."""
    _one_way(line, options)
    common = {
        "priority": options.priority,
        "key": checked_key(options.key),
        "not_before": _moment(options.at, options.in_),
        "max_retry": options.retries,
        "timeout": _seconds(options.timeout),
        "on_lost": choice("--on-lost", options.on_lost, ("rerun", "review")),
        "tags": options.tag,
        "needs": options.needs,
        "route": options.route,
        "allow_direct": options.allow_direct,
        "target": options.target,
        "bandwidth": options.bandwidth,
    }
    for_commands = {"--env": options.env, "--cwd": options.cwd, "--pause": options.pause}
    if options.file is not None:
        _refuse(common | for_commands | {"--param": options.param}, "a file's lines say it themselves")
        return add_file(line, options.file, options.wait)
    if line.command is not None:
        _refuse({"--param": options.param}, "a command takes no payload")
        _refuse_one_word(line.command, options.cwd)
        what: dict[str, Any] = {"command": _command(line.command, options)}
    else:
        _refuse(for_commands, "only a command (`-- COMMAND`) takes it")
        what = {"type": options.type, "payload": _payload(options.payload, options.param)}
    spec = what | {name: value for name, value in common.items() if value is not None}
    return _submit(line, [spec], options.wait)


def _one_way(line: CommandLine, options: Options) -> None:
    if line.command is not None and not line.command:
        raise UsageError("no command stands behind `--`", remedy="write: taskdeck add -- COMMAND [ARGUMENTS]")
    ways = [line.command is not None, options.type is not None, options.file is not None]
    if sum(ways) == 1:
        return
    if not any(ways):
        raise UsageError(
            "nothing to add", remedy="write: add -- COMMAND, add TYPE [JSON], or add -f FILE.jsonl"
        )
    raise UsageError(
        "a command, a type and a file exclude each other",
        f"`{options.type}` stands before `--`" if options.type and line.command else "",
        "a command stands behind `--` as a whole: taskdeck add [OPTIONS] -- COMMAND",
    )


def _refuse(options: dict[str, Any], why: str) -> None:
    names = {"not_before": "--at/--in", "max_retry": "--retries", "tags": "--tag"}
    for name, value in options.items():
        if value is not None:
            shown = names.get(name, name if name.startswith("-") else f"--{name.replace('_', '-')}")
            raise UsageError(f"{shown} does not fit here", why, "see: taskdeck add --help")


def _command(argv: list[str], options: Options) -> dict[str, Any]:
    command: dict[str, Any] = {"argv": argv, "cwd": directory(options.cwd)}
    if options.env:
        command["env"] = dict(_variable(text) for text in options.env)
    if options.pause is not None:
        command["pause"] = choice("--pause", options.pause, ("stop", "checkpoint"))
    return command


def directory(named: str | None) -> str:
    """An existing directory as an absolute path; this one by default."""
    if named == "":
        raise UsageError("--cwd names no directory", "is a variable not set?", "name one, or leave it out")
    try:
        found = os.path.abspath(os.path.expanduser(named)) if named else os.getcwd()
    except FileNotFoundError:
        raise UsageError(
            "the working directory does not exist any more", remedy="name one with --cwd"
        ) from None
    if not os.path.isdir(found):
        raise UsageError(f"--cwd {found} is no directory", remedy="name one that exists")
    return found


def _variable(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not name:
        raise UsageError(f"--env {text} names no variable", remedy="write --env NAME or --env NAME=VALUE")
    # A name alone is a reference, resolved where the command runs: what may be a secret is never stored.
    return name, value if equals else f"env:{name}"


def _payload(text: str | None, param: Sequence[str] | None) -> str:
    if text == "-":
        text = _standard_input()
    if not param:
        return text if text is not None else "{}"
    import json

    from .once_each import Unclear, read_json

    try:
        fields = read_json(text) if text is not None else {}
    except (json.JSONDecodeError, Unclear) as error:
        raise UsageError("the payload is no JSON", str(error), "see: taskdeck add --help") from None
    if not isinstance(fields, dict):
        raise UsageError(
            "--param adds to an object, and the payload is none", remedy="write the payload as {…}"
        )
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

    from .once_each import Unclear, read_json

    name, equals, value = text.partition("=")
    if not equals or not name:
        raise UsageError(f"--param {text} names no value", remedy="write --param NAME=VALUE")
    try:
        return name, read_json(value)
    except json.JSONDecodeError:
        return name, value
    except Unclear as error:
        raise UsageError(f"the value of --param {name} is refused", str(error)) from None


def _standard_input() -> str:
    if sys.stdin is None:
        raise UsageError("standard input is closed, and `-` reads it")
    return _text(sys.stdin.buffer, "standard input")


def _text(source: BinaryIO, name: str) -> str:
    """All of it, as far as a person can mean it: what never ends must not fill the memory."""
    data = source.read(LARGEST_INPUT + 1)
    if len(data) > LARGEST_INPUT:
        raise UsageError(f"{name} is larger than {LARGEST_INPUT >> 20} MiB", remedy="add it in parts")
    try:
        return data.decode("utf-8").removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        raise UsageError(f"{name} is no UTF-8 text", f"at byte {error.start}") from None


def checked_key(key: str | None) -> str | None:
    """A key that can be addressed later."""
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
    from .moments import duration

    return duration(text, "--timeout")


def choice(option: str, value: str | None, known: Sequence[str]) -> str | None:
    """One of the known words."""
    if value is not None and value not in known:
        raise UsageError(f"{option} {value} is unknown", f"known: {', '.join(known)}")
    return value


def add_file(line: CommandLine, file: str, wait: bool) -> int:
    from .lines import placed, read_specs

    name = "standard input" if file == "-" else file
    with uncollected():
        specs = read_specs(name, _standard_input() if file == "-" else _text_of(file))
    try:
        return _submit(line, list(specs.values()), wait, many=True)
    except TaskdeckError as error:
        raise placed(error, name, list(specs)) from None


def _text_of(file: str) -> str:
    try:
        with open(file, "rb") as source:
            return _text(source, file)
    except OSError as error:
        raise UsageError(f"{file} can't be read", error.strerror or "") from None


def _refuse_one_word(command: Sequence[str], cwd: str | None) -> None:
    """`-- 'echo hi; sleep 1'` names one program with a strange name; only a shell reads it as meant."""
    if len(command) != 1 or not set(command[0]) & set(SHELL_CHARACTERS):
        return
    import shlex
    import shutil

    if os.path.exists(os.path.join(cwd or "", command[0])) or shutil.which(command[0]):
        return
    raise UsageError(
        f"`{command[0]}` is one word, and no program has that name",
        "no shell reads a command unless you name one",
        f"write: taskdeck add -- sh -c {shlex.quote(command[0])}",
    )


def _explained(error: TaskdeckError, line: CommandLine, specs: Sequence[dict[str, Any]]) -> TaskdeckError:
    """A type that nobody knows may be a command without its dashes, or stand in a configuration that is not read."""
    if error.exit_code not in (UsageError.exit_code, InvalidPayload.exit_code):
        return error
    story = f"{error.what} {error.why}"
    if len(specs) == 1 and re.search("no handler for type|bad task type|not JSON", story):
        meant = _meant_command(specs[0])
        error.remedy = f"did you mean: {meant}" if meant else error.remedy
    if "no handler for type" in story:
        from .other_settings import other_settings, unread

        error.why = "; ".join(text for text in (error.why, other_settings(line), unread(line)) if text)
    return error


def _meant_command(spec: dict[str, Any]) -> str:
    import shlex
    import shutil

    name = spec.get("type", "")
    if not name or not ("/" in name or os.path.exists(name) or shutil.which(name)):
        return ""
    words = [name] if spec["payload"] == "{}" else [name, spec["payload"]]
    return f"taskdeck add -- {shlex.join(words)}"


def _submit(line: CommandLine, specs: list[dict[str, Any]], wait: bool, *, many: bool = False) -> int:
    from taskdeck.engine import commands

    output.acting(as_json=line.json)
    try:
        with uncollected():
            results = commands.call(line.config, "submit", line.actor, specs=specs)
    except TaskdeckError as error:
        raise _explained(error, line, specs) from None
    if many and not line.json:
        output.line("\n".join(str(each["id"]) for each in results))
        if known := sum(not each["created"] for each in results):
            output.flush()
            output.note(
                f"{known} of these {len(results)} are known by their keys already; nothing was added for them"
            )
    for each in results if line.json or not many else ():
        if line.json:
            output.json_line(each)
            continue
        output.line(str(each["id"]))
        if not each["created"]:
            output.note(
                f"#{each['id']} has this key already and is {each['state'].lower()}; nothing was added"
            )
    _note_missing(line, specs)
    return _wait(line, [each["id"] for each in results]) if wait else 0


def _note_missing(line: CommandLine, specs: Sequence[dict[str, Any]]) -> None:
    """A pool or route that nobody has made may come yet, or be a slip of the pen: then the task waits for ever."""
    specs = [spec for spec in specs if "needs" in spec or "route" in spec]
    needs = {need for spec in specs for need in spec.get("needs") or ()}
    routes = {spec["route"] for spec in specs if spec.get("route") and not spec.get("allow_direct")}
    if not needs and not routes:
        return
    from taskdeck.engine import views

    output.flush()
    with views.open_view(line.config) as view:
        for each in view.missing(needs, routes):
            output.note(f"there is no {each}: what needs it waits until there is one")


def _wait(line: CommandLine, ids: list[int]) -> int:
    from taskdeck.engine import views

    from .verbs.wait import until_settled

    output.flush()
    with views.open_view(line.config) as view:
        return until_settled(view, line, ids, None)
