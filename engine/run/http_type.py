"""The built-in type `http`: one request through the task's route, judged by its status.

Owns what the payload says and what the result holds. Must not know of workers; it is a handler like any other.
"""

from __future__ import annotations

import asyncio
import codecs
import math
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from ..clock import SystemClock
from ..rules import failures
from ..rules.failures import Failure, FailureClass
from ..rules.retry_after import retry_after
from ..rules.timing import parse_duration
from .endings import Judged, safe
from .http_payload import HttpPayload
from .references import resolved

if TYPE_CHECKING:
    from aiohttp import ClientResponse

    from .context import Context

MOST_TEXT = 64 * 1024
"""Bytes of an answer that become part of the result."""
PIECE = 64 * 1024
LONGEST_WAIT = 3600.0
"""Seconds that a server may ask us to wait, as elsewhere."""

KEPT_HEADERS = (
    "content-type",
    "content-length",
    "date",
    "etag",
    "last-modified",
    "location",
    "retry-after",
    "server",
)


async def send(ctx: Context, asked: HttpPayload) -> dict[str, Any]:
    """Send one HTTP request and keep what comes back."""
    target = await _on_disk(asked.save_to, _real, asked.save_to) if asked.save_to else ""
    await ctx.http.session()  # what the library needs is imported now, in a thread
    passwords = ctx.passwords
    headers = await asyncio.to_thread(
        lambda: {name: resolved(name, value, passwords) for name, value in asked.headers.items()}
    )
    clock = SystemClock()
    began = clock.monotonic()
    async with ctx.http.request(asked.method, asked.url, **_options(asked, headers)) as response:
        ms = round((clock.monotonic() - began) * 1000, 1)
        if not asked.expects(response.status):
            raise Judged(_failure(response, clock))
        kept = {name: response.headers[name] for name in KEPT_HEADERS if name in response.headers}
        found: dict[str, Any] = {"status": response.status, "ms": ms, "headers": kept}
        if target:
            return found | {"bytes": await _save(response, Path(target)), "saved_to": asked.save_to}
        return found | await _text(response)


def _options(asked: HttpPayload, headers: dict[str, str]) -> dict[str, Any]:
    import aiohttp

    seconds = parse_duration(asked.timeout)
    options: dict[str, Any] = {
        "headers": headers,
        "timeout": aiohttp.ClientTimeout(total=seconds, ceil_threshold=math.inf),
        "allow_redirects": not any(300 <= status < 400 for status in asked.expect),
    }
    if isinstance(asked.body, str):
        options["data"] = asked.body
    elif asked.body is not None:
        options["json"] = asked.body
    return options


def _failure(response: ClientResponse, clock: SystemClock) -> Failure:
    delay = retry_after(response.headers.get("Retry-After"), clock.utc(), LONGEST_WAIT)
    host = response.url.host or ""
    return failures.from_status(response.status, safe(f"{host} answered {response.status}"), delay=delay)


async def _text(response: ClientResponse) -> dict[str, Any]:
    """The beginning of the body as text; all of it is read and counted."""
    kept, count = bytearray(), 0
    async for piece in response.content.iter_chunked(PIECE):
        count += len(piece)
        kept += piece[: MOST_TEXT - len(kept)]
    text = bytes(kept).decode(_charset(response.charset), "replace")
    return {"bytes": count, "body": text} | ({"cut": True} if count > len(kept) else {})


def _charset(name: str | None) -> str:
    try:
        return codecs.lookup(name or "utf-8").name
    except LookupError:
        return "utf-8"


async def _save(response: ClientResponse, path: Path) -> int:
    """Write the body beside `path` and put it there when it is whole; returns its bytes."""
    part = path.with_name(f".{path.name}.{os.getpid()}-{id(response):x}.part")
    file: BinaryIO = await _on_disk(path, part.open, "xb")
    try:
        count = 0
        async for piece in response.content.iter_chunked(PIECE):
            count += await _on_disk(path, file.write, piece)
        await _on_disk(path, _sync, file)
        await _on_disk(path, _put, part, path)
    finally:
        file.close()
        part.unlink(missing_ok=True)
    return count


async def _on_disk(path: Path | str, act: Callable[..., Any], *arguments: Any) -> Any:
    """Do it in a thread; what the disk refuses is told apart from what the network does."""
    try:
        return await asyncio.to_thread(act, *arguments)
    except OSError as error:
        names, _, attributes = failures.describe(error)
        story = safe(f"{path} can't be written: {error.strerror or type(error).__name__}")
        raise Judged(failures.from_exception(names, story, attributes)) from error


def _real(path: str) -> str:
    """Where `path` leads. Only a regular file may be replaced: never a device, a pipe, a socket or a folder."""
    try:
        kind = os.stat(path).st_mode
    except FileNotFoundError:
        kind = stat.S_IFREG
    if not stat.S_ISREG(kind):
        story = safe(f"{path} can't be written: it is there and not a regular file")
        raise Judged(Failure(FailureClass.FATAL, "not_a_file", story, "save_to"))
    return os.path.realpath(path)


def _put(part: Path, path: Path) -> None:
    os.replace(part, _real(str(path)))  # it may have become something else meanwhile


def _sync(file: BinaryIO) -> None:
    file.flush()
    os.fsync(file.fileno())
