"""The shape of messages on a stream: four bytes of length (little-endian), then that many bytes of body.

Owns the cutting and its limits, for both kinds of link. Must not look into a body.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from ..errors import TaskdeckError

_HEAD = struct.Struct("<I")
HEAD = _HEAD.size
MAX_BODY = 16 * 2**20
"""No body is longer (bytes), so that one mad peer can't fill the memory."""


class LinkError(TaskdeckError):
    """The link to another process is of no more use."""

    code = "link"


class BadFrame(LinkError):
    """The stream isn't made of our messages; nothing after this point can be trusted."""

    code = "bad_frame"


class LinkLost(LinkError):
    """The other process has gone, or takes nothing any more."""

    code = "link_lost"
    exit_code = 75


def frame(body: bytes) -> bytes:
    """The body with its head; refuses an empty or too long one (`BadFrame`) before anything is sent."""
    return _HEAD.pack(_allowed(len(body))) + body


class Cutter:
    """Cuts a stream into bodies, whatever the pieces it arrives in."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[bytes]:
        """The bodies completed by `data`, in order; `BadFrame` where a head is wrong. Run it to the end."""
        buffer = self._buffer
        if buffer:
            buffer += data
            if len(buffer) < HEAD or len(buffer) < HEAD + _size(buffer, 0):
                return
            data = bytes(buffer)
            buffer.clear()
        start, last = 0, len(data) - HEAD
        try:
            while start <= last:
                end = start + HEAD + _size(data, start)
                if end > len(data):
                    break
                yield data[start + HEAD : end]
                start = end
        finally:
            buffer += data[start:]


def _size(data: bytes | bytearray, start: int) -> int:
    return _allowed(_HEAD.unpack_from(data, start)[0])


def _allowed(size: int) -> int:
    if not 0 < size <= MAX_BODY:
        raise BadFrame(
            "a message between processes is malformed",
            f"its length is {size} bytes, allowed are 1 to {MAX_BODY}",
            "check that both ends are the same version of taskdeck",
        )
    return size
