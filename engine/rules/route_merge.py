"""What a list of routes would change in what is known: new, changed, a duplicate, or bad, line by line.

Pure. An exit is known by scheme, host, port and user name, whatever its id; what a list does not say of it stays as it is.
No password comes here, only references; nothing that is told repeats any part of a line. Source: import of routes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from msgspec import Struct

from .checks import Wrong, checks_of
from .declarations import RouteKeys
from .needs import NAME
from .route_import import ImportedList, ImportedRoute, ImportFault
from .route_urls import shown_url

NEW, CHANGED, DUPLICATE, BAD = "new", "changed", "duplicate", "bad"
CONFIGURED = "config"
"""The origin of routes that the configuration declares: only there are they changed."""
NOTE = "note"
"""The label that holds what stood behind `#` in a list."""
_SAID = {
    "secret_ref": "password",
    "expected_regions": "region",
}
"""Columns that a list calls otherwise."""

Identity = tuple[str, str, int, str]


class Offer(Struct, frozen=True):
    """An exit of a list, and what the list says of it, by column of `route`: group, labels, capacity, regions, password."""

    line: int
    scheme: str
    host: str
    port: int
    username: str
    id: str = ""
    said: dict[str, Any] = {}

    @property
    def identity(self) -> Identity:
        """What makes two routes the same exit."""
        return (self.scheme, self.host, self.port, self.username)


class KnownRoute(NamedTuple):
    """A route as it stands: its columns, decoded; `held` by how many attempts, `removed` it takes no lease."""

    id: str
    identity: Identity
    values: Mapping[str, Any]
    origin: str = ""
    held: int = 0
    removed: bool = False


class ImportLine(Struct, frozen=True, kw_only=True):
    """What becomes of one line. `kind` is new, changed, duplicate or bad; of a bad one `code`, `what` and `remedy` tell why.

    `changes` names what differs, `same_as` the line that said the same before, `held` how many attempts use it now.
    """

    line: int
    kind: str
    id: str = ""
    url: str = ""
    changes: tuple[str, ...] = ()
    same_as: int | None = None
    held: int = 0
    code: str = ""
    what: str = ""
    remedy: str = ""


def offers(found: ImportedList, group: str = "") -> tuple[list[Offer], list[ImportFault]]:
    """What a list says, and its faults with those of single values. `group` is that of lines that name none."""
    made, faults = [], list(found.faults)
    for route in found.routes:
        try:
            made.append(_offer(route, group))
        except _Unfit as unfit:
            faults.append(ImportFault(route.line, unfit.code, unfit.what, unfit.remedy))
    return made, sorted(faults)


class _Unfit(Exception):
    def __init__(self, key: str, remedy: str) -> None:
        super().__init__(key)
        self.code, self.what, self.remedy = f"E_{key.upper()}", f"the {key} can't be used", remedy


_NAMES = "use 1 to 64 of A-Z a-z 0-9 _ . -"


def _offer(route: ImportedRoute, group: str) -> Offer:
    if route.id and not NAME.fullmatch(route.id):
        raise _Unfit("id", _NAMES)
    if any(ord(c) < 32 or ord(c) == 127 for c in route.url.password or ""):
        raise _Unfit("password", "it holds a control character")
    labels = dict(route.labels) | ({NOTE: _noted(route.label)} if _noted(route.label) else {})
    said: dict[str, Any] = {
        "group": _checked("group", route.group or group or None, _NAMES),
        "labels": _checked("labels", labels or None, "write name=value; values are at most 200 characters"),
        "capacity": route.capacity,
        "expected_regions": list(route.regions) or None,
    }
    said = {key: value for key, value in said.items() if value is not None}
    return Offer(route.line, *route.identity, id=route.id or "", said=said)


def _noted(label: str) -> str:
    return re.sub(r"\s+", " ", "".join(c if c.isprintable() else " " for c in label)).strip()[:200]


def _checked(key: str, value: Any, remedy: str) -> Any:
    try:
        return None if value is None else checks_of(RouteKeys)[key].read(value)
    except Wrong:
        raise _Unfit(key, remedy) from None


def merged(offered: Iterable[Offer], known: Sequence[KnownRoute]) -> list[ImportLine]:
    """What becomes of each offer, in their order, with the id that it has or would get."""
    of_exit = {each.identity: each for each in sorted(known, key=_standing)}
    taken = {each.id for each in known}
    found = []
    for offer in offered:
        line = _line(offer, of_exit.get(offer.identity), taken)
        taken.add(line.id)
        found.append(line)
    return found


def _standing(route: KnownRoute) -> tuple[bool, bool]:
    """Of several routes of one exit the one that counts stands last: in use, and of the configuration."""
    return (not route.removed, route.origin == CONFIGURED)


def _line(offer: Offer, known: KnownRoute | None, taken: set[str]) -> ImportLine:
    told: dict[str, Any] = {"line": offer.line, "url": _shown(offer, known)}
    if known is None:
        if offer.id in taken:
            return _bad(told, "E_ID_TAKEN", "another exit has this id", "give it another, or none")
        return ImportLine(kind=NEW, id=offer.id or _free_id(offer, taken), **told)
    told |= {"id": known.id, "held": known.held}
    if known.removed:
        return ImportLine(kind=NEW, **told)
    changes = tuple(_SAID.get(key, key) for key in offer.said if _differs(key, offer, known))
    if changes and known.origin == CONFIGURED:
        return _bad(told, "E_CONFIGURED", "the configuration declares this exit", "change it there")
    return ImportLine(kind=CHANGED if changes else DUPLICATE, changes=changes, **told)


def _bad(told: Mapping[str, Any], code: str, what: str, remedy: str) -> ImportLine:
    return ImportLine(kind=BAD, code=code, what=what, remedy=remedy, **told)


def _differs(key: str, offer: Offer, known: KnownRoute) -> bool:
    """Labels are added to those that there are, everything else replaces."""
    said, stands = offer.said[key], known.values[key]
    return (
        any(stands.get(name) != value for name, value in said.items()) if key == "labels" else said != stands
    )


def _shown(offer: Offer, known: KnownRoute | None) -> str:
    has_password = bool(offer.said.get("secret_ref") or (known and known.values["secret_ref"]))
    return shown_url(offer.scheme, offer.host, offer.port, offer.username, has_password)


def _free_id(offer: Offer, taken: set[str]) -> str:
    """`proxy.example.net-3128`; where that is taken (another user name), with a number behind it."""
    plain = id_of(offer.scheme, offer.host, offer.port)
    number, found = 1, plain
    while found in taken:
        number += 1
        found = f"{plain[:59]}-{number}"
    return found


def id_of(scheme: str, host: str, port: int) -> str:
    """The id of a route that nobody has named."""
    if scheme == "direct":
        return "direct"
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", f"{host}-{port}").strip("-")[-64:]


def bad_lines(faults: Iterable[ImportFault]) -> list[ImportLine]:
    """Faults of a list as lines of its preview."""
    return [
        ImportLine(line=each.line, kind=BAD, code=each.code, what=each.what, remedy=each.remedy)
        for each in faults
    ]


def repeated_lines(found: ImportedList) -> list[ImportLine]:
    """What a list says twice."""
    return [ImportLine(line=line, kind=DUPLICATE, same_as=first) for line, first in found.duplicates.items()]
