"""One scheduler tick as a unit of a transaction: choose among what is due, claim it, open its attempts.

The choice is `rules.selection.choose`; claim, attempt and event of all that start are one transaction. What it returns is
sent to workers only after the commit.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import msgspec

from ..errors import IllegalTransition, StaleLease
from ..rules.checkpoints import Resume
from ..rules.circuits import CircuitSettings
from ..rules.holds import EVERYTHING
from ..rules.payloads import encode
from ..rules.route_settings import RouteSettings
from ..rules.selection import Candidate, Situation, Start, WorkerRoom, choose, side_by_side
from ..rules.tasks import NEEDS_REVIEW, TaskState
from ..store import (
    attempts,
    batches,
    checkpoints,
    circuits,
    holds,
    readiness,
    requests,
    rooms,
    route_targets,
    routes,
    slots,
    tasks,
)
from ..store.batches import Begun, Plain
from ..store.rollback import ending_of
from ..store.slots import NotEnough
from ..store.tasks import Waiting
from ..store.transaction import Transaction
from . import dated, rollback, setting_aside, shortages
from .attempt_logs import log_path
from .leasing import Leasing
from .messages import Run
from .policies import Policies, Policy
from .rollback import Rollbacks
from .route_wishes import Routes, heads

Row = Mapping[str, Any]
"""What was read of a task."""

BATCH = 512
"""Most tasks that one tick starts: beyond that they get little cheaper, and others wait long for its commit (some 25 ms)."""
FIRST = 16
"""Of an engine's first tick: after a start somebody waits for the first of them, the rest follow at once."""


class Limits(msgspec.Struct, frozen=True):
    """What the engine knows beside the database when it dispatches."""

    workers: tuple[WorkerRoom, ...]
    max_running: int
    lease: float
    logs: str
    leasing: Leasing
    routing: RouteSettings
    rollbacks: Rollbacks
    stopping: bool = False
    pause: str = ""
    """Why nothing new may start, with the remedy; empty = it may."""
    circuit: CircuitSettings = CircuitSettings()
    most: int = BATCH
    """So many are started in one pass at most."""


class Dispatched(msgspec.Struct, frozen=True):
    """What a tick did: runs by worker, open wishes, and when the next one is needed at the latest (UTC text)."""

    runs: dict[int, list[Run]]
    suspects: set[int]
    """Tasks among them whose worker was lost before: each has its worker for itself."""
    wishes: list[dict[str, Any]]
    wake_at: str | None
    to_verify: bool = False
    """A route must be checked before a task that waits can have it."""
    plain: list[Plain] = msgspec.field(default_factory=list)
    """Of the attempts that began, those that hold nothing."""


def dispatch(tx: Transaction, limits: Limits, policies: Policies) -> Dispatched:
    """Carry out dated requests, then start what can start."""
    dated.apply_due(tx)
    rested_at = slots.let_rested_return(tx)
    slots.recheck_units(tx, limits.routing.cooldown)
    situation = _situation(tx, limits, policies)
    heads_of_lanes = _waiting(tx, limits, situation, policies) if limits.workers else []
    waiting = _readable(tx, limits, heads_of_lanes, policies)
    choice = choose(waiting, situation)
    shortages.tell(tx, situation, [each for each in waiting if each.id in choice.waits])
    starts = side_by_side(choice.starts[: limits.most])
    limits.leasing.forget()
    rows = {row.id: row for row in heads_of_lanes}
    runs, plain = _begin_plain(tx, starts, rows, limits, policies)
    begun = {each.task_id for each in plain}
    dry: set[tuple[str, str, str]] = set()
    to_verify: set[str] = set()
    for start in starts:
        if start.candidate.id in begun:
            continue
        wish = (start.candidate.type, start.candidate.route, start.candidate.target)
        if wish in dry:
            continue
        claim = tasks.Claim(start.candidate.id, TaskState(start.candidate.state), start.worker_id)
        try:
            run = tx.unit(_start, claim, limits, policies)
        except (IllegalTransition, StaleLease):
            limits.leasing.forget()
            continue  # somebody else was first; the next tick looks again
        except NotEnough as error:
            limits.leasing.forget()
            to_verify.update(error.to_verify)
            if error.dry:
                dry.add(wish)
            continue
        except Exception as error:
            _refuse_row(tx, claim, limits, error)
            continue
        if run is not None:
            runs.setdefault(start.worker_id, []).append(run)
    if len(begun) < len(starts):
        places = {start.candidate.id: place for place, start in enumerate(starts)}
        for sent in runs.values():
            sent.sort(key=lambda run: places[run.task_id])
    suspects = {start.candidate.id for start in starts if start.candidate.suspect}
    wake_at = _earlier(
        tasks.next_due(tx),
        requests.next_dated(tx),
        rested_at,
        circuits.next_half_open(tx),
        route_targets.next_unblocked(tx),
        readiness.next_due(tx),
    )
    verifies = routes.verify_soon(tx, sorted(to_verify), limits.routing)
    return Dispatched(runs, suspects, requests.wishes(tx), wake_at, verifies, plain)


