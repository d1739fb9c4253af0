"""Operations in doubt as a person's matter: mark one done, have it done anew; and no retry while nobody has decided.

Only what nobody works on can be settled here. Must not guess: what happened is for the person to find out.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

from ..errors import NotFound, Refused, UsageError
from ..rules.payloads import decode, encode
from ..rules.selection import COMMAND_TYPE
from ..store import attempts, operations, processes, tasks
from ..store.transaction import Transaction
from . import rollback
from .messages import from_stored
from .secrecy import masked

Row = Mapping[str, Any]


def settle(tx: Transaction, args: Row, state: str, actor: str) -> dict[str, Any]:
    """Mark an operation DONE (with `result`), or NOT_DONE so that it is done anew. Returns what is left in doubt, too."""
    task = tasks.get(tx, _task_id(args))
    found = _find(tx, task, str(args.get("key", "")), args.get("scope"))
    said = _settle(tx, task, found, state, args.get("result"), actor)
    left = [row["operation_key"] for row in operations.in_doubt(tx, task["id"])]
    return {
        "id": task["id"],
        "key": found["operation_key"],
        "scope": found["scope"],
        "operation": state,
        "in_doubt": left,
        "message": said,
    }


def refuse_retry(tx: Transaction, task: Row) -> None:
    """Raise `Refused` where another attempt would only find the same doubt again: nobody but a person can settle it.

    A type with a `verify` asks it; a command is told of the doubt and finds out by itself.
    """
    if task["type"] == COMMAND_TYPE or task["ending"]:
        return
    found = operations.in_doubt(tx, task["id"])
    declared = processes.type_settings(tx).get(task["type"]) if found else None
    if not found or (declared and from_stored(declared).verifies):
        return
    keys = [row["operation_key"] for row in found]
    raise Refused(
        f"#{task['id']} would find the same doubt again: {_named(keys)}",
        f"begun, and nobody knows whether it happened (since {found[0]['doubt_at']})",
        "find out, then: taskdeck operation done {id} {word} --retry, or: taskdeck operation redo {id} {word} --retry".format(
            id=task["id"], word=shlex.quote(keys[0])
        ),
    )


def _task_id(args: Row) -> int:
    found = args.get("task")
    if isinstance(found, bool) or not isinstance(found, int):
        raise UsageError(f"{found!r} is no task", "name it by its id")
    return found


def _find(tx: Transaction, task: Row, key: str, scope: Any) -> dict[str, Any]:
    known = operations.of_task(tx, task["id"])
    found = [row for row in known if row["operation_key"] == key and scope in (None, row["scope"])]
    if not found:
        keys = _named([row["operation_key"] for row in known])
        raise NotFound(
            f"#{task['id']} has no operation {key!r}",
            f"it has {keys}" if known else "it began none",
            f"see: taskdeck operation list {task['id']}",
        )
    if len(found) > 1:
        scopes = ", ".join(row["scope"] for row in found)
        raise UsageError(
            f"#{task['id']} has {len(found)} operations {key!r}", f"scopes: {scopes}", "add --scope"
        )
    return found[0]


def _settle(tx: Transaction, task: Row, found: Row, state: str, result: Any, actor: str) -> str:
    key, words = found["operation_key"], _WORDS[state]
    if found["state"] == state:
        return f"{key} {words} already"
    if found["state"] == "DONE":
        raise Refused(
            f"operation {key!r} is recorded as done (#{task['id']})",
            "what has happened is never done a second time",
            f"see: taskdeck operation list {task['id']}",
        )
    holder = attempts.of_fence(tx, found["fence"])
    if holder is not None and holder["ended_at"] is None:
        raise Refused(
            f"attempt {holder['number']} of #{holder['task_id']} works on operation {key!r} right now",
            remedy=f"wait for its end, or end it: taskdeck cancel {holder['task_id']}",
        )
    operations.settle(tx, found["id"], state, _kept(tx, task, key, result) if state == "DONE" else None)
    rollback.settled(tx, task, found["id"])
    tx.event(
        "OPERATOR_OPERATION",
        actor=actor,
        task_id=task["id"],
        reason="done" if state == "DONE" else "redo",
        message=f"{key} {words}",
        payload={"key": key, "fence": found["fence"], "was": found["state"]},
    )
    _forget_doubt(tx, task)
    return f"{key} {words}"


def _forget_doubt(tx: Transaction, task: Row) -> None:
    """What a person has settled is no error of the task any more; the attempt that ended with it keeps it."""
    left = any(row["state"] in ("BEGUN", "IN_DOUBT") for row in operations.of_task(tx, task["id"]))
    if left or not task["error"] or task["ending"]:
        return
    error = decode(task["error"], where="error")
    if isinstance(error, dict) and (error.get("class"), error.get("rule")) == ("in_doubt", "operation"):
        tasks.set_columns(tx, task, {"error": None})


def _kept(tx: Transaction, task: Row, key: str, result: Any) -> str:
    value = decode(result, where="result") if isinstance(result, str) else result
    return encode(masked(tx, value, f"result of operation {key}", task["id"]))


def _named(keys: list[str], most: int = 5) -> str:
    shown = ", ".join(f'"{key}"' for key in keys[:most])
    return shown + (f" and {len(keys) - most} more" if len(keys) > most else "")


_WORDS = {"DONE": "is marked done", "NOT_DONE": "is to be done anew"}
