"""Writing to standard output and error: JSON lines, plain lines, and one way to say that something went wrong.

Owns what is a terminal, colours and encodings, and what becomes of an output that can't be written: a verb that only shows
ends there, one that has done something says so on standard error. Text of tasks passes `clean` before it comes here.
"""

from __future__ import annotations

import errno
import io
import json
import os
import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from fcntl import F_GETFL, fcntl
from typing import TYPE_CHECKING, Any

from taskdeck.engine.errors import ConfigError, TaskdeckError

from .telling import Telling

if TYPE_CHECKING:
    from typing import TextIO


def prepare() -> None:
    """Begin a call: the streams take any character, what their encoding lacks is shown escaped and never a crash.

    A descriptor of theirs that is closed leads nowhere from now on: the next file opened would be taken for the stream, here
    or in an engine that is started. A closed standard output stays one that takes nothing, as a full disk does.
    """
    _telling.forget()
    for fd in (0, 1, 2):
        try:
            os.fstat(fd)
        except OSError:
            # The lowest free descriptor: this one. Open for reading alone it refuses what is written, as a closed one does.
            nowhere = os.open(os.devnull, os.O_RDONLY if fd == 1 else os.O_RDWR)
            os.set_inheritable(nowhere, True)
            if fd == 1 and sys.stdout is None:
                sys.stdout = os.fdopen(fd, "w", encoding="utf-8", closefd=False)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def on_terminal(stream: TextIO | None = None) -> bool:
    """Is standard output (or `stream`) a terminal?"""
    stream = stream or sys.stdout
    try:
        return stream is not None and stream.isatty()
    except ValueError:  # closed
        return False


def coloured() -> bool:
    """May colours be written? `NO_COLOR`, pipes and dumb terminals say no."""
    return on_terminal() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def width(stream: TextIO | None = None) -> int:
    """Columns of a human table: `COLUMNS`, else the terminal's width, else 80; 0 in a pipe = as wide as needed."""
    stream = stream or sys.stdout
    named = os.environ.get("COLUMNS", "")
    if named.isdecimal() and int(named):
        return int(named)
    if stream is None or not on_terminal(stream):
        return 0
    try:
        return os.get_terminal_size(stream.fileno()).columns or 80
    except (OSError, ValueError):
        return 80


def acting(*, as_json: bool) -> None:
    """From now on something is done: what is said of it goes to standard error where standard output takes nothing.

    Called right before the act. Raises what `flush` does: then nothing is done yet.
    """
    flush()
    _telling.begin(as_json=as_json)


def _write(text: str, put: Callable[[], object]) -> None:
    """`put` this text. Where that can't be, an act's goes elsewhere; else a full disk is an error, a reader gone is none."""
    if sys.stdout is None:
        return
    _telling.keep(text)
    if _telling.is_elsewhere:
        return
    try:
        put()
    except OSError as error:
        if _telling.has_begun:
            _go_elsewhere(error)
        elif nobody_reads(error):
            raise BrokenPipeError from None
        else:
            raise _unwritten(error) from None


def nobody_reads(error: OSError) -> bool:
    """Did writing fail since the reader went away, or since standard output was closed from the start (`>&-`)?"""
    if isinstance(error, BrokenPipeError):
        return True
    return error.errno == errno.EBADF and fcntl(1, F_GETFL) & os.O_ACCMODE == os.O_RDONLY  # see `prepare`


def _unwritten(error: OSError, remedy: str = "") -> TaskdeckError:
    return TaskdeckError("the output can't be written", error.strerror or str(error), remedy)


def _go_elsewhere(error: OSError) -> None:
    remedy = "it is done, so don't repeat it; what was to be said follows"
    complain(_unwritten(error, remedy), as_json=_telling.as_json)
    silence()
    _telling.go_elsewhere()


