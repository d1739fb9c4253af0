"""The demo's task types, written as users write theirs: `handlers = ["taskdeck.engine.demo.jobs"]`.

What they fetch and write goes into the folder that the task names. Must not import anything of the engine but its door and
the clock.
"""

from __future__ import annotations

import json
import os
import signal
from html import escape
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec

from .. import Context, Delay, Fatal, NotDone, ResourceFault, Retry, task
from ..clock import SystemClock
from .catalogue import orders

ROUTES = "demo"
"""The group of the demo's routes."""
TIMEOUT = 1.0
"""Seconds after which an upload is given up; less than its `verify_after`, so that none arrives behind a check."""
SAVE_EVERY = 5
"""Orders between two checkpoints."""
CLOCK = SystemClock()


class Visit(msgspec.Struct):
    """A visit to the site."""

    site: str
    """Its address, as in `http://127.0.0.1:8787`."""


class Fetch(Visit):
    """Fetch one of the site's lists."""

    list: str
    folder: str


class Upload(Visit):
    """Upload the orders from number `first` to number `last`, 0 = to the end."""

    first: int = 1
    last: int = 0


class Report(msgspec.Struct):
    """Write a report once so many lists are fetched."""

    folder: str
    lists: int


class Range(msgspec.Struct):
    """Numbers from `first` to `last`."""

    first: int
    last: int


class Browse(msgspec.Struct):
    """Use a browser; the mark goes into the folder."""

    folder: str


# ---- through a route ----------------------------------------------------------------------------------------------


@task("demo_fetch", route=ROUTES, timeout="30s")
async def fetch(ctx: Context, params: Fetch) -> dict[str, Any]:
    """Fetch a list page by page; the checkpoint says where it goes on, and keeps what is there."""
    got = {"cursor": None, "items": [], "total": 1, **ctx.checkpoint}
    while len(got["items"]) < got["total"]:
        place = {"cursor": got["cursor"]} if got["cursor"] else {"list": params.list}
        page = await _get(ctx, f"{params.site}/pages", **place)
        got = {"cursor": page["next"], "items": got["items"] + page["items"], "total": page["total"]}
        await ctx.save(**got)
        ctx.progress(len(got["items"]), got["total"], note=params.list)
    text = json.dumps({"list": params.list, "items": got["items"]}, ensure_ascii=False, indent=1)
    _write(_fetched(params.folder) / f"{ctx.task_id}.json", text)
    return {"list": params.list, "items": len(got["items"])}


@task("demo_limited", route=ROUTES, timeout="30s")
async def limited(ctx: Context, params: Visit) -> None:
    """Visit the page that asks its guests to come again in a second."""
    await _visit(ctx, f"{params.site}/limited")


@task("demo_flaky", route=ROUTES, timeout="30s")
async def flaky(ctx: Context, params: Visit) -> None:
    """Visit the page that fails twice."""
    await _visit(ctx, f"{params.site}/flaky")


@task("demo_slow", route=ROUTES, timeout="30s")
async def slow(ctx: Context, params: Visit) -> None:
    """Visit the page that takes its time."""
    await _visit(ctx, f"{params.site}/slow")


async def _visit(ctx: Context, url: str) -> None:
    async with ctx.http.get(url, params={"key": str(ctx.task_id)}) as response:
        response.raise_for_status()


async def _get(ctx: Context, url: str, **query: str) -> Any:
    async with ctx.http.get(url, params=query) as response:
        response.raise_for_status()
        return await response.json()


# ---- exactly once ---------------------------------------------------------------------------------------------------


async def is_there(ctx: Context, order: str) -> dict[str, Any]:
    """Ask the site whether an order that was in doubt has arrived."""
    url = f"{ctx.checkpoint['site']}/upload/{quote(order, safe='')}"
    async with ctx.http.get(url, timeout=_timeout()) as response:
        if response.status == 404:
            raise NotDone(f"the site does not have {order}")
        response.raise_for_status()
        return await response.json()


@task("demo_upload", needs=["browser"], verify=is_there, verify_after="2s", timeout="60s")
async def upload(ctx: Context, params: Upload) -> dict[str, int]:
    """Upload orders one by one, each of them once, whatever is killed on the way."""
    batch = orders()[params.first - 1 : params.last or None]
    await ctx.save(site=params.site)
    for number in range(ctx.checkpoint.get("done", 0), len(batch)):
        order = batch[number]
        async with ctx.once(order["order_id"]) as op:
            if not op.done:
                op.result = await _send(ctx, params.site, order)
        if (number + 1) % SAVE_EVERY == 0:
            await ctx.save(done=number + 1)
        ctx.progress(number + 1, len(batch), note=order["order_id"])
    return {"orders": len(batch)}


