"""`[[resources]]` and `[[routes]]`: what may stand in one, and the declarations that come of it.

Pure. A declaration never holds a password, only the reference to it.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Annotated, Any

from msgspec import Struct, field, structs

from .checks import Choice, Duration, Flag, Name, Rate, Texts, Whole, Wrong, checks_of
from .inventory_checks import Labels, Network, ReadyText, Reference, RouteAddress
from .readiness import ReadySettings
from .route_urls import RouteUrl, login_fault, shown_url


class ResourceKeys(Struct, frozen=True):
    """The keys of a `[[resources]]` table."""

    id: Annotated[str, Name("browser-1")]
    pool: Annotated[str, Name("browser")]
    kind: Annotated[str, Choice("unit", "credential")] = "unit"
    count: Annotated[int | None, Whole(1, 1000)] = None
    capacity: Annotated[int, Whole(1, 1000)] = 1
    min_reuse: Annotated[float, Duration()] = 0.0
    labels: Annotated[dict[str, str], Labels()] = {}
    max_uses: Annotated[int | None, Whole(1, 10**9)] = None
    max_age: Annotated[float | None, Duration(1)] = None
    route: Annotated[str | None, Name("eu-1")] = None
    route_soft: Annotated[bool, Flag()] = False
    ready: Annotated[str, ReadyText()] = ""
    ready_timeout: Annotated[float, Duration(0.1, 600)] = 10.0
    ready_every: Annotated[float, Duration(0.1, 86400)] = 10.0
    ready_for: Annotated[float, Duration(0, 86400)] = 5.0
    ready_failures: Annotated[int, Whole(1, 10**6)] = 10


class RouteKeys(Struct, frozen=True):
    """The keys of a `[[routes]]` table."""

    id: Annotated[str, Name("eu-1")]
    url: Annotated[RouteUrl, RouteAddress()]
    password: Annotated[str | None, Reference()] = None
    group: Annotated[str, Name("eu")] = "default"
    capacity: Annotated[int, Whole(1, 1000)] = 1
    min_reuse: Annotated[float, Duration()] = 0.0
    expected_ip: Annotated[str | None, Network()] = None
    expected_regions: Annotated[tuple[str, ...], Texts()] = ()
    labels: Annotated[dict[str, str], Labels()] = {}
    max_uses: Annotated[int | None, Whole(1, 10**9)] = None
    max_age: Annotated[float | None, Duration(1)] = None
    ip_policy: Annotated[str, Choice("static", "sticky", "rotating")] = "sticky"
    bandwidth: Annotated[float, Rate()] = 0.0


LISTS: Mapping[str, type[Struct]] = {"resources": ResourceKeys, "routes": RouteKeys}
"""The lists of tables by name; the keys without a default must be there."""


class ResourceDeclaration(Struct, frozen=True):
    """One resource of the configuration; durations in seconds.

    Whoever holds it goes out by `route`, and by no other one unless the binding is soft. After `max_uses`, or `max_age`
    seconds, it is given to nobody until a person resets it. `ready` is asked before it is handed out (`rules.readiness`).
    """

    id: str
    pool: str
    capacity: int = 1
    kind: str = "unit"
    min_reuse: float = 0.0
    labels: dict[str, str] = field(default_factory=dict)
    max_uses: int | None = None
    max_age: float | None = None
    route: str | None = None
    route_soft: bool = False
    ready: str = ""
    ready_timeout: float = 10.0
    ready_every: float = 10.0
    ready_for: float = 5.0
    ready_failures: int = 10

    @property
    def readiness(self) -> ReadySettings:
        """How it is asked whether it is ready."""
        return ReadySettings(self.ready_every, self.ready_for, self.ready_failures)

    def settings(self) -> dict[str, Any]:
        """The declaration under the keys of the configuration."""
        return {name: getattr(self, name) for name in self.__struct_fields__ if name != "id"}


class RouteDeclaration(Struct, frozen=True):
    """One route of the configuration; `secret_ref` says where its password stands (`env:NAME`, `file:/path`).

    `host` is lower case, IPv6 without brackets; `direct` has neither host, port nor login.
    """

    id: str
    scheme: str
    host: str = ""
    port: int = 0
    username: str = ""
    secret_ref: str | None = None
    group: str = "default"
    capacity: int = 1
    min_reuse: float = 0.0
    expected_ip: str | None = None
    expected_regions: tuple[str, ...] = ()
    labels: dict[str, str] = field(default_factory=dict)
    max_uses: int | None = None
    max_age: float | None = None
    ip_policy: str = "sticky"
    bandwidth: float = 0.0
    """Bytes a second that may be received by it; 0 = as many as come."""

    def shown(self) -> str:
        """The URL without its password."""
        return shown_url(self.scheme, self.host, self.port, self.username, self.secret_ref is not None)

    def settings(self) -> dict[str, Any]:
        """The declaration under the keys of the configuration."""
        rest = ("group", "capacity", "min_reuse", "expected_ip", "expected_regions", "labels")
        rest += ("max_uses", "max_age", "ip_policy", "bandwidth")
        first = {"url": self.shown(), "password": self.secret_ref}
        return first | {name: getattr(self, name) for name in rest}


def declared_resources(values: Mapping[str, Any]) -> list[ResourceDeclaration]:
    """What one `[[resources]]` table declares: one resource, or with `count` id-1, id-2 and so on."""
    keys = ResourceKeys(**values)
    ids = [keys.id] if keys.count is None else [f"{keys.id}-{n}" for n in range(1, keys.count + 1)]
    shared = {name: getattr(keys, name) for name in keys.__struct_fields__ if name not in ("id", "count")}
    return [ResourceDeclaration(id, **shared) for id in ids]


def checked(name: str, raw: Mapping[str, Any]) -> dict[str, Any]:
    """The values of one table of the list `name` that came from elsewhere than a file; Wrong for the first bad one."""
    checks, values = checks_of(LISTS[name]), {}
    for key, value in raw.items():
        if key not in checks:
            raise Wrong(f"{key}: unknown", f"known: {', '.join(checks)}")
        try:
            values[key] = checks[key].read(value)
        except Wrong as wrong:
            raise Wrong(f"{key}: {wrong.what}", wrong.remedy) from None
    for missing in required(name) - set(values):
        raise Wrong(f"{missing}: it is missing")
    return values


@cache
def required(name: str) -> frozenset[str]:
    """The keys that each table of this list must have; kept, since a Struct tells them as slowly as a route is written."""
    return frozenset(field.encode_name for field in structs.fields(LISTS[name]) if field.required)


def declared_route(raw: Mapping[str, Any]) -> RouteDeclaration:
    """The route that unchecked values describe, under the keys of `[[routes]]`. Raises Wrong."""
    return route_of(checked("routes", raw))


def route_of(values: Mapping[str, Any]) -> RouteDeclaration:
    """The route that checked values describe; Wrong where its login doesn't fit its scheme."""
    keys = RouteKeys(**values)
    url = keys.url
    if fault := login_fault(url.scheme, url.username, keys.password is not None):
        raise Wrong(fault, "correct url or password")
    return RouteDeclaration(
        keys.id,
        url.scheme,
        url.host,
        url.port,
        url.username,
        keys.password,
        keys.group,
        keys.capacity,
        keys.min_reuse,
        keys.expected_ip,
        keys.expected_regions,
        keys.labels,
        keys.max_uses,
        keys.max_age,
        keys.ip_policy,
        keys.bandwidth,
    )