def silence() -> None:
    """What still waits for standard output is written nowhere, so that it can't fail at the end."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def line(text: str = "") -> None:
    """Write one line to standard output."""
    whole = text + "\n"
    _write(whole, lambda: sys.stdout.write(whole))


def flush() -> None:
    """Hand everything over, so that a broken pipe or full disk is met here and not at exit."""
    _write("", _hand_over)


def _hand_over() -> None:
    sys.stdout.flush()
    _telling.arrived()


def end() -> None:
    """Hand everything over at the end of a verb."""
    flush()
    _telling.end()


def check_reader() -> None:
    """Raise `BrokenPipeError` when nobody reads any more, although nothing is written (`log -f | grep -m1 x`)."""
    import select

    try:
        poll = select.poll()
        poll.register(sys.stdout.fileno(), 0)
        gone = [events for _, events in poll.poll(0) if events & (select.POLLERR | select.POLLNVAL)]
    except (OSError, ValueError, AttributeError):  # no real stream
        return
    if gone:
        raise BrokenPipeError


def raw(data: bytes) -> None:
    """Write bytes to standard output as they are, behind what was written before."""
    _write(data.decode("utf-8", "replace"), lambda: _put_bytes(data))


def _put_bytes(data: bytes) -> None:
    sys.stdout.flush()
    sys.stdout.buffer.write(data)


def json_line(value: Any) -> None:
    """Write one object as one line of JSON: UTF-8, exact numbers."""
    raw((json_text(value) + "\n").encode("utf-8", "replace"))


def json_text(value: Any) -> str:
    """Compact JSON of a read model or of plain data."""
    import msgspec  # not json alone: it turns read models into plain data, leaving unset fields out

    return json.dumps(msgspec.to_builtins(value), ensure_ascii=False, separators=(",", ":"))


def complain(error: TaskdeckError, *, as_json: bool) -> None:
    """Say on standard error what happened, why, and what to do next."""
    if as_json:
        _to_stderr(json.dumps({"error": error_object(error)}, ensure_ascii=False) + "\n")
    elif isinstance(error, ConfigError):
        told = "".join(f"taskdeck: {harmless(str(problem))}\n" for problem in error.problems)
        _to_stderr(_fitted(told))
    else:
        _to_stderr(_fitted(f"taskdeck: {harmless(str(error))}\n"))


def _to_stderr(text: str) -> None:
    """Where nobody can be told, nobody is: what is done stays done."""
    if sys.stderr is not None:
        with suppress(OSError, ValueError):
            sys.stderr.write(text)
            sys.stderr.flush()


def error_object(error: TaskdeckError) -> dict[str, Any]:
    """The stable object of an error; a configuration's mistakes are listed one by one."""
    found: dict[str, Any] = dict(error.as_dict())
    if isinstance(error, ConfigError):
        names = ("file", "line", "key", "what", "remedy")
        found["problems"] = [{name: getattr(problem, name) for name in names} for problem in error.problems]
    return found


_telling = Telling(_to_stderr)
"""What the verb of this call says of what it does."""


def hint(text: str) -> None:
    """Write lines to standard error as they are: a help that nobody asked for."""
    _to_stderr(text.rstrip("\n") + "\n")


def note(text: str) -> None:
    """Say something by the way, on standard error."""
    _to_stderr(_fitted(f"taskdeck: {harmless(text)}\n"))


def _fitted(text: str) -> str:
    """A message as it fits a terminal, broken between words; elsewhere each stays one line."""
    if not on_terminal(sys.stderr):
        return text
    import textwrap

    columns = width(sys.stderr)
    fill = textwrap.TextWrapper(
        columns, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False, drop_whitespace=True
    ).fill
    return "".join((fill(line) if len(line) > columns else line) + "\n" for line in text.splitlines())


def results(found: Iterable[Mapping[str, Any]], *, as_json: bool, told: Callable[[Any], str]) -> int:
    """A line for each id that a verb answered for, `told` for what was done; 0, or the exit code of the first refusal."""
    code = 0
    for each in found:
        error = None if each["ok"] else refused_object(each)
        if error is not None:
            code = code or error.exit_code
        if as_json:
            json_line(each)
        elif error is None:
            line(told(each))
        else:
            flush()
            complain(error, as_json=False)
    return code


def refused_object(value: Mapping[str, Any]) -> TaskdeckError:
    """The error of one id that a verb refused (`commands` answers each id by itself)."""
    error = TaskdeckError(str(value.get("message") or "refused"))
    error.code = str(value.get("code") or "refused")
    error.exit_code = int(value.get("exit_code") or 4)
    return error


def harmless(text: str) -> str:
    """A message without control characters; much cheaper to load than the full `clean` of task text."""
    return "".join(c if c == "\n" or c.isprintable() else _escaped(c) for c in text)


def _escaped(character: str) -> str:
    byte = ord(character) - 0xDC00
    if 0x80 <= byte <= 0xFF:  # of an argument that is not UTF-8: as it was typed
        return f"\\x{byte:02x}"
    return character.encode("unicode_escape").decode()
