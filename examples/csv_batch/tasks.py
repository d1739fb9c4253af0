"""Posts each row of a CSV file to an HTTP endpoint: each row arrives exactly once, whatever is killed on the way.

`ctx.once` records each row before and after it is sent. Where a crash came in between, `is_there` asks the site. The
checkpoint only saves the time of going through what is done already.
"""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec

from taskdeck.engine import Context, Fatal, NotDone, task

HERE = Path(__file__).parent
TIMEOUT = 1.5
"""Seconds after which a request is given up; less than `verify_after`, so that no late one arrives behind a check."""


class Batch(msgspec.Struct):
    """What `taskdeck add post_rows` takes."""

    file: str
    """A CSV file with a header; relative to this folder."""
    url: str
    every: int = 20
    """Rows between two checkpoints."""


async def is_there(ctx: Context, row_id: str) -> dict[str, Any]:
    """Ask the site whether a row that was in doubt has arrived."""
    async with session() as http, http.get(f"{ctx.checkpoint['url']}/{quote(row_id, safe='')}") as answer:
        if answer.status == 404:
            raise NotDone(f"the site does not have {row_id}")
        answer.raise_for_status()
        return await answer.json()


@task("post_rows", verify=is_there, verify_after="2s", max_retry=5)
async def post_rows(ctx: Context, batch: Batch) -> dict[str, int]:
    """Post every row of a CSV file."""
    rows = read(HERE / batch.file)
    done = ctx.checkpoint.get("rows", 0)
    if done and rows[done - 1]["order_id"] != ctx.checkpoint["last"]:
        raise Fatal(f"{batch.file} has changed: row {done} was {ctx.checkpoint['last']} before")
    await ctx.save(url=batch.url)
    async with session() as http:
        for number, row in enumerate(rows[done:], done + 1):
            async with ctx.once(row["order_id"]) as op:
                if not op.done:
                    op.result = await post(http, batch.url, row)
            if number % batch.every == 0 or number == len(rows):
                await ctx.save(rows=number, last=row["order_id"])
            ctx.progress(number, len(rows), note=row["order_id"])
    return {"rows": len(rows)}


async def post(http: Any, url: str, row: dict[str, str]) -> dict[str, Any]:
    """Send one row. Any error but a refused connection leaves it in doubt: the site may have it all the same."""
    import aiohttp

    try:
        async with http.post(url, json=row) as answer:
            answer.raise_for_status()
            return await answer.json()
    except aiohttp.ClientConnectorError as error:
        raise NotDone(f"nothing was sent: {error}") from error


def session() -> Any:
    """A session that gives up in time."""
    import aiohttp  # here and not above, so that only the worker pays for it

    return aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=TIMEOUT))


def read(path: Path) -> list[dict[str, str]]:
    """All rows; quotes, line breaks inside a field and any language are as the CSV file says."""
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))