def _begin_plain(
    tx: Transaction,
    starts: Sequence[Start],
    rows: Mapping[int, Waiting],
    limits: Limits,
    policies: Policies,
) -> tuple[dict[int, list[Run]], list[Plain]]:
    """Let those with which nothing else is to be done begin, all of a worker at once; where that fails, one by one."""
    wanted: dict[int, list[Waiting]] = {}
    for start in starts:
        if start.candidate.is_plain:
            wanted.setdefault(start.worker_id, []).append(rows[start.candidate.id])
    runs: dict[int, list[Run]] = {}
    plain: list[Plain] = []
    for worker_id, waiting in wanted.items():
        with suppress(Exception):  # a row that can't be used is found one by one
            begun, sent = tx.unit(_begin_all, waiting, worker_id, limits, policies)
            if begun:
                plain += [each.plain for each in begun]
                runs[worker_id] = sent
    return runs, plain


def _begin_all(
    tx: Transaction, waiting: list[Waiting], worker_id: int, limits: Limits, policies: Policies
) -> tuple[list[Begun], list[Run]]:
    begun = batches.begin_all(tx, waiting, worker_id, limits.lease, partial(log_path, limits.logs))
    return begun, [_fresh_run(each, policies.of_own(each.row.own)) for each in begun]


def _fresh_run(begun: Begun, policy: Policy) -> Run:
    """For an attempt that holds nothing and begins at the beginning. By place: names would cost five times as much."""
    row, (task_id, fence, _, attempt, retry_count, _) = begun.row, begun.plain
    return Run(
        task_id,
        begun.attempt_id,
        attempt,
        fence,
        row.type,
        begun.payload,
        "{}",
        0,
        policy.checkpoint_version,
        policy.timeout,
        begun.log_path,
        policy.exit_words,
        row.scheduled_at,
        retry_count,
        policy.max_retry,
        bandwidth=policy.bandwidth,
    )


def _run(task: Row, policy: Policy, **more: Any) -> Run:
    """What a worker is sent of an attempt that was just opened: what its task's row and policy say, and `more`."""
    return Run(
        task_id=task["id"],
        type=task["type"],
        timeout=policy.timeout,
        exit_codes=policy.exit_words,
        scheduled_at=task["scheduled_at"],
        retry_count=task["retry_count"],
        max_retry=policy.max_retry,
        bandwidth=policy.bandwidth,
        **more,
    )


def _situation(tx: Transaction, limits: Limits, policies: Policies) -> Situation:
    pools = readiness.without_unready(tx.connection, rooms.of_pools(tx.connection, tx.now), tx.now)
    return Situation(
        now=tx.now,
        max_running=limits.max_running,
        running=tasks.running_by_type(tx),
        caps=policies.caps(),
        held=holds.holds(tx),
        pools=pools,
        routes=rooms.of_routes(tx.connection, tx.now),
        gates=circuits.gates(tx, limits.circuit),
        refused=route_targets.refused_everywhere(tx),
        workers=limits.workers,
        stopping=limits.stopping,
        pause=limits.pause,
    )


