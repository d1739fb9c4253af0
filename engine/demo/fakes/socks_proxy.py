"""A fake SOCKS proxy for versions 4, 4a and 5."""

from __future__ import annotations

import ipaddress

from .faults import Fault
from .proxy import FakeProxy
from .server import Ends, Reader, Writer, drip

GRANTED = {4: 90, 5: 0}
UNREACHABLE = {4: 91, 5: 4}
NO_METHOD = 255


class SocksProxy(FakeProxy):
    """With a login, SOCKS4 must give its name and SOCKS5 both parts; `targets` shows what was sent, name or address."""

    async def speak(self, first: bytes, reader: Reader, writer: Writer, fault: Fault) -> None:
        version = first[0]
        if fault is Fault.DRIP:
            await drip(writer, b"\x05\x00\x05\x00\x00\x03\xff")
        elif version == 4:
            await self._serve_4((reader, writer), fault)
        elif version == 5 and await self._greets(reader, writer):
            await self._answer((reader, writer), 5, *await _place_5(reader), fault)

    async def _serve_4(self, client: Ends, fault: Fault) -> None:
        host, port, name = await _request_4(client[0])
        if self.login and name != self.login[0]:
            client[1].write(_reply(4, 93))
        else:
            await self._answer(client, 4, host, port, fault)

    async def _greets(self, reader: Reader, writer: Writer) -> bool:
        methods = await _counted(reader)
        wanted = 2 if self.login else 0
        writer.write(bytes([5, wanted if wanted in methods else NO_METHOD]))
        return wanted in methods and (not self.login or await self._is_login(reader, writer))

    async def _is_login(self, reader: Reader, writer: Writer) -> bool:
        await reader.readexactly(1)
        given = ((await _counted(reader)).decode(), (await _counted(reader)).decode())
        writer.write(bytes([1, given != self.login]))
        return given == self.login

    async def _answer(self, client: Ends, version: int, host: str, port: int, fault: Fault) -> None:
        self.targets.append(f"{host}:{port}")
        if fault is Fault.STATUS:
            client[1].write(_reply(version, self.behaviour.code))
            return
        try:
            target = await self.reach(host, port)
        except OSError:
            client[1].write(_reply(version, UNREACHABLE[version]))
            return
        client[1].write(_reply(version, GRANTED[version]))
        await self.tunnel(client, target, fault)


def _reply(version: int, code: int) -> bytes:
    return (bytes([0, code]) if version == 4 else bytes([5, code, 0, 1])) + bytes(6)


async def _request_4(reader: Reader) -> tuple[str, int, str]:
    """Host, port, user name. An address 0.0.0.x announces a host name behind the user name: that is 4a."""
    await reader.readexactly(1)
    port = int.from_bytes(await reader.readexactly(2), "big")
    address = await reader.readexactly(4)
    name = (await reader.readuntil(b"\0"))[:-1].decode()
    if any(address[:3]):
        return str(ipaddress.ip_address(address)), port, name
    return (await reader.readuntil(b"\0"))[:-1].decode(), port, name


async def _place_5(reader: Reader) -> tuple[str, int]:
    kind = (await reader.readexactly(4))[3]
    if kind == 3:
        host = (await _counted(reader)).decode()
    else:
        host = str(ipaddress.ip_address(await reader.readexactly(4 if kind == 1 else 16)))
    return host, int.from_bytes(await reader.readexactly(2), "big")


async def _counted(reader: Reader) -> bytes:
    return await reader.readexactly((await reader.readexactly(1))[0])
