"""The console script: runs one command line and turns every ending into an exit code and at most one message.

Owns what happens to errors, interrupts and broken pipes. Light: `add` and `run`
pass here without loading the parser of all verbs.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Sequence
from typing import NoReturn

from taskdeck.engine.errors import NotPermitted, TaskdeckError, UsageError
from taskdeck.engine.garbage import YOUNG
from taskdeck.engine.leaving import leave
from taskdeck.engine.silence import Silence, on_silence

from . import output
from .commandline import CommandLine

INTERRUPTED = 130
BROKEN_PIPE = 141


def script() -> NoReturn:
    """What `taskdeck` is as a program: one command line, and then the end, at once."""
    gc.set_threshold(YOUNG, 10, 10)  # hardly any verb makes so many objects that go again
    leave(main())


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command line and return its exit code."""
    arguments = sys.argv[1:] if arguments is None else arguments
    output.prepare()
    on_silence.set(_wait_audibly)
    try:
        return _told(arguments)
    except (
        BrokenPipeError
    ):  # the reader went away (`| head -1`): end quietly, with nothing left to fail at exit
        output.silence()
        return BROKEN_PIPE


def _wait_audibly(silence: Silence) -> None:
    """A verb waits for an engine that says nothing."""
    from taskdeck.engine import commands  # who waits for an engine has loaded it

    output.note(
        f"the engine (pid {silence.pid}) is silent: {silence}; this waits {commands.ANSWER_WITHIN:.0f} s for it. "
        "Ctrl+C ends the wait: what the engine has not begun by then it leaves alone"
    )


def _told(arguments: Sequence[str]) -> int:
    """Run it; whatever it raises is told on standard error and becomes the exit code."""
    wants_json, wants_debug = "--json" in arguments, "--debug" in arguments
    try:
        line = CommandLine(arguments)
        wants_json, wants_debug = line.json, line.debug
        code = _dispatch(line)
        output.end()
        return code
    except KeyboardInterrupt:
        return INTERRUPTED
    except Exception as error:
        if isinstance(error, OSError) and output.nobody_reads(error):
            raise BrokenPipeError from None
        if wants_debug:
            import traceback

            traceback.print_exc()
        found = error if isinstance(error, TaskdeckError) else _unexpected(error)
        _flush_or_silence()
        output.complain(found, as_json=wants_json)
        return found.exit_code


def _flush_or_silence() -> None:
    """What was shown before a mistake comes before its message; where it can't be written, it is dropped."""
    try:
        output.end()
    except TaskdeckError:
        output.silence()


def _dispatch(line: CommandLine) -> int:
    if line.words[:1] == ["add"]:
        from . import adding

        options = adding.quick(line.words[1:])
        if options is not None:
            return adding.add(line, options)
    if line.words in (["run"], ["run", "--until-idle"]):
        from . import running

        return running.run(line, until_idle=len(line.words) > 1)
    if not line.words and not line.json:
        from . import opening

        if opening.can_draw():
            return opening.open_deck(line)
    from . import grammar

    return grammar.invoke(line)


def _unexpected(error: Exception) -> TaskdeckError:
    """An exception that nobody meant, as one message with advice."""
    if isinstance(error, OSError) and error.errno:
        return _unusable(error)
    if isinstance(error, UnicodeEncodeError) and "surrogates" in error.reason:
        told = f"`{output.harmless(error.object)}` is not written in UTF-8"
        return UsageError(told, "so it is in no database", "write it in UTF-8")
    what = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    return TaskdeckError("this should not have happened", what, "run it again with --debug and report it")


def _unusable(error: OSError) -> TaskdeckError:
    """A file or folder that the system keeps from us, wherever it was met; or a disk without room."""
    if error.filename is None:
        why = error.strerror or str(error)
        return TaskdeckError("the system refused", why, "run it again with --debug to see what")
    name = os.fsdecode(error.filename) if isinstance(error.filename, str | bytes) else str(error.filename)
    what, why = f"{name} can't be used", error.strerror or str(error)
    if isinstance(error, PermissionError):
        return NotPermitted(what, why, "ask as its owner, or name another")
    return TaskdeckError(what, why, "name another, or mend it")
