"""A bare host name out of what people and handlers call a host, and how a host is written with its port. Must not look
anything up.
"""

from __future__ import annotations

import re

from .patterns import pattern

_NAME = pattern(r"(?=.{1,253}\Z)[\w.-]+|[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*(%[\w.-]{1,20})?")


def bare_host(given: str) -> str:
    """The host in a name, an address, `host:port` or a URL: without login, port, path or query; empty where there is none."""
    place = re.sub(r"\A([A-Za-z][A-Za-z0-9+.-]*:)?//", "", given.strip())
    place = re.split(r"[/?#\\]", place)[0]
    place = place.rpartition("@")[2]
    if bracketed := re.fullmatch(r"\[([^\]]*)\](:[0-9]*)?", place):
        place = bracketed[1]
    elif place.count(":") == 1:
        place, _, port = place.partition(":")
        if port and not re.fullmatch(r"[0-9]{1,5}", port):
            return ""  # a name and a password rather than a host and its port
    place = place.lower()
    return place if _NAME.fullmatch(place) else ""


def named_host(given: str) -> str:
    """As `bare_host`; raises ValueError, which repeats nothing of it, where there is none."""
    if not (host := bare_host(given)):
        raise ValueError("name the host that refuses, such as shop.example.org")
    return host


def with_port(host: str, port: int) -> str:
    """`host:port`; an IPv6 address in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
