"""The demo's site: pages with cursors, pages that are slow, flaky or limited, a judge for routes, and uploads with a ledger.

Deterministic: the same questions have the same answers. What it does badly, it does on purpose and per client key, so that
each client meets it. Must not know who asks it, or what for.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
from collections import Counter
from pathlib import Path
from typing import Any

from aiohttp import web

from ..clock import Clock
from .catalogue import lists

PAGE_SIZE = 3
PAGE_SECONDS = 0.1
"""What a page takes, so that there is a time in which things can go wrong."""
SLOW_SECONDS = (0.5, 1.0)
FLAKY_FAILURES = 2
UPLOAD_SECONDS = 0.02
"""An accepted row is on disk for so long before its sender hears of it."""


class Ledger:
    """The rows that the site accepted, one JSON line a request: `{"row", "body", "from", "at"}`. Duplicates show."""

    def __init__(self, path: Path, clock: Clock) -> None:
        self._path = path
        self._clock = clock
        self._writing = asyncio.Lock()
        self._times: Counter[str] = Counter()
        path.touch(mode=0o600)
        whole = path.read_bytes().rpartition(b"\n")[0]
        for line in whole.splitlines():
            self._times[json.loads(line)["row"]] += 1
        os.truncate(path, len(whole) + 1 if whole else 0)  # a line that was cut off was never accepted

    @property
    def accepted(self) -> int:
        """Requests in all."""
        return self._times.total()

    async def accept(self, row: str, body: Any, sender: str) -> int:
        """Note one request, on disk when it returns; says how often this row has come."""
        self._times[row] += 1  # at once: who asks while it is being written must not hear that it isn't there
        record = {"row": row, "body": body, "from": sender, "at": self._clock.utc().isoformat()}
        async with self._writing:
            try:
                await asyncio.to_thread(self._append, json.dumps(record, ensure_ascii=False) + "\n")
            except OSError:
                self._times[row] -= 1
                raise
        return self._times[row]

    async def times(self, row: str) -> int:
        """How often a row has come; what is being written is waited for."""
        async with self._writing:
            return self._times[row]

    def _append(self, line: str) -> None:
        with self._path.open("a", encoding="utf-8") as file:
            file.write(line)
            file.flush()
            os.fsync(file.fileno())


class Site:
    """The answers. `seed` decides how slow the slow page is for whom."""

    def __init__(self, ledger: Ledger, clock: Clock, seed: int = 0) -> None:
        self._ledger = ledger
        self._clock = clock
        self._seed = seed
        self._hits: Counter[tuple[str, str]] = Counter()
        self._paths: Counter[str] = Counter()
        self._callers: Counter[str] = Counter()

    def application(self) -> web.Application:
        """All of it, for a runner."""
        made = web.Application(middlewares=[self._count])
        made.add_routes(
            [
                web.get("/pages", self.pages),
                web.get("/limited", self.limited),
                web.get("/slow", self.slow),
                web.get("/flaky", self.flaky),
                web.get("/whoami", self.whoami),
                web.get("/nonce", self.nonce),
                web.get("/ip", self.ip),
                web.post("/upload", self.upload),
                web.get("/upload/{row}", self.uploaded),
                web.get("/stats", self.stats),
            ]
        )
        return made

    async def pages(self, request: web.Request) -> web.Response:
        """A page of a list: `?list=books`, then `?cursor=` with the `next` of the page before, until that is null."""
        name, start = _place(request)
        items = lists()[name]
        await self._clock.pause(PAGE_SECONDS)
        end = start + PAGE_SIZE
        following = f"{name}-{end}" if end < len(items) else None
        return web.json_response(
            {"list": name, "items": items[start:end], "next": following, "total": len(items)}
        )

    async def limited(self, request: web.Request) -> web.Response:
        """429 to the first hit of each key, with the wish to come again in a second."""
        if self._hit(request) == 1:
            return web.Response(status=429, text="too fast\n", headers={"Retry-After": "1"})
        return web.Response(text="welcome\n")

    async def slow(self, request: web.Request) -> web.Response:
        """An answer that takes its time, the same for the same key and seed."""
        seconds = random.Random(f"{self._seed} {_key(request)}").uniform(*SLOW_SECONDS)
        await self._clock.pause(seconds)
        return web.Response(text="at last\n")

    async def flaky(self, request: web.Request) -> web.Response:
        """500 to the first two hits of each key."""
        if self._hit(request) <= FLAKY_FAILURES:
            return web.Response(status=500, text="oops\n")
        return web.Response(text="well\n")

    async def whoami(self, request: web.Request) -> web.Response:
        """Who asks, as it looks from here, and what proxies said about it."""
        told = {name: request.headers[name] for name in ("Via", "X-Forwarded-For") if name in request.headers}
        return web.json_response({"address": request.remote, "headers": told})

    async def nonce(self, request: web.Request) -> web.Response:
        """Say `n` again: the judge of routes."""
        return web.Response(text=request.query.get("n", ""))

    async def ip(self, request: web.Request) -> web.Response:
        """The caller's address."""
        return web.Response(text=request.remote)

    async def upload(self, request: web.Request) -> web.Response:
        """Accept `{"row": id, "body": …}`, whether or not it has come before."""
        try:
            sent = await request.json()
            row, body = sent["row"], sent["body"]
        except (ValueError, LookupError, TypeError):
            raise web.HTTPBadRequest(text="an upload is an object with row and body\n") from None
        if not (isinstance(row, str) and row):
            raise web.HTTPBadRequest(text="row is a text that names the row\n")
        times = await self._ledger.accept(row, body, request.remote or "")
        await self._clock.pause(UPLOAD_SECONDS)
        return web.json_response({"row": row, "times": times})

    async def uploaded(self, request: web.Request) -> web.Response:
        """Whether a row is here, and how often it came; 404 where it isn't."""
        row = request.match_info["row"]
        times = await self._ledger.times(row)
        if not times:
            raise web.HTTPNotFound(text="no such row\n")
        return web.json_response({"row": row, "times": times})

    async def stats(self, request: web.Request) -> web.Response:
        """Requests by path and by caller's address, and accepted uploads."""
        counted = {"paths": self._paths, "callers": self._callers, "uploads": self._ledger.accepted}
        return web.json_response(counted)

    @web.middleware
    async def _count(self, request: web.Request, handler: Any) -> web.StreamResponse:
        resource = request.match_info.route.resource
        self._paths[resource.canonical if resource else "other"] += 1
        self._callers[request.remote or ""] += 1
        return await handler(request)

    def _hit(self, request: web.Request) -> int:
        """The number of this hit of its key on this path, from 1."""
        self._hits[request.path, _key(request)] += 1
        return self._hits[request.path, _key(request)]


def _key(request: web.Request) -> str:
    """Who a client says it is (`?key=`), else its address."""
    return request.query.get("key") or request.remote or ""


def _place(request: web.Request) -> tuple[str, int]:
    """The list and the item to begin with."""
    cursor = request.query.get("cursor", "")
    name, _, start = cursor.rpartition("-") if cursor else (request.query.get("list", ""), "", "0")
    if not cursor and not name:
        name = next(iter(lists()))
    if name not in lists():
        raise web.HTTPNotFound(text="no such list\n")
    if not start.isdecimal():
        raise web.HTTPBadRequest(text="this is no cursor of mine\n")
    return name, int(start)
