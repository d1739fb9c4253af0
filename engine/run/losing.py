"""What becomes of an attempt whose worker is proven gone (or that was never started): the one place for that decision.

Source: domain "Leases, workers, recovery" and ruling "Charging". A loss charges one attempt and one `losses`; a checkpoint
that was saved since sets `losses` back (see docs/decisions/0002-losses-and-progress.md); never started is free.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from ..rules.checkpoints import latest_valid
from ..rules.losses import Held, Loss, Way, way_of, why_review
from ..rules.payloads import encode
from ..rules.tasks import CANCELLED, LOST, NEEDS_REVIEW, PAUSED, PENDING, POLICY, RUNNING
from ..store import attempts, checkpoints, losses, operations, requests, tasks
from ..store.losses import Kind, Lost
from ..store.rollback import ending_of
from ..store.tasks import ENGINE, NO_LEASE
from ..store.transaction import Transaction
from . import finishing, setting_aside, withstanding
from .policies import Policies

AT_ONCE = 2000
"""Lost attempts that are settled by the same statements at most."""
PLAIN_LOSS = Loss()
"""Charged, and nobody's doing among those that it held."""
FEW = 8
"""So many that can't be settled together are settled one by one; more of them are halved first."""


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
    """Take each task (`id`, `fence`, `worker_id`, `attempt`, as the caller saw it) from its dead worker.

    Returns their stories. Those that have nothing beside their row are taken together; of the others, and where that fails,
    each by itself in a savepoint: an error on one row does not keep the others.

    Not `charged`: the engine itself had to end the worker because of another task. Where the worker died by itself
    (`suspected`) and several had begun in it, nobody knows whose doing it was: each runs alone the next time, and only who
    takes a worker of its own with it then is charged for that. `doubt`: why nobody knows how those that had begun ended.
    """
    shared = suspected and sum(row["fence"] in started for row in held) > 1
    loss = Loss(charged, suspected, shared, doubt)
    stories = _take_together(tx, held, cause, started, policies, max_losses, loss)
    for row in held:
        current = row
        if row["id"] in stories:
            continue
        try:
            current = tasks.get(tx, row["id"])
            if current["fence"] != row["fence"] or current["worker_id"] != row["worker_id"]:
                continue  # it ended, or was taken over, between the look and now (TF023, TF246)
            stories[row["id"]] = tx.unit(
                lambda tx, row: lose(
                    tx,
                    row,
                    cause,
                    started=row["fence"] in started,
                    policies=policies,
                    max_losses=max_losses,
                    loss=loss,
                ),
                current,
            )
        except Exception as error:
            stories[row["id"]] = fall_back(tx, current, cause, error)
    return [stories[row["id"]] for row in held if row["id"] in stories]


def _take_together(
    tx: Transaction,
    held: list[dict[str, Any]],
    cause: str,
    started: set[int],
    policies: Policies,
    max_losses: int,
    loss: Loss,
) -> dict[int, str]:
    """Take those that have nothing beside their row. Returns the story of each that was taken, by task."""
    stories: dict[int, str] = {}
    for first in range(0, len(held), AT_ONCE):
        sorts: dict[tuple[Way, str], list[Lost]] = {}
        for kind, alike in losses.look(tx, held[first : first + AT_ONCE]).items():
            for begun in (True, False):
                if those := [each for each in alike if (each.fence in started) is begun]:
                    sorts.setdefault(_sort(policies, loss, max_losses, begun, kind), []).extend(those)
        for (way, why), those in sorts.items():
            if way is not Way.ALONE:
                settle = partial(_SETTLE[way], loss=loss, cause=cause, why=why)
                stories |= _settle_together(tx, those, settle)
    return stories


def _sort(policies: Policies, loss: Loss, max_losses: int, begun: bool, kind: Kind) -> tuple[Way, str]:
    """The way of all tasks of a kind, and why they go to a person, if they do.

    Where the limits of such a task can't be read, each is looked at alone.
    """
    bare, before, total, policy = kind
    try:
        rule = policies.of(dict(zip(POLICY, policy, strict=True))).on_lost
    except Exception:
        return Way.ALONE, ""
    way = way_of(Held(begun, bool(bare), before, total, rule), loss, max_losses)
    if way is not Way.REVIEW:
        return way, ""
    return way, loss.doubt or why_review(before + loss.counted, total + loss.total, rule, max_losses)


