"""What becomes of an attempt whose worker is proven gone (or that was never started): the one place for that decision.

Source: domain "Leases, workers, recovery" and ruling "Charging". A loss charges one attempt and one `losses`; a checkpoint
that was saved since sets `losses` back (see docs/decisions/0002-losses-and-progress.md); never started is free.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..rules.payloads import encode
from ..rules.tasks import CANCELLED, LOST, NEEDS_REVIEW, PAUSED, PENDING, RUNNING
from ..store import attempts, checkpoints, operations, requests, tasks
from ..store.rollback import ending_of
from ..store.tasks import ENGINE, NO_LEASE
from ..store.transaction import Transaction
from . import finishing, setting_aside, withstanding
from .policies import Policies

TOTAL_FACTOR = 10
"""All losses of a task together may be this many times `max_losses`, so that progress alone can't make an endless loop."""


def take_all(
    tx: Transaction,
    held: list[dict[str, Any]],
    cause: str,
    started: set[int],
    policies: Policies,
    max_losses: int,
    *,
    charged: bool = True,
    suspected: bool = False,
    doubt: str = "",
) -> list[str]:
    """Take each task from its dead worker, each in a savepoint: an error on one row does not keep the others.

    Not `charged`: the engine itself had to end the worker because of another task. Where the worker died by itself
    (`suspected`) and several had begun in it, nobody knows whose doing it was: each runs alone the next time, and only who
    takes a worker of its own with it then is charged for that. `doubt`: why nobody knows how those that had begun ended.
    """
    stories = []
    shared = suspected and sum(row["fence"] in started for row in held) > 1
    for row in held:
        current = row
        try:
            current = tasks.get(tx, row["id"])
            if current["fence"] != row["fence"] or current["worker_id"] != row["worker_id"]:
                continue  # it ended, or was taken over, between the look and now (TF023, TF246)
            stories.append(
                tx.unit(
                    lambda tx, row: lose(
                        tx,
                        row,
                        cause,
                        started=row["fence"] in started,
                        policies=policies,
                        max_losses=max_losses,
                        charged=charged,
                        shared=shared,
                        suspected=suspected,
                        doubt=doubt,
                    ),
                    current,
                )
            )
        except Exception as error:
            stories.append(fall_back(tx, current, cause, error))
    return stories


def fall_back(tx: Transaction, task: Mapping[str, Any], cause: str, error: Exception) -> str:
    """Taking `task` over failed because of its row: nothing of the row is judged, a person does. Returns the story."""

    def review(tx: Transaction, why: str) -> None:
        operations.doubt_open_ones(tx, task["fence"], "worker_lost")
        attempts.close_attempt(tx, task["fence"], "lost", "worker_lost")
        if task["state"] is PAUSED:
            tasks.drop_suspended(tx, task["id"])  # it waits for a person as it is
            requests.close_all_of(tx, task["id"], "the suspended attempt is gone")
        else:
            _review(tx, task, {"fence": tx.next_fences(1)[0]}, why)

    return setting_aside.set_aside(tx, task["id"], f"{cause}; it can't be taken over", error, review)


def lose(
    tx: Transaction,
    task: Mapping[str, Any],
    cause: str,
    *,
    started: bool,
    policies: Policies,
    max_losses: int,
    charged: bool = True,
    shared: bool = False,
    suspected: bool = False,
    doubt: str = "",
) -> str:
    """Take `task` away from its worker, which is proven gone. Returns the story, e.g. "#5 resumes at checkpoint 7".

    `suspected`: the worker died by itself while its engine lived, so that the task may have killed it: it runs alone the
    next time, unless this attempt had saved a checkpoint (if it kills again behind that, it is found then). `shared`: so may
    others; then it counts among all its losses only. Who must go to a person goes there at once (with a `doubt` all do); the
    others are LOST and taken over in the same transaction.
    """
    if task["state"] is LOST:
        return _take_over(tx, task, policies)
    if not started and task["state"] is RUNNING:
        return _never_started(tx, task, cause)
    operations.doubt_open_ones(tx, task["fence"], "worker_lost")
    stuck = withstanding.of_task(tx, task["id"])
    attempts.close_attempt(tx, task["fence"], "lost", "worker_lost", error=None, tail=None, stuck=stuck)
    if task["state"] is PAUSED:
        if (why := stuck or doubt) and not _is_cancelled(task):
            return _doubted_while_suspended(tx, task, f"{why}: {cause}")
        return _lost_while_suspended(tx, task, cause)
    fence = tx.next_fences(1)[0]
    total = task["losses_total"] + int(charged)
    losses = {"losses": task["losses"] + int(charged and not shared), "losses_total": total, "fence": fence}
    losses["suspect"] = int(
        suspected and charged and not checkpoints.saved_with(tx, task["id"], task["fence"])
    )
    if task["wanted"] != "cancel" and (
        why := stuck or doubt or _needs_a_person({**task, **losses}, policies, max_losses)
    ):
        return _review(tx, task, losses, f"{why}: {cause}")
    tasks.transition(tx, task, LOST, "worker_lost", actor=ENGINE, message=cause, columns=losses)
    return _take_over(tx, {**task, **losses, "state": LOST}, policies)


