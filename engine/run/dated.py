"""Acts that wait some seconds for second thoughts: rows of the request table, so that they outlive whoever asked.

An act that could not be done now, or would change nothing, is refused now. What is due is carried out by whoever holds
the database: the engine in its tick and at its start, or the next command without one. A deck that was killed meanwhile
changes nothing about it.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from ..errors import NotFound, Refused, UsageError
from ..rules.payloads import decode, encode
from ..rules.timing import add_seconds
from ..store import requests, tasks
from ..store.transaction import Transaction
from . import control

VERBS = ("cancel", "retry", "discard", "pause", "stop", "resume")
"""What can wait. A kill is at once."""
REFUSED = "refused: "
"""How the outcome of a request begins that could not be carried out."""
LONGEST = 3600.0
"""Seconds for which an act may wait."""

Row = Mapping[str, Any]


class _Rehearsed(Exception):
    """It would be allowed; all of it is undone again."""


def ask(tx: Transaction, verb: str, task: Row, actor: str, args: Row) -> str:
    """Have `verb` done in `args["delay"]` seconds unless it is taken back. Raises the refusal that it would meet now."""
    seconds = float(args["delay"])
    if verb not in VERBS or not 0 < seconds <= LONGEST:
        raise UsageError(f"{verb} can't wait {seconds:g} s")

    def rehearse(tx: Transaction) -> None:
        before = tx.connection.total_changes
        told = control.act(tx, verb, task, actor, args)
        if tx.connection.total_changes == before:  # there is nothing to wait for, nor to take back
            raise Refused(f"#{task['id']} {told}")
        raise _Rehearsed

    with suppress(_Rehearsed):
        tx.unit(rehearse)
    for earlier in requests.dated(tx, task["id"]):
        requests.close(tx, earlier["id"], "replaced by a later request")
    more = encode({key: value for key, value in args.items() if key in ("again", "from", "no_rollback")})
    requests.add(tx, verb, task["id"], actor, more, add_seconds(tx.now, seconds))
    message = f"{verb} in {seconds:g} s"
    tx.event("OPERATOR_REQUEST", actor=actor, task_id=task["id"], reason=verb, message=message, ours=True)
    return message


def take_back(tx: Transaction, args: Row, actor: str) -> dict[str, Any]:
    """Take back the last act of this actor that is not due yet. Returns its `verb` and `ids`. Raises `NotFound`."""
    last = requests.latest_dated(tx, actor)
    if not last:
        raise NotFound("there is nothing to take back", "what was asked for is done, or was never asked for")
    for each in last:
        requests.close(tx, each["id"], "taken back")
        tx.event(
            "OPERATOR_REQUEST",
            actor=actor,
            task_id=each["task_id"],
            reason="undo",
            message=f"{each['verb']} taken back",
            ours=True,
        )
    return {"verb": last[0]["verb"], "ids": [each["task_id"] for each in last]}


def settle(tx: Transaction, args: Row, actor: str) -> list[dict[str, Any]]:
    """What became of this actor's last requests for the tasks `ids` that are settled: `id ok message state` each."""
    answers = []
    for request in requests.last_closed(tx, actor, list(args.get("ids", ()))):
        outcome, task_id = str(request["outcome"]), request["task_id"]
        state = tasks.get(tx, task_id)["state"].value
        ok = not outcome.startswith(REFUSED)
        answers.append({"id": task_id, "ok": ok, "message": outcome.removeprefix(REFUSED), "state": state})
    return answers


def apply_due(tx: Transaction) -> int:
    """Carry out what is due, each in a savepoint of its own. Returns how many there were."""
    due = requests.due(tx)
    for request in due:
        # Closed first: an open one would look as if the same had been asked for already.
        requests.close(tx, request["id"], "carried out")
        requests.answer(tx, request["id"], _outcome(tx, request))
    return len(due)


def _outcome(tx: Transaction, request: Row) -> str:
    verb, task_id, actor = request["verb"], request["task_id"], request["actor"]
    args = decode(request["args"], where="request")

    def unit(tx: Transaction) -> str:
        return control.act(tx, verb, tasks.get(tx, task_id), actor, args)

    try:
        return tx.unit(unit)
    except Refused as refusal:
        tx.event(
            "OPERATOR_REQUEST",
            actor=actor,
            task_id=task_id,
            level="warning",
            reason=verb,
            message=str(refusal),
        )
        return f"{REFUSED}{refusal}"
