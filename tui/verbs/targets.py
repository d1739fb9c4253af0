"""Which tasks a verb means: ids, ranges, filters, or all that it can act on."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from taskdeck.engine import views
from taskdeck.engine.errors import NotFound, UsageError

EXAMPLES = "write ids (42, #42, 3-7, 1,2) or a filter (state:failed type:fetch)"


def are_ids(words: Sequence[str]) -> bool:
    """Are these words ids and ranges only?"""
    return all(views.is_ids(word) for word in words)


def one(view: views.View, words: Sequence[str]) -> int:
    """The one task that an id or a filter such as `key:NAME` names. Raises `NotFound` or `UsageError`."""
    if not words:
        raise UsageError("no task was named", remedy="write its id, or key:NAME")
    found = many(view, words)
    if len(found) > 1:
        shown = ", ".join(f"#{task_id}" for task_id in found[:5])
        raise UsageError(f"{len(found)} tasks match, and this verb takes one", shown, "name one by its id")
    return found[0]


def many(view: views.View, words: Sequence[str], *, states: Sequence[str] = ()) -> list[int]:
    """The ids that are meant, in order. An id that does not exist raises `NotFound`.

    Where a filter names no state, only tasks in `states` (if given) are meant.
    """
    if not words:
        raise UsageError("no task was named", remedy=EXAMPLES)
    if are_ids(words):
        return _by_id(view, words)
    wanted = views.parse_arguments(words)
    if states and not wanted.states:
        wanted = msgspec.structs.replace(wanted, states=tuple(states))
    found = view.task_ids(wanted)
    if not found:
        raise NotFound("no task matches", remedy="see: taskdeck list")
    return found


def _by_id(view: views.View, words: Sequence[str]) -> list[int]:
    found: dict[int, None] = {}
    for first, last in views.ids(" ".join(words)):
        here = view.task_ids(views.Filter(ids=((first, last),)))
        if not here:
            what = (
                f"there is no task #{first}"
                if first == last
                else f"there is no task from #{first} to #{last}"
            )
            raise NotFound(what, remedy="see: taskdeck list")
        found |= dict.fromkeys(here)
    return list(found)
