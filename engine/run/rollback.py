"""Rolling a task back: each of its attempts runs one undo step, the last registered first. Engine's side.

A step is an operation: begun with the claim of its attempt, recorded with the attempt's end, in doubt where that is missing.
One that fails does not keep the others; what is left after all were tried is tried again after the backoff, and past the
retries waits for a person. Must not decide how a task ends: that was decided before (`finishing`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from ..errors import Refused
from ..rules import rollback as rules
from ..rules.failures import Failure, FailureClass
from ..rules.payloads import decode, encode
from ..rules.retry import Charges, RetryPolicy, decide
from ..rules.rollback import Ending
from ..rules.selection import COMMAND_TYPE
from ..rules.tasks import NEEDS_REVIEW, PENDING, RETRYING
from ..rules.timing import add_seconds
from ..store import attempts, operations, rollback, tasks
from ..store.tasks import ENGINE, NO_LEASE
from ..store.transaction import Transaction
from . import finishing
from .messages import OnRollback, Outcome
from .policies import Policies, Policy
from .secrecy import masked, refuse_secrets

Task = Mapping[str, Any]
Step = Mapping[str, Any]
Close = Callable[..., None]
"""Closes the attempt: (tx, task, outcome, word, reason, error, faulty resources)."""


def register(tx: Transaction, worker_id: int, wish: OnRollback) -> dict[str, Any]:
    """Record a step, before its effect counts. One that stands already, with the same arguments, is the same.

    Returns its number.
    """
    task = tasks.held(tx, wish.task_id, wish.fence)
    attempt = attempts.of_fence(tx, wish.fence)
    assert attempt is not None
    if task["ending"]:
        raise Refused("a rollback step can't register another one")
    arguments = decode(wish.arguments, where="arguments of a rollback step")
    refuse_secrets(tx, arguments, "arguments of a rollback step")
    refuse_secrets(tx, wish.name, "name of a rollback step")
    known = None
    if wish.undoes:
        scope = wish.scope or tasks.family_scope(tx, wish.task_id)
        known = operations.find(tx, scope, wish.undoes)
        if known is None:
            raise Refused(
                f"operation {wish.undoes!r} was not begun", remedy="begin it, then register its undo step"
            )
    text, undoes = encode(arguments), known["id"] if known else None
    number = rollback.find(tx, wish.task_id, wish.name, text, undoes)
    if number is not None:
        return {"number": number}
    if rollback.count_open(tx, wish.task_id) >= rules.MOST_STEPS:
        raise Refused(f"a task has at most {rules.MOST_STEPS} rollback steps", remedy="undo more in one step")
    number = rollback.register(tx, attempt, wish.name, text, repeatable=wish.repeatable, undoes=undoes)
    tx.event(
        "STEP_ON_ROLLBACK",
        actor=f"worker:{worker_id}",
        task_id=wish.task_id,
        worker_id=worker_id,
        message=f"{number}:{wish.name}",
        payload={"step": number, "undoes": wish.undoes},
    )
    return {"number": number}


def choose(tx: Transaction, task: Task, ending: Ending) -> Step | None:
    """The step that runs next; None where all are done, or were tried in this round.

    What needs not be undone is dropped on the way: its operation certainly did not happen. What only a person can settle
    is passed over.
    """
    while (step := rules.next_step(rollback.open_steps(tx, task["id"]), ending.round)) is not None:
        known = operations.find(tx, *rules.operation(task["id"], step["number"], step["name"]))
        if known is not None and known["state"] == "DONE":
            _close(tx, task, step, "DONE")
        elif _never_happened(tx, step):
            _close(tx, task, step, "DROPPED")
        elif known is not None and known["state"] == "IN_DOUBT" and not step["repeatable"]:
            _note_try(tx, step, ending, "in_doubt", "it was begun, and nobody knows whether it happened")
        else:
            return step
    return None


def _never_happened(tx: Transaction, step: Step) -> bool:
    return step["undoes"] is not None and (
        tx.row("SELECT 1 FROM operation WHERE id = ? AND state = 'NOT_DONE'", step["undoes"]) is not None
    )


def begin(tx: Transaction, task: Task, attempt_id: int, step: Step) -> float | None:
    """Record the intent, with the claim of the attempt. Returns for how many seconds the step has been in doubt, or None."""
    scope, key = rules.operation(task["id"], step["number"], step["name"])
    known = operations.find(tx, scope, key)
    _event(tx, task, "STEP_STARTED", key)
    if known is not None and known["state"] == "IN_DOUBT":
        operations.adopt(tx, known["id"], task["id"], attempt_id, task["fence"])
        return operations.doubted_for(tx, known)
    operations.begin(tx, scope, key, task["id"], attempt_id, task["fence"])
    return None


def payload_of(task: Task, step: Step) -> str:
    """What the attempt is given: the step's arguments; of a command the task's own, with the step's words."""
    if task["type"] != COMMAND_TYPE:
        return step["arguments"]
    return encode(decode(task["payload"], where="payload") | decode(step["arguments"], where="arguments"))


