"""One alert for each pool or group of routes that due tasks wait for and of which nothing can be had, until that is over.

What is only in use, or rests after use, is no shortage. Told in the transaction of the tick that sees it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from ..rules.selection import Candidate, PoolRoom, Situation
from ..store import alerts
from ..store.transaction import Transaction

NO_ROUTE = "no_route"
NO_RESOURCE = "no_resource"


class _Kind(NamedTuple):
    """The alert's reason, what such a thing is called, and what it is called where there is none."""

    reason: str
    word: str
    missing: str


_ROUTE = _Kind(NO_ROUTE, "route", "route or group")
_POOL = _Kind(NO_RESOURCE, "pool", "pool")


def tell(tx: Transaction, situation: Situation, waiting: Iterable[Candidate]) -> None:
    """Raise and end the alerts; `waiting` are the due tasks that can't start now (TF192)."""
    due = list(waiting)
    routes = (each.route for each in due if each.route and not each.allow_direct)
    _tell(tx, _ROUTE, situation, situation.routes, routes)
    _tell(tx, _POOL, situation, situation.pools, (pool for each in due for pool in each.needs))


def _tell(
    tx: Transaction,
    kind: _Kind,
    situation: Situation,
    rooms: Mapping[str, PoolRoom],
    names: Iterable[str],
) -> None:
    wanted = dict.fromkeys(names)
    for name in alerts.subjects(tx, kind.reason):
        room = rooms.get(name)
        if room is not None and not room.out:
            alerts.over(tx, kind.reason, f"{kind.word} {name} can be had again", name)
        elif (
            room is None and name not in wanted and situation.workers
        ):  # without workers nobody looks who waits
            alerts.over(tx, kind.reason, f"nobody waits for {kind.word} {name} any more", name)
    for name in wanted:
        room = rooms.get(name)
        if room is None:
            told = f"there is no {kind.missing} {name}, and tasks wait for it"
            alerts.stands(tx, kind.reason, told, name)
        elif room.out:
            told = f"{kind.word} {name}: 0 of {room.total} usable, tasks wait: {room.words}"
            alerts.stands(tx, kind.reason, told, name)