def _settle_together(
    tx: Transaction, lost: list[Lost], settle: Callable[[Transaction, list[Lost]], str]
) -> dict[int, str]:
    """Settle these in a savepoint; where that fails, in halves, so that the one row that it fails with is left alone."""
    try:
        story = tx.unit(settle, lost)
    except Exception as error:
        setting_aside.refuse_trouble_of_the_store(error)
        if len(lost) <= FEW:
            return {}
        half = len(lost) // 2
        return _settle_together(tx, lost[:half], settle) | _settle_together(tx, lost[half:], settle)
    return {each.task_id: f"#{each.task_id} {story}" for each in lost}


def _never_began(tx: Transaction, lost: list[Lost], *, loss: Loss, cause: str, why: str) -> str:
    losses.wait_again_all(tx, lost, f"dispatched but never started: {cause}")
    return "starts again"


def _taken_over(tx: Transaction, lost: list[Lost], *, loss: Loss, cause: str, why: str) -> str:
    losses.take_over_all(tx, lost, loss, cause, NOTHING_KEPT.story)
    return NOTHING_KEPT.story


def _reviewed(tx: Transaction, lost: list[Lost], *, loss: Loss, cause: str, why: str) -> str:
    told = f"{why}: {cause}"
    losses.review_all(tx, lost, loss, told, _error("worker_lost", tx.redactor.text(told)))
    return "needs review"


_SETTLE = {Way.NEVER_BEGUN: _never_began, Way.TAKEN_OVER: _taken_over, Way.REVIEW: _reviewed}
NOTHING_KEPT = latest_valid((), 1)
"""Where a task without a checkpoint goes on."""


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
    loss: Loss = PLAIN_LOSS,
) -> str:
    """Take `task` away from its worker, which is proven gone. Returns the story, e.g. "#5 resumes at checkpoint 7".

    Where the worker died by itself (`suspected`), the task may have killed it: it runs alone the next time, unless this
    attempt had saved a checkpoint (if it kills again behind that, it is found then). Who must go to a person goes there at
    once (with a `doubt` all do); the others are LOST and taken over in the same transaction.
    """
    if task["state"] is LOST:
        return _take_over(tx, task, policies)
    if not started and task["state"] is RUNNING:
        return _never_started(tx, task, cause)
    operations.doubt_open_ones(tx, task["fence"], "worker_lost")
    stuck = withstanding.of_task(tx, task["id"])
    attempts.close_attempt(tx, task["fence"], "lost", "worker_lost", error=None, tail=None, stuck=stuck)
    if task["state"] is PAUSED:
        if (why := stuck or loss.doubt) and not _is_cancelled(task):
            return _doubted_while_suspended(tx, task, f"{why}: {cause}")
        return _lost_while_suspended(tx, task, cause)
    fence = tx.next_fences(1)[0]
    charged = {
        "losses": task["losses"] + loss.counted,
        "losses_total": task["losses_total"] + loss.total,
        "fence": fence,
    }
    saved = checkpoints.saved_with(tx, task["id"], task["fence"])
    charged["suspect"] = int(loss.suspected and loss.charged and not saved)
    if task["wanted"] != "cancel" and (
        why := stuck or loss.doubt or _needs_a_person({**task, **charged}, policies, max_losses)
    ):
        return _review(tx, task, charged, f"{why}: {cause}")
    tasks.transition(tx, task, LOST, "worker_lost", actor=ENGINE, message=cause, columns=charged)
    return _take_over(tx, {**task, **charged, "state": LOST}, policies)


def _needs_a_person(task: Mapping[str, Any], policies: Policies, max_losses: int) -> str:
    return why_review(task["losses"], task["losses_total"], policies.of(task).on_lost, max_losses)


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


def _review(tx: Transaction, task: Mapping[str, Any], charged: Mapping[str, Any], why: str) -> str:
    error = tx.redactor.text(why)
    columns = {**NO_LEASE, **charged, "error": _error("worker_lost", error)}
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
    charged = {
        "losses": task["losses"] + 1,
        "losses_total": task["losses_total"] + 1,
        "fence": tx.next_fences(1)[0],
        "wanted": None,
    }
    return _review(tx, {**task, "state": RUNNING}, charged, why)


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
