"""Which class a failure has, and by which rule: the table that decides between trying again, waiting, and giving up.

Source: "Failures are classified" of the domain, and the ruling that what is unknown is retryable. Pure:
exceptions come in as names and attributes, so that nothing of the user's or a library's needs to be imported
to judge them.
"""

from __future__ import annotations

import errno
import math
import re
import signal
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from typing import Any

from msgspec import Struct

from .cleaning import clean
from .retry_after import retry_after
from .timing import LONGEST

LONGEST_MESSAGE = 2000


class FailureClass(StrEnum):
    """What becomes of the task: see `retry.decide`."""

    RETRYABLE = "retryable"
    DELAYED = "delayed"
    FATAL = "fatal"
    RESOURCE_FAULT = "resource_fault"


RETRYABLE, DELAYED = FailureClass.RETRYABLE, FailureClass.DELAYED
FATAL, RESOURCE_FAULT = FailureClass.FATAL, FailureClass.RESOURCE_FAULT


class Failure(Struct, frozen=True):
    """One failure, judged.

    `kind` is a short word (`timeout`, `http_429`, `exit_1`), `rule` tells what decided, `delay` in seconds is
    the wait that the failure itself names, `detail` what else is known (an HTTP status, an exit code, the
    resource at fault).
    """

    class_: FailureClass
    kind: str
    message: str
    rule: str
    delay: float | None = None
    detail: str = ""


_Row = tuple[FailureClass, str]

_EXCEPTIONS: Mapping[str, _Row] = {
    "taskdeck.engine.errors.InvalidPayload": (FATAL, "invalid_payload"),
    "taskdeck.engine.errors.SecretInInput": (FATAL, "secret_in_input"),
    "taskdeck.engine.errors.NotPermitted": (FATAL, "permission"),
    "taskdeck.engine.NotDone": (RETRYABLE, "not_done"),
    "builtins.TimeoutError": (RETRYABLE, "timeout"),
    "asyncio.exceptions.TimeoutError": (RETRYABLE, "timeout"),
    "concurrent.futures._base.TimeoutError": (RETRYABLE, "timeout"),
    "subprocess.TimeoutExpired": (RETRYABLE, "timeout"),
    "aiohttp.client_exceptions.ServerTimeoutError": (RETRYABLE, "timeout"),
    "aiohttp.client_exceptions.InvalidURL": (FATAL, "invalid_url"),
    "aiohttp.client_exceptions.ClientProxyConnectionError": (RETRYABLE, "proxy"),
    "aiohttp.client_exceptions.ClientConnectorDNSError": (RETRYABLE, "dns"),
    "aiohttp.client_exceptions.ClientConnectionError": (RETRYABLE, "connection"),
    "aiohttp.client_exceptions.ClientPayloadError": (RETRYABLE, "connection"),
    "httpx.TimeoutException": (RETRYABLE, "timeout"),
    "httpx.InvalidURL": (FATAL, "invalid_url"),
    "httpx.UnsupportedProtocol": (FATAL, "invalid_url"),
    "httpx.TransportError": (RETRYABLE, "connection"),
    "requests.exceptions.Timeout": (RETRYABLE, "timeout"),
    "requests.exceptions.InvalidURL": (FATAL, "invalid_url"),
    "requests.exceptions.MissingSchema": (FATAL, "invalid_url"),
    "requests.exceptions.InvalidSchema": (FATAL, "invalid_url"),
    "requests.exceptions.ConnectionError": (RETRYABLE, "connection"),
    "urllib3.exceptions.TimeoutError": (RETRYABLE, "timeout"),
    "http.client.InvalidURL": (FATAL, "invalid_url"),
    "http.client.HTTPException": (RETRYABLE, "connection"),
    "asyncio.exceptions.IncompleteReadError": (RETRYABLE, "connection"),
    "builtins.ConnectionError": (RETRYABLE, "connection"),
    "socket.gaierror": (RETRYABLE, "dns"),
    "ssl.SSLError": (RETRYABLE, "tls"),
    "urllib.error.URLError": (RETRYABLE, "connection"),
    "msgspec.ValidationError": (FATAL, "validation"),
    "pydantic_core._pydantic_core.ValidationError": (FATAL, "validation"),
    "pydantic.error_wrappers.ValidationError": (FATAL, "validation"),
    "jsonschema.exceptions.ValidationError": (FATAL, "validation"),
    "builtins.PermissionError": (FATAL, "permission"),
    "builtins.FileNotFoundError": (FATAL, "not_found"),
    "builtins.NotADirectoryError": (FATAL, "not_found"),
    "builtins.IsADirectoryError": (FATAL, "not_found"),
    "builtins.NotImplementedError": (FATAL, "not_implemented"),
    "builtins.MemoryError": (RETRYABLE, "memory"),
}
"""By qualified name; of a class and its bases the most derived one that stands here decides."""

