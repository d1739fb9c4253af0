"""The heads of HTTP messages as a proxy reads and writes them. Pure; knows nothing of connections."""

from __future__ import annotations

import re
from collections.abc import Iterable
from urllib.parse import SplitResult, urlsplit

from msgspec import Struct

from ..rules.patterns import pattern

_HOP = pattern(rb"(?:proxy-[a-z-]+|connection|keep-alive|te|trailer|upgrade)[ \t]*:", re.IGNORECASE)
"""Headers that are meant for the next hop alone."""
ERROR_HEADER = "X-Taskdeck-Error"
"""In an answer of the local proxy's own: why there is no other, as an error type of routes."""
CLOSE = (b"Connection: close", b"", b"")
"""The end of a head: one request a connection, so that where each ends is never in doubt."""


class Unclear(Exception):
    """What it is can't be told, so it is not passed on; `status` is the answer."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status = status


class ProxyRequest(Struct):
    """What a client of a proxy wants. `body` is the number of its bytes, None = it comes in chunks.

    `absolute`: the next hop is a proxy that gets the whole URL, with `login` as its Proxy-Authorization. `answered`: the
    client has the beginning of the answer.
    """

    tunnels: bool
    host: str
    port: int
    lines: list[bytes]
    path: bytes
    body: int | None = 0
    absolute: bool = False
    login: str = ""
    answered: bool = False

    def onward(self) -> bytes:
        """The head for the next hop."""
        method, url, version = self.lines[0].split(b" ")
        first = b" ".join([method, url if self.absolute else self.path, version])
        login = [f"Proxy-Authorization: {self.login}".encode("latin-1")] if self.login else []
        return b"\r\n".join([first, *onward_headers(self.lines), *login, *CLOSE])


def read_request(head: bytes) -> ProxyRequest:
    """The request of a whole head. Raises `Unclear`."""
    lines = head[:-4].split(b"\r\n")
    words = lines[0].split(b" ")
    if len(words) != 3 or not words[2].startswith(b"HTTP/1."):
        raise Unclear(400, "this is no request to a proxy")
    tunnels = words[0] == b"CONNECT"
    try:
        url = words[1].decode("ascii")
        parts = urlsplit(f"//{url}" if tunnels else url)
        host, port = parts.hostname, parts.port or (0 if tunnels else 80)
    except ValueError:
        raise Unclear(400, "the address can't be read") from None
    if not host or not port or parts.username is not None or not (tunnels or parts.scheme == "http"):
        raise Unclear(400, "the address must be host:port for CONNECT, http://host/path for anything else")
    return ProxyRequest(tunnels, host, port, lines, path_of(parts).encode(), 0 if tunnels else _length(lines))


def path_of(url: SplitResult) -> str:
    """What the host of a URL is asked for: its path, with the query."""
    return (url.path or "/") + (f"?{url.query}" if url.query else "")


def onward_headers(lines: list[bytes]) -> Iterable[bytes]:
    """The headers of a head without those of this hop; its first line is not one of them."""
    return (line for line in lines[1:] if not _HOP.match(line))


def header(lines: list[bytes], name: bytes) -> str:
    """The first value of a header (its name in lower case); empty where it is absent."""
    values = (line.partition(b":")[2] for line in lines[1:] if line.lower().startswith(name + b":"))
    return next(values, b"").strip().decode("latin-1")


def status_of(head: bytes) -> int:
    """The status of an answer; 0 for what is none."""
    found = re.match(rb"HTTP/1\.\d (\d{3})(?:[ \r]|$)", head)
    return int(found[1]) if found else 0


LAST_CHUNK = b"0\r\n\r\n"


def chunk_size(line: bytes) -> int:
    """The bytes of the chunk that this line (with its end) begins; extensions mean nothing. Raises `Unclear`."""
    found = re.fullmatch(rb"([0-9A-Fa-f]{1,12})(?:[ \t]*;[^\r\n]*)?\r\n", line)
    if not found:
        raise Unclear(400, "the chunks of the body can't be read")
    return int(found[1], 16)


def _length(lines: list[bytes]) -> int | None:
    """The bytes of a request's body, None = chunks. Raises `Unclear` where that can't be told for certain."""
    names = [line.partition(b":")[0].strip().lower() for line in lines[1:]]
    if b"transfer-encoding" in names:
        if b"content-length" in names or not lines[0].endswith(b"HTTP/1.1"):
            raise Unclear(400, "a body that comes in chunks has no length, and is HTTP/1.1")
        if names.count(b"transfer-encoding") > 1 or header(lines, b"transfer-encoding").lower() != "chunked":
            raise Unclear(501, "a body comes with its length or in chunks, and as it is")
        return None
    text = header(lines, b"content-length") or "0"
    if names.count(b"content-length") > 1 or not re.fullmatch(r"\d{1,15}", text):
        raise Unclear(400, "the length of the body can't be read")
    return int(text)
