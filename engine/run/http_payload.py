"""The built-in type `http`: what its payload says. Must not send anything."""

from __future__ import annotations

import os
from typing import Any
from urllib.parse import urlsplit

import msgspec

from ..rules.patterns import pattern
from ..rules.timing import parse_duration

_METHOD = pattern(r"[A-Z]{1,20}")
_HEADER = pattern(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}")


class HttpPayload(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One request. Values of `headers` are literal or references (`env:NAME`, `file:/path`); `body` is a text as it is, or
    any other JSON value as JSON; `expect` are the statuses of success, empty = any 2xx; with `save_to` the body goes there.
    """

    url: str
    method: str = "GET"
    headers: dict[str, str] = {}
    body: Any = None
    expect: list[int] = []
    timeout: str | float = "10s"
    save_to: str = ""

    def __post_init__(self) -> None:
        _check_url(self.url)
        if not _METHOD.fullmatch(self.method):
            raise ValueError("method is a word of A-Z, such as GET")
        for name, value in self.headers.items():
            if not _HEADER.fullmatch(name) or any(character in value for character in "\r\n\0"):
                raise ValueError(f"bad header {name[:40]!r}")
        if any(not 100 <= status <= 599 for status in self.expect):
            raise ValueError("expect holds statuses of 100 to 599")
        if parse_duration(self.timeout) <= 0:
            raise ValueError("timeout must be more than 0 seconds")
        if self.save_to and (not os.path.isabs(self.save_to) or "\0" in self.save_to):
            raise ValueError("save_to must be an absolute path")

    def expects(self, status: int) -> bool:
        """Is this the status of success?"""
        return status in self.expect if self.expect else 200 <= status < 300


def _check_url(url: str) -> None:
    try:
        parts = urlsplit(url)
        wrong = parts.scheme not in ("http", "https") or not parts.hostname or parts.port == 0
        wrong = wrong or not _can_be_asked(url, parts.hostname or "")
    except ValueError:
        wrong = True
    if not wrong and not (url.isprintable() and " " not in url):
        raise ValueError("url holds a space or a control character: write it as %20 or such")
    if wrong:
        raise ValueError("url must be http://host/… or https://host/…")


def _can_be_asked(url: str, host: str) -> bool:
    """Is it a name that the library can write and read? Not every text beyond ASCII, or in its stead `xn--…`, is one."""
    if host.isascii() and "xn--" not in host:
        return True
    from yarl import URL  # loaded where it is needed

    return bool(URL(url).host)
