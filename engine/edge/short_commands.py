"""Short commands of the configuration's: the program behind a `cmd:` reference, the check of a resource.

Owns their limits in time and output, and that nothing of one is left behind. What one prints may be a secret: it is handed
to the caller and to nobody else. Must not decide what an answer means.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

from ..clock import Clock
from ..rules.timing import format_duration
from . import adoption, identity, trees

PIECE = 64 * 1024


class Answer(NamedTuple):
    """How it went: its exit code (minus a signal's number) and what it printed. `fault`: why there is no answer, or empty."""

    code: int
    output: bytes
    fault: str = ""


class Limits(NamedTuple):
    """`seconds` until its end, `size` bytes of output."""

    seconds: float
    size: int


def ask(
    argv: Sequence[str],
    *,
    env: Mapping[str, str],
    limits: Limits,
    clock: Clock,
    mark: str = "",
    errors: bool = False,
    stop: int = -1,
) -> Answer:
    """Run a command to its end and kill what it leaves in its session, and (with a `mark`) outside of it. Blocks.

    stdin is empty, and standard error part of the output only where `errors` are wanted. `stop` is a descriptor that becomes
    readable where nobody waits for the answer any more.
    """
    try:
        process = adoption.start(
            lambda: subprocess.Popen(
                list(argv),
                env={**env, **({trees.VARIABLE: mark} if mark else {})},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT if errors else subprocess.DEVNULL,
                bufsize=0,
                start_new_session=True,
            )
        )
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or "it can't be started"
        return Answer(127, b"", why[:1].lower() + why[1:])
    with process, open(os.pidfd_open(process.pid), "rb", buffering=0) as ended:
        try:
            output, fault = _hear(process, ended.fileno(), limits, clock, stop)
        finally:
            _end(process, mark, clock)
    return Answer(process.wait(), output, fault)


def _hear(
    process: subprocess.Popen[bytes], ended: int, limits: Limits, clock: Clock, stop: int
) -> tuple[bytes, str]:
    """What it prints until it has ended, and why that was not waited for."""
    assert process.stdout is not None
    pipe = process.stdout.fileno()
    os.set_blocking(pipe, False)
    output = bytearray()
    poll = select.poll()
    for fd in (pipe, ended, *([stop] if stop >= 0 else ())):
        poll.register(fd, select.POLLIN)
    until = clock.monotonic() + limits.seconds
    while (left := until - clock.monotonic()) > 0:
        ready = dict(poll.poll(left * 1000))
        if stop in ready:
            return bytes(output), "it was given up"
        if pipe in ready and not _read(pipe, output):
            poll.unregister(pipe)
        if len(output) > limits.size:
            return b"", f"it printed more than {limits.size} bytes"
        if ended in ready:
            while pipe in ready and len(output) <= limits.size and _read(pipe, output):
                pass
            return bytes(output[: limits.size]), ""
    return bytes(output), f"it was not done within {format_duration(limits.seconds)}"


def _read(pipe: int, output: bytearray) -> bool:
    """False where there is nothing more."""
    try:
        piece = os.read(pipe, PIECE)
    except BlockingIOError:
        return False
    output += piece
    return bool(piece)


def _end(process: subprocess.Popen[bytes], mark: str, clock: Clock) -> None:
    """Kill what is left; its pid, and so its session's number, is not given to another before it is waited for."""
    if mark:
        trees.end_tree(mark, grace=0.0, clock=clock, session=process.pid)
        return
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    for one in trees.members_of_session(process.pid):
        identity.kill(one, signal.SIGKILL)
