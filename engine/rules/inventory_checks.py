"""What a setting of resources and routes may be: needs, labels, addresses, references to passwords.

As in `checks`: a check raises `Wrong`, repeats nothing that might be a secret, and does no I/O.
"""

from __future__ import annotations

import re
from typing import Any

from .checks import Check, Text, Texts, Wrong, shown, toml_value
from .needs import NAME, needs_text, parse_needs
from .readiness import EXAMPLE, parse_check
from .references import FORMS, fault_of, kind_of
from .route_urls import BadRouteUrl, RouteUrl, parse_route_url


class Urls(Texts):
    """Addresses of web pages. One with a login is refused and not repeated."""

    example = '["https://judge.example.net/nonce"]'

    def read_one(self, item: Any) -> str:
        if not isinstance(item, str) or not re.fullmatch(r"https?://[^\s/?#@]+([/?#][^\s@]*)?", item):
            raise Wrong("expected URLs with http or https and no login", f"write {self.example}")
        return item

    def quote(self, value: Any) -> str:
        return "no list"


class Addresses(Texts):
    """IP addresses."""

    example = '["203.0.113.7", "2001:db8::7"]'

    def read_one(self, item: Any) -> str:
        from ipaddress import ip_address  # costs milliseconds and is rarely needed

        try:
            if isinstance(item, str) and "%" not in item:
                return str(ip_address(item))
        except ValueError:
            pass
        raise Wrong(f"expected IP addresses, got {shown(item)}", f"write {self.example}")


class Expected(Text):
    """A text, or after `re:` a regular expression."""

    def read(self, raw: Any) -> str:
        text = super().read(raw)
        try:
            re.compile(text.removeprefix("re:") if text.startswith("re:") else "")
        except re.error as error:
            raise Wrong(f"not a regular expression: {error}", r'write for example "re:ok \d+"') from None
        return text


class Anchors(Texts):
    """Places that answer TCP whenever the network is up."""

    example = '["1.1.1.1:443"]'

    def read_one(self, item: Any) -> str:
        if not isinstance(item, str) or not re.fullmatch(
            r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9_.-]+):[0-9]{1,5}", item, re.ASCII
        ):
            raise Wrong("expected places with their ports", f"write {self.example}")
        return item


class Needs(Texts):
    """What a task needs, as words: `pool` or `pool:count`."""

    example = '["browser:2"]'

    def read(self, raw: Any) -> tuple[str, ...]:
        if not isinstance(raw, list):
            raise Wrong(f"expected a list of needs, got {shown(raw)}", f"write {self.example}")
        try:
            return tuple(needs_text(parse_needs(raw)))
        except ValueError as error:
            raise Wrong(str(error), f"write for example {self.example}") from None


class Statuses(Check):
    """HTTP statuses."""

    def read(self, raw: Any) -> tuple[int, ...]:
        if not isinstance(raw, list) or not all(type(each) is int and 100 <= each <= 599 for each in raw):
            raise Wrong(
                "expected a list of HTTP statuses 100..599"
                + ("" if isinstance(raw, list) else f", got {shown(raw)}"),
                "write [403, 429]",
            )
        return tuple(raw)

    def from_text(self, text: str) -> Any:
        return toml_value(text if text.lstrip().startswith("[") else f"[{text}]")


class Labels(Check):
    """A table of texts."""

    def read(self, raw: Any) -> dict[str, str]:
        if not isinstance(raw, dict):
            raise Wrong(f"expected a table of labels, got {shown(raw)}", 'write { city = "Berlin" }')
        for name, value in raw.items():
            if not NAME.fullmatch(name):
                raise Wrong(f"{shown(name)} can't be the name of a label", "use 1 to 64 of A-Z a-z 0-9 _ . -")
            if not isinstance(value, str) or len(value) > 200 or not value.isprintable():
                raise Wrong(
                    f'label "{name}": expected a text of at most 200 characters, got {shown(value)}',
                    f'write {{ {name} = "…" }}',
                )
        return dict(raw)


class Network(Check):
    """An IP address, or a network as in 203.0.113.0/24."""

    def read(self, raw: Any) -> str:
        from ipaddress import ip_address, ip_network  # costs milliseconds and is rarely needed

        try:
            if isinstance(raw, str) and "%" not in raw:
                return str(ip_network(raw) if "/" in raw else ip_address(raw))
        except ValueError:
            pass
        raise Wrong(
            f"expected an IP address or a network, got {shown(raw)}",
            f'write for example "{_network_of(raw) or "203.0.113.7"}"',
        )


def _network_of(raw: Any) -> str:
    """The network that an address with a prefix length lies in, where that was the mistake."""
    from ipaddress import ip_network

    try:
        return str(ip_network(raw, strict=False)) if isinstance(raw, str) else ""
    except ValueError:
        return ""


class ReadyText(Check):
    """What is asked before a resource is handed out. A secret in it is refused and not repeated."""

    def read(self, raw: Any) -> str:
        if not isinstance(raw, str):
            raise Wrong(f"expected a text, got {type_shown(raw)}", f"write {EXAMPLE}")
        try:
            check = parse_check(raw)
        except ValueError as error:
            raise Wrong("it can't be read", str(error)) from None
        from .redaction import find_secrets  # not needed by most

        if find_secrets(list(check.argv) or check.place):
            raise Wrong("a secret stands in it", "let the program read it from a file")
        return raw


class Reference(Check):
    """One secret by reference. A literal is refused and never repeated."""

    def read(self, raw: Any) -> str:
        if not isinstance(raw, str) or not kind_of(raw):
            raise Wrong(
                "expected a reference to the password, not the password itself",
                f"write {FORMS}, and put it there",
            )
        if fault := fault_of(raw):
            raise Wrong(fault, f"write {FORMS}")
        return raw


class RouteAddress(Check):
    """The URL of a route. No part of a wrong one is repeated: it may hold a password in any place."""

    def read(self, raw: Any) -> RouteUrl:
        if not isinstance(raw, str):
            raise Wrong(f"expected a url, got {type_shown(raw)}", 'write "http://user@host:port"')
        try:
            url = parse_route_url(raw)
        except BadRouteUrl as bad:
            raise Wrong(f"{bad.code}: {bad.what}", bad.remedy) from None
        if url.password is not None:
            raise Wrong(
                "a password stands in the url",
                f"leave it out there and write password = {FORMS}",
            )
        return url


def type_shown(raw: Any) -> str:
    """What kind of value it is, without the value."""
    return {bool: "true or false", dict: "a table", list: "a list"}.get(type(raw), "a number")
