"""The console script: runs one command line and turns every ending into an exit code and at most one message.

Owns what happens to errors, interrupts and broken pipes. Light: `add` passes here without loading the parser of all verbs.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator, Sequence

from taskdeck.engine.errors import TaskdeckError

from . import output
from .commandline import CommandLine

INTERRUPTED = 130
BROKEN_PIPE = 141


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command line and return its exit code (the console script exits with it)."""
    arguments = sys.argv[1:] if arguments is None else arguments
    output.prepare()
    with _unbroken_pipes() as ending:
        ending.code = _run(arguments)
    return ending.code


class _Ending:
    code = 0


@contextlib.contextmanager
def _unbroken_pipes() -> Iterator[_Ending]:
    """A reader that went away (`| head -1`) ends us quietly with 141; nothing is left to fail at exit."""
    ending = _Ending()
    try:
        yield ending
        output.flush()
    except BrokenPipeError:
        ending.code = BROKEN_PIPE
        _silence()
    except OSError as error:
        _silence()
        output.note(f"the output can't be written: {error.strerror}")
        ending.code = ending.code or 1


def _silence() -> None:
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _run(arguments: Sequence[str]) -> int:
    wants_json, wants_debug = "--json" in arguments, "--debug" in arguments
    try:
        line = CommandLine(arguments)
        wants_json, wants_debug = line.json, line.debug
        return _dispatch(line)
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        raise
    except Exception as error:
        if wants_debug:
            import traceback

            traceback.print_exc()
        found = error if isinstance(error, TaskdeckError) else _unexpected(error)
        output.flush()
        output.complain(found, as_json=wants_json)
        return found.exit_code


def _dispatch(line: CommandLine) -> int:
    if line.words[:1] == ["add"]:
        from . import adding

        options = adding.quick(line.words[1:])
        if options is not None:
            return adding.add(line, options)
    from . import grammar

    return grammar.invoke(line)


def _unexpected(error: Exception) -> TaskdeckError:
    """An exception that nobody meant, as one message with advice."""
    what = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    return TaskdeckError("this should not have happened", what, "run it again with --debug and report it")