def settled(tx: Transaction, task: Task, operation_id: int) -> None:
    """A person said that a step has happened: it is done, and so is what it undoes."""
    for step in rollback.open_steps(tx, task["id"]):
        known = operations.find(tx, *rules.operation(task["id"], step["number"], step["name"]))
        if known is not None and known["id"] == operation_id and known["state"] == "DONE":
            _close(tx, task, step, "DONE")


class Rollbacks:
    """What follows from the end of an attempt that ran a step."""

    def __init__(self, policies: Policies, uniform: Callable[[float, float], float]) -> None:
        self._policies = policies
        self._uniform = uniform

    def succeeded(self, tx: Transaction, task: Task, ending: Ending, outcome: Outcome, close: Close) -> None:
        """The step is done; the next one, or the end that was held."""
        result = encode(masked(tx, decode(outcome.result or "null", where="result"), "result", task["id"]))
        step, known = _running(tx, task)
        operations.settle(tx, known["id"], "DONE", result)
        _event(tx, task, "STEP_SUCCEEDED", known["operation_key"])
        _close(tx, task, step, "DONE")
        close(tx, task, outcome, "succeeded", "done")
        self.go_on(tx, task, ending)

    def failed(
        self, tx: Transaction, task: Task, ending: Ending, outcome: Outcome, close: Close, faulty: str
    ) -> None:
        """A step that said so itself failed and may be tried again; one that was cut off is in doubt."""
        failure = msgspec.json.decode(outcome.failure, type=Failure)
        message = tx.redactor.text(failure.message)
        step, known = _running(tx, task)
        doubt = failure.kind in rules.CUT_OFF and not step["repeatable"]
        operations.settle(tx, known["id"], "IN_DOUBT" if doubt else "NOT_DONE", None)
        _event(tx, task, "OPERATION_IN_DOUBT" if doubt else "STEP_NOT_DONE", known["operation_key"])
        verdict = decide(failure, _charges(task, self._policies.of(task)), self._retry(task), self._uniform)
        error = encode(
            {"class": failure.class_, "kind": failure.kind, "message": message, "rule": failure.rule}
        )
        close(tx, task, outcome, "failed", verdict.reason, error, faulty)
        later = verdict.state in (PENDING, RETRYING)
        if failure.class_ in (FailureClass.RESOURCE_FAULT, FailureClass.DELAYED) and later:
            columns = {
                **tasks.wait_again(task, add_seconds(tx.now, verdict.delay or 0.0)),
                "delays": verdict.delays,
                "resource_faults": verdict.resource_faults,
            }
            tasks.transition(
                tx, task, verdict.state, verdict.reason, actor=ENGINE, message=message, columns=columns
            )
            return
        kind = "in_doubt" if doubt else str(failure.class_)
        _note_try(tx, step, ending, kind, f"{failure.kind}: {message}")
        self.go_on(tx, task, ending)

    def killed(self, tx: Transaction, task: Task, ending: Ending, outcome: Outcome, close: Close) -> None:
        """A person ended the step by force; it is in doubt, and the others are not kept by it."""
        step, _ = _running(tx, task)
        self.cut_off(tx, task, started=True)
        close(tx, task, outcome, "cancelled", "user_cancel")
        _note_try(tx, step, ending, "retryable" if step["repeatable"] else "in_doubt", "it was killed")
        self.go_on(tx, task, ending)

    def cut_off(self, tx: Transaction, task: Task, *, started: bool) -> None:
        """The attempt ended without a word about its step: in doubt, if it was begun at all."""
        _, known = _running(tx, task)
        if known["state"] != "BEGUN":
            return
        operations.settle(tx, known["id"], "IN_DOUBT" if started else "NOT_DONE", None)
        _event(tx, task, "OPERATION_IN_DOUBT" if started else "STEP_NOT_DONE", known["operation_key"])

    def doubted(self, tx: Transaction, task: Task, ending: Ending, outcome: Outcome, close: Close) -> None:
        """The worker could not settle the doubt."""
        failure = msgspec.json.decode(outcome.failure, type=Failure)
        message = tx.redactor.text(failure.message)
        step, known = _running(tx, task)
        operations.settle(tx, known["id"], "IN_DOUBT", None)
        error = encode({"class": "in_doubt", "kind": failure.kind, "message": message, "rule": failure.rule})
        close(tx, task, outcome, "in_doubt", "in_doubt", error)
        _note_try(tx, step, ending, "in_doubt", message)
        self.go_on(tx, task, ending)

    def nothing_to_run(self, tx: Transaction, task: Task, ending: Ending) -> None:
        """The attempt was claimed only to find that nothing is left, or that only a person can go on."""
        attempts.close_attempt(tx, task["fence"], "never_started", "drained")
        self.go_on(tx, task, ending)

    def go_on(self, tx: Transaction, task: Task, ending: Ending) -> None:
        """The next step of this round; else the end; else what is left, later or by a person. The attempt is closed."""
        if ending.given_up:
            finishing.abandon(tx, task)
            return
        if choose(tx, task, ending) is not None:
            columns = tasks.wait_again(task, tx.now)
            message = "the next step is rolled back"
            tasks.transition(
                tx, task, PENDING, "drained", actor=ENGINE, message=message, columns=columns, ours=True
            )
            return
        left = rollback.open_steps(tx, task["id"])
        if left:
            self._leave(tx, task, ending, left)
        else:
            finishing.conclude(tx, task, ending)

    def _leave(self, tx: Transaction, task: Task, ending: Ending, left: Sequence[Step]) -> None:
        """All were tried and some are left."""
        told = rules.story(left)
        failure = Failure(FailureClass.RETRYABLE, "rollback", told, "rollback")
        verdict = decide(failure, _charges(task, self._policies.of(task)), self._retry(task), self._uniform)
        error = {"class": "retryable", "kind": "rollback", "message": told, "rule": "rollback"}
        columns: dict[str, Any] = {"error": encode(error)}
        if rules.may_be_tried_again(left) and verdict.state is RETRYING:
            columns |= tasks.wait_again(task, add_seconds(tx.now, verdict.delay or 0.0))
            columns |= {
                "retry_count": verdict.retry_count,
                "ending": rollback.stored(finishing.next_round(ending)),
            }
            state, reason = RETRYING, "retryable_error"
        else:
            columns |= NO_LEASE
            state, reason = NEEDS_REVIEW, "in_doubt" if rules.is_in_doubt(left) else "retries_exhausted"
        tasks.transition(tx, task, state, reason, actor=ENGINE, message=told, columns=columns)

    def _retry(self, task: Task) -> RetryPolicy:
        """What can't be rolled back is never buried: it waits for a person."""
        policy = self._policies.of(task)
        return RetryPolicy(policy.base, policy.max_delay, "review")