_ERRNOS: Mapping[int, _Row] = {
    errno.ENOSPC: (RETRYABLE, "disk_full"),
    errno.EDQUOT: (RETRYABLE, "disk_full"),
    errno.ENOMEM: (RETRYABLE, "memory"),
    errno.ENAMETOOLONG: (FATAL, "not_found"),
    errno.ELOOP: (FATAL, "not_found"),
    errno.EROFS: (FATAL, "permission"),
    errno.ETIMEDOUT: (RETRYABLE, "timeout"),
}
_STATUS_OWNERS = (
    "aiohttp.client_exceptions.ClientResponseError",
    "aiohttp.client_exceptions.WSServerHandshakeError",
)
_STATUS_OWNERS += ("httpx.HTTPStatusError", "requests.exceptions.HTTPError", "urllib.error.HTTPError")
_PASSING_STATUSES = frozenset({408, 409, 421, 423, 425})
"""Of the 4xx, those that the same request may not meet again."""

_FATAL_EXITS: Mapping[int, str] = {
    64: "usage error",
    65: "bad input data",
    66: "no input",
    77: "permission denied",
    78: "bad configuration",
    126: "not executable",
    127: "command not found",
}


def from_exception(
    names: Sequence[str],
    message: str,
    attributes: Mapping[str, Any],
    *,
    now: datetime | None = None,
    max_delay: float = 3600.0,
) -> Failure:
    """Judge an exception by the qualified names of its class and bases, most derived first, as `describe` gives them.

    `now` is needed for waits that are named as a time of day; `max_delay` bounds those that a server asks
    for.
    """
    message = clean(_with_its_kind(names, message), limit=LONGEST_MESSAGE)
    for name in names:
        if name in _OURS:
            return _OURS[name](message, attributes, now)
        if name in _STATUS_OWNERS and (status := _whole(attributes.get("status"))):
            header = attributes.get("retry_after")
            delay = retry_after(str(header), now, max_delay) if header is not None else None
            return from_status(status, message, delay=delay)
        if name == "subprocess.CalledProcessError" and (code := _whole(attributes.get("returncode"))):
            return from_exit(code, {}) or Failure(RETRYABLE, "error", message, f"exception {name}")
        if name == "builtins.OSError" and (row := _ERRNOS.get(_whole(attributes.get("errno")) or 0)):
            return Failure(*row, message, f"errno {errno.errorcode[attributes['errno']]}")
        if name in _EXCEPTIONS:
            return Failure(*_EXCEPTIONS[name], message, f"exception {name}")
    return Failure(
        RETRYABLE, "error", message, "unknown exception", detail=clean(names[0], limit=200) if names else ""
    )


def _with_its_kind(names: Sequence[str], message: str) -> str:
    """`KeyError: 'x'`: many messages say nothing without the kind of the exception. Ours are written for people."""
    if not names:
        return message or "unknown error"
    kind = names[0].rpartition(".")[2]
    if not message.strip():
        return kind
    return message if names[0].startswith("taskdeck.") else f"{kind}: {message}"


def from_status(status: int, message: str, *, delay: float | None = None) -> Failure:
    """Judge an HTTP answer; `delay` is what its Retry-After asks for, already bounded."""
    kind, rule = f"http_{status}", f"HTTP status {status}"
    if status == 429:
        class_ = DELAYED
    elif status == 407:
        class_ = RESOURCE_FAULT  # the proxy refuses its login: another route may do
    elif 400 <= status < 500 and status not in _PASSING_STATUSES:
        class_ = FATAL
    else:
        class_ = RETRYABLE
    return Failure(
        class_, kind, message, rule, delay if class_ in (DELAYED, RETRYABLE) else None, str(status)
    )


