"""Handlers for the tests of the worker."""

from __future__ import annotations

import asyncio
import ctypes
import os
import signal
import sqlite3
import sys
import time
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from taskdeck.engine import Context, Delay, Fatal, NotDone, Retry, StopRequested, rollback, task


class Page(msgspec.Struct):
    url: str
    depth: int = 1


@dataclass
class Region:
    region: str
    pages: list[Page] | None = None


@task("echo")
async def echo(ctx: Context, params: Any) -> Any:
    return params


@task("page", timeout="10m", max_retry=5, base="30s", concurrency=4, on_lost="rerun")
async def page(ctx: Context, params: Page) -> dict[str, Any]:
    """Fetch a page."""
    return {"url": params.url, "depth": params.depth, "attempt": ctx.attempt}


@task("region")
async def region(ctx: Context, params: Region) -> str:
    return params.region


@task("alone")
async def alone(ctx: Context) -> str:
    return f"{ctx.task_id} {ctx.retry_count}/{ctx.max_retry} {ctx.scheduled_at}"


@task("fail")
async def fail(ctx: Context, params: dict[str, str]) -> None:
    errors: dict[str, BaseException] = {
        "retry": Retry("try later"),
        "delay": Delay("too early", seconds=7),
        "fatal": Fatal("no such account"),
        "memory": MemoryError(),
        "system_exit": SystemExit(3),
        "keyboard": KeyboardInterrupt(),
        "cancelled": asyncio.CancelledError(),
        "stop": StopRequested("nobody asked"),
        "connection": ConnectionResetError("reset by peer"),
        "secret": RuntimeError("https://u:hunter2@example.org/ said no\x1b[2J"),
        "bare": BaseException("of its own kind"),
    }
    raise errors[params["how"]]


@task("not_json")
async def not_json(ctx: Context) -> Any:
    return {"rows": [{"when": Path("/")}]}


@task("allocate")
async def allocate(ctx: Context) -> int:
    return len(bytearray(1 << 60))


@task("count", checkpoint_version=3)
async def count(ctx: Context, params: dict[str, int]) -> dict[str, Any]:
    """Save `to` checkpoints, as fast as they are durable."""
    for n in range(ctx.checkpoint.get("n", 0) + 1, params["to"] + 1):
        await ctx.save(n=n, stage=f"stage {n}")
    return dict(ctx.checkpoint)


@task("soon")
async def soon(ctx: Context, params: dict[str, int]) -> None:
    rows: list[int] = []
    for n in range(params["to"]):
        rows.append(n)
        ctx.save_soon(n=n, rows=rows)


@task("replace")
async def replace(ctx: Context) -> dict[str, Any]:
    await ctx.save(a=1, b=2)
    await ctx.save(b=None)
    kept = dict(ctx.checkpoint)
    await ctx.replace({"c": 3})
    return {"kept": kept, "now": dict(ctx.checkpoint)}


@task("frozen")
async def frozen(ctx: Context) -> None:
    ctx.checkpoint["n"] = 1  # type: ignore[index]


@task("wait")
async def wait(ctx: Context, params: dict[str, Any]) -> str:
    """Wait for ever, without a checkpoint."""
    ctx.event("STEP_STARTED", "waiting")
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        if params.get("swallow"):
            return "done all the same"
        raise
    return "never"


@task("stubborn")
async def stubborn(ctx: Context) -> None:
    ctx.event("STEP_STARTED", "stubborn")
    while True:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            ctx.event("SWALLOWED")


@task("polls")
async def polls(ctx: Context, params: dict[str, Any]) -> None:
    """Save until asked to stop, then perhaps do what it should not."""
    try:
        while True:
            await ctx.save(beat=1)
            await asyncio.sleep(0.01)
    except StopRequested as stop:
        if params.get("then") == "raise":
            raise RuntimeError("the cleaning up failed") from stop
        if params.get("then") == "finish":
            return
        raise


@task("polls_in_group")
async def polls_in_group(ctx: Context) -> None:
    async def one() -> None:
        while True:
            await ctx.save(beat=1)
            await asyncio.sleep(0.01)

    async with asyncio.TaskGroup() as group:
        group.create_task(one())
        group.create_task(asyncio.Event().wait())


@task("swallows_errors")
async def swallows_errors(ctx: Context) -> None:
    while True:
        try:
            await ctx.save(beat=1)
        except Exception:
            ctx.event("SWALLOWED")
        await asyncio.sleep(0.01)


@task("hog")
async def hog(ctx: Context, params: dict[str, float]) -> None:
    """Hold the loop and, as far as Python lets anybody, the interpreter; with no more computing than can be told.

    The kernel tells processor time in steps of 10 ms: it computes for three of them, when half of the time has passed.
    """
    ctx.event("HOGGING")
    asleep = ctypes.PyDLL(None).usleep  # a PyDLL does not let go of the interpreter
    end = time.monotonic() + params["seconds"]
    half = end - params["seconds"] / 2
    while time.monotonic() < end:
        asleep(int(sys.getswitchinterval() * 1e6))
        if half < time.monotonic():
            half, computed = end, time.thread_time() + 0.03
            while time.thread_time() < computed:
                pass


@task("progress")
async def progress(ctx: Context) -> None:
    for n in range(1000):
        ctx.progress(n, 1000, note=f"page {n}")


@task("slow_progress")
async def slow_progress(ctx: Context) -> None:
    ctx.progress(1, 10)
    ctx.progress(2, 10)
    await asyncio.Event().wait()


@task("steps")
async def steps(ctx: Context) -> None:
    await ctx.step("fetch")
    await ctx.step("store")
    ctx.event("CLEANED", "all of it", rows=3)
    ctx.log("a line\x1b[2J")


