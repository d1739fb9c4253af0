"""What a network exit is: its parts, which of them go together, what of it is shown.

Owns the one place where a login is written into a URL. Must not open a connection, judge an exit or choose one.
"""

from __future__ import annotations

import ipaddress
from enum import StrEnum
from typing import Any
from urllib.parse import quote, urlsplit

from msgspec import Struct, structs

from ..errors import UsageError
from ..rules.hosts import with_port
from ..rules.patterns import pattern


class Scheme(StrEnum):
    """How an exit is spoken to. Names are resolved by the exit, except with `socks4`, whose protocol has no names."""

    DIRECT = "direct"
    HTTP = "http"
    HTTPS = "https"
    SOCKS4 = "socks4"
    SOCKS4A = "socks4a"
    SOCKS5 = "socks5"
    SOCKS5H = "socks5h"


WEB = frozenset({Scheme.HTTP, Scheme.HTTPS})
SOCKS4 = frozenset({Scheme.SOCKS4, Scheme.SOCKS4A})
SOCKS5 = frozenset({Scheme.SOCKS5, Scheme.SOCKS5H})

_LABEL = r"[A-Za-z0-9_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?"
_HOST = pattern(rf"(?=.{{1,253}}\Z){_LABEL}(\.{_LABEL})*\.?")


class BadExit(UsageError):
    """An exit that can't be used as it is described; the text never holds its password."""

    code = "bad_exit"


SCHEMES = frozenset(Scheme)


class Exit(Struct, frozen=True):
    """One way out. An exit that exists is valid: `BadExit` tells what isn't.

    `host` is a name or an address (IPv6 without brackets). Equal to another where all fields are.
    """

    scheme: Scheme
    host: str = ""
    port: int = 0
    username: str | None = None
    password: str | None = None

    def __post_init__(self) -> None:
        if self.scheme not in SCHEMES:
            raise BadExit("the scheme of a route is unknown", "", f"use one of {', '.join(Scheme)}")
        structs.force_setattr(self, "scheme", Scheme(self.scheme))
        if self.scheme is Scheme.DIRECT:
            if (self.host, self.port, self.username, self.password) != ("", 0, None, None):
                raise BadExit("a direct route has no address and no login", "", "leave them out")
            return
        _check_place(self.host, self.port)
        _check_login(self)

    @property
    def is_proxy(self) -> bool:
        return self.scheme is not Scheme.DIRECT

    @property
    def place(self) -> str:
        """`host:port`, IPv6 in brackets; empty for a direct exit."""
        return with_port(self.host, self.port) if self.is_proxy else ""

    def shown(self) -> str:
        """The URL for people: without the password, and without a name that stands alone (often a key)."""
        if not self.is_proxy:
            return "direct"
        alone = self.password is None and self.scheme not in SOCKS4
        login = "" if self.username is None else ("***" if alone else quote(self.username, safe="")) + "@"
        return f"{self.scheme}://{login}{self.place}"

    def __str__(self) -> str:
        return self.shown()

    def __repr__(self) -> str:
        return f"Exit({self.shown()!r})"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        return [("shown", self.shown())]


def is_tunnelled(exit: Exit, url: str) -> bool:
    """Whether answers come from the target itself: an http(s) proxy gives those to http requests in its own name."""
    return exit.scheme not in WEB or urlsplit(url).scheme == "https"


DIRECT = Exit(Scheme.DIRECT)
"""The way out without a route."""


def secret_url(exit: Exit) -> str:
    """The URL with its login, percent-encoded: for libraries and environments, never for a text that is kept."""
    login = "" if exit.username is None else quote(exit.username, safe="")
    if exit.password is not None:
        login += ":" + quote(exit.password, safe="")
    has_login = exit.username is not None or exit.password is not None
    return f"{exit.scheme}://{login}{'@' if has_login else ''}{exit.place}"


def _check_place(host: str, port: int) -> None:
    if not (_is_address(host) or (_HOST.fullmatch(host) and not host.replace(".", "").isdecimal())):
        raise BadExit(
            "the host of a route is neither a name nor an address", "", "write it as in proxy.example.net"
        )
    if not 0 < port < 65536:
        raise BadExit("the port of a route is out of range", f"it is {port}", "use 1 to 65535")


def _is_address(host: str) -> bool:
    try:
        return bool(ipaddress.ip_address(host)) and "%" not in host
    except ValueError:
        return False


def _check_login(exit: Exit) -> None:
    """Refuse what a protocol can't carry: the libraries would drop it in silence or fail in the middle of a handshake."""
    name, password = exit.username or "", exit.password or ""
    why = ""
    if exit.scheme in SOCKS4 and exit.password is not None:
        why = "SOCKS4 knows a name but no password"
    elif exit.scheme in SOCKS5 and bool(name) != bool(password):
        why = "SOCKS5 needs a name and a password, or neither"
    elif exit.scheme in SOCKS4 | SOCKS5 and not (name + password).isascii():
        why = "with SOCKS, name and password must be ASCII"
    elif exit.scheme in SOCKS5 and max(len(name), len(password)) > 255:
        why = "SOCKS5 carries at most 255 characters each"
    elif exit.scheme in WEB and ":" in name:
        why = "a name with a colon can't be sent to an HTTP proxy"
    elif exit.scheme in WEB and not _is_latin(name + password):
        why = "an HTTP proxy takes only characters of ISO 8859-1"
    elif any(ord(character) < 32 or ord(character) == 127 for character in name + password):
        why = "name or password holds a control character"
    if why:
        raise BadExit("the login of a route can't be used", why, "correct the route's name or password")


def _is_latin(text: str) -> bool:
    try:
        text.encode("latin-1")
    except UnicodeEncodeError:
        return False
    return True
