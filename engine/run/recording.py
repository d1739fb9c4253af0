"""What workers report, written down: one savepoint a message, the fence checked before anything else.

Runs in the writer thread. A report of an attempt that no longer owns its task changes nothing, leaves one STALE_WRITE event
and is answered `stale`, so that the worker stops that attempt.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any

import msgspec

from ..config import Config
from ..errors import InvalidPayload, Refused, StaleLease, TaskdeckError
from ..rules.checkpoints import merge
from ..rules.patterns import pattern
from ..rules.payloads import decode, encode
from ..store import attempts, checkpoints, operations, processes, routes, tasks
from ..store.batches import Plain
from ..store.tasks import ENGINE
from ..store.transaction import Transaction
from . import rollback, route_reports, successes
from .messages import (
    Answer,
    Bye,
    Note,
    OnRollback,
    OperationBegin,
    OperationEnd,
    OperationState,
    Outcome,
    Progress,
    RouteResult,
    Save,
    Started,
    Together,
)
from .outcomes import Outcomes
from .policies import Policies
from .secrecy import masked, refuse_secrets
from .successes import Report

NOTE_TYPES = pattern(r"(STEP|HTTP|NOTE|APP)_[A-Z0-9_]{1,40}|NOTE")
"""Event types that a handler may make itself; all others would speak for the engine."""

NOTE_LIMIT = 500
"""Most characters of a progress note or an event's message."""

MOST_KNOWN = 65_536
"""Plain attempts that are remembered: beyond that all of them are looked up again."""


