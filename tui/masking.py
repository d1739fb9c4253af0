"""A stream of raw output, masked on its way to the reader: whole lines at a time, in bounded memory.

Owns where a stream may be cut so that no secret is split: at line ends, but never inside a private key. Bytes that are no
text pass as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

LONGEST = 256 * 1024
"""Bytes held back at most; a longer line or key is cut there, at a space where it has one."""

_BEGIN, _END = b"-----BEGIN ", b"-----END "


class Masked:
    """Takes chunks of raw bytes, gives back masked ones; `mask` works on text."""

    def __init__(self, mask: Callable[[str], str]) -> None:
        self._mask = mask
        self._held = b""

    def feed(self, chunk: bytes) -> bytes:
        """What can be shown by now."""
        self._held += chunk
        ready, self._held = _divide(self._held)
        return self._masked(ready)

    def rest(self) -> bytes:
        """What is left at the end."""
        ready, self._held = self._held, b""
        return self._masked(ready)

    def all(self, chunks: Iterable[bytes]) -> Iterator[bytes]:
        """Everything, masked."""
        for chunk in chunks:
            if ready := self.feed(chunk):
                yield ready
        if ready := self.rest():
            yield ready

    def _masked(self, data: bytes) -> bytes:
        if not data:
            return b""
        return self._mask(data.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")


def _divide(held: bytes) -> tuple[bytes, bytes]:
    """What may go, and what must wait for more."""
    end = held.rfind(b"\n") + 1
    begun = held.rfind(_BEGIN, 0, end)
    if begun >= 0 and held.find(_END, begun, end) < 0:
        end = held.rfind(b"\n", 0, begun) + 1  # a key has begun and not ended
    if len(held) - end <= LONGEST:
        return held[:end], held[end:]
    space = held.rfind(b" ", end + LONGEST // 2)
    end = space + 1 if space >= 0 else len(held)
    return held[:end], held[end:]
