"""Handlers that fetch by their route and tell all that they know of it."""

from __future__ import annotations

import os
from typing import Any

from taskdeck.engine import Context, SyncContext, task


@task("tell_async", max_retry=0)
async def tell_async(ctx: Context, params: dict[str, Any]) -> Any:
    print(f"async, by {ctx.proxy} {ctx.route}", flush=True)
    ctx.log(f"out by {ctx.proxy}, {ctx!r}, {vars(ctx)}")
    async with ctx.http.get(params["url"]) as response:
        session = await ctx.http.session()
        ctx.log(f"{response!r} {response.connection} {session!r} {vars(ctx.http)}")
        await ctx.save(proxy=ctx.proxy, route=ctx.route)
        ctx.event(
            "TOLD", f"by {ctx.proxy}", response=repr(response), headers=dict(response.request_info.headers)
        )
        return response.status


@task("tell_sync", max_retry=0)
def tell_sync(ctx: SyncContext, params: dict[str, Any]) -> Any:
    print(f"sync, by {ctx.proxy} {ctx.route} {dict(os.environ)}", flush=True)
    answer = ctx.http.get(params["url"])
    ctx.save(proxy=ctx.proxy, text=answer.text)
    return {"status": answer.status, "headers": dict(answer.headers), "environ": dict(os.environ)}