def stuck_on(tx: Transaction, limits: Limits, policies: Policies) -> str:
    """Why the first due task waits, where none that is due can start now; else nothing."""
    firsts = [row for lane in tasks.lanes(tx) for row in tasks.due(tx, lane, 1)]
    choice = choose(_readable(tx, limits, firsts, policies), _situation(tx, limits, policies))
    waits, routes = dict(choice.waits), Routes(limits.routing)
    for each in (start.candidate for start in choice.starts):
        why = routes.why_none(tx, tasks.get(tx, each.id), policies) if each.route else ""
        if not why:
            return ""
        waits[each.id] = (why,)
    first = min(waits, default=None)
    return "" if first is None else f"#{first}: {'; '.join(waits[first])}"


def _waiting(tx: Transaction, limits: Limits, situation: Situation, policies: Policies) -> list[Waiting]:
    """The heads of every lane, as many as could start at most, so that a blocked lane never hides another (TF199)."""
    room = min(limits.most, situation.max_running - sum(situation.running.values()))
    found: list[Waiting] = []
    if room <= 0 or situation.stopping or EVERYTHING in situation.held:
        return found
    for lane in tasks.lanes(tx):
        type_name = tasks.type_of_lane(lane)
        cap = situation.caps.get(type_name)
        limit = room if cap is None else min(room, cap - situation.running.get(type_name, 0))
        if limit > 0 and f"type:{type_name}" not in situation.held:
            found += _heads(tx, lane, type_name, limit + _SPARE, situation, policies, limits.routing)
    return found


def _heads(
    tx: Transaction,
    lane: str,
    type_name: str,
    limit: int,
    situation: Situation,
    policies: Policies,
    routing: RouteSettings,
) -> list[Waiting]:
    """The first of a lane: those whose target lets nobody through hide no others, and a half-open one shows its trials.

    Nor do those that keep to a route which can't be had.
    """
    gates = {target: gate for (name, target), gate in situation.gates.items() if name == type_name}
    group = policies.route_of_lane(lane)
    refused = [target for (name, target) in situation.refused if name == group]
    if not gates and not refused:
        return heads(tx, lane, limit, policies, routing)
    args = {"shut": encode(list(gates)), "refused": encode(refused)}
    rows = heads(tx, lane, limit, policies, routing, tasks.ELSEWHERE, args)
    for target, gate in gates.items():
        if gate.free > 0 and target not in refused:
            those = {"target": target}
            rows += heads(tx, lane, min(limit, gate.free), policies, routing, "target = :target", those)
    return rows


def _readable(
    tx: Transaction, limits: Limits, rows: Iterable[Waiting], policies: Policies
) -> list[Candidate]:
    """Those of these rows that can be judged at all; of what can't, the task goes to review."""
    found = []
    for row in rows:
        try:
            found.append(candidate(row, policies))
        except Exception as error:
            if limits.workers:
                claim = tasks.Claim(row.id, TaskState(row.state), limits.workers[0].id)
                _refuse_row(tx, claim, limits, error)
    return found


def candidate(row: Waiting, policies: Policies) -> Candidate:
    """A waiting task's row as the selection sees it. By place, as in `_fresh_run`."""
    policy = policies.of_own(row.own)
    return Candidate(
        row.id,
        row.type,
        row.state,
        row.effective_priority,
        row.next_run_at,
        bool(row.suspect),
        policy.needs,
        policy.route,
        policy.allow_direct,
        row.target,
        row.state == "PENDING",
    )


_SPARE = 8
"""Some more of each lane than can start, since a suspect that waits for a worker of its own must not hide those behind it."""