def _charges(task: Task, policy: Policy) -> Charges:
    return Charges(
        task["retry_count"], policy.max_retry, task["delays"], policy.max_delays, task["resource_faults"]
    )


def _running(tx: Transaction, task: Task) -> tuple[Step, dict[str, Any]]:
    """The step that this attempt runs, and the operation that it is."""
    for step in rollback.open_steps(tx, task["id"]):
        known = operations.find(tx, *rules.operation(task["id"], step["number"], step["name"]))
        if known is not None and known["fence"] == task["fence"]:
            return step, known
    raise Refused(f"#{task['id']}: its attempt runs no rollback step")


def _note_try(tx: Transaction, step: Step, ending: Ending, kind: str, message: str) -> None:
    rollback.note_try(tx, step["id"], ending.round, encode({"class": kind, "message": message}))


def _close(tx: Transaction, task: Task, step: Step, state: str) -> None:
    """The step is done, or not needed; what it undoes has not happened any more, so that it may be done anew."""
    rollback.close(tx, step["id"], state)
    if (
        state == "DONE"
        and step["undoes"] is not None
        and (was := rollback.undo_operation(tx, step["undoes"]))
    ):
        tx.event(
            "STEP_UNDONE",
            actor=ENGINE,
            task_id=task["id"],
            message=was["operation_key"],
            payload={"key": was["operation_key"], "fence": was["fence"], "was": was["state"]},
        )
    elif state == "DROPPED":
        _told(tx, task, f"{step['number']}:{step['name']}")


def _told(tx: Transaction, task: Task, name: str) -> None:
    tx.event("STEP_SKIPPED", actor=ENGINE, task_id=task["id"], message=f"{name}: there is nothing to undo")


def _event(tx: Transaction, task: Task, event_type: str, key: str) -> None:
    """In the name of the attempt that runs the step."""
    tx.event(
        event_type,
        actor=f"worker:{task['worker_id']}",
        task_id=task["id"],
        worker_id=task["worker_id"],
        level="warning" if event_type == "OPERATION_IN_DOUBT" else "info",
        message=f"rollback {key}",
        payload={"key": key, "fence": task["fence"]},
    )
