"""The servers that fakes are made of end without losing a connection, whenever it comes."""

from __future__ import annotations

import asyncio
import gc
import socket
from contextlib import suppress

import pytest

from taskdeck.engine.demo.fakes.server import LAST_TURNS, FakeServer, Reader, Writer


class Listening(FakeServer):
    async def serve(self, reader: Reader, writer: Writer) -> None:
        await reader.read()


@pytest.mark.parametrize("turns", range(3 * LAST_TURNS))
def test_who_connects_while_a_server_ends_leaves_no_connection_open(
    turns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost: list[object] = []
    monkeypatch.setattr("sys.unraisablehook", lambda told: lost.append(told.exc_value))

    async def connect(port: int, caller: socket.socket) -> None:
        for _turn in range(turns):
            await asyncio.sleep(0)
        with suppress(BlockingIOError, ConnectionRefusedError):
            caller.connect(("127.0.0.1", port))

    async def end_meanwhile(caller: socket.socket) -> None:
        async with Listening() as server:
            late = asyncio.ensure_future(connect(server.port, caller))
        await late

    with socket.socket() as caller:
        caller.setblocking(False)
        asyncio.run(end_meanwhile(caller))
    gc.collect()
    assert lost == []
