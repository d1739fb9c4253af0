"""How this host is seen from outside without an exit, in both families: what a leaking exit would show.

Owns asking for it, for how long an answer is believed, and the addresses that are given instead. Must not judge an exit.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections.abc import Iterable, Sequence
from ipaddress import ip_address
from urllib.parse import urlsplit

from ..clock import Clock
from .asking import ask
from .exits import DIRECT
from .http import Timeouts, session
from .judging import Address, read_address
from .probe_errors import Verdict
from .probe_limits import Budgets, RequestLimit

log = logging.getLogger("taskdeck.probing")

BELIEVED = 600.0
"""Seconds for which an answer is believed."""
JUST_NOW = 5.0
"""Seconds for which it is believed even where it would convict an exit."""

_VERSIONS = {socket.AF_INET: 4, socket.AF_INET6: 6}


class OwnAddresses:
    """Asks `urls` directly, one after the other until one answers, once over IPv4 and once over IPv6.

    `given` are addresses known beforehand; without `urls` they are all there is. An address of a home line changes: a suspect
    exit is convicted by nothing but a fresh answer.
    """

    def __init__(
        self,
        urls: Sequence[str],
        clock: Clock,
        *,
        given: Iterable[str] = (),
        budgets: Budgets | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._urls = urls
        self._clock = clock
        self._given = frozenset(ip_address(each) for each in given)
        self._budgets = budgets or Budgets()
        self._tls = tls
        self._seen: dict[socket.AddressFamily, Address | None] = {}
        self._asked_at: float | None = None
        self._asking = asyncio.Lock()

    async def learn(self, older_than: float = BELIEVED) -> frozenset[Address]:
        """The addresses, asked for again where the last answer is older. A family that does not answer keeps its last."""
        async with self._asking:
            now = self._clock.boot()
            if self._urls and (self._asked_at is None or now - self._asked_at > older_than):
                await self._ask_all()
                self._asked_at = self._clock.boot()
        return self.known

    @property
    def known(self) -> frozenset[Address]:
        """What is known now; empty where nobody answered: then no leak can be found."""
        return self._given | {each for each in self._seen.values() if each is not None}

    async def has(self, address: Address) -> bool:
        """Whether this is this host's own address. Where it seems so, it is asked for again first."""
        if address in self._given:
            return True
        return address in await self.learn() and address in await self.learn(JUST_NOW)

    async def _ask_all(self) -> None:
        families = (socket.AF_INET, socket.AF_INET6)
        answers = await asyncio.gather(*(self._ask(family) for family in families))
        for family, answer in zip(families, answers, strict=True):
            if answer is not None and answer != self._seen.get(family):
                log.info("this host is seen as %s without a route", answer)
            self._seen[family] = answer or self._seen.get(family)
        if not self.known:
            log.warning(
                "no address of this host is known, so that leaking routes can't be found: none of ip_urls answers"
            )

    async def _ask(self, family: socket.AddressFamily) -> Address | None:
        limit = RequestLimit(self._budgets.connect, self._budgets.read)
        timeouts = Timeouts(None, self._budgets.connect, self._budgets.read)
        async with session(
            DIRECT, timeouts=timeouts, tls=self._tls, traces=[limit.trace()], fresh=True, family=family
        ) as http:
            for url in (each for each in self._urls if _suits(each, family)):
                try:
                    async with asyncio.timeout(self._budgets.exit):
                        answer = await ask(http, url, limit)
                except Exception as error:  # that it can't be reached in this family is no news
                    log.debug("%s does not tell this host's address: %s", url, type(error).__name__)
                    continue
                found = read_address(DIRECT, answer.status, answer.body)
                if not isinstance(found, Verdict) and found.version == _VERSIONS[family]:
                    return found
        return None


def _suits(url: str, family: socket.AddressFamily) -> bool:
    """Whether it can be asked in this family: an address instead of a name is of one alone."""
    try:
        return ip_address(urlsplit(url).hostname or "").version == _VERSIONS[family]
    except ValueError:
        return True
