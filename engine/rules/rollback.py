"""Rolling back: which undo step of a task comes next, and what becomes of the task when one of them did not succeed.

Source: domain "Checkpoints and operations" (compensation). Pure: steps come in as mappings, last registered first, with the
state of the operation that each is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

Step = Mapping[str, Any]

MOST_STEPS = 1000
"""Steps that one task may have registered at a time."""

CUT_OFF = frozenset({"timeout", "killed", "status_lost", "handler_exited"})
"""Kinds of failures in which a step did not say itself that it failed: it may have done its work all the same."""


class Ending(Struct, frozen=True):
    """The end of a task that waits for its rollback: state, reason, who wants it, and what the row shall say then.

    `was` is the reason of the review that a person discarded (such an end passes through NEEDS_REVIEW again). `round`
    counts the tries of all steps, from 1. `given_up`: a person wants it cancelled as it is once the step that runs has ended.
    """

    state: str
    reason: str
    actor: str
    message: str = ""
    error: str | None = None
    retry_count: int = 0
    was: str = ""
    round: int = 1
    given_up: bool = False


def operation(task_id: int, number: int, name: str) -> tuple[str, str]:
    """Scope and key of the operation that a step is."""
    return f"rollback:{task_id}", f"{number}:{name}"[:500]


def is_step(scope: str) -> bool:
    """Whether operations of this scope are undo steps."""
    return scope.startswith("rollback:")


def next_step(steps: Sequence[Step], round: int) -> Step | None:
    """The last registered step that has not been tried in this round."""
    return next((step for step in steps if step["tried"] < round), None)


def may_be_tried_again(steps: Sequence[Step]) -> bool:
    """Is there one whose failure says that another try could help? Doubt and fatal failures are a person's affair."""
    return any(_class_of(step) not in ("in_doubt", "fatal") for step in steps)


def is_in_doubt(steps: Sequence[Step]) -> bool:
    """Is it not known of one of them whether it happened?"""
    return any(_class_of(step) == "in_doubt" for step in steps)


def _class_of(step: Step) -> str:
    return str((step["error"] or {}).get("class", ""))


def story(steps: Sequence[Step]) -> str:
    """What is left and why, in a sentence."""
    told = [
        f"{step['number']}:{step['name']}: {(step['error'] or {}).get('message', 'not tried')}"
        for step in steps
    ]
    return f"not rolled back: {'; '.join(told[:5])}" + (
        f"; and {len(told) - 5} more" if len(told) > 5 else ""
    )
