"""What a person may do to a type, a pool or everything: hold it back, and let it go on. Each is idempotent.

The hold stands in the database until it is taken back, over restarts, also for what is added later. What runs when it is
set is paused or stopped as a single task would be, or left alone; the release lets exactly these go on.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from ..errors import Refused, UsageError
from ..rules import holds as rules
from ..store import holds, requests, tasks
from ..store.transaction import Transaction
from . import control

MANNERS = {"": None, "pause": control.pause, "stop": control.stop}
"""What becomes of what runs in the scope: nothing, a pause where it stands, or the end of its attempt."""


def hold(tx: Transaction, args: Mapping[str, Any], actor: str) -> dict[str, Any]:
    """Hold `scope` back; `running` says what becomes of what runs (`MANNERS`). Returns `scope held changed tasks`."""
    scope, manner = rules.check(str(args.get("scope", ""))), str(args.get("running", ""))
    if manner not in MANNERS:
        raise UsageError(f"what runs can't be asked to {manner}")
    changed = holds.hold(tx, scope, actor)
    asked = _each(tx, MANNERS[manner], holds.alive(tx, scope) if manner else [], actor)
    holds.note_paused(tx, scope, asked)
    if changed or asked:
        story = f"{rules.named(scope)} is held" + (f"; asked to {manner}: {len(asked)}" if asked else "")
        tx.event("OPERATOR_HOLD", actor=actor, reason="hold", message=story)
    return {"scope": scope, "held": True, "changed": changed, "tasks": asked}


def release(tx: Transaction, args: Mapping[str, Any], actor: str) -> dict[str, Any]:
    """Let `scope` go on, with the tasks that its hold had paused. Returns `scope held changed tasks`."""
    scope = rules.check(str(args.get("scope", "")))
    changed = holds.release(tx, scope)
    resumed = _each(tx, control.resume, holds.take_paused(tx, scope), actor)
    if changed:
        tx.event("OPERATOR_RELEASE", actor=actor, reason="release", message=f"{rules.named(scope)} goes on")
    return {"scope": scope, "held": False, "changed": changed, "tasks": resumed}


def _each(tx: Transaction, act: Any, task_ids: list[int], actor: str) -> list[int]:
    """Those of the tasks that the act changed something about."""
    done = []
    for task_id in task_ids:
        before = _standing(tx, task_id)
        with suppress(Refused):  # it has ended meanwhile, or a person wants something stronger of it
            act(tx, tasks.get(tx, task_id), actor, {})
        if _standing(tx, task_id) != before:
            done.append(task_id)
    return done


def _standing(tx: Transaction, task_id: int) -> tuple[Any, ...]:
    return tasks.get(tx, task_id)["state"], requests.standing(tx, task_id)
