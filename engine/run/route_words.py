"""How libraries tell that a proxy let no request through: by classes of errors, and by the words of our own proxy.

Pure.
"""

from __future__ import annotations

from collections.abc import Mapping

from ..edge.probe_errors import Verdict
from ..edge.proxy_requests import ERROR_HEADER
from ..rules.patterns import pattern
from ..rules.route_errors import ErrorType

_FORWARDERS_WORD = pattern(r"50[24],? *(?:message=)?['\"]?([A-Z_]{3,30})\b")
"""`502 TUNNEL_FAILED` as urllib, requests, httpx and aiohttp repeat it."""
_PROXY_ERRORS = {
    "ClientHttpProxyError",
    "ClientProxyConnectionError",
    "ProxyConnectionError",
    "ProxyError",
    "ProxyTimeoutError",
}
"""Classes by which aiohttp, python-socks, requests, urllib3, httpx and PySocks tell of the proxy itself."""


def is_of_proxy(error: BaseException) -> bool:
    """Is it an error of the proxy, as the libraries have them?"""
    names = {kind.__name__ for kind in type(error).__mro__}
    return bool(names & _PROXY_ERRORS) or str(error).startswith("Tunnel connection failed:")


def told_by_forwarder(error: BaseException) -> Verdict | None:
    """Why the local proxy did not open a way, where the error of a library repeats its answer."""
    found = _FORWARDERS_WORD.search(str(error)) if is_of_proxy(error) else None
    if found is None or found[1] not in frozenset(ErrorType):
        return None
    return _verdict(found[1])


def refused_by_forwarder(headers: Mapping[str, str]) -> Verdict | None:
    """Why the local proxy answered in place of the target; None where it did not."""
    kind = headers.get(ERROR_HEADER, "")
    return _verdict(kind) if kind in frozenset(ErrorType) else None


def _verdict(kind: str) -> Verdict:
    return Verdict(ErrorType(kind), ErrorType(kind).meaning)
