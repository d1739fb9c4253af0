"""A proxy that answers by rote and then ends as it is told: what a peer may do at any point of a handshake."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Sequence
from enum import StrEnum

from taskdeck.engine.demo.fakes.server import FakeServer, Reader, Writer, drip, reset, until_gone


class End(StrEnum):
    """What comes after the last answer."""

    CLOSE = "close"
    HALF_CLOSE = "half close"
    """Says that nothing more will come, and listens on."""
    RESET = "reset"
    SILENCE = "silence"
    DRIP = "drip"
    FLOOD = "flood"
    """Bytes without end, as fast as they are taken."""


class ScriptedProxy(FakeServer):
    """Gives one of `answers` to whatever comes, then the next; then `end`, where it `waits` only when more has come.

    A flood is of the bytes that are given, over and over.
    """

    def __init__(
        self,
        answers: Sequence[bytes],
        end: End,
        *,
        waits: bool = True,
        flood: bytes = b"\0",
        tls: ssl.SSLContext | None = None,
    ) -> None:
        super().__init__(tls)
        self._answers = answers
        self._end = end
        self._waits = waits
        self._flood = flood

    async def serve(self, reader: Reader, writer: Writer) -> None:
        for answer in self._answers:
            if not await reader.read(65536):
                return
            writer.write(answer)
        if not self._waits or await reader.read(65536):
            await self._come_to_an_end(reader, writer)

    async def _come_to_an_end(self, reader: Reader, writer: Writer) -> None:
        if self._end is End.RESET:
            reset(writer)
        elif self._end is End.HALF_CLOSE:
            writer.get_extra_info("socket").shutdown(socket.SHUT_WR)
            await until_gone(reader)
        elif self._end is End.SILENCE:
            await until_gone(reader)
        elif self._end is End.DRIP:
            await drip(writer, b"")
        elif self._end is End.FLOOD:
            block = self._flood * (65536 // len(self._flood))
            while True:
                writer.write(block)
                await writer.drain()
