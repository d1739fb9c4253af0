"""The demo's world, a process of its own: the site and the seven proxies.

`python -m taskdeck.engine.demo.world --dir D [--seed N]` writes `D/world.json` once all of it listens:

    pid, site, nonce_url, ip_url, ledger
    proxies: id, scheme, host, port, username, password_file, group, exit_ip, leaves_from, nature

`exit_ip` is the address that a proxy is sold with (a route's `expected_ip`), `leaves_from` the true one. A world that is
started again in the same folder keeps passwords and ledger; its pid and ports are new. It ends on SIGTERM or SIGINT, and when
the pipe closes whose reading end is the descriptor in TASKDECK_DEMO_FD. On that pipe it takes orders, one a line: `cut` (site
and proxies refuse everybody), `mend`, `drop ID` and `raise ID` (one proxy dies, and comes back). Must not know of the engine.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import secrets
import signal
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from ..clock import Clock, SystemClock
from ..errors import TaskdeckError, UsageError
from .fakes.proxy import FakeProxy
from .fakes.server import FakeServer, Reader, Writer, join
from .proxies import FLAPPING, OFFERS, Offer, build, flap

HOST = "127.0.0.1"
FILE, LEDGER, SECRETS = "world.json", "ledger.jsonl", "secrets"
GROUP = "demo"
PIPE = "TASKDECK_DEMO_FD"
GOODBYE = 0.5
"""Seconds that open requests have at the end."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Live until told to end."""
    parser = argparse.ArgumentParser(
        prog="taskdeck.engine.demo.world", description="The demo's site and proxies."
    )
    parser.add_argument(
        "--dir", type=Path, required=True, help="the folder for world.json, ledger and passwords"
    )
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    try:
        asyncio.run(live(options.dir.absolute(), options.seed, SystemClock()))
    except TaskdeckError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    except OSError as error:
        print(f"the demo's world can't begin: {error}", file=sys.stderr)
        return 1
    return 0


async def live(folder: Path, seed: int, clock: Clock) -> None:
    """Open everything, say so in world.json, do as told until the end."""
    orders = _orders()
    (folder / SECRETS).mkdir(mode=0o700, parents=True, exist_ok=True)
    (folder / FILE).unlink(missing_ok=True)
    async with AsyncExitStack() as opened:
        front = await opened.enter_async_context(_site(folder / LEDGER, seed, clock))
        proxies: dict[str, FakeProxy] = {}
        told = [await _open(offer, folder, clock, opened, proxies) for offer in OFFERS]
        _announce(folder, f"http://{HOST}:{front.port}", told)
        ends: dict[str, FakeServer] = {"": front, **proxies}
        while (order := await orders.get()) is not None:
            await _obey(order, ends)


def _orders() -> asyncio.Queue[list[str] | None]:
    """What this process is told, word by word; None when it shall end."""
    orders: asyncio.Queue[list[str] | None] = asyncio.Queue()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, orders.put_nowait, None)
    if given := os.environ.get(PIPE):
        try:
            pipe = int(given)
            loop.add_reader(pipe, lambda: _hear(pipe, orders) or loop.remove_reader(pipe))
        except (ValueError, OSError):
            raise UsageError(f"{PIPE} is not the number of an open pipe") from None
    return orders


def _hear(pipe: int, orders: asyncio.Queue[list[str] | None]) -> bool:
    """Take what has come; False at the end of the pipe."""
    lines = os.read(pipe, 4096).decode("ascii", "replace").splitlines()
    for line in lines or [""]:
        orders.put_nowait(line.split() or None)
    return bool(lines)


async def _obey(order: list[str], ends: Mapping[str, FakeServer]) -> None:
    """One order; one that nobody understands is passed over."""
    match order:
        case ["cut"]:
            meant, come = list(ends.values()), False
        case ["mend"]:
            meant, come = list(ends.values()), True
        case ["drop", name]:
            meant, come = [ends[name]], False
        case ["raise", name]:
            meant, come = [ends[name]], True
        case _:
            return
    for each in meant:
        if come:
            await each.listen()
        else:
            await each.leave()
            await each.hang_up()


class Front(FakeServer):
    """The site's door: passes every connection on, from the address it came from, and can be shut."""

    def __init__(self, behind: int) -> None:
        super().__init__()
        self._behind = behind

    async def serve(self, reader: Reader, writer: Writer) -> None:
        caller = writer.get_extra_info("peername")[0]
        target = await asyncio.open_connection(HOST, self._behind, local_addr=(caller, 0))
        await join((reader, writer), target)


@asynccontextmanager
async def _site(ledger: Path, seed: int, clock: Clock) -> AsyncIterator[Front]:
    """The site's door, while it answers."""
    from aiohttp import web

    from .site import Ledger, Site

    application = Site(Ledger(ledger, clock), clock, seed).application()
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=GOODBYE)
    await runner.setup()
    try:
        await web.TCPSite(runner, HOST, 0).start()
        async with Front(runner.addresses[0][1]) as front:
            yield front
    finally:
        await runner.cleanup()


async def _open(
    offer: Offer, folder: Path, clock: Clock, opened: AsyncExitStack, proxies: dict[str, FakeProxy]
) -> dict[str, Any]:
    """Let one proxy begin, and add it; what world.json says of it."""
    file = folder / SECRETS / offer.id if offer.username else None
    proxy = await opened.enter_async_context(build(offer, _password(file) if file else None))
    proxies[offer.id] = proxy
    if offer.id == FLAPPING:
        await opened.enter_async_context(_while_open(flap(proxy, clock)))
    return {
        "id": offer.id,
        "scheme": offer.scheme,
        "host": HOST,
        "port": proxy.port,
        "username": offer.username,
        "password_file": str(file) if file else None,
        "group": GROUP,
        "exit_ip": offer.exit_ip,
        "leaves_from": offer.leaves_from,
        "nature": offer.nature,
    }


@asynccontextmanager
async def _while_open(coroutine: Any) -> AsyncIterator[None]:
    task = asyncio.create_task(coroutine)
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


def _password(file: Path) -> str:
    """The password in a file that only its owner may read; a new one at first."""
    with (
        suppress(FileExistsError),
        os.fdopen(os.open(file, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "w") as new,
    ):
        new.write(secrets.token_urlsafe(18))
    return file.read_text(encoding="ascii")


def _announce(folder: Path, site: str, proxies: list[dict[str, Any]]) -> None:
    world = {
        "pid": os.getpid(),
        "site": site,
        "nonce_url": f"{site}/nonce",
        "ip_url": f"{site}/ip",
        "proxies": proxies,
        "ledger": str(folder / LEDGER),
    }
    part = folder / f".{FILE}.part"
    part.write_text(json.dumps(world, indent=2) + "\n", encoding="utf-8")
    part.replace(folder / FILE)


if __name__ == "__main__":
    sys.exit(main())