class Recorder:
    """Writes reports of workers. One for the life of an engine; used by the writer thread only."""

    def __init__(self, config: Config, policies: Policies, outcomes: Outcomes) -> None:
        self.config = config
        self._policies = policies
        self._outcomes = outcomes
        self._known_stale: set[int] = set()
        self._plain: dict[int, Plain] = {}
        self._handlers: Mapping[type, Callable[[Transaction, int, Any], dict[str, Any] | None]] = {
            Started: self._started,
            Save: self._save,
            Progress: self._progress,
            Note: self._note,
            OperationBegin: self._begin,
            OperationEnd: self._end,
            OnRollback: rollback.register,
            Together: self._together,
            Outcome: self._outcome,
            RouteResult: self._route_result,
            Bye: lambda tx, worker_id, bye: None,
        }

    def begun(self, attempts: Iterable[Plain]) -> None:
        """These attempts have begun, and that is committed; what is known of them need not be looked up when they end.

        May be called by any thread.
        """
        if len(self._plain) > MOST_KNOWN:  # ends that were told by somebody else than their workers
            self._plain = {}
        self._plain.update({each.fence: each for each in attempts})

    def record(self, tx: Transaction, worker_id: int, messages: list[Any]) -> list[Answer]:
        """Write one frame of reports, in order. Returns the answers to those that asked for one."""
        return self.record_once(tx, worker_id, [(0, message) for message in messages])

    def record_once(
        self, tx: Transaction, worker_id: int, reports: list[tuple[int, Any]], *, worker_lives: bool = True
    ) -> list[Answer]:
        """Write reports that have numbers (0: none), each number once in the life of the worker.

        One that comes again, since its worker never learnt that it is recorded, changes nothing and has its answer. Where
        the worker no longer lives, a request that still waited for its answer (the beginning of an operation) was followed by
        nothing, and is not written.
        """
        known = processes.recorded(tx, worker_id) if any(number for number, _ in reports) else 0
        last = max((number for number, _ in reports), default=0)
        answers: list[Answer] = []
        common: list[Report] = []
        begun = 0
        for number, message in reports:
            is_known = 0 < number <= known
            if not is_known:
                begun += isinstance(message, Started)
                if successes.is_common(message):
                    common.append(message)
                    continue
            self._common(tx, worker_id, common)
            if is_known:
                answers.append(self._again(tx, worker_id, message))
            elif worker_lives or not getattr(message, "req", 0):
                answers.append(self._one(tx, worker_id, message))
        self._common(tx, worker_id, common)
        if last > known:
            processes.note_recorded(tx, worker_id, last, begun)
        return [answer for answer in answers if answer.req]

    def _common(self, tx: Transaction, worker_id: int, reports: list[Report]) -> None:
        """Write these together, and one by one what can't be written so; empties the list."""
        if not reports:
            return
        written: set[successes.Claim] = set()
        for known in (self._plain, {}):
            with suppress(TaskdeckError):
                written = tx.unit(successes.record, reports, known)
                break
        for report in reports:
            if isinstance(report, Outcome):
                self._plain.pop(report.fence, None)
            if successes.claim_of(report) not in written:
                self._one(tx, worker_id, report)
        reports.clear()

    def _again(self, tx: Transaction, worker_id: int, message: Any) -> Answer:
        """The answer to a request that is recorded, as it was given then; found by trying it again without a trace."""
        req = getattr(message, "req", 0)
        if not req:
            return Answer(0, {})
        if isinstance(message, OperationBegin):
            return self._begun_again(tx, worker_id, message)
        try:
            tx.unit(self._tried, worker_id, message)
        except _Tried as tried:
            return Answer(req, tried.value)
        except StaleLease:
            return Answer(req, {}, "stale")
        except TaskdeckError as refusal:
            return Answer(req, {}, str(refusal))
        raise AssertionError("a trial always ends in an exception")

    def _tried(self, tx: Transaction, worker_id: int, message: Any) -> None:
        raise _Tried(self._handlers[type(message)](tx, worker_id, message) or {})

    def _begun_again(self, tx: Transaction, worker_id: int, begin: OperationBegin) -> Answer:
        """Its worker has not acted on the first answer, since it never came: a new operation is still a new one."""
        scope = begin.scope or tasks.family_scope(tx, begin.task_id)
        known = operations.find(tx, scope, begin.key)
        if known is not None and known["state"] == "BEGUN" and known["fence"] == begin.fence:
            return Answer(begin.req, _state("new"))
        return self._one(tx, worker_id, begin)

    def _one(self, tx: Transaction, worker_id: int, message: Any) -> Answer:
        req = getattr(message, "req", 0)
        try:
            value = tx.unit(self._handlers[type(message)], worker_id, message)
        except StaleLease as stale:
            self._note_stale(tx, worker_id, message, stale)
            return Answer(req, {}, "stale")
        except TaskdeckError as refusal:
            self._note_refusal(tx, worker_id, message, refusal)
            if isinstance(message, Together):
                self._record_ends(tx, worker_id, message)
            return Answer(req, {}, str(refusal))
        return Answer(req, value or {})

    def _record_ends(self, tx: Transaction, worker_id: int, together: Together) -> None:
        """What shall not be written together is not written, except how operations ended: that has happened outside."""
        for part in together.parts:
            if isinstance(part, OperationEnd):
                self._one(tx, worker_id, part)

    def _note_refusal(self, tx: Transaction, worker_id: int, message: Any, refusal: TaskdeckError) -> None:
        """Nobody waits for an answer: it must not vanish. An outcome that can't be applied is a person's matter."""
        if getattr(message, "req", 0):
            return
        tx.event(
            "ALERT_RAISED",
            actor=ENGINE,
            task_id=getattr(message, "task_id", None),
            worker_id=worker_id,
            level="error",
            reason="report_refused",
            message=f"{type(message).__name__}: {refusal}",
        )
        if isinstance(message, Outcome):
            tx.unit(
                self._outcomes.review, tasks.held(tx, message.task_id, message.fence), message, str(refusal)
            )

    def _note_stale(self, tx: Transaction, worker_id: int, message: Any, stale: StaleLease) -> None:
        if message.fence in self._known_stale:
            return
        self._known_stale.add(message.fence)
        tx.event(
            "STALE_WRITE",
            actor=ENGINE,
            task_id=message.task_id,
            worker_id=worker_id,
            level="warning",
            reason="stale_lease",
            message=f"{type(message).__name__} refused: {stale}",
            payload={"fence": message.fence},
        )

    def _started(self, tx: Transaction, worker_id: int, started: Started) -> None:
        tasks.held(tx, started.task_id, started.fence)
        attempts.mark_started(tx, started.fence, started.pid, started.start_time)

    def _save(self, tx: Transaction, worker_id: int, save: Save) -> dict[str, Any]:
        task = tasks.held(tx, save.task_id, save.fence)
        attempt = attempts.of_fence(tx, save.fence)
        assert attempt is not None
        data = decode(save.data, where="checkpoint")
        if save.merge:
            data = merge(decode(checkpoints.base_of(tx, attempt), where="last checkpoint"), data)
        if not isinstance(data, dict):
            raise InvalidPayload("a checkpoint is a JSON object", f"this is {type(data).__name__}")
        refuse_secrets(tx, data, "checkpoint")
        seq = checkpoints.add(
            tx,
            save.task_id,
            attempt["id"],
            save.fence,
            encode(data),
            version=save.version,
            stage=save.stage[:NOTE_LIMIT],
            keep=self.config.engine.keep_checkpoints,
        )
        if task["losses"]:
            tasks.forgive_losses(tx, save.task_id)
        tx.event(
            "CHECKPOINT_SAVED",
            actor=f"worker:{worker_id}",
            task_id=save.task_id,
            worker_id=worker_id,
            message=save.stage[:NOTE_LIMIT],
            payload={"seq": seq, "attempt": task["attempt"], "fence": save.fence},
            ours=not save.stage,
        )
        return {"seq": seq}

    def _progress(self, tx: Transaction, worker_id: int, progress: Progress) -> None:
        tasks.held(tx, progress.task_id, progress.fence)
        note = tx.redactor.text(progress.note[:NOTE_LIMIT])
        tasks.note_progress(tx, progress.task_id, progress.fence, progress.done, progress.total, note)

    def _note(self, tx: Transaction, worker_id: int, note: Note) -> None:
        tasks.held(tx, note.task_id, note.fence)
        event_type = note.event_type if NOTE_TYPES.fullmatch(note.event_type) else "NOTE"
        payload = decode(note.payload, where="event") if note.payload else None
        if payload is not None and not isinstance(payload, dict):
            payload = {"value": payload}
        tx.event(
            event_type,
            actor=f"worker:{worker_id}",
            task_id=note.task_id,
            worker_id=worker_id,
            message=note.message[:NOTE_LIMIT],
            payload=payload,
        )

    def _begin(self, tx: Transaction, worker_id: int, begin: OperationBegin) -> dict[str, Any]:
        tasks.held(tx, begin.task_id, begin.fence)
        attempt = attempts.of_fence(tx, begin.fence)
        assert attempt is not None
        scope = begin.scope or tasks.family_scope(tx, begin.task_id)
        refuse_secrets(tx, begin.key, "key of an operation")
        known = operations.find(tx, scope, begin.key)
        if known is None or known["state"] == "NOT_DONE":
            operations.begin(tx, scope, begin.key, begin.task_id, attempt["id"], begin.fence)
            self._step(tx, worker_id, begin, "STEP_STARTED", begin.key)
            return _state("new")
        if known["state"] == "DONE":
            return _state("done", known["result"] or "null")
        if known["state"] == "BEGUN" and self._is_alive(tx, known, begin.fence):
            raise Refused(f"operation {begin.key!r} is being done by #{known['task_id']} right now")
        if _is_anothers(tx, known, begin, scope):
            operations.doubt_open_ones(tx, known["fence"], "met")
            known = operations.find(tx, scope, begin.key) or known
            return _state("in_doubt", age=operations.doubted_for(tx, known), owner=known["task_id"])
        if known["state"] == "BEGUN":
            self._step(tx, worker_id, begin, "OPERATION_IN_DOUBT", begin.key)
        operations.settle(tx, known["id"], "IN_DOUBT", None)
        operations.adopt(tx, known["id"], begin.task_id, attempt["id"], begin.fence)
        known = operations.find(tx, scope, begin.key) or known
        return _state("in_doubt", age=operations.doubted_for(tx, known))

    def _is_alive(self, tx: Transaction, operation: Mapping[str, Any], fence: int) -> bool:
        """Is it begun by another attempt that still runs? (The same attempt asking twice does not know itself.)"""
        if operation["fence"] == fence:
            return False
        other = attempts.of_fence(tx, operation["fence"])
        return other is not None and other["ended_at"] is None

    def _end(self, tx: Transaction, worker_id: int, end: OperationEnd) -> None:
        tasks.held(tx, end.task_id, end.fence)
        scope = end.scope or tasks.family_scope(tx, end.task_id)
        known = operations.find(tx, scope, end.key)
        if known is None or (known["fence"] != end.fence and not _may_settle(tx, known, end, scope)):
            raise Refused(f"operation {end.key!r} was not begun by this attempt", remedy="begin it first")
        if known["state"] == "DONE":
            return
        result = _kept_result(tx, end) if end.result else None
        operations.settle(tx, known["id"], end.state, result)
        kinds = {"DONE": "STEP_SUCCEEDED", "NOT_DONE": "STEP_NOT_DONE", "IN_DOUBT": "OPERATION_IN_DOUBT"}
        self._step(tx, worker_id, end, kinds[end.state], end.key)

    def _together(self, tx: Transaction, worker_id: int, together: Together) -> dict[str, Any]:
        """All of it or nothing. Each part passes the same checks as alone."""
        for part in together.parts:
            if (part.task_id, part.fence) != (together.task_id, together.fence):
                raise Refused("reports of two attempts can't be written together")
            self._handlers[type(part)](tx, worker_id, part)
        return {}

    def _step(self, tx: Transaction, worker_id: int, message: Any, event_type: str, key: str) -> None:
        tx.event(
            event_type,
            actor=f"worker:{worker_id}",
            task_id=message.task_id,
            worker_id=worker_id,
            level="warning" if event_type == "OPERATION_IN_DOUBT" else "info",
            message=key[:NOTE_LIMIT],
            payload={"key": key, "fence": message.fence},
        )

    def _route_result(self, tx: Transaction, worker_id: int, result: RouteResult) -> None:
        """What a task saw of its route counts for the route's health where the route is to blame (passive health)."""
        task = tasks.held(tx, result.task_id, result.fence)
        if not routes.is_held_by(tx, result.route_id, task["fence"]):
            raise Refused(f"route {result.route_id} is not held by #{task['id']}")
        route_reports.note(tx, task, result, self.config, self._outcomes.uniform)

    def _outcome(self, tx: Transaction, worker_id: int, outcome: Outcome) -> None:
        task = tasks.held(tx, outcome.task_id, outcome.fence)
        self._outcomes.apply(tx, task, outcome)


