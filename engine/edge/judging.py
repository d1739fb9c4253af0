"""What a check asks outside, and which answers are right: the judge's echo, the address and region of the exit.

Owns the answers of stages 2 and 3 of a check. Must not do input or output.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Awaitable, Callable
from urllib.parse import urlsplit

from msgspec import Struct

from ..errors import UsageError
from ..rules.cleaning import clean
from ..rules.route_errors import ErrorType
from .asking import MOST_BODY
from .exits import Exit, is_tunnelled
from .probe_errors import Verdict, foreign

Region = Callable[[str], str | None]
"""The region of an address, None = not known; it may raise where its data can't be read."""

IsOwn = Callable[["Address"], Awaitable[bool]]
"""Whether this is how this host itself is seen from outside, without an exit."""

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


class Judge(Struct, frozen=True):
    """Who is asked in stage 2, and the only right answer.

    A fresh nonce goes along as the query's `n`. The body must be `text` (white space around it is nothing) or, where
    `pattern` is given, match that regular expression in full; `{nonce}` in either stands for the nonce. With status 204 it
    must be empty.
    """

    url: str
    status: int = 200
    text: str = "{nonce}"
    pattern: str | None = None

    def __post_init__(self) -> None:
        _check_url(self.url)
        try:
            re.compile(self.pattern or "")
        except re.error as error:
            raise UsageError("the pattern of a probe can't be read", str(error)) from None

    @property
    def is_secure(self) -> bool:
        """Whether no proxy can answer in the judge's place."""
        return urlsplit(self.url).scheme == "https"

    def asked(self, nonce: str) -> str:
        """The URL of one question."""
        return f"{self.url}{'&' if urlsplit(self.url).query else '?'}n={nonce}"

    def judge(self, exit: Exit, status: int, body: bytes, nonce: str) -> Verdict | None:
        """None = the right answer to the question with this nonce; `body` may be one byte longer than allowed."""
        if status != self.status:
            return self._judge_status(status, is_tunnelled(exit, self.url))
        if len(body) > MOST_BODY:
            return Verdict(ErrorType.PROBE_BODY, f"the answer is longer than {MOST_BODY} bytes")
        if self._accepts(body, nonce):
            return None
        return Verdict(
            ErrorType.PROBE_BODY, f"not the judge's answer: {foreign(_text(body), exit)}".rstrip(": ")
        )

    def _judge_status(self, status: int, tunnelled: bool) -> Verdict:
        """A proxy that isn't a tunnel may have given the status itself; some answer 401 where 407 is meant."""
        if status == 407 or (status == 401 and not tunnelled):
            return Verdict(ErrorType.PROXY_AUTH, f"answered {status}: the proxy's login is wrong or missing")
        if 300 <= status < 400:
            return Verdict(
                ErrorType.PROBE_REDIRECT, f"answered {status}: something redirects what goes out here"
            )
        return Verdict(ErrorType.PROBE_STATUS, f"answered {status}, expected {self.status}")

    def _accepts(self, body: bytes, nonce: str) -> bool:
        if self.status == 204:
            return not body
        if self.pattern is not None:
            pattern = self.pattern.replace("{nonce}", nonce)
            return bool(re.fullmatch(pattern, _text(body), re.DOTALL))
        return _text(body) == self.text.replace("{nonce}", nonce).strip()


class Outside(Struct, frozen=True):
    """What stage 3 asks and expects: each of `urls` answers with the caller's address as plain text.

    `expected_ip` is an address or a network, and stands above the region: whoever names it knows better than a database. An
    empty `expected_regions` allows any. Without `is_own`, no leak is looked for; without `region_of`, no region is known.
    `UsageError` where an address isn't one.
    """

    urls: tuple[str, ...]
    is_own: IsOwn | None = None
    expected_ip: str | None = None
    expected_regions: frozenset[str] = frozenset()
    region_of: Region | None = None
    allow_unknown_region: bool = False

    def __post_init__(self) -> None:
        for url in self.urls:
            _check_url(url)
        if self.expected_ip:
            _network(self.expected_ip)

    async def judge_address(self, exit: Exit, address: Address) -> Verdict | None:
        """Whether the exit may show this address; a direct exit shows this host's own, and that is right."""
        if exit.is_proxy and self.is_own and await self.is_own(address):
            return Verdict(ErrorType.EXIT_IP_LEAK, f"{address} is this host's own address")
        if self.expected_ip and address not in _network(self.expected_ip):
            return Verdict(ErrorType.EXIT_IP_MISMATCH, f"{address} is not in {self.expected_ip}")
        return None

    def judge_region(self, address: Address) -> tuple[str | None, Verdict | None]:
        """The region of the address as far as it is known, and what is wrong with it."""
        matters = bool(self.expected_regions) and not self.expected_ip
        try:
            region = self.region_of(str(address)) if self.region_of else None
        except Exception as error:
            why = f"regions can't be looked up: {clean(str(error), limit=120) or type(error).__name__}"
            lacking = matters and not self.allow_unknown_region
            return None, Verdict(ErrorType.GEO_UNAVAILABLE, why) if lacking else None
        return region, self._judge_region(address, region) if matters else None

    def _judge_region(self, address: Address, region: str | None) -> Verdict | None:
        expected = {each.upper() for each in self.expected_regions}
        if (region or "").upper() in expected:
            return None
        if region is not None:
            wanted = ", ".join(sorted(expected))
            return Verdict(
                ErrorType.REGION_MISMATCH, f"{address} is in {clean(region, limit=40)}, expected {wanted}"
            )
        if self.allow_unknown_region:
            return None
        return Verdict(ErrorType.REGION_UNKNOWN, f"the region of {address} is not known")


def read_address(exit: Exit, status: int, body: bytes) -> Address | Verdict:
    """The one address that an answer consists of, an IPv4 one as such even where it is written as IPv6."""
    if status != 200:
        return Verdict(ErrorType.EXIT_PARSE, f"the service that tells addresses answered {status}")
    text = _text(body)
    try:
        if "%" in text:
            raise ValueError("an address with a zone is of no use elsewhere")
        address = ipaddress.ip_address(text)
    except ValueError:
        return Verdict(ErrorType.EXIT_PARSE, f"not an address: {foreign(text, exit)}".rstrip(": "))
    return _plain(address)


def _text(body: bytes) -> str:
    return body.decode("utf-8", "replace").strip()


def _plain(address: Address) -> Address:
    return getattr(address, "ipv4_mapped", None) or address


def _network(text: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network:
    try:
        return ipaddress.ip_network(text, strict=False)
    except ValueError:
        raise UsageError("an expected address is not one", clean(text, limit=60)) from None


def _check_url(url: str) -> None:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.fragment:
        raise UsageError("a probe's URL can't be used", clean(url, limit=60), "use http://… or https://…")
