"""One question over HTTP: its limits, what is sent with it, and how much of the answer is read.

Owns what all questions of checks have in common. Must not judge an answer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from .probe_limits import RequestLimit

if TYPE_CHECKING:
    from aiohttp import ClientResponse, ClientSession

MOST_BODY = 4096
"""Bytes of an answer that are read; a longer one is wrong."""

_REQUEST: dict[str, Any] = {"allow_redirects": False, "headers": {"Accept-Encoding": "identity"}}


class Answer(Struct, frozen=True):
    """A status and a body, or the body's beginning one byte over the limit. Nothing is unpacked."""

    status: int
    body: bytes


async def ask(
    http: ClientSession, url: str, limit: RequestLimit, on_headers: Callable[[], None] = lambda: None
) -> Answer:
    """Ask; `on_headers` is called when the answer's headers are there. Raises what aiohttp raises, and `TimeoutError`.

    The session must carry `limit.trace()`.
    """
    async with limit, http.get(url, **_REQUEST) as response:
        on_headers()
        return Answer(response.status, await _body(response))


async def _body(response: ClientResponse) -> bytes:
    body = b""
    while len(body) <= MOST_BODY and (more := await response.content.read(MOST_BODY + 1 - len(body))):
        body += more
    return body
