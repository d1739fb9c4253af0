"""Why tasks wait, as asked from outside: the scheduler's situation put together from what the database says.

The answer itself is `rules.selection.explain`, the same function that the scheduler decides by. Reads, never writes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..config import Config
from ..rules import holds
from ..rules.filters import EventFilter
from ..rules.models import NOT_ROLLED_BACK, PAUSED_BY_HOLD, ROLLED_BACK, STANDING, STRANDED
from ..rules.selection import Candidate, Loaded, Situation, WorkerRoom, explain
from ..rules.shaping import ending
from ..rules.tasks import FINISHED, NEEDS_REVIEW, PAUSED, RUNNING, WAITING, TaskState
from .policies import Policies
from .telling import handlers_named

if TYPE_CHECKING:
    from ..store.inventory_reading import Moment
    from ..store.reading import Reader  # not every user of views reads

Row = dict[str, Any]


def situation(
    rows: Sequence[Row],
    reader: Reader,
    policies: Policies,
    config: Config,
    *,
    now: str,
    moment: Callable[[], Moment],
    engine: bool,
    told: Callable[[], Mapping[str, Any]] = dict,
) -> Situation:
    """What decides about the waiting ones of `rows`; where none waits nothing more is read.

    `told`: what the engine says of itself (`ping`), which alone knows whether it stops and why nothing new may start.
    """
    from ..store import inventory_reading

    limit = config.engine.max_running
    paused_by = reader.paused_by_holds() if any(row["state"] == PAUSED for row in rows) else {}
    if not any(row["state"] in WAITING for row in rows):
        return Situation(now=now, max_running=limit, engine=engine, paused_by=paused_by)
    said = told() if engine else {}
    workers = reader.workers()
    attempts = reader.running_attempts()
    pools, routes = inventory_reading.rooms(reader, now)
    gates, refused = inventory_reading.gates(reader, moment(), config.circuit)
    running: dict[str, int] = {}
    for attempt in attempts:
        running[attempt["type"]] = running.get(attempt["type"], 0) + 1
    declared = frozenset(policies.declared)
    unknown = {row["type"] for row in rows if row["state"] in WAITING} - declared
    return Situation(
        now=now,
        max_running=limit,
        running=running,
        caps=policies.caps(),
        held={hold["scope"]: hold["actor"] for hold in reader.holds()},
        workers=_rooms(workers, attempts, declared, config.engine.slots),
        starting=_starting(workers, config.taskdeck.handlers),
        pools=pools,
        routes=routes,
        gates=gates,
        refused=refused,
        engine=engine,
        stopping=bool(said.get("stopping")),
        pause=(said.get("storage") or {}).get("pause", ""),
        loaded=loaded(reader, declared, now) if unknown else None,
        paused_by=paused_by,
    )


def loaded(reader: Reader, types: frozenset[str], now: str) -> Loaded | None:
    """What the last worker has told of its handlers; None where none ever has. `types` are those that it published."""
    if not types:
        return None
    ready = reader.events(EventFilter(types=("WORKER_READY",)), now=now, limit=1)
    if not ready:  # it is in an archive
        return Loaded(types)
    worker = ready[0]["worker_id"]
    failed = reader.events(
        EventFilter(types=("WORKER_PROBLEM",), workers=((worker, worker),), reasons=("handlers",)),
        now=now,
        after=ready[0]["event_id"],
    )
    return Loaded(types, ready[0]["created_at"], tuple(each["message"] for each in failed))


def waits(
    row: Row,
    now: Situation,
    policies: Policies,
    outlived: Callable[[], Collection[int]] = frozenset,
    ahead: int = 0,
    no_route: Callable[[Row], str] = lambda _: "",
) -> list[str]:
    """Why a task does not run now; nothing for one that runs or has finished. `ahead` = due tasks that come before it.

    `outlived`: the workers that run on where no engine does. `no_route`: what keeps a task from any of its routes.
    """
    state = TaskState(row["state"])
    then = ending(row)
    if state in WAITING:
        told = [ROLLED_BACK.format(state=then.lower())] if then else []
        return [*told, *explain(_candidate(row, policies), now, ahead, lambda: no_route(row))]
    if state == RUNNING and not now.engine and row["worker_id"] not in outlived():
        return [STRANDED.format(point="its last checkpoint")]
    if state in FINISHED or state == RUNNING:
        return []
    if state == PAUSED and (scope := now.paused_by.get(row["id"])):
        return [PAUSED_BY_HOLD.format(what=holds.named(scope), target=holds.target(scope))]
    if then and state == NEEDS_REVIEW:
        return [NOT_ROLLED_BACK.format(id=row["id"], reason=row["reason"])]
    return [STANDING[state].format(id=row["id"], reason=row["reason"])]


def _candidate(row: Row, policies: Policies) -> Candidate:
    same = ("id", "type", "state", "effective_priority", "next_run_at", "suspect", "target")
    return Candidate(**{name: row[name] for name in same}, **policies.needs_of(row))


def _starting(workers: list[Row], handlers: Sequence[str]) -> str:
    """What the first of the workers that start does, since when."""
    first = next((worker for worker in workers if worker["state"] == "STARTING"), None)
    if first is None:
        return ""
    return (
        f"worker {first['id']} starts since {first['started_at']}, and loads {handlers_named(handlers)} first"
    )


def _rooms(
    workers: list[Row], attempts: list[Row], types: frozenset[str], slots: int
) -> tuple[WorkerRoom, ...]:
    runs: dict[int, list[Row]] = {}
    for attempt in attempts:
        runs.setdefault(attempt["worker_id"], []).append(attempt)
    ready = [(worker["id"], runs.get(worker["id"], [])) for worker in workers if worker["state"] == "READY"]
    return tuple(_room(id_, has, types, slots) for id_, has in ready)


def _room(worker_id: int, has: list[Row], types: frozenset[str], slots: int) -> WorkerRoom:
    suspects = tuple(attempt["task_id"] for attempt in has if attempt["suspect"])
    return WorkerRoom(worker_id, slots - len(has), len(has), types, bool(suspects), suspects)
