"""A fake HTTP proxy: requests in absolute form, and CONNECT."""

from __future__ import annotations

import base64
from urllib.parse import urlsplit

from .faults import Fault
from .messages import TLS_HELLO, Head, answer, read_head
from .proxy import FakeProxy, exchange, tampered
from .server import CLOCK, Ends, Reader, Writer, drip


class HttpProxy(FakeProxy):
    """Answers 407 to a missing or wrong login, 503 where it can't reach the target."""

    forwards = True
    """Does it take plain HTTP requests, or does it only open tunnels?"""

    async def speak(self, first: bytes, reader: Reader, writer: Writer, fault: Fault) -> None:
        if first == TLS_HELLO:
            writer.write(answer(400, b"this is no request"))
            return
        head = await read_head(reader, first)
        method, url, _ = head.first
        place = url if method == "CONNECT" else urlsplit(url).netloc
        self.targets.append(place)
        if not self._knows(head):
            writer.write(answer(407, b"login", proxy_authenticate='Basic realm="fake"'))
        elif method != "CONNECT" and not self.forwards:
            writer.write(answer(501, b"tunnels only"))
        elif reply := self._own_answer(fault):
            writer.write(reply)
        elif fault is Fault.DRIP:
            await drip(writer, b"HTTP/1.1 200 OK\r\nx-slow: ")
        elif target := await self._reach_or_answer(place, writer):
            pass_on = self._connect if method == "CONNECT" else self._forward
            await pass_on((reader, writer), target, head, fault)

    def _knows(self, head: Head) -> bool:
        if not self.login:
            return True
        expected = base64.b64encode(":".join(self.login).encode("latin-1")).decode()
        return head.headers.get("proxy-authorization") == f"Basic {expected}"

    def _own_answer(self, fault: Fault) -> bytes:
        if fault is Fault.STATUS:
            return answer(self.behaviour.status, b"no")
        if fault is Fault.REDIRECT:
            return answer(302, location="http://login.example/")
        if fault is Fault.OWN_PAGE:
            return answer(200, b"<h1>please pay</h1>")
        return b""

    async def _reach_or_answer(self, place: str, writer: Writer) -> Ends | None:
        host, _, port = place.rpartition(":")
        try:
            return await self.reach(host, int(port))
        except OSError:
            writer.write(answer(503, b"can't get there"))
            return None

    async def _connect(self, client: Ends, target: Ends, _: Head, fault: Fault) -> None:
        reply = b"HTTP/1.1 200 Connection established\r\nvia: fake\r\n\r\n"
        if fault is Fault.SPLIT_HEADER:
            client[1].write(reply[:30])
            await CLOCK.pause(0.02)
            reply = reply[30:]
        client[1].write(reply)
        await self.tunnel(client, target, fault)

    async def _forward(self, client: Ends, target: Ends, head: Head, fault: Fault) -> None:
        passed = _for_target(head)
        if fault is Fault.TAMPER:
            await exchange(client, target, passed, tampered)
            target[1].close()
        else:
            target[1].write(passed.encoded())
            await self.tunnel(client, target, fault)


class ConnectProxy(HttpProxy):
    """Opens tunnels and nothing else: 501 to a plain request."""

    forwards = False


def _for_target(head: Head) -> Head:
    """The request as the target gets it: path instead of URL, nothing meant for the proxy, one request a connection."""
    method, url, version = head.first
    parts = urlsplit(url)
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    kept = {name: value for name, value in head.headers.items() if not name.startswith("proxy-")}
    return Head((method, path, version), {**kept, "connection": "close"})
