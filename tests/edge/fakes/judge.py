"""A judge as a check of an exit needs it: echoes a nonce, tells the caller's address; and a bad one on request."""

from __future__ import annotations

import ssl
from urllib.parse import parse_qs, urlsplit

from taskdeck.engine.demo.fakes.messages import TLS_HELLO, answer, read_head
from taskdeck.engine.demo.fakes.server import FakeServer, Reader, Writer, drip, reset, until_gone


class FakeJudge(FakeServer):
    """Answers `/nonce?n=…`, `/ip`, `/204` rightly; `/silent`, `/drip`, `/drip-body`, `/big`, `/redirect`, `/reset`,
    `/garbage` and `/<status>` wrongly. `asked` holds (caller's address, path) of each request; `told` is told at `/ip`
    instead of the caller's address.
    """

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        super().__init__(tls)
        self.told = ""
        self.asked: list[tuple[str, str]] = []

    def url(self, path: str, host: str = "127.0.0.1") -> str:
        return f"{'https' if self._tls else 'http'}://{host}:{self.port}{path}"

    async def serve(self, reader: Reader, writer: Writer) -> None:
        while True:
            first = await reader.readexactly(1)
            if first == TLS_HELLO:
                writer.write(answer(400))
                return
            head = await read_head(reader, first)
            target = urlsplit(head.first[1])
            address = str(writer.get_extra_info("peername")[0])
            self.asked.append((address, target.path))
            if target.path in _MISBEHAVIOUR:
                await _MISBEHAVIOUR[target.path](reader, writer)
                return
            nonce = parse_qs(target.query).get("n", [""])[0]
            writer.write(_reply(target.path, nonce, self.told or address))
            await writer.drain()
            if head.headers.get("connection", "").lower() == "close":
                return


def _reply(path: str, nonce: str, address: str) -> bytes:
    name = path.strip("/")
    if name == "nonce":
        return answer(200, nonce.encode(), content_type="text/plain")
    if name == "ip":
        return answer(200, address.encode(), content_type="text/plain")
    if name == "big":
        return answer(200, nonce.encode() + b" " * 100_000)
    if name == "redirect":
        return answer(302, location="http://login.example/")
    return answer(int(name) if name.isdecimal() else 404)


async def _silent(reader: Reader, _: Writer) -> None:
    await until_gone(reader)


async def _drip(_: Reader, writer: Writer) -> None:
    await drip(writer, b"HTTP/1.1 200 OK\r\nx-slow: ")


async def _drip_body(_: Reader, writer: Writer) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 4000\r\n\r\n")
    await drip(writer, b"")


async def _reset(_: Reader, writer: Writer) -> None:
    reset(writer)


async def _garbage(_: Reader, writer: Writer) -> None:
    writer.write(b"this is no answer\r\n\r\n")
    await writer.drain()


_MISBEHAVIOUR = {
    "/silent": _silent,
    "/drip": _drip,
    "/drip-body": _drip_body,
    "/reset": _reset,
    "/garbage": _garbage,
}
