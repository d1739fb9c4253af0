"""Handlers for the tests of what attempts hold: resources, routes, HTTP."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

from taskdeck.engine import Context, Fatal, ResourceFault, task


@task("holds", needs=["browser", "gpu:2"], route="eu", allow_direct=False)
async def holds(ctx: Context) -> Any:
    return {
        "resource": ctx.resource,
        "resources": dict(ctx.resources),
        "route": ctx.route,
        "proxy": ctx.proxy,
    }


@task("blame")
async def blame(ctx: Context, params: dict[str, str]) -> None:
    raise ResourceFault("logged out", **params)


@task("fetch")
async def fetch(ctx: Context, params: dict[str, Any]) -> Any:
    """Fetch `url` as often as told; the first way, then the second."""
    if "timeout" in params:
        import aiohttp

        options = {"timeout": aiohttp.ClientTimeout(params["timeout"])}
    else:
        options = {}
    answers = []
    for n in range(params.get("times", 1)):
        if n % 2:
            response = await ctx.http.request("GET", params["url"], **options)
            answers.append([response.status, await response.text()])
        else:
            async with ctx.http.get(params["url"], **options) as response:
                if params.get("raise"):
                    response.raise_for_status()
                answers.append([response.status, await response.text()])
    return answers


@task("fetch_eu", route="eu")
async def fetch_eu(ctx: Context, params: dict[str, str]) -> Any:
    async with ctx.http.get(params["url"]) as response:
        return await response.text()


@task("fetch_anyhow", route="eu", allow_direct=True)
async def fetch_anyhow(ctx: Context, params: dict[str, str]) -> Any:
    async with ctx.http.get(params["url"]) as response:
        return await response.text()


@task("fetch_wrapped")
async def fetch_wrapped(ctx: Context, params: dict[str, str]) -> Any:
    """A library in between raises errors of its own; with `fatal` the author has judged."""
    try:
        async with ctx.http.get(params["url"]) as response:
            return await response.text()
    except Exception as error:
        if params.get("fatal"):
            raise Fatal("no use") from error
        raise RuntimeError(f"the page could not be had: {error!r}") from error


@task("fetch_session")
async def fetch_session(ctx: Context, params: dict[str, str]) -> Any:
    session = await ctx.http.session()
    async with session.get(params["url"]) as response:
        return {"kind": type(session).__name__, "text": await response.text()}


@task("captcha_by_url")
async def captcha_by_url(ctx: Context, params: dict[str, str]) -> str:
    await ctx.blocked("captcha", params["host"])
    try:
        await ctx.blocked("captcha", "https://u:hunter2/@")
    except ValueError as error:
        return str(error)
    return ""


@task("captcha")
async def captcha(ctx: Context, params: dict[str, str]) -> None:
    async with ctx.http.get(params["url"]):
        await ctx.blocked("captcha")


@task("leaks")
async def leaks(ctx: Context) -> None:
    ctx.log(f"going out by {ctx.proxy}")
    raise RuntimeError(f"can't get out by {ctx.proxy}, with {ctx.proxy.partition('//')[2].split(':')[1][:9]}")


@task("imported")
async def imported(ctx: Context) -> bool:
    return "aiohttp" in sys.modules


@task("fetch_twice")
async def fetch_twice(ctx: Context, params: dict[str, str]) -> Any:
    """Fetch once, wait until the gate (a named pipe) is opened, fetch again by another connection."""
    answers = []
    for n in range(2):
        async with ctx.http.get(params["url"], headers={"connection": "close"}) as response:
            answers.append(await response.text())
        if n == 0:
            ctx.progress(1)
            await asyncio.to_thread(Path(params["gate"]).read_text)
    return answers
