"""TLS within TLS, as an https proxy to an https target needs it, on the Pythons whose asyncio can't end it.

Before 3.11.8 and 3.12.2, a failed inner handshake calls `SSLProtocol._abort` of the outer one with an argument that it
doesn't take (python/cpython #113214): the socket stays open, and a traceback lands in the log. Owns the mending of just that.
"""

from __future__ import annotations

import inspect
from asyncio import sslproto
from typing import Any


def mend() -> None:
    """Let the outer protocol be aborted with a reason. Does nothing where asyncio can do it by itself."""
    abort: Any = sslproto.SSLProtocol._abort  # pyright: ignore[reportAttributeAccessIssue]
    if len(inspect.signature(abort).parameters) > 1:
        return

    def with_reason(self: Any, reason: BaseException | None = None) -> None:
        abort(self)

    sslproto.SSLProtocol._abort = with_reason  # pyright: ignore[reportAttributeAccessIssue]
