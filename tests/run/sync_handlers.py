"""Sync handlers for the tests. Each attempt loads this file anew: what one handler alone needs, it imports itself."""

from __future__ import annotations

import gc
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

import msgspec

from taskdeck.engine import Delay, Fatal, NotDone, Retry, SyncContext, rollback, task


class Page(msgspec.Struct):
    url: str
    depth: int = 1


@task("page", timeout="10m")
def page(ctx: SyncContext, params: Page) -> dict[str, Any]:
    """Fetch a page."""
    return {"url": params.url, "depth": params.depth, "attempt": ctx.attempt, "pid": os.getpid()}


@task("echo")
def echo(ctx: SyncContext, params: Any) -> Any:
    return params


@task("view", needs=["browser"], route="eu")
def view(ctx: SyncContext) -> Any:
    return {
        "task": [ctx.task_id, ctx.attempt, ctx.retry_count, ctx.max_retry, ctx.scheduled_at],
        "held": [ctx.resource, dict(ctx.resources), ctx.route, ctx.proxy],
        "checkpoint": dict(ctx.checkpoint),
        "proxies": {name: os.environ.get(name) for name in ("http_proxy", "NO_PROXY", "TASKDECK_FD")},
        "session": os.getsid(0) == os.getpid(),
        "light": "asyncio" not in sys.modules,
        "collects": gc.isenabled() and gc.get_freeze_count() > 0,
        "stdin": sys.stdin.read(),
    }


@task("says")
def says(ctx: SyncContext) -> Any:
    """Every verb."""
    ctx.step("fetch")
    ctx.progress(1, 2, note="half")
    ctx.save(a=1, b=2)
    ctx.save_soon(b=None, c=3)
    kept = dict(ctx.checkpoint)
    ctx.replace({"d": 4})
    ctx.event("CLEANED", "all of it", rows=3)
    ctx.check()
    ctx.log("a line\x1b[2J")
    print("printed")
    ctx.blocked("captcha", "shop.example")
    return {"kept": kept, "now": dict(ctx.checkpoint)}


@task("refused")
def refused(ctx: SyncContext, params: dict[str, str]) -> str:
    ctx.blocked("captcha", params["host"])
    try:
        ctx.blocked("captcha", "https://u:hunter2/@")
    except ValueError as error:
        return str(error)
    return ""


@task("progress")
def progress(ctx: SyncContext) -> None:
    for n in range(1000):
        ctx.progress(n, 1000, note=f"page {n}")


@task("slow_progress")
def slow_progress(ctx: SyncContext) -> None:
    ctx.progress(1, 10)
    ctx.progress(2, 10)
    threading.Event().wait()


@task("fail")
def fail(ctx: SyncContext, params: dict[str, str]) -> Any:
    errors: dict[str, BaseException] = {
        "retry": Retry("try later", after=3),
        "delay": Delay("too early", seconds=7),
        "fatal": Fatal("no such account"),
        "memory": MemoryError(),
        "system_exit": SystemExit(3),
        "keyboard": KeyboardInterrupt(),
        "connection": ConnectionResetError("reset by peer"),
        "secret": RuntimeError("https://u:hunter2@example.org/ said no\x1b[2J"),
        "bare": BaseException("of its own kind"),
    }
    if params["how"] == "not_json":
        return {"rows": [{"when": Path("/")}]}
    if params["how"] == "bad_save":
        ctx.save(when=Path("/"))
    if params["how"] == "exit":
        os._exit(3)
    if params["how"] == "killed":
        os.kill(os.getpid(), 9)
    raise errors[params["how"]]


@task("beats")
def beats(ctx: SyncContext, params: dict[str, Any]) -> None:
    """Save until stopped; `swallow` catches all that it may."""
    while True:
        try:
            ctx.save(beat=1)
            time.sleep(0.01)
        except Exception:
            if not params.get("swallow"):
                raise


@task("blocks")
def blocks(ctx: SyncContext, params: dict[str, Any]) -> None:
    """Wait for ever in one call, then clean up; or ignore everything."""
    import subprocess

    child = subprocess.Popen(["sleep", "600"])
    try:
        ctx.event("BLOCKED", pid=os.getpid(), child=child.pid)
        time.sleep(600)
    except BaseException:
        ctx.log("cleaned up")
        while params.get("stubborn"):
            time.sleep(600)
        raise


@task("counts")
def counts(ctx: SyncContext, params: dict[str, str]) -> None:
    """Write a line as often as possible."""
    ctx.event("COUNTING", pid=os.getpid())
    while True:
        with Path(params["to"]).open("a") as file:
            file.write("x")
        time.sleep(0.005)