def from_exit(code: int, exit_codes: Mapping[int, str]) -> Failure | None:
    """Judge how a command ended; None is success. A negative code is a signal's number, as `subprocess` reports it.

    Only 0 is success, unless `exit_codes` (code → retryable, delayed, fatal, success) says otherwise. Of a
    pipeline the shell reports the last command, unless it is told `set -o pipefail`.
    """
    said = exit_codes.get(code)
    if said == "success" or (code == 0 and said is None):
        return None
    number = -code if code < 0 else code - 128
    name = _signal_name(number)
    if said:
        return Failure(
            FailureClass(said),
            f"exit_{code}",
            _exit_story(code, name),
            "exit code of the type",
            detail=str(code),
        )
    if name:
        return Failure(RETRYABLE, "killed", _exit_story(code, name), f"ended by {name}", detail=str(code))
    class_ = FATAL if code in _FATAL_EXITS else RETRYABLE
    rule = f"exit code {code}" if class_ is FATAL or code == 75 else "unlisted exit code"
    return Failure(class_, f"exit_{code}", _exit_story(code, name), rule, detail=str(code))


def describe(error: BaseException) -> tuple[list[str], str, dict[str, Any]]:
    """Names, message and attributes of an exception for `from_exception`; never raises, whatever the exception does."""
    names = [f"{kind.__module__}.{kind.__qualname__}" for kind in type(error).__mro__]
    response = _attribute(error, "response")
    headers = _attribute(error, "headers") or _attribute(response, "headers")
    attributes = {
        "status": next((s for s in map(_whole, _statuses(error, response)) if s), None),
        "retry_after": _header(headers, "Retry-After"),
        **{
            name: _attribute(error, name)
            for name in ("errno", "returncode", "after", "seconds", "until", "resource")
        },
    }
    try:
        message = "" if error.args == (None,) else str(error)
    except Exception:  # its __str__ is somebody else's code
        message = ""
    return names, message, {name: value for name, value in attributes.items() if value is not None}


def _retry(message: str, attributes: Mapping[str, Any], now: datetime | None) -> Failure:
    return Failure(RETRYABLE, "retry", message, "raised Retry", _seconds(attributes.get("after")))


def _delay(message: str, attributes: Mapping[str, Any], now: datetime | None) -> Failure:
    until, seconds = attributes.get("until"), attributes.get("seconds")
    if isinstance(until, datetime) and until.tzinfo and now:
        seconds = max(0.0, (until - now).total_seconds())
    return Failure(DELAYED, "delay", message, "raised Delay", _seconds(seconds))


def _fatal(message: str, attributes: Mapping[str, Any], now: datetime | None) -> Failure:
    return Failure(FATAL, "fatal", message, "raised Fatal")


def _resource_fault(message: str, attributes: Mapping[str, Any], now: datetime | None) -> Failure:
    detail = clean(str(attributes.get("resource", "")), limit=200)
    return Failure(RESOURCE_FAULT, "resource_fault", message, "raised ResourceFault", detail=detail)


_OURS: Mapping[str, Callable[[str, Mapping[str, Any], datetime | None], Failure]] = {
    "taskdeck.engine.Retry": _retry,
    "taskdeck.engine.Delay": _delay,
    "taskdeck.engine.Fatal": _fatal,
    "taskdeck.engine.ResourceFault": _resource_fault,
}


def _seconds(value: Any) -> float | None:
    """A wait that a handler names: finite, not negative, at most ten years; else None."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(min(value, LONGEST)) if is_number and not math.isnan(value) and value >= 0 else None


def _whole(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**31 else None


def _statuses(error: BaseException, response: Any) -> list[Any]:
    places = (
        (error, "status"),
        (error, "status_code"),
        (error, "code"),
        (response, "status"),
        (response, "status_code"),
    )
    return [_attribute(place, name) for place, name in places]


def _attribute(of: Any, name: str) -> Any:
    try:
        return getattr(of, name, None)
    except Exception:  # a property of somebody else's class
        return None


def _header(headers: Any, name: str) -> str | None:
    try:
        value = headers.get(name) if hasattr(headers, "get") else None
    except Exception:
        return None
    return value if isinstance(value, str) else None


def _signal_name(number: int) -> str:
    if not 1 <= number <= 64:
        return ""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _exit_story(code: int, signal_name: str) -> str:
    if code < 0:
        return f"the command was ended by {signal_name or f'signal {-code}'}"
    meaning = _FATAL_EXITS.get(
        code, "try again later" if code == 75 else f"ended by {signal_name}" if signal_name else ""
    )
    return re.sub(r" \(\)$", "", f"the command exited with {code} ({meaning})")