def _needs_a_person(task: Mapping[str, Any], policies: Policies, max_losses: int) -> str:
    if task["losses"] >= max_losses or task["losses_total"] >= max_losses * TOTAL_FACTOR:
        return f"its worker was lost {task['losses_total']} times"
    if policies.of(task).on_lost == "review":
        return "its worker was lost and it must not run twice unasked"
    return ""


def _take_over(tx: Transaction, task: Mapping[str, Any], policies: Policies) -> str:
    number = task["id"]
    if _is_cancelled(task):
        return _cancelled(tx, task)
    resumes = "goes on rolling back" if task["ending"] else _resume_point(tx, task, policies)
    columns = tasks.wait_again(task, tx.now)
    tasks.transition(tx, task, PENDING, "taken_over", actor=ENGINE, message=resumes, columns=columns)
    _pause_if_wanted(tx, task)
    if task["wanted"] == "cancel":
        requests.close_all_of(tx, number, resumes)
    return f"#{number} {resumes}"


def _is_cancelled(task: Mapping[str, Any]) -> bool:
    """Does a cancel still hold? Of a rollback only one that gives it up; a kill was meant for the step."""
    ending = ending_of(task)
    return task["wanted"] == "cancel" and (ending is None or ending.given_up)


def _cancelled(tx: Transaction, task: Mapping[str, Any]) -> str:
    """The cancel that was on its way when the attempt ended still holds."""
    number = task["id"]
    actor = requests.actor_of(tx, number, "cancel") or "operator"
    told = ""
    if task["ending"]:
        finishing.abandon(tx, task, actor)
    else:
        told = finishing.finish(tx, task, CANCELLED, "user_cancel", actor=actor, columns=NO_LEASE)
    requests.close_all_of(tx, number, told or "cancelled")
    return f"#{number}: {told}" if told else f"#{number} is cancelled"


def _review(tx: Transaction, task: Mapping[str, Any], losses: Mapping[str, Any], why: str) -> str:
    error = tx.redactor.text(why)
    columns = {**NO_LEASE, **losses, "error": _error("worker_lost", error)}
    tasks.transition(tx, task, NEEDS_REVIEW, "worker_lost", actor=ENGINE, message=why, columns=columns)
    requests.close_all_of(tx, task["id"], "the task went to review")
    return f"#{task['id']} needs review"


def _never_started(tx: Transaction, task: Mapping[str, Any], cause: str) -> str:
    attempts.close_attempt(tx, task["fence"], "never_started", "drained")
    operations.forget_open_ones(tx, task["fence"])
    columns = {**tasks.wait_again(task, task["next_run_at"]), "fence": tx.next_fences(1)[0]}
    message = f"dispatched but never started: {cause}"
    tasks.transition(tx, task, PENDING, "drained", actor=ENGINE, message=message, columns=columns)
    after = {**task, **columns, "state": PENDING}
    if _is_cancelled(task):
        return _cancelled(tx, after)
    _pause_if_wanted(tx, task)
    return f"#{task['id']} starts again"


def _lost_while_suspended(tx: Transaction, task: Mapping[str, Any], cause: str) -> str:
    """The suspended attempt is gone; the task stays PAUSED, as the person left it, or follows a wish still open."""
    fence = tasks.drop_suspended(tx, task["id"])
    tx.event("ATTEMPT_LOST", actor=ENGINE, task_id=task["id"], level="warning", reason="worker_lost",
             message=f"the suspended attempt is gone: {cause}")  # fmt: skip
    after = {**task, "fence": fence, "worker_id": None}
    if _is_cancelled(task):
        return _cancelled(tx, after)
    if task["wanted"] == "resume":
        actor = requests.actor_of(tx, task["id"], "resume") or "operator"
        tasks.transition(tx, after, PENDING, "user_resume", actor=actor)
    requests.close_all_of(tx, task["id"], "the suspended attempt is gone")
    return f"#{task['id']} stays paused"


def _doubted_while_suspended(tx: Transaction, task: Mapping[str, Any], why: str) -> str:
    """How the suspended attempt ended can't be known: PAUSED would hide that from whoever resumes it."""
    tasks.transition(tx, task, RUNNING, "resumed", actor=ENGINE, message="only to go to review", ours=True)
    losses = {
        "losses": task["losses"] + 1,
        "losses_total": task["losses_total"] + 1,
        "fence": tx.next_fences(1)[0],
        "wanted": None,
    }
    return _review(tx, {**task, "state": RUNNING}, losses, why)


def _pause_if_wanted(tx: Transaction, task: Mapping[str, Any]) -> None:
    """A pause that was on its way when the attempt ended still holds."""
    if task["wanted"] == "pause":
        actor = requests.actor_of(tx, task["id"], "pause") or "operator"
        tasks.transition(tx, tasks.get(tx, task["id"]), PAUSED, "user_pause", actor=actor)
        requests.close_all_of(tx, task["id"], "paused")


def _resume_point(tx: Transaction, task: Mapping[str, Any], policies: Policies) -> str:
    policy = policies.of(task)
    return checkpoints.resume_point(tx, task["id"], policy.checkpoint_version, migrates=policy.migrates).story


def _error(kind: str, message: str) -> str:
    return encode({"class": "lost", "kind": kind, "message": message, "rule": "losses"})
