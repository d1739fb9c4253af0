"""What secrets look like, whatever stands before them: keys of clouds, tokens, logins in URLs, headers.

Each shape yields spans of a text. Commit hashes, UUIDs and paths have no shape here. Every pattern is
bounded, so that no text takes long.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator
from typing import NamedTuple

from .patterns import pattern


class Span(NamedTuple):
    """Where a secret stands in a text, and the rule that found it."""

    start: int
    end: int
    rule: str


_EDGE = r"(?<![A-Za-z0-9_-])"
_TOKENS = pattern(
    _EDGE
    + r"""(?:
    (?P<aws>(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16})(?![A-Za-z0-9])
    |(?P<github>gh[pousr]_[A-Za-z0-9]{20,255}|github_pat_[A-Za-z0-9_]{20,255})
    |(?P<gitlab>gl(?:pat|dt|rt|cbt|ptt|ft|soat|agent|oas)-[A-Za-z0-9_.-]{20,255})
    |(?P<slack>xox[abeoprs]-[A-Za-z0-9-]{10,255}|xapp-[A-Za-z0-9-]{10,255})
    |(?P<google>AIza[A-Za-z0-9_-]{35}|ya29\.[A-Za-z0-9_-]{20,1024}|GOCSPX-[A-Za-z0-9_-]{20,64})
    |(?P<api_key>sk-[A-Za-z0-9_-]{20,255}|[sr]k_(?:live|test)_[A-Za-z0-9]{10,255}|whsec_[A-Za-z0-9+/=]{20,255})
    |(?P<registry>npm_[A-Za-z0-9]{30,64}|pypi-[A-Za-z0-9_-]{40,1024}|dckr_pat_[A-Za-z0-9_-]{20,64}|hf_[A-Za-z0-9]{30,64})
    |(?P<cloud>do[opr]_v1_[a-f0-9]{64}|SG\.[A-Za-z0-9_-]{16,32}\.[A-Za-z0-9_-]{32,64}|hv[sbr]\.[A-Za-z0-9_-]{24,255})
    |(?P<telegram>[0-9]{8,10}:AA[A-Za-z0-9_-]{33}) |(?P<age>AGE-SECRET-KEY-1[A-Z0-9]{50,64})
    |(?P<jwt>eyJ[A-Za-z0-9_-]{5,4096}\.eyJ[A-Za-z0-9_-]{2,8192}(?:\.[A-Za-z0-9_-]{0,4096})?)
    )""",
    re.VERBOSE,
)
TOKEN_SIGNS = pattern(
    r"AKIA|ASIA|ABIA|ACCA|gh[pousr]_|github_pat_|gl[a-z]{2,5}-|xox|xapp-|AIza|ya29|GOCSPX|sk-|k_live|k_test|whsec_|npm_"
    r"|pypi-|dckr_|hf_|_v1_|SG\.|hv[sbr]\.|:AA|AGE-SECRET|eyJ"
)
_PRIVATE_KEY = pattern(
    r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----(.*?)(?:-----END [A-Z0-9 ]{0,40}-----|\Z)",
    re.DOTALL,
)
_LOGIN = pattern(
    r"(?<![A-Za-z0-9+.-])[A-Za-z][A-Za-z0-9+.-]{0,20}://"
    r"(?:[^\s/?#@:\"'<>]{0,256}:(?:(?P<password>[^\s/\"'<>]{1,1024})|(?!\d{1,5}/)(?P<loose>[^\s\"'<>]{1,256}?))"
    r"|(?P<token>[^\s/?#@:\"'<>]{20,256}))@"
)
_HEADER = pattern(
    r"(?<![A-Za-z0-9])(?:proxy-)?(?:authorization|cookie|set-cookie|x-[a-z-]{0,24}(?:key|token|secret|auth)|auth-token)"
    r"\\{0,4}[\"']?[ \t]{0,4}[:=][ \t]{0,4}\\{0,4}[\"']?(?:(?:bearer|basic|token|digest|negotiate|apikey)[ \t]{1,4})?"
    r"([^\r\n\"'\\]{1,4096})",
    re.IGNORECASE,
)
_SCHEME = pattern(r"(?<![A-Za-z0-9])(bearer|basic)[ \t]{1,4}([A-Za-z0-9._~+/-]{6,4096}={0,3})", re.IGNORECASE)
_QUERY = pattern(
    r"[?&](?:key|sig|signature|code|auth|x-amz-signature|x-goog-signature)=([^\s&#\"'<>]{16,1024})",
    re.IGNORECASE,
)
_STATEMENT = pattern(
    r"(?<!\w)(?:identified[ \t]{1,4}by|login[ \t]{1,4}[^\s,;]{1,64}\s{1,4}password)\s{1,4}"
    r"(?:'([^']{1,256})'|([^\s'\";,]{1,256}))",
    re.IGNORECASE,
)
_IN_STATEMENTS, _IN_HEADERS = ("identified", "login"), ("auth", "cookie", "x-", "bearer", "basic")
SIGNS = (*_IN_STATEMENTS, *_IN_HEADERS)
"""One of them stands, in lower case, in each text with a secret that no token, private key or URL is."""
HOOK = pattern(
    r"https://(?:hooks\.slack\.com/(?:services|workflows)|(?:\w{1,20}\.)?discord(?:app)?\.com/api/webhooks"
    r"|api\.telegram\.org/bot)"
    r"/?([^\s\"'<>]{8,255})"
)


def shapes(text: str) -> Iterator[Span]:
    """Every secret of a known shape in `text`; spans may overlap."""
    if TOKEN_SIGNS.search(text):
        for found in _TOKENS.finditer(text):
            yield Span(*found.span(), f"{found.lastgroup} token")
    if "PRIVATE KEY" in text:
        for found in _PRIVATE_KEY.finditer(text):
            yield Span(*found.span(1), "private key")
    if "://" in text:
        yield from _in_urls(text)
    lower = text.lower()
    if any(sign in lower for sign in _IN_STATEMENTS):  # SQL and .netrc
        for found in _STATEMENT.finditer(text):
            yield Span(*found.span(found.lastindex or 0), "password in a statement")
    if any(sign in lower for sign in _IN_HEADERS):
        yield from _in_headers(text)


def _in_urls(text: str) -> Iterator[Span]:
    if "@" in text:
        for found in _LOGIN.finditer(text):
            group = found.lastgroup
            if group and _is_url_secret(found[group], group):
                yield Span(*found.span(group), "login in a URL")
    if "=" in text:
        for found in _QUERY.finditer(text):
            yield Span(*found.span(1), "key in a URL")
    for found in HOOK.finditer(text):
        yield Span(*found.span(1), "address of a webhook")


def _is_url_secret(value: str, group: str) -> bool:
    return group != "token" or bool(re.search(r"\d", value))


def _in_headers(text: str) -> Iterator[Span]:
    for found in _HEADER.finditer(text):
        yield Span(*found.span(1), "header")
    for found in _SCHEME.finditer(text):
        value = found[2]
        if (
            _holds_login(value)
            if found[1].lower() == "basic"
            else re.search(r"\d", value) or len(value) >= 20
        ):
            yield Span(*found.span(2), f"{found[1].lower()} login")


def _holds_login(value: str) -> bool:
    """Whether a word behind `Basic` is base64 of `user:password`, and not just a word."""
    try:
        return b":" in base64.b64decode(value + "=" * (-len(value) % 4), validate=True)
    except ValueError:
        return False