def site_has_it() -> bool:
    return os.path.exists(os.environ["SITE"])


def ask_the_site(ctx: SyncContext, key: str) -> Any:
    ctx.event("VERIFIED", key)
    if not site_has_it():
        raise NotDone
    return {"id": "old"}


@task("once")
def once(ctx: SyncContext, params: dict[str, Any]) -> Any:
    with ctx.once("upload:1", scope=params.get("scope")) as op:
        if not op.done:
            if params.get("error") == "not_done":
                raise NotDone("the server refused it")
            if params.get("error"):
                raise ConnectionResetError("in the middle")
            op.result = {"id": object()} if params.get("bad") else {"id": 7}
    return {"done": op.done, "result": op.result}


@task("verified", verify=ask_the_site, verify_after="100ms")
def verified(ctx: SyncContext) -> Any:
    with ctx.once("upload:1") as op:
        if not op.done:
            op.result = {"id": "new"}
    return {"done": op.done, "result": op.result}


@task("patient", verify=ask_the_site, verify_after="1h")
def patient(ctx: SyncContext) -> None:
    with ctx.once("upload:1"):
        pass


@task("stop_inside")
def stop_inside(ctx: SyncContext) -> str:
    """A wish to stop that arrives in the middle of an effect waits for its end."""
    with ctx.once("upload:1") as op:
        ctx.event("INSIDE")
        while not site_has_it():
            time.sleep(0.01)
        op.result = "whole"
    return "must not come here"


@task("urllib")
def by_urllib(ctx: SyncContext, params: dict[str, str]) -> str:
    import urllib.request

    with urllib.request.urlopen(params["url"], timeout=5) as answer:
        return answer.read().decode()


@task("forks")
def forks(ctx: SyncContext, params: dict[str, str]) -> Any:
    """A child comes back as if it were the handler, or speaks; the handler itself waits for it and goes on."""
    with ctx.once("upload:1") as op:
        child = os.fork()
        if not child:
            if params["how"] == "raises":
                raise Fatal("of the child, hunter2://u:hunter2@example.org")
            if params["how"] == "exits":
                sys.exit(7)
            if params["how"] == "speaks":
                ctx.save(child=True)
            if params["how"] == "progress":
                ctx.progress(99)
            return object() if params["how"] == "no_json" else "of the child"
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        op.result = "of the parent"
    ctx.save(parent=True)
    return code


@task("thread_left_behind")
def thread_left_behind(ctx: SyncContext) -> str:
    threading.Thread(target=threading.Event().wait).start()
    return "done"


class Walked(msgspec.Struct):
    """What a checkpoint of `walk` looks like."""

    page: int


def named_pages(data: dict[str, Any], version: int) -> dict[str, Any]:
    return {"page": data["number"]}


@task("walk", checkpoint=Walked, checkpoint_version=2, migrate=named_pages)
def walk(ctx: SyncContext, params: dict[str, Any]) -> Any:
    saved = ctx.saved
    ctx.save(**params)
    return {"from": saved and saved.page, "now": dict(ctx.checkpoint)}


def is_released(ctx: SyncContext, order: int) -> str:
    if not site_has_it():
        raise NotDone
    return "released before"


@rollback("release", verify=is_released)
def release(ctx: SyncContext, order: int) -> Any:
    return {"released": order}


@task("order", verify_after="10ms")
def order(ctx: SyncContext) -> None:
    with ctx.once("reserve"):
        ctx.on_rollback(release, order=17)
    ctx.on_rollback("release", order=18)


@task("together")
def together(ctx: SyncContext, params: dict[str, Any]) -> Any:
    with ctx.together():
        with ctx.once("upload:1") as op:
            op.result = {"id": 7}
        ctx.progress(1, 2, note="page 1")
        ctx.event("PAGE", "1")
        ctx.save(page=1)
        if params.get("raise"):
            raise Fatal("in the middle")
    return dict(ctx.checkpoint)


@task("sync_fetch")
def sync_fetch(ctx: SyncContext, params: dict[str, Any]) -> Any:
    answers = [ctx.http.get(params["url"]) for _ in range(params.get("times", 1))]
    if params.get("blocked"):
        ctx.blocked("captcha")
    return [[one.status, one.text] for one in answers]


@task("variables")
def variables(ctx: SyncContext, params: dict[str, Any]) -> Any:
    return [os.environ.get(name) for name in params["names"]]