@task("once")
async def once(ctx: Context, params: dict[str, Any]) -> Any:
    async with ctx.once("upload:1", scope=params.get("scope")) as op:
        if not op.done:
            if params.get("error") == "not_done":
                raise NotDone("the server refused it")
            if params.get("error"):
                raise ConnectionResetError("in the middle")
            op.result = {"id": object()} if params.get("bad") else {"id": 7}
    return {"done": op.done, "result": op.result}


@task("once_in_doubt_is_retried")
async def once_again(ctx: Context) -> str:
    try:
        async with ctx.once("upload:1"):
            raise ConnectionResetError("in the middle")
    except ConnectionResetError:
        async with ctx.once("upload:1"):
            return "must not come here"


def site_has_it() -> bool:
    return os.path.exists(os.environ["SITE"])


async def ask_the_site(ctx: Context, key: str) -> Any:
    ctx.event("VERIFIED", key)
    if not site_has_it():
        raise NotDone
    return {"id": "old"}


@task("verified", verify=ask_the_site, verify_after="100ms")
async def verified(ctx: Context) -> Any:
    async with ctx.once("upload:1") as op:
        if not op.done:
            op.result = {"id": "new"}
    return {"done": op.done, "result": op.result}


@task("patient", verify=ask_the_site, verify_after="1h")
async def patient(ctx: Context) -> None:
    async with ctx.once("upload:1"):
        pass


@task("stop_inside")
async def stop_inside(ctx: Context) -> None:
    """A wish to stop that arrives in the middle of an effect waits for its end."""
    async with ctx.once("upload:1") as op:
        ctx.event("INSIDE")
        while not site_has_it():
            await ctx.save(beat=1)
            await asyncio.sleep(0.01)
        op.result = "whole"
    await ctx.save(after=1)


class Walked(msgspec.Struct):
    """What a checkpoint of `walk` looks like."""

    page: int
    seen: list[str] = []


def named_pages(data: dict[str, Any], version: int) -> dict[str, Any]:
    return {"page": data["number"]}


@task("walk", checkpoint=Walked, checkpoint_version=2, migrate=named_pages)
async def walk(ctx: Context, params: dict[str, Any]) -> Any:
    saved = ctx.saved
    await ctx.save(**params)
    return {"from": saved and saved.page, "now": dict(ctx.checkpoint)}


async def is_released(ctx: Context, order: int) -> str:
    ctx.event("VERIFIED", str(order))
    if not site_has_it():
        raise NotDone
    return "released before"


@rollback("release", verify=is_released)
async def release(ctx: Context, order: int) -> Any:
    ctx.event("RELEASED", str(order))
    ctx.check()
    return {"released": order, "from": dict(ctx.checkpoint)}


@rollback("refund", repeatable=True)
async def refund(ctx: Context) -> str:
    raise Fatal("no such payment")


@task("order", verify_after="100ms")
async def order(ctx: Context, params: dict[str, Any]) -> None:
    async with ctx.once("reserve"):
        await ctx.on_rollback(release, order=17)
    await ctx.on_rollback("refund")
    if params.get("wrong") == "arguments":
        await ctx.on_rollback(release, number=17)
    if params.get("wrong") == "function":
        await ctx.on_rollback(lambda ctx: None)


@task("together")
async def together(ctx: Context, params: dict[str, Any]) -> Any:
    async with ctx.together():
        async with ctx.once("upload:1") as op:
            op.result = {"id": 7}
        ctx.progress(1, 2, note="page 1")
        ctx.event("PAGE", "1")
        await ctx.save(page=1)
        if params.get("raise"):
            raise Fatal("in the middle")
    return dict(ctx.checkpoint)


def lines_of(file: str) -> list[str]:
    return Path(file).read_text().split()


def append(file: str, line: str) -> None:
    with Path(file).open("a") as out:
        out.write(f"{line}\n")


@task("follow")
async def follow(ctx: Context, params: dict[str, str]) -> None:
    """Take each item of a source once, going on behind the last name and not at a position."""
    names = sorted(lines_of(params["source"]))
    for name in [each for each in names if each > ctx.checkpoint.get("after", "")]:
        async with ctx.once(f"item:{name}") as op:
            if not op.done:
                append(params["out"], name)
        await ctx.save(after=name)


@task("runs")
async def runs(ctx: Context, params: dict[str, str]) -> None:
    """A child of the handler's own, in the worker itself."""
    child = await asyncio.create_subprocess_exec("sh", "-c", params["script"])
    await child.wait()


@task("forks")
async def forks(ctx: Context, params: dict[str, str]) -> dict[str, Any]:
    """A process forked from the worker writes to a database over a connection of its own and sends itself TERM."""
    with closing(sqlite3.connect(params["file"], isolation_level=None)) as ours:
        ours.execute("CREATE TABLE told (who TEXT)")
        pid = os.fork()
        if pid == 0:
            with closing(sqlite3.connect(params["file"], isolation_level=None)) as own:
                own.execute("INSERT INTO told VALUES ('child')")
            os.kill(os.getpid(), signal.SIGTERM)
            os._exit(0)  # not reached
        _, status = await asyncio.to_thread(os.waitpid, pid, 0)
        ours.execute("INSERT INTO told VALUES ('parent')")
        sound = ours.execute("PRAGMA integrity_check").fetchone()[0]
        rows = [who for (who,) in ours.execute("SELECT who FROM told ORDER BY rowid")]
    return {"ended_by": os.waitstatus_to_exitcode(status), "sound": sound, "rows": rows}
