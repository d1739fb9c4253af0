"""How an attempt ended → what becomes of its task: the one place, one transaction with the attempt's end and all events.

Source: the task table, "Failures are classified" and the ruling "Charging". Cancel beats retries and exit codes; work that
was finished before the wish arrived stays finished.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from ..rules.failures import Failure, FailureClass
from ..rules.payloads import decode, encode
from ..rules.retry import Charges, RetryPolicy, decide
from ..rules.rollback import Ending
from ..rules.route_errors import ErrorType
from ..rules.route_targets import Blame
from ..rules.tasks import (
    CANCELLED,
    FINISHED,
    NEEDS_REVIEW,
    PAUSED,
    PENDING,
    RETRYING,
    RUNNING,
    SUCCESS,
    TaskState,
)
from ..rules.timing import add_seconds
from ..store import attempts, circuits, operations, requests, routes, tasks
from ..store.rollback import ending_of
from ..store.tasks import ENGINE, NO_LEASE
from ..store.transaction import Transaction
from . import leftovers, route_reports, withstanding
from .finishing import finish
from .messages import Outcome
from .policies import Policies
from .rollback import Rollbacks
from .secrecy import masked

Task = dict[str, Any]
TUNNEL_FAILED = ErrorType.TUNNEL_FAILED


class Outcomes:
    """Applies outcomes. `uniform(a, b)` is the source of jitter."""

    def __init__(self, policies: Policies, uniform: Callable[[float, float], float]) -> None:
        self._policies = policies
        self.uniform = uniform
        self.rollbacks = Rollbacks(policies, uniform)

    def apply(self, tx: Transaction, task: Task, outcome: Outcome) -> None:
        """Write the end (or the suspension) of the attempt that holds `task`."""
        if outcome.kind == "stopped":
            return self._suspended(tx, task)
        if outcome.kind == "resumed":
            return self._resumed(tx, task)
        is_drained = outcome.kind == "drained" and not outcome.left
        if task["state"] is PAUSED and is_drained and task["wanted"] in (None, "pause"):
            return self._stopped_while_suspended(tx, task, outcome)
        if task["state"] is PAUSED and outcome.kind != "cancelled":
            task = self._wake(tx, task)  # resume + finish in one transaction
        if task["wanted"] == "cancel" and outcome.kind in ("failed", "drained", "paused", "never_started"):
            outcome = msgspec.structs.replace(outcome, kind="cancelled")
        if outcome.kind == "cancelled" and task["wanted"] != "cancel":
            outcome = msgspec.structs.replace(outcome, kind="drained")  # nobody asked: the worker was ending
        if outcome.kind == "drained" and task["wanted"] == "pause":
            outcome = msgspec.structs.replace(outcome, kind="paused")
        if outcome.left:
            outcome = self._with_what_is_left(tx, task, outcome)
        if (ending := ending_of(task)) is not None:
            self._rolled_back(tx, task, ending, outcome)
        else:
            getattr(self, f"_{outcome.kind}")(tx, task, outcome)
        operations.doubt_open_ones(tx, task["fence"], "ended")  # its worker has settled what it knew of
        self._settle_wishes(tx, task)

    def _rolled_back(self, tx: Transaction, task: Task, ending: Ending, outcome: Outcome) -> None:
        """The attempt ran an undo step."""
        if outcome.kind == "succeeded":
            self.rollbacks.succeeded(tx, task, ending, outcome, self._close)
        elif outcome.kind == "failed":
            failure = msgspec.json.decode(outcome.failure, type=Failure)
            self.rollbacks.failed(tx, task, ending, outcome, self._close, self._blamed(tx, task, failure))
        elif outcome.kind == "in_doubt":
            self.rollbacks.doubted(tx, task, ending, outcome, self._close)
        elif outcome.kind == "cancelled":
            self.rollbacks.killed(tx, task, ending, outcome, self._close)
        else:
            self.rollbacks.cut_off(tx, task, started=outcome.kind != "never_started")
            getattr(self, f"_{outcome.kind}")(tx, task, outcome)

    def _with_what_is_left(self, tx: Transaction, task: Task, outcome: Outcome) -> Outcome:
        """Something of the attempt lives on: its task is not run beside that unless a person says so."""
        withstanding.record(tx, outcome.left, task["worker_id"])
        story = leftovers.story(outcome.left)
        failure = msgspec.json.encode(
            Failure(FailureClass.FATAL, "left_running", story, "processes")
        ).decode()
        kind = "in_doubt" if outcome.kind in ("failed", "drained", "paused") else outcome.kind
        return msgspec.structs.replace(outcome, kind=kind, failure=failure)

    def review(self, tx: Transaction, task: Task, outcome: Outcome, why: str) -> None:
        """How the attempt ended could not be applied (e.g. a result that breaks the limits): a person must look."""
        failure = Failure(FailureClass.FATAL, "bad_outcome", why, "outcome refused")
        if task["ending"]:
            self.rollbacks.cut_off(tx, task, started=True)
        if task["state"] is PAUSED:
            task = self._wake(tx, task)
        self._in_doubt(
            tx, task, msgspec.structs.replace(outcome, failure=msgspec.json.encode(failure).decode())
        )
        self._settle_wishes(tx, task)

    def _succeeded(self, tx: Transaction, task: Task, outcome: Outcome) -> None:
        result = encode(masked(tx, decode(outcome.result or "null", where="result"), "result", task["id"]))
        self._close(tx, task, outcome, "succeeded", "done")
        columns = {**NO_LEASE, "result": result, "error": None}
        circuits.succeeded(tx, task)
        tasks.transition(tx, task, SUCCESS, "done", actor=ENGINE, columns=columns)

    def _failed(self, tx: Transaction, task: Task, outcome: Outcome) -> None:
        failure = self._attributed(tx, task, msgspec.json.decode(outcome.failure, type=Failure))
        message = tx.redactor.text(failure.message)
        policy = self._policies.of(task)
        if failure.class_ is FailureClass.RETRYABLE:
            circuits.failed(tx, task, self._policies.config.circuit)
        verdict = decide(
            failure,
            Charges(
                task["retry_count"],
                policy.max_retry,
                task["delays"],
                policy.max_delays,
                task["resource_faults"],
            ),
            RetryPolicy(policy.base, policy.max_delay, policy.on_exhausted),
            self.uniform,
        )
        error = encode(
            {"class": failure.class_, "kind": failure.kind, "message": message, "rule": failure.rule}
        )
        self._close(tx, task, outcome, "failed", verdict.reason, error, self._blamed(tx, task, failure))
        state = TaskState(verdict.state)
        columns = {
            **NO_LEASE,
            "error": error,
            "retry_count": verdict.retry_count,
            "delays": verdict.delays,
            "resource_faults": verdict.resource_faults,
        }
        if state in (RETRYING, PENDING):
            columns |= tasks.wait_again(task, add_seconds(tx.now, verdict.delay or 0.0))
        end = finish if state in FINISHED else tasks.transition
        told = f"{failure.kind}: {message}"
        end(tx, task, state, verdict.reason, actor=ENGINE, message=told, columns=columns)
        if state is RETRYING:
            self._schedule_event(tx, task, columns, failure, verdict.delay or 0.0, policy.max_retry)

    def _blamed(self, tx: Transaction, task: Task, failure: Failure) -> str:
        """What is at fault, by name. A route's health hears of it, as of any other failure; a unit is at FAULT."""
        faulty = failure.detail if failure.class_ is FailureClass.RESOURCE_FAULT else ""
        for name in faulty.split():
            if routes.is_held_by(tx, name, task["fence"]):
                route_reports.failed(
                    tx, task, name, _route_error(failure), "", self._policies.config, self.uniform
                )
        return faulty

    def _attributed(self, tx: Transaction, task: Task, failure: Failure) -> Failure:
        """A tunnel that no route gets through to the target is the target's failure: the task is charged a retry for it."""
        if failure.class_ is not FailureClass.RESOURCE_FAULT or _route_error(failure) is not TUNNEL_FAILED:
            return failure
        if len(names := failure.detail.split()) != 1 or not routes.is_held_by(tx, names[0], task["fence"]):
            return failure
        blame = route_reports.failed(
            tx, task, names[0], TUNNEL_FAILED, "", self._policies.config, self.uniform
        )
        if blame is not Blame.TARGET:
            return failure
        return msgspec.structs.replace(failure, class_=FailureClass.RETRYABLE, detail="")

    def _schedule_event(
        self,
        tx: Transaction,
        task: Task,
        columns: Mapping[str, Any],
        failure: Failure,
        delay: float,
        bound: int,
    ) -> None:
        count = columns["retry_count"]
        tx.event(
            "RETRY_SCHEDULED",
            actor=ENGINE,
            task_id=task["id"],
            reason=str(failure.class_),
            message=f"in {delay:.0f} s (retry {count} of {bound})",
            payload={"next_run_at": columns["next_run_at"], "seconds": round(delay, 3), "retry_count": count},
            ours=True,
        )

    def _cancelled(self, tx: Transaction, task: Task, outcome: Outcome) -> None:
        self._close(tx, task, outcome, "cancelled", "user_cancel")
        actor = requests.actor_of(tx, task["id"], "cancel") or "operator"
        columns = {**NO_LEASE, **({"error": _error_of(outcome)} if outcome.left else {})}
        finish(tx, task, CANCELLED, "user_cancel", actor=actor, columns=columns)

    def _paused(self, tx: Transaction, task: Task, outcome: Outcome) -> None:
        self._close(tx, task, outcome, "paused", "user_pause")
        actor = requests.actor_of(tx, task["id"], "pause")
        if actor is None:  # the wish was withdrawn while the attempt was ending
            return self._back(tx, task, "the pause was withdrawn")
        columns = tasks.wait_again(task, tx.now)
        tasks.transition(tx, task, PAUSED, "user_pause", actor=actor, columns=columns)

    def _drained(self, tx: Transaction, task: Task, outcome: Outcome) -> None:
        self._close(tx, task, outcome, "drained", "drained")
        self._back(tx, task, "")

    def _never_started(self, tx: Transaction, task: Task, outcome: Outcome) -> None:
        self._close(tx, task, outcome, "never_started", "drained")
        self._back(tx, task, "the worker never started it")

    def _in_doubt(self, tx: Transaction, task: Task, outcome: Outcome) -> None:
        failure = msgspec.json.decode(outcome.failure, type=Failure)
        message = tx.redactor.text(failure.message)
        error = encode({"class": "in_doubt", "kind": failure.kind, "message": message, "rule": failure.rule})
        self._close(tx, task, outcome, "in_doubt", "in_doubt", error)
        columns = {**NO_LEASE, "error": error}
        tasks.transition(tx, task, NEEDS_REVIEW, "in_doubt", actor=ENGINE, message=message, columns=columns)

    def _suspended(self, tx: Transaction, task: Task) -> None:
        if task["state"] is PAUSED:
            return
        actor = requests.actor_of(tx, task["id"], "pause") or "operator"
        message = "suspended where it stands; it keeps its leases"
        tasks.transition(
            tx, task, PAUSED, "user_pause", actor=actor, message=message, columns={"wanted": None}, ours=True
        )
        requests.close_all_of(tx, task["id"], "paused")

    def _resumed(self, tx: Transaction, task: Task) -> None:
        if task["state"] is PAUSED:
            self._wake(tx, task, requests.actor_of(tx, task["id"], "resume") or ENGINE)
        requests.close_all_of(tx, task["id"], "resumed")

    def _stopped_while_suspended(self, tx: Transaction, task: Task, outcome: Outcome) -> None:
        """The suspended attempt was ended, by a person or with its engine: the task stays paused and holds nothing."""
        actor = requests.actor_of(tx, task["id"], "pause") or ENGINE
        self._close(tx, task, outcome, "drained", "user_pause")
        tasks.let_go_suspended(tx, task["id"])
        message = "its suspended attempt was ended; it stays paused"
        tx.event(
            "ATTEMPT_STOPPED", actor=actor, task_id=task["id"], reason="stop", message=message, ours=True
        )
        requests.close_all_of(tx, task["id"], "stopped")

    def _wake(self, tx: Transaction, task: Task, actor: str = ENGINE) -> Task:
        columns = {"wanted": None if task["wanted"] in ("resume", "pause") else task["wanted"]}
        tasks.transition(tx, task, RUNNING, "resumed", actor=actor, columns=columns)
        # A stop of a suspended attempt that ended by itself meanwhile still keeps the task from starting again.
        return {**task, "wanted": None if task["wanted"] == "resume" else task["wanted"], "state": RUNNING}

    def _back(self, tx: Transaction, task: Task, message: str) -> None:
        columns = tasks.wait_again(task, tx.now)
        tasks.transition(tx, task, PENDING, "drained", actor=ENGINE, message=message, columns=columns)

    def _settle_wishes(self, tx: Transaction, task: Task) -> None:
        """A pause that the end of the attempt overtook still holds for what waits now; the rest is closed."""
        now = tasks.get(tx, task["id"])
        if task["wanted"] == "pause" and now["state"] in (PENDING, RETRYING):
            actor = requests.actor_of(tx, task["id"], "pause")
            if actor is not None:
                tasks.transition(tx, now, PAUSED, "user_pause", actor=actor)
                now["state"] = PAUSED
        requests.close_all_of(tx, task["id"], f"the attempt ended: {now['state']}")

    def _close(
        self,
        tx: Transaction,
        task: Task,
        outcome: Outcome,
        word: str,
        reason: str,
        error: str | None = None,
        faulty: str = "",
    ) -> None:
        tail = tx.redactor.text(outcome.tail) if outcome.tail else None
        attempts.close_attempt(
            tx,
            task["fence"],
            word,
            reason,
            exit_code=outcome.exit_code,
            error=error,
            tail=tail,
            faulty=faulty,
            stuck=leftovers.story(outcome.left) if outcome.left else "",
        )


def _route_error(failure: Failure) -> ErrorType:
    """What a handler or worker said of its route, as an error type; a fault without a name is one of the tunnel."""
    known = {each.value.lower(): each for each in ErrorType}
    return known.get(failure.kind.lower(), ErrorType.TUNNEL_FAILED)


def _error_of(outcome: Outcome) -> str:
    failure = msgspec.json.decode(outcome.failure, type=Failure)
    return encode({"class": "left", "kind": failure.kind, "message": failure.message, "rule": failure.rule})
