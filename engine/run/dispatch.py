"""One scheduler tick as a unit of a transaction: choose among what is due, claim it, open its attempts.

The choice is `rules.selection.choose`; claim, attempt and event of all that start are one transaction. What it returns is
sent to workers only after the commit.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from ..errors import IllegalTransition, StaleLease
from ..rules.holds import EVERYTHING
from ..rules.payloads import encode
from ..rules.route_settings import RouteSettings
from ..rules.selection import Candidate, Situation, WorkerRoom, choose
from ..rules.tasks import NEEDS_REVIEW, TaskState
from ..store import attempts, checkpoints, holds, requests, slots, tasks
from ..store.slots import NotEnough
from ..store.transaction import Transaction
from . import dated
from .attempt_logs import log_path
from .leasing import Leasing
from .messages import Run
from .policies import Policies

BATCH = 128
"""Most tasks that one tick starts: claims in hundreds are as cheap as they get, and a commit stays short."""


class Limits(msgspec.Struct, frozen=True):
    """What the engine knows beside the database when it dispatches."""

    workers: tuple[WorkerRoom, ...]
    max_running: int
    lease: float
    logs: str
    leasing: Leasing
    routing: RouteSettings
    stopping: bool = False


class Dispatched(msgspec.Struct, frozen=True):
    """What a tick did: runs by worker, open wishes, and when the next one is needed at the latest (UTC text)."""

    runs: dict[int, list[Run]]
    suspects: set[int]
    """Tasks among them whose worker was lost before: each has its worker for itself."""
    wishes: list[dict[str, Any]]
    wake_at: str | None


def dispatch(tx: Transaction, limits: Limits, policies: Policies) -> Dispatched:
    """Carry out dated requests, then start what can start."""
    dated.apply_due(tx)
    rested_at = slots.let_rested_return(tx)
    situation = _situation(tx, limits, policies)
    starts = choose(_candidates(tx, situation, policies), situation).starts[:BATCH] if limits.workers else ()
    runs: dict[int, list[Run]] = {}
    for start in starts:
        claim = tasks.Claim(start.candidate.id, TaskState(start.candidate.state), start.worker_id)
        try:
            run = tx.unit(_start, claim, limits, policies)
        except (IllegalTransition, StaleLease, NotEnough):
            continue  # somebody else was first, or a route must be verified; the next tick looks again
        if run is not None:
            runs.setdefault(start.worker_id, []).append(run)
    suspects = {start.candidate.id for start in starts if start.candidate.suspect}
    wake_at = _earlier(tasks.next_due(tx), requests.next_dated(tx), rested_at)
    return Dispatched(runs, suspects, tasks.wishes(tx), wake_at)


def _situation(tx: Transaction, limits: Limits, policies: Policies) -> Situation:
    pools, routes = slots.rooms(tx.connection)
    return Situation(
        now=tx.now,
        max_running=limits.max_running,
        running=tasks.running_by_type(tx),
        caps=policies.caps(),
        held=holds.holds(tx),
        pools=pools,
        routes=routes,
        workers=limits.workers,
        stopping=limits.stopping,
    )


def stuck_on(tx: Transaction, limits: Limits, policies: Policies) -> str:
    """Why the first due task waits, where none that is due can start now; else nothing."""
    heads = [candidate(row, policies) for lane in tasks.lanes(tx) for row in tasks.due(tx, lane, 1)]
    choice = choose(heads, _situation(tx, limits, policies))
    if choice.starts or not choice.waits:
        return ""
    first = min(choice.waits)
    return f"#{first}: {'; '.join(choice.waits[first])}"


def _candidates(tx: Transaction, situation: Situation, policies: Policies) -> list[Candidate]:
    """The heads of every lane, as many as could start at most, so that a blocked lane never hides another (TF199)."""
    room = min(BATCH, situation.max_running - sum(situation.running.values()))
    found: list[Candidate] = []
    if room <= 0 or situation.stopping or EVERYTHING in situation.held:
        return found
    for lane in tasks.lanes(tx):
        type_name = tasks.type_of_lane(lane)
        cap = situation.caps.get(type_name)
        limit = room if cap is None else min(room, cap - situation.running.get(type_name, 0))
        if limit > 0 and f"type:{type_name}" not in situation.held:
            found += [candidate(row, policies) for row in tasks.due(tx, lane, limit + _SPARE)]
    return found


def candidate(row: Mapping[str, Any], policies: Policies) -> Candidate:
    """A waiting task's row as the selection sees it."""
    return Candidate(
        id=row["id"],
        type=row["type"],
        state=row["state"],
        effective_priority=row["effective_priority"],
        next_run_at=row["next_run_at"],
        suspect=bool(row["suspect"]),
        **policies.needs_of(row),
    )


_SPARE = 8
"""Some more of each lane than can start, since a suspect that waits for a worker of its own must not hide those behind it."""


def _start(tx: Transaction, claim: tasks.Claim, limits: Limits, policies: Policies) -> Run | None:
    """Claim one task and open its attempt. None: its checkpoints can't be read by this handler, so it goes to review."""
    policy = policies.of(tasks.get(tx, claim.task_id))
    resume = checkpoints.resume_point(tx, claim.task_id, policy.checkpoint_version, migrates=policy.migrates)
    story = resume.story if resume.seq else ""
    task = tasks.claim(tx, claim, limits.lease, resumes_at=resume.seq, story=story)
    path = log_path(limits.logs, task["id"], task["attempt"])
    attempt_id = attempts.open_attempt(tx, task, path)
    if resume.needs_review:
        _refuse_checkpoints(tx, task, resume.skipped)
        return None
    holdings = limits.leasing.take(tx, task, policy, limits.lease, limits.routing)
    return Run(
        task_id=task["id"],
        attempt_id=attempt_id,
        attempt=task["attempt"],
        fence=task["fence"],
        type=task["type"],
        payload=task["payload"],
        checkpoint=encode(resume.data),
        checkpoint_seq=0 if resume.again_from == 0 else resume.seq,
        checkpoint_version=resume.version or policy.checkpoint_version,
        timeout=policy.timeout,
        log_path=path,
        exit_codes={str(code): word for code, word in policy.exit_codes.items()},
        scheduled_at=task["scheduled_at"],
        retry_count=task["retry_count"],
        max_retry=policy.max_retry,
        resources=holdings.resources,
        route=holdings.route,
        older=list(resume.older) if policy.typed_checkpoint or policy.migrates else [],
    )


def _refuse_checkpoints(tx: Transaction, task: Mapping[str, Any], faults: tuple[str, ...]) -> None:
    why = f"no kept checkpoint can be resumed from: {'; '.join(faults)}"
    error = encode({"class": "in_doubt", "kind": "checkpoint", "message": why, "rule": "checkpoint_version"})
    attempts.close_attempt(tx, task["fence"], "never_started", "in_doubt", error=error)
    columns = {**tasks.NO_LEASE, "error": error}
    tasks.transition(
        tx, task, NEEDS_REVIEW, "in_doubt", actor=tasks.ENGINE, message=why, columns=columns, ours=True
    )


def _earlier(*times: str | None) -> str | None:
    return min((time for time in times if time is not None), default=None)