def _start(tx: Transaction, claim: tasks.Claim, limits: Limits, policies: Policies) -> Run | None:
    """Claim one task and open its attempt. None: there is nothing that it could run, so it goes to review, or ends."""
    seen = tasks.get(tx, claim.task_id)
    policy = policies.of(seen)
    resume = checkpoints.resume_point(tx, claim.task_id, policy.checkpoint_version, migrates=policy.migrates)
    ending = ending_of(seen)
    step = rollback.choose(tx, seen, ending) if ending is not None else None
    story = resume.story if resume.seq else ""
    if ending is not None:
        story = f"rolls back {step['number']}:{step['name']}" if step else "nothing is left to roll back"
    task = tasks.claim(tx, claim, seen, limits.lease, resumes_at=resume.seq, story=story)
    path = log_path(limits.logs, task["id"], task["attempt"])
    attempt_id = attempts.open_attempt(tx, task, path)
    if ending is not None and step is None:
        limits.rollbacks.nothing_to_run(tx, task, ending)
        return None
    if step is None and resume.needs_review:
        _refuse_checkpoints(tx, task, resume.skipped)
        return None
    holdings = limits.leasing.take(tx, task, policy, limits.lease, limits.routing)
    own = _own(task, resume, policy) if step is None else _of_step(tx, task, attempt_id, step, resume, policy)
    opened = {"attempt_id": attempt_id, "attempt": task["attempt"], "fence": task["fence"], "log_path": path}
    held = {"resources": holdings.resources, "route": holdings.route}
    return _run(task, policy, **opened, **held, **own)


def _own(task: Mapping[str, Any], resume: Resume, policy: Policy) -> dict[str, Any]:
    """What the handler itself is given: its payload, and where it goes on."""
    return {
        "payload": task["payload"],
        "checkpoint": encode(resume.data) if resume.seq else "{}",
        "checkpoint_seq": 0 if resume.again_from == 0 else resume.seq,
        "checkpoint_version": resume.version or policy.checkpoint_version,
        "older": list(resume.older) if policy.typed_checkpoint or policy.migrates else [],
    }


def _of_step(
    tx: Transaction,
    task: Mapping[str, Any],
    attempt_id: int,
    step: Mapping[str, Any],
    resume: Resume,
    policy: Policy,
) -> dict[str, Any]:
    """What an undo step is given: its arguments; the checkpoint only to be read."""
    return {
        "payload": rollback.payload_of(task, step),
        "checkpoint": encode(resume.data),
        "checkpoint_seq": 0,
        "checkpoint_version": policy.checkpoint_version,
        "step": step["name"],
        "doubt": rollback.begin(tx, task, attempt_id, step),
    }


def _refuse_checkpoints(tx: Transaction, task: Mapping[str, Any], faults: tuple[str, ...]) -> None:
    why = f"no kept checkpoint can be resumed from: {'; '.join(faults)}"
    _refuse(tx, task, "checkpoint", why, "checkpoint_version")


def _refuse(tx: Transaction, task: Mapping[str, Any], kind: str, why: str, rule: str) -> None:
    error = encode({"class": "in_doubt", "kind": kind, "message": why, "rule": rule})
    attempts.close_attempt(tx, task["fence"], "never_started", "in_doubt", error=error)
    columns = {**tasks.NO_LEASE, "error": error}
    tasks.transition(tx, task, NEEDS_REVIEW, "in_doubt", actor=tasks.ENGINE, message=why, columns=columns)


def _refuse_row(tx: Transaction, claim: tasks.Claim, limits: Limits, error: Exception) -> None:
    """It can't be started because of its row: it is claimed only to go to review, and the others start."""

    def review(tx: Transaction, why: str) -> None:
        task = tasks.claim(tx, claim, tasks.get(tx, claim.task_id), limits.lease, resumes_at=0)
        attempts.open_attempt(tx, task, None)
        _refuse(tx, task, "row", why, "a row that can't be used")

    setting_aside.set_aside(tx, claim.task_id, "it can't be started", error, review)


def _earlier(*times: str | None) -> str | None:
    return min((time for time in times if time is not None), default=None)
