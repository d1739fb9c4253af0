"""The end of what outlived its engine, where a person wants no other one: `stop` without an engine.

Workers are asked and then ended, and with them what workers that have died left running. Holds the database lock meanwhile,
so that no engine comes to work with them. Writes nothing: they keep what they did, and the next engine writes it down.
"""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import msgspec

from ..clock import Clock
from ..config import Config
from ..edge import identity, trees
from ..edge.identity import Identity
from .leftovers import end_leftovers, find_leftovers
from .messages import Left
from .starting import journal_of

if TYPE_CHECKING:
    from ..store.reading import Reader

SLACK = 5.0
"""Seconds beyond what attempts are given to end."""


class Outlived(msgspec.Struct, frozen=True):
    """What had outlived its engine, as pids: workers, and processes of workers that were dead already.

    `left`: what could not be ended, as `pid 77 (sleep)`; all else has ended.
    """

    workers: list[int] = []
    processes: list[int] = []
    left: list[str] = []


def end_outlived(config: Config, reader: Reader, clock: Clock, *, now: bool = False) -> Outlived:
    """End every worker, with all that it runs or left running: one that lives is asked first, unless `now`. Blocks."""
    workers = {row["incarnation"]: row for row in reader.workers()}
    who = {key: identity.named_by(row) for key, row in workers.items()}
    living = {key: one for key, one in who.items() if identity.alive(one)}
    held = _held(reader, {row["id"]: key for key, row in workers.items()})
    journals = {key: journal_of(config, row) for key, row in workers.items()}
    found: set[Identity] = set()
    for key in {*workers, *held} - living.keys():
        found.update(find_leftovers(config.db, key, held.get(key, []), clock, journals.get(key)))
    if not now:
        trees.ask(living.values())
        identity.wait_gone(living.values(), config.engine.cancel_grace + SLACK, clock)
    left: list[Left] = []
    for key in {*workers, *held}:
        if key in living:
            identity.kill(living[key], signal.SIGKILL)
        left += end_leftovers(config.db, key, held.get(key, []), clock, journals.get(key))
    withstand = [
        Left(row["pid"], row["start_time"], row["name"])
        for row in reader.leftovers()
        if identity.alive(identity.named_by(row))
    ]
    return Outlived(
        sorted(one.pid for one in living.values()),
        sorted(one.pid for one in found),
        sorted({f"pid {one.pid} ({one.name})" for one in [*left, *withstand]}),
    )


def _held(reader: Reader, incarnations: dict[int, str]) -> dict[str, list[int]]:
    """The tasks of attempts that have not ended by the incarnation of their worker, "" for one that nobody knows."""
    held: dict[str, list[int]] = {}
    for attempt in reader.running_attempts():
        held.setdefault(incarnations.get(attempt["worker_id"], ""), []).append(attempt["task_id"])
    return held
