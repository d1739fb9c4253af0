"""`taskdeck probe-server`: a judge in the foreground until a signal ends it.

Owns the signals: TERM and INT end it, HUP reads the certificate anew (a renewed one counts without a restart).
"""

from __future__ import annotations

import asyncio
import signal
import ssl
from collections.abc import Callable

from ..edge.judge_server import JudgeServer, Listen, renew, server_tls
from ..errors import TaskdeckError

Certificate = tuple[str, str]
"""The paths of a certificate chain and of its key."""


def serve(
    listens: list[str],
    certificate: Certificate | None,
    told: Callable[[str], None],
    warned: Callable[[str], None],
) -> None:
    """Serve until TERM or INT; `told` is given each URL that is served. Raises `UsageError`, `Unavailable`."""
    places = [Listen.read(each) for each in listens]
    tls = server_tls(*certificate) if certificate else None
    asyncio.run(_serve(places, tls, certificate, told, warned))


async def _serve(
    places: list[Listen],
    tls: ssl.SSLContext | None,
    certificate: Certificate | None,
    told: Callable[[str], None],
    warned: Callable[[str], None],
) -> None:
    over = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, over.set)

    def read_anew() -> None:
        try:
            if tls and certificate:
                renew(tls, *certificate)
        except TaskdeckError as error:
            warned(f"{error}; the certificate stays as it was")

    loop.add_signal_handler(signal.SIGHUP, read_anew)
    async with JudgeServer(places, tls) as server:
        for url in server.urls:
            told(url)
        await over.wait()
