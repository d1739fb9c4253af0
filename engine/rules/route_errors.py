"""Why a check of a route failed: every error type, the stage it belongs to, and how it is charged.

Source: the error table of the three-stage check. Pure data; which exception becomes which type is decided where
the sockets are.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple

TCP, PROBE, EXIT = 1, 2, 3
"""The stages: connect to the proxy; a request with a nonce through it; the address seen at the other end."""

ANY = (TCP, PROBE, EXIT)


class ErrorType(StrEnum):
    """Spelled as in the database. The properties read the row of `ERRORS`."""

    DNS_PROXY = "DNS_PROXY"
    TCP_REFUSED = "TCP_REFUSED"
    TCP_UNREACHABLE = "TCP_UNREACHABLE"
    TCP_TIMEOUT = "TCP_TIMEOUT"
    TCP_RESET = "TCP_RESET"
    PROXY_TLS = "PROXY_TLS"
    PROXY_PROTO = "PROXY_PROTO"
    PROXY_AUTH = "PROXY_AUTH"
    PROXY_DENIED = "PROXY_DENIED"
    TUNNEL_FAILED = "TUNNEL_FAILED"
    TUNNEL_TIMEOUT = "TUNNEL_TIMEOUT"
    TLS_INTERCEPT = "TLS_INTERCEPT"
    TARGET_TLS = "TARGET_TLS"
    PROBE_TIMEOUT = "PROBE_TIMEOUT"
    PROBE_STATUS = "PROBE_STATUS"
    PROBE_REDIRECT = "PROBE_REDIRECT"
    PROBE_BODY = "PROBE_BODY"
    EXIT_PARSE = "EXIT_PARSE"
    EXIT_IP_MISMATCH = "EXIT_IP_MISMATCH"
    EXIT_IP_LEAK = "EXIT_IP_LEAK"
    REGION_MISMATCH = "REGION_MISMATCH"
    REGION_UNKNOWN = "REGION_UNKNOWN"
    BUDGET_EXCEEDED = "BUDGET_EXCEEDED"
    PROBE_TARGET_DOWN = "PROBE_TARGET_DOWN"
    LOCAL_NET_DOWN = "LOCAL_NET_DOWN"
    GEO_UNAVAILABLE = "GEO_UNAVAILABLE"
    CANCELLED = "CANCELLED"
    INTERNAL = "INTERNAL"

    @property
    def stages(self) -> tuple[int, ...]:
        """The stages at which it can happen."""
        return ERRORS[self].stages

    @property
    def meaning(self) -> str:
        """In words, for people."""
        return ERRORS[self].meaning

    @property
    def timeout(self) -> bool:
        """It counts as a timeout too, besides being a failure."""
        return ERRORS[self].timeout

    @property
    def fatal(self) -> bool:
        """Waiting does not mend it: out at once, and FAULT when the same one comes again."""
        return ERRORS[self].fatal

    @property
    def neutral(self) -> bool:
        """It says nothing about the route: no penalty, no reward."""
        return ERRORS[self].neutral

    @property
    def misplaced(self) -> bool:
        """The route works but stands in the wrong place: out at once, its score unchanged."""
        return ERRORS[self].misplaced

    @property
    def of_target(self) -> bool:
        """The far end may be at fault: worth a try with another probe URL."""
        return ERRORS[self].of_target


class ErrorRow(NamedTuple):
    """One row of the table; the flags are explained at `ErrorType`."""

    stages: tuple[int, ...]
    meaning: str
    timeout: bool = False
    fatal: bool = False
    neutral: bool = False
    misplaced: bool = False
    of_target: bool = False


_E = ErrorType
ERRORS: Mapping[ErrorType, ErrorRow] = {
    _E.DNS_PROXY: ErrorRow((TCP, PROBE), "the proxy's name can't be resolved"),
    _E.TCP_REFUSED: ErrorRow((TCP,), "the proxy refuses connections"),
    _E.TCP_UNREACHABLE: ErrorRow((TCP,), "the proxy can't be reached"),
    _E.TCP_TIMEOUT: ErrorRow((TCP,), "the proxy does not answer", timeout=True),
    _E.TCP_RESET: ErrorRow((PROBE,), "the connection was cut"),
    _E.PROXY_TLS: ErrorRow((PROBE,), "TLS to the proxy fails", fatal=True),
    _E.PROXY_PROTO: ErrorRow((PROBE,), "the proxy speaks another protocol", fatal=True),
    _E.PROXY_AUTH: ErrorRow((PROBE,), "the proxy refuses the user name or password", fatal=True),
    _E.PROXY_DENIED: ErrorRow((PROBE,), "the proxy forbids the connection"),
    _E.TUNNEL_FAILED: ErrorRow((PROBE, EXIT), "the proxy can't reach the target", of_target=True),
    _E.TUNNEL_TIMEOUT: ErrorRow((PROBE,), "the proxy does not open the tunnel in time", timeout=True),
    _E.TLS_INTERCEPT: ErrorRow((PROBE,), "the target's certificate is not the target's", fatal=True),
    _E.TARGET_TLS: ErrorRow((PROBE,), "TLS to the target fails", of_target=True),
    _E.PROBE_TIMEOUT: ErrorRow(
        (PROBE,), "the target's answer does not come in time", timeout=True, of_target=True
    ),
    _E.PROBE_STATUS: ErrorRow((PROBE,), "the answer has an unexpected status", of_target=True),
    _E.PROBE_REDIRECT: ErrorRow((PROBE,), "the request is redirected"),
    _E.PROBE_BODY: ErrorRow((PROBE,), "the answer was changed on its way or is not the target's"),
    _E.EXIT_PARSE: ErrorRow((EXIT,), "the exit address can't be read"),
    _E.EXIT_IP_MISMATCH: ErrorRow((EXIT,), "the exit address is not the expected one"),
    _E.EXIT_IP_LEAK: ErrorRow((EXIT,), "the exit address is this host's own", fatal=True),
    _E.REGION_MISMATCH: ErrorRow((EXIT,), "the exit is in another region", fatal=True, misplaced=True),
    _E.REGION_UNKNOWN: ErrorRow((EXIT,), "the exit's region is unknown", misplaced=True),
    _E.BUDGET_EXCEEDED: ErrorRow(ANY, "the whole check took too long", timeout=True),
    _E.PROBE_TARGET_DOWN: ErrorRow(ANY, "the probe target itself is down", neutral=True),
    _E.LOCAL_NET_DOWN: ErrorRow(ANY, "this host's own network is down", neutral=True),
    _E.GEO_UNAVAILABLE: ErrorRow(ANY, "the region database can't be read", neutral=True),
    _E.CANCELLED: ErrorRow(ANY, "the check was cancelled", neutral=True),
    _E.INTERNAL: ErrorRow(ANY, "the check itself failed", neutral=True),
}
"""One row for each type, in the order of the stages."""
