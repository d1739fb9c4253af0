"""What a failed check of an exit means: the table from exceptions and answers to error types.

Owns the mapping of "A correct 3-stage check" and the texts shown with it. Exceptions are judged by the names of
their classes, so nothing needs to be imported for it. Must not touch the network or decide what becomes of the exit.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator

from msgspec import Struct

from ..rules.patterns import pattern
from ..rules.redaction import SHORTEST, Redactor, clean
from ..rules.route_errors import ErrorType
from .exits import Exit, Scheme

LONGEST_DETAIL = 200
"""Characters of an error's detail."""


class Verdict(Struct, frozen=True):
    """An error type of the table and one line about it, harmless and without secrets."""

    error_type: ErrorType
    detail: str


class Finding(Struct, frozen=True):
    """What one connection through an exit came to. `host` is the target; no `verdict` = something came back from it.

    `status` is that of a plain HTTP answer, 0 where TLS hides it; `retry_after` its header as it stands.
    """

    host: str
    verdict: Verdict | None
    status: int = 0
    retry_after: str = ""


class Circumstances(Struct, frozen=True):
    """When an error came up.

    `stage` is `tcp`, `probe` or `exit`; `connected` = all handshakes up to the request were done; `tunnelled` = what follows
    comes from the target: there is no proxy, or it is a tunnel.
    """

    exit: Exit
    stage: str
    connected: bool = False
    tunnelled: bool = True


_SOCKS_CODES = {
    1: (ErrorType.TUNNEL_FAILED, "general failure"),
    2: (ErrorType.PROXY_DENIED, "not allowed by its rules"),
    3: (ErrorType.TUNNEL_FAILED, "network unreachable"),
    4: (ErrorType.TUNNEL_FAILED, "host unreachable"),
    5: (ErrorType.TUNNEL_FAILED, "connection refused by the target"),
    6: (ErrorType.TUNNEL_FAILED, "time to live expired"),
    7: (ErrorType.PROXY_PROTO, "it knows no CONNECT"),
    8: (ErrorType.PROXY_PROTO, "it doesn't know this kind of address"),
    91: (ErrorType.TUNNEL_FAILED, "rejected or failed"),
    92: (ErrorType.PROXY_AUTH, "it can't identify the user"),
    93: (ErrorType.PROXY_AUTH, "the user's name doesn't match"),
}
_RESETS = {
    "ConnectionResetError",
    "ConnectionAbortedError",
    "BrokenPipeError",
    "ServerDisconnectedError",
}
_RESET_NUMBERS = {errno.ECONNRESET, errno.ECONNABORTED, errno.EPIPE}
_ERRNO = pattern(r"\[Errno (\d{1,5})\]")


def classify(error: BaseException, when: Circumstances) -> Verdict:
    """What `error` says about the exit. Order matters: the narrower class of an exception comes first."""
    facts = _Facts(error, when)
    for judge in _ORDER:
        if verdict := judge(facts):
            return verdict
    return Verdict(ErrorType.INTERNAL, f"{type(error).__name__} {foreign(str(error), when.exit)}".strip())


def foreign(text: str, exit: Exit) -> str:
    """Text from outside, fit to be shown: no controls, bounded, the exit's login masked.

    A password too short to be masked by its value takes all foreign text with it.
    """
    password = exit.password or ""
    if 0 < len(password) < SHORTEST:
        return ""
    redactor = Redactor([password, f"{exit.username or ''}:{password}"] if password else [])
    return clean(redactor.text(text[: LONGEST_DETAIL * 8]), limit=LONGEST_DETAIL, keep="")


class _Facts:
    """An error with those it came from, as names, numbers and one text."""

    def __init__(self, error: BaseException, when: Circumstances) -> None:
        chain = list(causes(error))
        self.error = error
        self.when = when
        self.names = {kind.__name__ for one in chain for kind in type(one).__mro__}
        self.text = " ".join(str(one) for one in chain)
        self.errnos = {one.errno for one in chain if isinstance(one, OSError) and one.errno}
        self.errnos |= {int(number) for number in _ERRNO.findall(self.text)}
        self.codes = {code for one in chain if isinstance(code := getattr(one, "error_code", None), int)}

    def has(self, *names: str) -> bool:
        return not self.names.isdisjoint(names)

    @property
    def at_proxy(self) -> bool:
        """Whether the error names the proxy as the place; aiohttp's connection errors know their host."""
        host, port = getattr(self.error, "host", None), getattr(self.error, "port", None)
        exit = self.when.exit
        return exit.is_proxy and (str(host).strip("[]").lower(), port) == (exit.host.lower(), exit.port)


def causes(error: BaseException) -> Iterator[BaseException]:
    """The error, what it came from (python-socks), and the operating system's error that aiohttp keeps beside it.

    What was being handled counts too: in Python 3.11.7, TLS within TLS fails by a TypeError that hides the reason.
    """
    waiting, seen = [error], set()
    while waiting:
        one = waiting.pop(0)
        if id(one) in seen:
            continue
        seen.add(id(one))
        yield one
        before = one.__cause__ or (None if one.__suppress_context__ else one.__context__)
        waiting += [each for each in (before, getattr(one, "os_error", None)) if isinstance(each, Exception)]


def _connect_answer(facts: _Facts) -> Verdict | None:
    if not facts.has("ClientHttpProxyError"):
        return None
    return connect_verdict(int(getattr(facts.error, "status", 0)))


