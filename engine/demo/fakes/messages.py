"""Just enough HTTP/1.1 for fakes: heads, bodies of known length, answers."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from http import HTTPStatus

TLS_HELLO = b"\x16"
"""The first byte of who speaks TLS."""


@dataclass(frozen=True)
class Head:
    """The first line's three words and the headers, names in lower case."""

    first: tuple[str, str, str]
    headers: dict[str, str]

    def encoded(self) -> bytes:
        lines = [" ".join(self.first), *(f"{name}: {value}" for name, value in self.headers.items())]
        return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


async def read_head(reader: asyncio.StreamReader, begun: bytes = b"") -> Head:
    """The next head, of which `begun` is read already; `IncompleteReadError` where the peer ends before it does."""
    text = (begun + await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    first, *lines = text.split("\r\n")[:-2]
    one, two, three = [*first.split(" ", 2), "", ""][:3]
    pairs = (line.partition(":") for line in lines)
    return Head((one, two, three), {name.lower(): value.strip() for name, _, value in pairs})


async def read_body(reader: asyncio.StreamReader, head: Head) -> bytes:
    """The body, as long as the head says."""
    return await reader.readexactly(int(head.headers.get("content-length", 0)))


def answer(status: int, body: bytes = b"", **headers: str) -> bytes:
    """A whole answer; header names are written with `_` for `-`."""
    fields = {"content-length": str(len(body)), **{name.replace("_", "-"): v for name, v in headers.items()}}
    if status == HTTPStatus.NO_CONTENT:
        del fields["content-length"]
    try:
        phrase = HTTPStatus(status).phrase
    except ValueError:
        phrase = "Unknown"
    return Head(("HTTP/1.1", str(status), phrase), fields).encoded() + body
