"""`retry --from`: a person chooses the checkpoint that a task goes on from, or the beginning.

Refuses what isn't there or can't be resumed from. Must not start anything: the next attempt finds the choice.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..errors import Refused, UsageError
from ..rules.checkpoints import fault_of, is_undone, undone_under
from ..store import checkpoints, operations, processes
from ..store.transaction import Transaction
from .messages import TypeInfo, from_stored

START = "start"


def choose(tx: Transaction, task: Mapping[str, Any], wanted: Any, actor: str) -> str:
    """Let the next attempt go on from checkpoint `wanted` (a number, or `start`). Returns the story."""
    kept = checkpoints.newest_first(tx, task["id"])
    number = _number(wanted)
    if number:
        number = _checked(tx, task, kept, number)
    if kept:
        _note(tx, task, kept, number, actor)
    return f"it resumes at checkpoint {number}" if number else "it starts again from the beginning"


def _checked(tx: Transaction, task: Mapping[str, Any], kept: list[dict[str, Any]], number: int) -> int:
    """The number, of one that is there and can be resumed from; 0 where it stands for the beginning."""
    under = undone_under(operations.of_task(tx, task["id"]))
    see = f"see: taskdeck show {task['id']}"
    found = next((row for row in kept if row["seq"] == number), None)
    if found is None:
        raise Refused(f"#{task['id']} has no checkpoint {number}", _offer(kept, under), see)
    if found["again_from"] == 0:
        return 0
    if is_undone(found, under):
        raise Refused(
            f"#{task['id']} can't go on from checkpoint {number}",
            "it was saved before the task was rolled back, and what it builds on is undone",
            f"taskdeck retry {task['id']} --from start",
        )
    if why := _fault(tx, task, found):
        raise Refused(f"#{task['id']} can't go on from checkpoint {number}", why, see)
    return number


def _number(wanted: Any) -> int:
    if wanted == START:
        return 0
    if isinstance(wanted, bool) or not isinstance(wanted, int) or wanted < 1:
        raise UsageError(
            f"{wanted!r} is no checkpoint", "it is a number as `taskdeck show` tells it, or start"
        )
    return wanted


def _fault(tx: Transaction, task: Mapping[str, Any], row: Mapping[str, Any]) -> str:
    """Why the handler as it was last published can't resume from it."""
    text = processes.type_settings(tx).get(task["type"])
    info = from_stored(text) if text else TypeInfo(task["type"], "", checkpoint_version=row["version"])
    return fault_of(row["data"], row["version"], info.checkpoint_version, migrates=info.migrates)


def _note(
    tx: Transaction, task: Mapping[str, Any], kept: list[dict[str, Any]], number: int, actor: str
) -> None:
    checkpoints.add_choice(tx, task, number)
    tx.event(
        "CHECKPOINT_CHOSEN",
        actor=actor,
        task_id=task["id"],
        reason="user_retry",
        message=f"goes on from checkpoint {number}" if number else "starts again from the beginning",
        payload={"seq": kept[0]["seq"] + 1, "from": number},
        ours=True,
    )


def _offer(kept: list[dict[str, Any]], under: int) -> str:
    if not kept:
        return "nothing was saved yet: it starts from the beginning anyway"
    left = [str(row["seq"]) for row in kept if not is_undone(row, under)]
    return f"kept are: {', '.join(left)}; or start" if left else "what was kept is undone: only start is left"