def connect_verdict(status: int) -> Verdict:
    """A proxy's answer to CONNECT other than that it is granted."""
    detail = f"the proxy answered CONNECT with {status}"
    if status in (401, 407):
        return Verdict(ErrorType.PROXY_AUTH, detail)
    if status in (402, 403, 429, 451):
        return Verdict(ErrorType.PROXY_DENIED, detail)
    if 300 <= status < 400:
        return Verdict(ErrorType.PROBE_REDIRECT, detail)
    return Verdict(ErrorType.TUNNEL_FAILED if status >= 500 else ErrorType.PROXY_PROTO, detail)


def _socks_answer(facts: _Facts) -> Verdict | None:
    """A SOCKS proxy's refusal, or an answer that isn't SOCKS."""
    for code in facts.codes:
        kind, meaning = _SOCKS_CODES.get(code, (ErrorType.PROXY_PROTO, "an unknown reply"))
        return Verdict(kind, f"the proxy replied {code}: {meaning}")
    if facts.has("ProxyError"):
        text = facts.text.lower()
        if "authentication" in text and "invalid authentication" not in text:
            return Verdict(ErrorType.PROXY_AUTH, "the proxy refused the login")
        return Verdict(ErrorType.PROXY_PROTO, "the proxy's answer is not SOCKS")
    return None


def _name(facts: _Facts) -> Verdict | None:
    """A host name that nobody knows: the proxy's, or (resolved here, without a proxy or with socks4) the target's."""
    if not facts.has("gaierror", "ClientConnectorDNSError"):
        return None
    if facts.when.stage == "tcp" or facts.at_proxy or facts.has("ProxyConnectionError"):
        return Verdict(
            ErrorType.DNS_PROXY, f"no address is known for {foreign(facts.when.exit.host, facts.when.exit)}"
        )
    return Verdict(ErrorType.TUNNEL_FAILED, "no address is known for the host asked for")


def _timeout(facts: _Facts) -> Verdict | None:
    if "SSL handshake is taking longer" in facts.text:
        return Verdict(ErrorType.TUNNEL_TIMEOUT, "the TLS handshake took too long")
    if not facts.has("TimeoutError", "ProxyTimeoutError"):
        return None
    if facts.when.stage == "tcp":
        return Verdict(ErrorType.TCP_TIMEOUT, "no connection in time")
    if facts.when.connected or facts.has("SocketTimeoutError"):
        return Verdict(ErrorType.PROBE_TIMEOUT, "connected, but no whole answer in time")
    return Verdict(
        ErrorType.TUNNEL_TIMEOUT, "the proxy and the target were not through with their handshakes in time"
    )


def _tls(facts: _Facts) -> Verdict | None:
    if not facts.has("SSLError", "ClientSSLError", "ClientConnectorCertificateError"):
        return None
    detail = foreign(_tls_reason(facts), facts.when.exit)
    if facts.at_proxy:
        return Verdict(ErrorType.PROXY_TLS, f"TLS with the proxy failed: {detail}")
    if facts.has("SSLCertVerificationError", "ClientConnectorCertificateError"):
        return Verdict(
            ErrorType.TLS_INTERCEPT, f"somebody else's certificate stands for the target: {detail}"
        )
    return Verdict(ErrorType.TARGET_TLS, f"TLS with the target failed: {detail}")


def _tls_reason(facts: _Facts) -> str:
    for one in causes(facts.error):
        reason = getattr(one, "verify_message", None) or getattr(one, "reason", None)
        if isinstance(reason, str):
            return reason
    return "for no reason given"


def _system(facts: _Facts) -> Verdict | None:
    """What the operating system says of the connection to the proxy; past it, or without one, the target is meant."""
    if errno.ECONNREFUSED not in facts.errnos and not _is_unreachable(facts):
        return None
    is_refused = facts.errnos == {errno.ECONNREFUSED}
    to_proxy = facts.has("ClientProxyConnectionError", "ProxyConnectionError") or facts.at_proxy
    if facts.when.stage == "tcp" or to_proxy:
        kind = ErrorType.TCP_REFUSED if is_refused else ErrorType.TCP_UNREACHABLE
        return Verdict(kind, "nobody listens there" if is_refused else "the network doesn't get there")
    return Verdict(ErrorType.TUNNEL_FAILED, "the target can't be reached")


def _is_unreachable(facts: _Facts) -> bool:
    if facts.when.stage == "tcp":
        return facts.has("OSError")
    return bool(facts.errnos & {errno.ENETUNREACH, errno.EHOSTUNREACH, errno.ENETDOWN, errno.EADDRNOTAVAIL})


def _reset(facts: _Facts) -> Verdict | None:
    if not (facts.has(*_RESETS) or facts.errnos & _RESET_NUMBERS or "not completed" in facts.text):
        return None
    return Verdict(ErrorType.TCP_RESET, "the connection was cut off")


def _protocol(facts: _Facts) -> Verdict | None:
    """An answer that isn't HTTP: the proxy's, or what came through a good tunnel."""
    if facts.has("IncompleteReadError"):
        return Verdict(ErrorType.PROXY_PROTO, "the proxy ended the connection in the middle of an answer")
    if not facts.has("ClientResponseError", "ClientPayloadError", "HttpProcessingError"):
        return None
    if facts.when.connected and (facts.when.tunnelled or facts.has("ClientPayloadError")):
        return Verdict(ErrorType.PROBE_BODY, "the answer is not valid HTTP")
    return Verdict(ErrorType.PROXY_PROTO, f"the proxy's answer is not {_spoken(facts.when.exit)}")


def _spoken(exit: Exit) -> str:
    return "SOCKS" if exit.scheme not in (Scheme.HTTP, Scheme.HTTPS, Scheme.DIRECT) else "HTTP"


_ORDER = (
    _connect_answer,
    _socks_answer,
    _name,
    _timeout,
    _tls,
    _system,
    _reset,
    _protocol,
)
