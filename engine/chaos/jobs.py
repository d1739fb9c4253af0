"""The task types of chaos, written as users write theirs. What they do is noted outside the engine's reach.

Effects: the site's ledger, and files that are appended to and synced. Exclusive use: a lock on a file of the resource's
name; whoever finds it taken says so in a file that the judgement reads. Nothing of the engine but its door and the clock.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec

from .. import Context, Delay, Fatal, NotDone, Retry, SyncContext, task
from ..clock import SystemClock

ROUTES = "demo"
TIMEOUT = 1.0
"""Seconds after which a request is given up; less than `verify_after`, so that none arrives behind a check."""
EFFECTS, TRESPASSES, LOCKS = "effects.log", "trespasses.log", "locks"
CLOCK = SystemClock()


class Count(msgspec.Struct):
    """So many steps under a name; `folder` is where effects are noted."""

    name: str
    steps: int
    folder: str


class Post(msgspec.Struct):
    """So many rows to the site under a name."""

    site: str
    name: str
    rows: int


class Use(msgspec.Struct):
    """Use a resource for so long."""

    seconds: float
    folder: str


class Fail(msgspec.Struct):
    """How to fail."""

    how: str


# ---- async ------------------------------------------------------------------------------------------------------------


async def is_there(ctx: Context, key: str) -> dict[str, Any]:
    """Ask the site whether a row that was in doubt has arrived."""
    url = f"{ctx.checkpoint['site']}/upload/{quote(key, safe='')}"
    async with ctx.http.get(url, timeout=_timeout()) as response:
        if response.status == 404:
            raise NotDone(f"the site does not have {key}")
        response.raise_for_status()
        return await response.json()


@task("chaos_post", route=ROUTES, verify=is_there, verify_after="2s", timeout="60s")
async def post(ctx: Context, params: Post) -> dict[str, int]:
    """Send rows one by one, each once."""
    import aiohttp

    await ctx.save(site=params.site)
    for number in range(ctx.checkpoint.get("done", 0), params.rows):
        key = f"{params.name}:{number}"
        async with ctx.once(key) as op:
            if not op.done:
                message = {"row": key, "body": number}
                try:
                    async with ctx.http.post(
                        f"{params.site}/upload", json=message, timeout=_timeout()
                    ) as response:
                        response.raise_for_status()
                        op.result = await response.json()
                except aiohttp.ClientConnectorError as error:
                    raise NotDone(f"nothing was sent: {error}") from error
        await ctx.save(done=number + 1)
    return {"rows": params.rows}


@task("chaos_walk", timeout="60s")
async def walk(ctx: Context, params: Count) -> dict[str, int]:
    """Steps with a checkpoint after each, waited for or not."""
    for number in range(ctx.checkpoint.get("done", 0), params.steps):
        await CLOCK.pause(0.05)
        if number % 2:
            await ctx.save(done=number + 1)
        else:
            ctx.save_soon(done=number + 1)
        ctx.progress(number + 1, params.steps)
    return {"steps": params.steps}


@task("chaos_use", needs=["browser"], timeout="60s")
async def use(ctx: Context, params: Use) -> None:
    """Use a browser; nobody else may meanwhile."""
    with _alone(params.folder, ctx.resource or "none", ctx.task_id):
        await CLOCK.pause(params.seconds)


@task("chaos_fail", max_retry=2, timeout="60s")
async def fail(ctx: Context, params: Fail) -> None:
    """Fail for good, again and again, or too early at first."""
    if params.how == "fatal":
        raise Fatal("it can't be done")
    if params.how == "delay" and not ctx.checkpoint:
        await ctx.save(asked=True)
        raise Delay("too early", seconds=0.5)
    if params.how == "retry":
        raise Retry("in vain", after=0.3)


# ---- sync -------------------------------------------------------------------------------------------------------------


def is_noted(ctx: SyncContext, key: str) -> None:
    """Look whether an effect that was in doubt has happened."""
    if key not in (Path(ctx.checkpoint["folder"]) / EFFECTS).read_text().splitlines():
        raise NotDone(f"{key} is not noted")


@task("chaos_book", verify=is_noted, verify_after="1s", timeout="60s")
def book(ctx: SyncContext, params: Count) -> dict[str, int]:
    """Note effects in a file, each once."""
    ctx.save(folder=params.folder)
    for number in range(ctx.checkpoint.get("done", 0), params.steps):
        with ctx.once(f"{params.name}:{number}") as op:
            if not op.done:
                _append(params.folder, EFFECTS, f"{params.name}:{number}")
        ctx.save(done=number + 1)
    return {"steps": params.steps}


@task("chaos_use_sync", needs=["browser"], timeout="60s")
def use_sync(ctx: SyncContext, params: Use) -> None:
    """Use a browser in a process of its own."""
    with _alone(params.folder, ctx.resource or "none", ctx.task_id):
        CLOCK.sleep(params.seconds)


# ---- outside ----------------------------------------------------------------------------------------------------------


@contextmanager
def _alone(folder: str, name: str, task_id: int) -> Iterator[None]:
    fd = os.open(Path(folder) / LOCKS / name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            _append(folder, TRESPASSES, f"#{task_id} was given {name} while somebody used it")
        yield
    finally:
        os.close(fd)


def _append(folder: str, file: str, line: str) -> None:
    fd = os.open(Path(folder) / file, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        os.write(fd, f"{line}\n".encode())
        os.fsync(fd)
    finally:
        os.close(fd)


def _timeout() -> Any:
    import aiohttp  # here and not above, so that only the worker pays for it

    return aiohttp.ClientTimeout(total=TIMEOUT)
