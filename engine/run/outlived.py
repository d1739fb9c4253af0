"""The end of workers that outlived their engine, where a person wants no other one: `stop` without an engine.

Holds the database lock meanwhile, so that no engine comes to work with them. Writes nothing: they keep what they did, and the
next engine writes it down.
"""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

from ..clock import Clock
from ..config import Config
from ..edge import identity
from ..edge.identity import Identity
from .leftovers import end_leftovers

if TYPE_CHECKING:
    from ..store.reading import Reader

SLACK = 5.0
"""Seconds beyond what attempts are given to end."""


def end_outlived(config: Config, reader: Reader, clock: Clock, *, now: bool = False) -> list[int]:
    """End every worker that lives, with all that it runs: asked first, unless `now`. Returns their pids. Blocks."""
    living = {}
    for row in reader.workers():
        who = Identity(row["pid"], row["start_time"], row["boot_id"])
        if identity.alive(who):
            living[who] = row["incarnation"]
    held: dict[str, list[int]] = {}
    incarnations = {row["id"]: row["incarnation"] for row in reader.workers()}
    for attempt in reader.running_attempts():
        held.setdefault(incarnations.get(attempt["worker_id"], ""), []).append(attempt["task_id"])
    if not now:
        for who in living:
            identity.kill(who, signal.SIGTERM)
            identity.kill(who, signal.SIGCONT)
        identity.wait_gone(living, config.engine.cancel_grace + SLACK, clock)
    for who, incarnation in living.items():
        identity.kill(who, signal.SIGKILL)
        end_leftovers(config.db, incarnation, held.get(incarnation, []), clock)
    return [who.pid for who in living]