class _Tried(Exception):
    """A report was tried, and all that it did is undone. `value` is what it would be answered."""

    def __init__(self, value: dict[str, Any]) -> None:
        super().__init__()
        self.value = value


def _kept_result(tx: Transaction, end: OperationEnd) -> str:
    value = decode(end.result, where="operation result")
    return encode(masked(tx, value, f"result of operation {end.key[:NOTE_LIMIT]}", end.task_id))


def _state(state: str, result: str = "", age: float = 0.0, owner: int = 0) -> dict[str, Any]:
    said: dict[str, Any] = msgspec.to_builtins(OperationState(state, result, age, owner))
    return said if owner else {key: said[key] for key in said if key != "owner"}


def _is_anothers(
    tx: Transaction, known: Mapping[str, Any], message: OperationBegin | OperationEnd, scope: str
) -> bool:
    """Is it of another task that only names the same scope? A task, its retries and its clones are one in this."""
    return known["task_id"] != message.task_id and scope != tasks.family_scope(tx, message.task_id)


def _may_settle(tx: Transaction, known: Mapping[str, Any], end: OperationEnd, scope: str) -> bool:
    """Who met the doubt of another task and found out (`verify`) settles it; the doubt was never its own."""
    return known["state"] == "IN_DOUBT" and _is_anothers(tx, known, end, scope)
