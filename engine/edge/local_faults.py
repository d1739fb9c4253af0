"""Failures of this host, not of a route or a target: no descriptors left, no network, no resolver.

Owns which errors of the operating system those are. What they are charged to is nobody: the types are neutral.
"""

from __future__ import annotations

import errno
import socket
import ssl

from ..rules.route_errors import ErrorType
from .probe_errors import causes

NETWORK = frozenset(
    {errno.ENETDOWN, errno.ENETUNREACH, errno.EHOSTUNREACH, errno.EADDRNOTAVAIL, errno.EACCES, errno.EPERM}
)
"""This host has no way there, or forbids it: told by the kernel at once, before a packet has left."""
SHORT_OF = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
"""This host has no more of something."""
RESOLVER = frozenset({socket.EAI_AGAIN, socket.EAI_SYSTEM, socket.EAI_MEMORY, socket.EAI_FAIL})
"""The resolver could not be asked. A name that it doesn't know is not among these."""


def local_fault(error: BaseException) -> ErrorType | None:
    """The neutral type of a failure of this host; None for every other."""
    for one in causes(error):
        if isinstance(one, socket.gaierror):
            return ErrorType.LOCAL_NET_DOWN if one.errno in RESOLVER else None
        if isinstance(one, ssl.SSLError):
            return None  # its number is the library's, not the system's
        if isinstance(one, OSError) and one.errno in NETWORK:
            return ErrorType.LOCAL_NET_DOWN
        if isinstance(one, OSError) and one.errno in SHORT_OF:
            return ErrorType.INTERNAL
    return None