async def _send(ctx: Context, site: str, order: dict[str, str]) -> dict[str, Any]:
    """Send one order. Any error but a refused connection leaves it in doubt: it may have arrived all the same."""
    import aiohttp

    message = {"row": order["order_id"], "body": order}
    try:
        async with ctx.http.post(f"{site}/upload", json=message, timeout=_timeout()) as response:
            response.raise_for_status()
            return await response.json()
    except aiohttp.ClientConnectorError as error:
        raise NotDone(f"nothing was sent: {error}") from error


def _timeout() -> Any:
    import aiohttp  # here and not above, so that only the worker pays for it

    return aiohttp.ClientTimeout(total=TIMEOUT)


# ---- from what was fetched ------------------------------------------------------------------------------------------


@task("demo_report", timeout="10s")
async def report(ctx: Context, params: Report) -> dict[str, Any]:
    """Make one HTML file of all that was fetched; too early, it comes back a little later."""
    files = sorted(_fetched(params.folder).glob("*.json"))
    if len(files) < params.lists:
        raise Delay(f"{len(files)} of {params.lists} lists are fetched", seconds=0.5)
    lists = [json.loads(file.read_text(encoding="utf-8")) for file in files]
    file = Path(params.folder) / "report.html"
    _write(file, _page(sorted(lists, key=lambda each: each["list"])))
    return {"file": str(file), "items": sum(len(each["items"]) for each in lists)}


def _page(lists: list[dict[str, Any]]) -> str:
    """A page that needs nothing else. What comes from outside is escaped."""
    tables = "".join(
        f"<h2>{escape(each['list'])}</h2><table>{''.join(map(_line, each['items']))}</table>\n"
        for each in lists
    )
    return PAGE.format(count=sum(len(each["items"]) for each in lists), tables=tables)


def _line(item: dict[str, str]) -> str:
    cells = "".join(f"<td>{escape(item[name])}</td>" for name in ("name", "note", "price"))
    return f"<tr>{cells}</tr>\n"


PAGE = """\
<!doctype html>
<html lang="en"><meta charset="utf-8"><title>What was fetched</title>
<style>
body {{ font: 15px/1.5 system-ui, sans-serif; max-width: 46em; margin: 2em auto; padding: 0 1em }}
table {{ border-collapse: collapse; width: 100% }}
td {{ border-top: 1px solid #ccc; padding: .2em .6em .2em 0 }}
td:last-child {{ text-align: right; font-variant-numeric: tabular-nums }}
</style>
<h1>What was fetched: {count} items</h1>
{tables}</html>
"""


# ---- that go wrong --------------------------------------------------------------------------------------------------


@task("demo_bad_parameters")
async def bad_parameters(ctx: Context, params: Range) -> dict[str, int]:
    """Count numbers; that a range runs backwards, only this function can judge."""
    if params.first > params.last:
        raise Fatal(f"the range runs backwards, from {params.first} to {params.last}")
    return {"numbers": params.last - params.first + 1}


@task("demo_always_fails", max_retry=2)
async def always_fails(ctx: Context) -> None:
    """Try, in vain."""
    raise Retry(f"attempt {ctx.attempt} is as good as any, and no better")


@task("demo_kills_its_worker")
async def kills_its_worker(ctx: Context) -> None:
    """End the process that runs this, as a crash of a library would."""
    os.kill(os.getpid(), signal.SIGKILL)


@task("demo_browser", needs=["browser"], timeout="30s")
async def browser(ctx: Context, params: Browse) -> dict[str, Any]:
    """Use a browser that crashes the first time; that is the browser's fault, so another one is tried."""
    mark = Path(params.folder) / "crashes" / str(ctx.task_id)
    mark.parent.mkdir(parents=True, exist_ok=True)
    if not mark.exists():
        mark.touch()
        raise ResourceFault("the browser crashed", resource=ctx.resource or "")
    await CLOCK.pause(0.3)
    return {"browser": ctx.resource}


# ---- files ----------------------------------------------------------------------------------------------------------


def _fetched(folder: str) -> Path:
    return Path(folder) / "fetched"


def _write(file: Path, text: str) -> None:
    """Write a file so that nobody ever sees half of it."""
    file.parent.mkdir(parents=True, exist_ok=True)
    part = file.with_suffix(f".part-{os.getpid()}")
    part.write_text(text, encoding="utf-8")
    part.replace(file)
