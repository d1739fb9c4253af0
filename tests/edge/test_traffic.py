"""The bytes of a check are those that a provider counts: handshakes, requests to the proxy, answers, in both directions."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest

from taskdeck.engine.demo.fakes.faults import Behaviour, Fault
from taskdeck.engine.demo.fakes.server import FakeServer, Reader, Writer
from taskdeck.engine.edge.exits import Exit, Scheme
from taskdeck.engine.edge.probing import probe
from tests.edge.fakes.certificates import client_context
from tests.edge.test_probing import KINDS, PATIENT, course


class Provider(FakeServer):
    """Stands before a proxy and counts what it passes on."""

    def __init__(self, to: int) -> None:
        super().__init__()
        self._to = to
        self.passed = 0

    async def serve(self, reader: Reader, writer: Writer) -> None:
        onward = await asyncio.open_connection("127.0.0.1", self._to)
        ways = {
            asyncio.ensure_future(self._pass(reader, onward[1])),
            asyncio.ensure_future(self._pass(onward[0], writer)),
        }
        await asyncio.wait(ways)

    async def _pass(self, reader: Reader, writer: Writer) -> None:
        with suppress(OSError):
            while data := await reader.read(65536):
                self.passed += len(data)
                writer.write(data)
                await writer.drain()
        writer.close()


@pytest.mark.parametrize("secure", [True, False])
@pytest.mark.parametrize("scheme", KINDS)
async def test_every_byte_of_a_check_counts_whatever_the_exit_is(scheme: Scheme, secure: bool) -> None:
    async with course(scheme, secure=secure) as at, Provider(at.proxy.port) as provider:
        exit = Exit(scheme, "127.0.0.1", provider.port, at.exit.username, at.exit.password)
        result = await probe(exit, [at.question()], at.outside(), budgets=PATIENT, tls=client_context())
        assert result.ok
        await provider.idle.wait()
        assert 0 <= provider.passed - result.bytes <= 200  # the last word of a connection that is given up
        assert result.bytes > (4000 if secure else 300)


async def test_what_failed_has_cost_something_too() -> None:
    async with course(Scheme.HTTP, Behaviour(Fault.OWN_PAGE)) as at:
        result = await at.check()
        assert not result.ok
        assert result.bytes > 100
    async with course(Scheme.HTTP, Behaviour(Fault.REFUSE)) as at:
        assert (await at.check()).bytes == 0
