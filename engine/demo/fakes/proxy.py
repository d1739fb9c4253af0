"""What fake proxies on loopback share: a way out from an address of its own, and the ability to fail on request.

Linux answers on all of 127.0.0.0/8, so a connection bound to 127.0.0.2 is seen as coming from there: every exit has its own
visible address, without root or network.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable

from .faults import Behaviour, Fault
from .messages import Head, read_body, read_head
from .server import CLOCK, Ends, FakeServer, Reader, Writer, drip, join, reset, until_gone

TLS_BEGINNING = b"\x16\x03\x03\x3f\xff"
"""The head of a TLS record whose content never comes to an end."""


class FakeProxy(FakeServer):
    """What all kinds share: faults, the way out, what was asked for.

    `login` is (name, password), None = anybody may. `leaves_from` is the address that targets see. `targets` holds
    `host:port` of each request as it came, names unresolved.
    """

    def __init__(
        self,
        *,
        login: tuple[str, str] | None = None,
        leaves_from: str = "127.0.0.2",
        behaviour: Behaviour | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        super().__init__(tls)
        self.login = login
        self.leaves_from = leaves_from
        self.behaviour = behaviour or Behaviour()
        self.requests = 0
        self.targets: list[str] = []
        self.granted = asyncio.Event()
        """Set once the way to a target is open."""

    async def listen(self) -> None:
        await super().listen()
        if self.behaviour.fault is Fault.REFUSE:
            await self.leave()

    async def behave(self, behaviour: Behaviour) -> None:
        """Behave like this from the next connection on."""
        self.behaviour = behaviour
        await (self.leave() if behaviour.fault is Fault.REFUSE else self.listen())

    async def serve(self, reader: Reader, writer: Writer) -> None:
        first = await reader.read(1)
        if not first:  # somebody looked whether the port is open
            return
        fault = self.behaviour.at(self.requests)
        self.requests += 1
        if fault is Fault.SILENT:
            await until_gone(reader)
        elif fault is Fault.RESET:
            reset(writer)
        elif fault is Fault.GARBAGE:
            writer.write(b"\x07\x07\x07 go away\r\n\r\n")
        elif fault is not Fault.CLOSE:
            await CLOCK.pause(self.behaviour.delay)
            await self.speak(first, reader, writer, fault)

    async def speak(self, first: bytes, reader: Reader, writer: Writer, fault: Fault) -> None:
        """Speak the proxy's protocol with this fault; `first` is the byte that is already read."""
        raise NotImplementedError

    async def tunnel(self, client: Ends, target: Ends, fault: Fault) -> None:
        """What follows the grant."""
        self.granted.set()
        try:
            if fault is Fault.SILENT_TUNNEL:
                await until_gone(client[0])
            elif fault is Fault.DRIP_TUNNEL:
                await client[0].read(1)
                await drip(client[1], TLS_BEGINNING)
            elif fault is Fault.RESET_TUNNEL:
                await client[0].read(1)
                reset(client[1])
            elif fault is Fault.TAMPER:
                await exchange(client, target, await read_head(client[0]), tampered)
            else:
                await join(client, target)
        finally:
            target[1].close()

    async def reach(self, host: str, port: int) -> Ends:
        """Connect to a target from this proxy's own address; `OSError` where that fails."""
        family = socket.AF_INET6 if ":" in self.leaves_from else socket.AF_INET
        return await asyncio.open_connection(
            host.strip("[]").rstrip("."), port, local_addr=(self.leaves_from, 0), family=family
        )


async def exchange(client: Ends, target: Ends, head: Head, change: Callable[[bytes], bytes]) -> None:
    """Pass one plain HTTP request on, and the answer back with its body changed."""
    target[1].write(head.encoded() + await read_body(client[0], head))
    reply = await read_head(target[0])
    body = change(await read_body(target[0], reply))
    length = {"content-length": str(len(body))} if "content-length" in reply.headers else {}
    client[1].write(Head(reply.first, {**reply.headers, **length, "connection": "close"}).encoded() + body)
    await client[1].drain()


def tampered(body: bytes) -> bytes:
    """What an injecting proxy makes of a page."""
    return body + b"<script>alert(1)</script>"
