"""The URL of a route, read strictly: `http://user@host:port`, `socks5://…`, `direct://`.

Errors have a code and repeat no part of the text, since what stands in the wrong place may be a password. Whether a
login fits the scheme is told by `login_fault`.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from .hosts import with_port
from .patterns import pattern

SCHEMES = ("http", "https", "socks4", "socks4a", "socks5", "socks5h", "direct")

_LABEL = r"[A-Za-z0-9_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?"
_HOST = pattern(rf"(?=.{{1,253}}\Z){_LABEL}(\.{_LABEL})*\.?", re.ASCII)
_EXAMPLE = 'write "http://user@host:port"'


class BadRouteUrl(ValueError):
    """`code` is one of E_SCHEME, E_PORT_MISSING, E_HOSTPORT, E_IPV6_BRACKETS, E_LOGIN."""

    def __init__(self, code: str, what: str, remedy: str = _EXAMPLE) -> None:
        super().__init__(what)
        self.code, self.what, self.remedy = code, what, remedy


class RouteUrl(NamedTuple):
    """A route's address. `host` is lower case, IPv6 without brackets; direct has none."""

    scheme: str
    host: str = ""
    port: int = 0
    username: str = ""
    password: str | None = None


def shown_url(scheme: str, host: str, port: int, username: str, has_password: bool) -> str:
    """The URL for people: without the password, and without a name that stands alone (often a key)."""
    from urllib.parse import quote

    if scheme == "direct":
        return "direct://"
    alone = not has_password and not scheme.startswith("socks4")
    login = "" if not username else ("***" if alone else quote(username, safe="")) + "@"
    return f"{scheme}://{login}{with_port(host, port)}"


def parse_route_url(text: str) -> RouteUrl:
    """The parts of a route's URL; name and password percent-decoded. Raises BadRouteUrl."""
    scheme, separator, rest = text.strip().partition("://")
    scheme = scheme.lower()
    if not separator:
        raise BadRouteUrl("E_SCHEME", "the url has no scheme", f"begin it with one of {_schemes()}")
    if scheme not in SCHEMES:
        raise BadRouteUrl("E_SCHEME", "the scheme is unknown", f"use one of {_schemes()}")
    if scheme == "direct":
        if rest.strip("/"):
            raise BadRouteUrl("E_HOSTPORT", "a direct route has no address and no login", 'write "direct://"')
        return RouteUrl("direct")
    login, at, place = rest.rpartition("@")
    host, port = _place(place.removesuffix("/"))
    username, colon, password = login.partition(":")
    if re.search(r"[/?#\s\\]", login):
        raise BadRouteUrl("E_LOGIN", "the login holds a character that must be encoded", "write / as %2F")
    if at and not username and not colon:
        raise BadRouteUrl("E_LOGIN", "the user name before @ is empty")
    return RouteUrl(scheme, host, port, _decoded(username), _decoded(password) if colon else None)


def _schemes() -> str:
    return ", ".join(f"{scheme}://" for scheme in SCHEMES)


def _place(place: str) -> tuple[str, int]:
    bracketed = re.fullmatch(r"\[([0-9A-Fa-f:.]*)\](?::(.*))?", place)
    if not bracketed and place.count(":") > 1:
        if not re.search(r"[^0-9A-Fa-f:.]", place):
            raise BadRouteUrl(
                "E_IPV6_BRACKETS", "an IPv6 address needs brackets", 'write "http://[2001:db8::1]:port"'
            )
        raise BadRouteUrl("E_HOSTPORT", "what follows the scheme is not user@host:port")
    host, colon, port = (
        (bracketed[1], bracketed[2] is not None, bracketed[2] or "") if bracketed else place.partition(":")
    )
    if re.search(r"[/?#\s\\]", host + port):
        raise BadRouteUrl("E_HOSTPORT", "the url of a route ends with its port", "leave out what follows it")
    if not (_is_ipv6(host) if bracketed else _is_host(host)):
        raise BadRouteUrl("E_HOSTPORT", "the host is neither a name nor an address")
    if not colon or not port:
        raise BadRouteUrl("E_PORT_MISSING", "the url has no port")
    if not re.fullmatch(r"[0-9]{1,5}", port, re.ASCII) or not 0 < int(port) < 65536:
        raise BadRouteUrl("E_HOSTPORT", "the port is not a number 1..65535")
    return host.lower(), int(port)


def _is_ipv6(host: str) -> bool:
    from ipaddress import IPv6Address  # here and below: what costs milliseconds is loaded where it is needed

    try:
        return bool(IPv6Address(host))
    except ValueError:
        return False


def _is_host(host: str) -> bool:
    """A name, or an IPv4 address that is one: what ends in a number is no name."""
    if not _HOST.fullmatch(host):
        return False
    if not host.rstrip(".").rpartition(".")[2].isdigit():
        return True
    from ipaddress import IPv4Address

    try:
        return bool(IPv4Address(host))
    except ValueError:
        return False


def _decoded(text: str) -> str:
    from urllib.parse import unquote

    try:
        return unquote(text, errors="strict")
    except UnicodeDecodeError:
        raise BadRouteUrl("E_LOGIN", "the login is not percent-encoded UTF-8", "write % as %25") from None


def login_fault(scheme: str, username: str, has_password: bool) -> str:
    """Why a login like this can't be used with this scheme; empty where it can."""
    if any(ord(c) < 32 or ord(c) == 127 for c in username):
        return "the user name holds a control character"
    return _LOGIN_RULES.get(scheme[:6], _web_fault)(username, has_password)


def _direct_fault(username: str, has_password: bool) -> str:
    return "a direct route has no login" if username or has_password else ""


def _socks4_fault(username: str, has_password: bool) -> str:
    return "SOCKS4 knows a name but no password" if has_password else ""


def _socks5_fault(username: str, has_password: bool) -> str:
    if bool(username) != has_password:
        return "SOCKS5 needs a name and a password, or neither"
    return "" if username.isascii() and len(username) < 256 else "SOCKS5 takes at most 255 ASCII characters"


def _web_fault(username: str, has_password: bool) -> str:
    """A password without a name is one (`http://:key@host`): it is sent as it is (TF188)."""
    return "a name with a colon can't be sent to an HTTP proxy" if ":" in username else ""


_LOGIN_RULES = {"direct": _direct_fault, "socks4": _socks4_fault, "socks5": _socks5_fault}
"""By the first six letters of the scheme; the others are web proxies."""
