"""What a person may do to a task: pause, resume, stop, cancel, kill, retry, discard. Each is idempotent.

A waiting task changes at once. A running one is *asked*: what is wanted stands in its row, and in which manner as a request,
so that it survives any crash, and the engine passes it on to the worker. All of it runs inside one unit of a transaction.
Source of what each means: docs/acts.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from ..errors import Refused
from ..rules.holds import named, over, target
from ..rules.needs import parse_needs
from ..rules.new_task import new_task
from ..rules.tasks import (
    CANCELLED,
    DEAD,
    FAILED,
    FINISHED,
    LOST,
    NEEDS_REVIEW,
    PAUSED,
    PENDING,
    RETRYING,
    RUNNING,
    SUCCESS,
    WAITING,
)
from ..store import holds, processes, requests, rollback, tasks
from ..store.rollback import ending_of
from ..store.transaction import Transaction
from . import doubt, finishing, restarting
from .messages import from_stored

Row = Mapping[str, Any]

STRENGTH = {"resume": 1, "pause": 1, "stop": 2, "cancel": 3, "kill": 4}
"""A stronger wish replaces a weaker one of a living attempt, never the other way round."""


def pause(tx: Transaction, task: Row, actor: str, args: Row) -> str:
    """A waiting task is PAUSED at once; a running one pauses at its next checkpoint, or is suspended where it stands."""
    if task["state"] in WAITING:
        tasks.transition(tx, task, PAUSED, "user_pause", actor=actor)
        return "paused"
    if task["state"] is RUNNING or task["wanted"] == "resume":
        return _want(tx, task, "pause", actor, "asked to pause")
    if task["state"] is PAUSED:
        return "is paused already"
    raise _not_now(task, "paused")


def resume(tx: Transaction, task: Row, actor: str, args: Row) -> str:
    """A paused task waits for its turn again; a suspended one goes on in memory; a pause still on its way is withdrawn."""
    if task["state"] is PAUSED and task["worker_id"] is not None:
        return _want(tx, task, "resume", actor, "asked to go on")
    if task["state"] is PAUSED:
        tasks.transition(tx, task, PENDING, "user_resume", actor=actor, columns={"wanted": None})
        return "resumed"
    if task["wanted"] == "pause":
        _unwant(tx, task["id"], "withdrawn")
        tx.event(
            "OPERATOR_REQUEST",
            actor=actor,
            task_id=task["id"],
            reason="resume",
            message="pause withdrawn",
            ours=True,
        )
        return "the pause is withdrawn"
    if task["state"] in WAITING or task["state"] is RUNNING:
        return "is not paused"
    raise _not_now(task, "resumed")


def cancel(tx: Transaction, task: Row, actor: str, args: Row) -> str:
    """Cancel beats retries, restarts and exit codes. What has finished stays as it is."""
    if task["state"] is CANCELLED:
        return "is cancelled already"
    if task["state"] in FINISHED:
        raise _not_now(task, "cancelled")
    held = task["worker_id"] is not None and task["state"] in (RUNNING, PAUSED, LOST)
    if not args.get("no_rollback") and (ending := ending_of(task)) is not None:
        return f"is rolled back already, then it is {ending.state.lower()}"
    _give_up(tx, task, actor, args)
    if held:
        return _want(tx, task, "cancel", actor, "asked to end")
    return _cancelled(tx, task, actor)


def kill(tx: Transaction, task: Row, actor: str, args: Row) -> str:
    """Cancel without grace: what runs is ended by SIGKILL, all of it at once."""
    if task["worker_id"] is not None and task["state"] in (RUNNING, PAUSED, LOST):
        _give_up(tx, task, actor, args)
        return _want(tx, task, "kill", actor, "is killed")
    return cancel(tx, task, actor, args)


def stop(tx: Transaction, task: Row, actor: str, args: Row) -> str:
    """End the attempt politely and keep the task PAUSED, with its checkpoint and without a charge; it holds nothing then."""
    if task["worker_id"] is not None and task["state"] in (RUNNING, PAUSED):
        return _want(tx, task, "stop", actor, "asked to stop")
    return pause(tx, task, actor, args)


def retry(tx: Transaction, task: Row, actor: str, args: Row) -> str:
    """Run it again with its counters at zero. A SUCCESS is never left: `again` makes a new task that names this one."""
    chosen = args.get("from")
    if task["state"] is SUCCESS:
        return _run_again(tx, task, actor, args)
    if task["state"] in (RUNNING, PAUSED, LOST):
        raise _not_now(task, "retried")
    if task["state"] in (NEEDS_REVIEW, *FINISHED):
        doubt.refuse_retry(tx, task)
    if task["ending"]:
        return _roll_on(tx, task, actor, args)
    point = restarting.choose(tx, task, chosen, actor) if chosen is not None else ""
    if task["state"] is PENDING:
        return point or f"is pending already{_held(tx, task)}"
    fresh = {
        "retry_count": 0,
        "delays": 0,
        "losses": 0,
        "losses_total": 0,
        "resource_faults": 0,
        "waits": 0,
        "suspect": 0,
    }
    if task["state"] is RETRYING:
        fresh = {}
    tasks.transition(
        tx,
        task,
        PENDING,
        "user_retry",
        actor=actor,
        columns={
            **tasks.NO_LEASE,
            **fresh,
            "next_run_at": tx.now,
            "finished_at": None,
            "effective_priority": task["priority"],
        },
    )
    turn = f"waits for its turn{_held(tx, task)}"
    return f"{turn}; {point}" if point else turn


def _held(tx: Transaction, task: Row) -> str:
    """What keeps it from its turn until a person says so, widest first; nothing where nothing is held."""
    held = holds.holds(tx)
    if not held:
        return ""
    declared = processes.type_settings(tx).get(task["type"])
    words = msgspec.json.decode(task["needs"]) if task["needs"] else None
    needs = words if words is not None else from_stored(declared).needs if declared else []
    scopes = [scope for scope in over(task["type"], parse_needs(needs)) if scope in held]
    return "".join(
        f"; {named(scope)} is held by {held[scope]} (let it go on: taskdeck resume {target(scope)})"
        for scope in scopes[:1]
    )


def _roll_on(tx: Transaction, task: Row, actor: str, args: Row) -> str:
    """Every step that is left is tried again."""
    ending = ending_of(task)
    assert ending is not None
    if args.get("from") is not None:
        raise Refused(
            f"#{task['id']} is being rolled back and goes on from nowhere",
            f"then it is {ending.state.lower()}",
            f"let it end, then: taskdeck retry {task['id']}",
        )
    if task["state"] is PENDING:
        return "is pending already"
    columns = {
        **tasks.wait_again(task, tx.now),
        "ending": rollback.stored(finishing.next_round(ending)),
        **(
            {}
            if task["state"] is RETRYING
            else {"retry_count": 0, "delays": 0, "resource_faults": 0, "losses": 0}
        ),
    }
    message = f"goes on rolling back, then it is {ending.state.lower()}"
    tasks.transition(
        tx, task, PENDING, "user_retry", actor=actor, message=message, columns=columns, ours=True
    )
    return message


def discard(tx: Transaction, task: Row, actor: str, args: Row) -> str:
    """Give up a task that waits for review."""
    if task["state"] is DEAD:
        return "is discarded already"
    if task["state"] is not NEEDS_REVIEW:
        raise _not_now(task, "discarded")
    if task["ending"] and not args.get("no_rollback"):
        raise Refused(
            f"#{task['id']} is not rolled back and can't be discarded",
            "some undo steps have failed, or are in doubt",
            f"see: taskdeck why {task['id']}; give the rest up: taskdeck discard --no-rollback {task['id']}",
        )
    _give_up(tx, task, actor, args)
    return (
        finishing.finish(tx, task, DEAD, "user_discard", actor=actor, columns={"ending": None}) or "discarded"
    )


VERBS: Mapping[str, Callable[[Transaction, Row, str, Row], str]] = {
    "pause": pause,
    "resume": resume,
    "stop": stop,
    "cancel": cancel,
    "kill": kill,
    "retry": retry,
    "discard": discard,
}


def act(tx: Transaction, verb: str, task: Row, actor: str, args: Row) -> str:
    """One of `VERBS`; whoever acts on a task takes it out of what a hold decides about."""
    outcome = VERBS[verb](tx, task, actor, args)
    holds.forget_paused(tx, task["id"])
    return outcome


def _want(tx: Transaction, task: Row, verb: str, actor: str, message: str) -> str:
    standing = requests.standing(tx, task["id"])
    if standing == verb or STRENGTH.get(standing or "", 0) > STRENGTH[verb]:
        return f"is asked to {standing} already"
    requests.close_all_of(tx, task["id"], "replaced by a later request")
    requests.add(tx, verb, task["id"], actor)
    tasks.set_wanted(tx, task["id"], next(wish for wish, verbs in requests.MANNERS.items() if verb in verbs))
    tx.event("OPERATOR_REQUEST", actor=actor, task_id=task["id"], reason=verb, message=message, ours=True)
    return message


def _cancelled(tx: Transaction, task: Row, actor: str) -> str:
    columns = {**tasks.NO_LEASE, "ending": None}
    told = finishing.finish(tx, task, CANCELLED, "user_cancel", actor=actor, columns=columns)
    requests.close_all_of(tx, task["id"], told or "cancelled")
    return told or "cancelled"


def _give_up(tx: Transaction, task: Row, actor: str, args: Row) -> None:
    """Where `no_rollback` says so: nothing (more) of it is undone; a step that runs is seen to its end first."""
    if not args.get("no_rollback"):
        return
    if task["worker_id"] is not None and (ending := ending_of(task)) is not None:
        rollback.set_ending(tx, task["id"], msgspec.structs.replace(ending, given_up=True))
    else:
        finishing.give_up(tx, task, actor)


def _unwant(tx: Transaction, task_id: int, outcome: str) -> None:
    tasks.set_wanted(tx, task_id, None)
    requests.close_all_of(tx, task_id, outcome)


def _run_again(tx: Transaction, task: Row, actor: str, args: Row) -> str:
    if args.get("from") is not None:
        raise Refused(
            f"#{task['id']} succeeded and goes on from nowhere",
            "a new task of it has no checkpoints",
            f"make one: taskdeck retry --again {task['id']}",
        )
    if not args.get("again"):
        raise Refused(
            f"#{task['id']} succeeded and is never run a second time",
            remedy=f"make a new task of it: taskdeck retry --again {task['id']}",
        )
    names = (
        "priority",
        "tags",
        "timeout",
        "max_retry",
        "on_lost",
        "needs",
        "route",
        "allow_direct",
        "target",
        "bandwidth",
    )
    new_id, _ = tasks.create(
        tx,
        new_task(task["type"], task["payload"], parent_id=task["id"], **{name: task[name] for name in names}),
        actor,
    )
    return f"runs again as #{new_id}"


_STANDS = {
    RUNNING: ("it has not ended", "end it first: taskdeck cancel {id}"),
    PENDING: ("it has not run yet", "take it out: taskdeck cancel {id}"),
    RETRYING: ("it is tried again by itself", "take it out: taskdeck cancel {id}"),
    PAUSED: (
        "it is held back, not ended",
        "let it go on: taskdeck resume {id}; or end it: taskdeck cancel {id}",
    ),
    LOST: ("its worker was lost; it is taken over soon", "see: taskdeck why {id}"),
    NEEDS_REVIEW: (
        "a person decides: run it again or give it up",
        "taskdeck retry {id}, or taskdeck discard {id}",
    ),
    SUCCESS: ("it has ended", "run it once more as a new task: taskdeck retry --again {id}"),
}
"""Why a task in this state is not for such an act, and what is."""


_WORDS = {
    SUCCESS: "has succeeded",
    FAILED: "has failed",
    NEEDS_REVIEW: "needs a review",
    LOST: "has lost its worker",
}


def _not_now(task: Row, done: str) -> Refused:
    state = _WORDS.get(task["state"]) or f"is {str(task['state']).lower()}"
    why, remedy = _STANDS.get(task["state"], ("it has ended", "run it again: taskdeck retry {id}"))
    return Refused(f"#{task['id']} {state} and can't be {done}", why, remedy.format(id=task["id"]))
