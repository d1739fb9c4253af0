"""Asking a resource whether it is ready: a command, a file, a port, a page. Each within its time, leaving nothing behind.

Must not decide what an answer means for the resource.
"""

from __future__ import annotations

import asyncio
import os
import ssl
from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import urlsplit

from ..clock import Clock
from ..rules.cleaning import clean
from ..rules.hosts import with_port
from ..rules.readiness import Check
from .proxy_requests import path_of, status_of
from .short_commands import Limits, ask

MOST_OUTPUT = 64 * 1024
LONGEST_DETAIL = 200


class Readiness(NamedTuple):
    """The answer, and one line about it: harmless, but not yet free of secrets."""

    ok: bool
    detail: str


async def run_check(
    check: Check, *, within: float, env: Mapping[str, str], mark: str, stop: int, clock: Clock
) -> Readiness:
    """Ask once. `env` and `mark` are for a command, `stop` as in `short_commands.ask`. Never raises but when cancelled."""
    if check.kind == "cmd":
        return await asyncio.to_thread(_command, check, within, env, mark, stop, clock)
    if check.kind == "file":
        there = await asyncio.to_thread(os.path.exists, check.place)
        return Readiness(there, "" if there else f"{check.place} is not there")
    try:
        async with asyncio.timeout(within):
            if check.kind == "tcp":
                host, _, port = check.place.rpartition(":")
                return await _port(host.strip("[]"), int(port))
            return await _page(check.place)
    except TimeoutError:
        return Readiness(False, f"no answer within {within:g} s")
    except (OSError, ValueError, asyncio.IncompleteReadError, asyncio.LimitOverrunError) as error:
        number = getattr(error, "errno", None)
        why = os.strerror(number) if isinstance(error, OSError) and number else "its answer is not HTTP"
        return Readiness(False, _line(why[:1].lower() + why[1:]))


def _command(
    check: Check, within: float, env: Mapping[str, str], mark: str, stop: int, clock: Clock
) -> Readiness:
    limits = Limits(within, MOST_OUTPUT)
    answer = ask(check.argv, env=env, limits=limits, clock=clock, mark=mark, errors=True, stop=stop)
    last = _line(answer.output.decode("utf-8", "replace").strip().rpartition("\n")[2])
    if answer.fault:
        return Readiness(False, answer.fault)
    if answer.code == 0:
        return Readiness(True, last)
    ended = (
        f"its check ended with {answer.code}"
        if answer.code > 0
        else f"its check was killed by signal {-answer.code}"
    )
    return Readiness(False, f"{ended}: {last}" if last else ended)


async def _port(host: str, port: int) -> Readiness:
    _, writer = await asyncio.open_connection(host, port)
    writer.transport.abort()
    return Readiness(True, "")


async def _page(url: str) -> Readiness:
    """The head of an answer with a status of success; redirects are none."""
    parts = urlsplit(url)
    secure = parts.scheme == "https"
    context = await asyncio.to_thread(ssl.create_default_context) if secure else None
    host, port = parts.hostname or "", parts.port or (443 if secure else 80)
    reader, writer = await asyncio.open_connection(host, port, ssl=context)
    try:
        head = f"GET {path_of(parts)} HTTP/1.1\r\nHost: {with_port(host, port)}\r\nConnection: close\r\n\r\n"
        writer.write(head.encode())
        status = status_of(await reader.readuntil(b"\r\n\r\n"))
    finally:
        writer.transport.abort()
    return Readiness(200 <= status < 300, f"it answered {status or 'no HTTP'}")


def _line(text: str) -> str:
    return clean(text, limit=LONGEST_DETAIL, keep="")
