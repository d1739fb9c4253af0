"""A row with which an act fails as nobody foresaw: its task goes to a person, and no other waits because of it."""

from __future__ import annotations

import logging
from collections.abc import Callable

from ..errors import StoreError
from ..store import events
from ..store.diagnosis import is_passing
from ..store.tasks import ENGINE
from ..store.transaction import Transaction

log = logging.getLogger("taskdeck.rows")

_ALERT, REASON = "ALERT_RAISED", "row_failed"


def set_aside(
    tx: Transaction, task_id: int, act: str, error: Exception, review: Callable[[Transaction, str], None]
) -> str:
    """Give the task to a person by `review` (called with why), in a savepoint, with an alert. Returns the story.

    Where not even that can be written it stays as it is, and the alert names it, once. Trouble of the store is no row's
    own: it is raised again.
    """
    refuse_trouble_of_the_store(error)
    why = tx.redactor.text(f"{act}: {error}")
    story = f"#{task_id} is left to a person: {why}"
    try:
        tx.unit(review, why)
    except Exception as second:
        refuse_trouble_of_the_store(second)
        story = f"#{task_id} stays as it is: {why}; it can't go to review: {second}"
        if events.was_told(tx.connection, task_id, _ALERT, REASON):
            return story
    log.error("%s", tx.redactor.text(story), exc_info=error)
    tx.event(_ALERT, actor=ENGINE, task_id=task_id, level="error", reason=REASON, message=story)
    return story


def tell(tx: Transaction, what: str, error: Exception) -> None:
    """Raise the alert for something that failed and is no task's. Trouble of the store is raised again."""
    refuse_trouble_of_the_store(error)
    story = tx.redactor.text(f"{what}: {error}")
    log.error("%s", story, exc_info=error)
    tx.event(_ALERT, actor=ENGINE, level="error", reason=REASON, message=story)


def refuse_trouble_of_the_store(error: Exception) -> None:
    """Raise `error` again where it is no row's own."""
    if isinstance(error, StoreError) or is_passing(error):
        raise error
