"""The demo's seven proxies: what each is offered as, and what it is really like.

Each leaves from its own address of 127.0.0.0/8, which Linux answers on without further ado. Must not know of routes: how they
are found out is the engine's affair.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..clock import Clock
from .fakes.faults import Behaviour, Fault
from .fakes.http_proxy import ConnectProxy, HttpProxy
from .fakes.proxy import FakeProxy
from .fakes.socks_proxy import SocksProxy

SLOW_SECONDS = 0.15
UP_SECONDS, DOWN_SECONDS = 5.0, 3.0
"""The flapping proxy works, is away, works, and so on."""

WELL = Behaviour()
SLOW = Behaviour(delay=SLOW_SECONDS)
DEAD = Behaviour(Fault.REFUSE)


@dataclass(frozen=True)
class Offer:
    """One proxy as it is sold. `exit_ip` is the address that it claims to leave from, `leaves_from` the true one."""

    id: str
    scheme: str
    nature: str
    exit_ip: str
    leaves_from: str
    kind: type[FakeProxy]
    username: str | None = None
    behaviour: Behaviour = WELL


OFFERS = (
    Offer("http-fast", "http", "fast", "127.0.0.11", "127.0.0.11", HttpProxy),
    Offer("http-login", "http", "fast, needs a login", "127.0.0.12", "127.0.0.12", HttpProxy, "ann"),
    # The site speaks plain HTTP, which this one doesn't carry: its checks fail with 501.
    Offer("http-connect", "http", "CONNECT only, no plain HTTP", "127.0.0.13", "127.0.0.13", ConnectProxy),
    # The quickest of all, so that speed alone would choose it.
    Offer("socks-fast", "socks5", "fast, wrong exit address", "127.0.0.14", "127.0.0.24", SocksProxy),
    Offer("socks-slow", "socks5", "slow, needs a login", "127.0.0.15", "127.0.0.15", SocksProxy, "bob", SLOW),
    Offer("flapping", "socks5", "flapping", "127.0.0.16", "127.0.0.16", SocksProxy),
    Offer("dead", "http", "dead", "127.0.0.17", "127.0.0.17", HttpProxy, None, DEAD),
)
FLAPPING = "flapping"


def build(offer: Offer, password: str | None) -> FakeProxy:
    """The proxy that is offered; it listens once its `async with` block is entered."""
    login = (offer.username, password) if offer.username and password else None
    return offer.kind(login=login, leaves_from=offer.leaves_from, behaviour=offer.behaviour)


async def flap(proxy: FakeProxy, clock: Clock) -> None:
    """Work, go away with all connections, come back; without end."""
    while True:
        await clock.pause(UP_SECONDS)
        await proxy.leave()
        await proxy.hang_up()
        await clock.pause(DOWN_SECONDS)
        await proxy.listen()
