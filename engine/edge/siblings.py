"""Which protocol a port speaks, where it stayed silent to the one it was declared with.

A proxy that is spoken to in a wrong protocol often waits for more and never answers, so a wrong scheme looks like a dead
proxy. Owns finding the right one. No login goes along: it was given for another protocol, perhaps an encrypted one.
"""

from __future__ import annotations

import ssl

from ..clock import Clock
from ..rules.route_errors import ErrorType
from .exits import Exit, Scheme
from .judging import Judge
from .probe_limits import Budgets
from .probing import probe

SIBLINGS = (Scheme.HTTP, Scheme.SOCKS5, Scheme.HTTPS, Scheme.SOCKS4A)
"""One of each protocol, the most frequent first."""

_ALIKE = {Scheme.SOCKS5H: Scheme.SOCKS5, Scheme.SOCKS4: Scheme.SOCKS4A}
_REFUSALS = frozenset({ErrorType.PROXY_AUTH, ErrorType.PROXY_DENIED, ErrorType.TUNNEL_FAILED})
"""Whoever refuses in a protocol speaks it."""


async def spoken(
    exit: Exit, judge: Judge, seconds: float, *, tls: ssl.SSLContext | None, clock: Clock
) -> Scheme | None:
    """The scheme that this exit's port answers to, if it is another than its own; at most `seconds` are spent."""
    end = clock.monotonic() + seconds
    others = [each for each in SIBLINGS if each is not _ALIKE.get(exit.scheme, exit.scheme)]
    for number, scheme in enumerate(others):
        share = (end - clock.monotonic()) / (len(others) - number)
        if share <= 0:
            break
        budgets = Budgets(share, share, share, share, share)
        other = Exit(scheme, exit.host, exit.port)
        result = await probe(other, [judge], budgets=budgets, tls=tls, clock=clock)
        if result.ok or result.error_type in _REFUSALS:
            return scheme
    return None
