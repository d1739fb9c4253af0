"""Which tasks a verb means: ids, ranges, filters, or all that it can act on."""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from taskdeck.engine import views
from taskdeck.engine.errors import NotFound, UsageError

from .. import output

EXAMPLES = "write ids (42, #42, 3-7, 1,2) or a filter (state:failed type:fetch)"
HOLD_EXAMPLES = (
    "type:fetch or pool:browser as a whole, also what is added later; or ids (42, 3-7), or a filter of tasks"
)
MOST_NAMED = 5


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
    if plain := _plain(words):
        output.note(
            f"#{found[0]} is the one task that matches `{plain[0]}`, which is no id and was searched as text"
        )
    return found[0]


def many(view: views.View, words: Sequence[str], *, states: Sequence[str] = ()) -> list[int]:
    """The ids that are meant, in order. An id that does not exist raises `NotFound`.

    Where a filter names no state, only tasks in `states` (if given) are meant.
    """
    if not words:
        raise UsageError("no task was named", remedy=EXAMPLES)
    if are_ids(words):
        return _by_id(view, words)
    _refuse_empty(words)
    _refuse_bad_ids(words)
    wanted = views.parse_arguments(words)
    if states and not wanted.states:
        wanted = msgspec.structs.replace(wanted, states=tuple(states))
    hint_at_states(words)
    found = view.task_ids(wanted)
    if not found:
        raise _nothing(words)
    return found


def _refuse_empty(words: Sequence[str]) -> None:
    """`cancel "$ID"` where ID is not set means no task, and certainly not each of them."""
    if not all(word.strip(' \t\r\n"') for word in words):  # also `""`, which a filter reads as no text
        raise UsageError("an empty word names no task", "is a variable not set?", EXAMPLES)


def _refuse_bad_ids(words: Sequence[str]) -> None:
    """Only digits and what joins ids, yet no ids: a slip that must not be searched as text."""
    for word in words:
        if re.fullmatch(r"[-#,]*[0-9][-#,0-9]*", word, re.ASCII) and not views.is_ids(word):
            raise UsageError(f"`{word}` is no id", remedy=EXAMPLES)


def _nothing(words: Sequence[str]) -> NotFound:
    """No task matches; a word that may have been meant as an id is named."""
    plain = _plain(words)
    what = f"no task matches `{' '.join(words)}`"
    if not plain:
        return NotFound(what, remedy="see: taskdeck list")
    return NotFound(what, f"`{plain[0]}` is no id, and was searched as text", EXAMPLES)


def _plain(words: Sequence[str]) -> list[str]:
    """Those of these words that are searched as text."""
    return [word for word in words if ":" not in word and not views.is_ids(word)]


def are_named(words: Sequence[str]) -> bool:
    """Is each of these words an id, a range or a whole key, so that no other task can be meant?"""
    return all(views.is_ids(word) or word.startswith("key:") for word in words)


def hint_at_states(words: Sequence[str]) -> None:
    """`failed` is searched as text: say so to those who meant a state."""
    meant = [(word, found) for word in words if (found := views.state_named(word))]
    for word, found in meant:
        output.note(f"`{word}` is searched as text; for tasks in that state write {found}")


def _by_id(view: views.View, words: Sequence[str]) -> list[int]:
    found: dict[int, None] = {}
    missing: list[tuple[int, int]] = []
    for first, last in views.ids(" ".join(words)):
        here = view.task_ids(views.Filter(ids=((first, last),)))
        missing += [] if here else [(first, last)]
        found |= dict.fromkeys(here)
    if archived := next((first for first, _ in missing if view.archived_task(first)), None):
        raise view.no_task(archived)
    if missing:
        raise NotFound(f"there is no task {_ranges(missing)}", remedy="see: taskdeck list")
    return list(found)


def _ranges(found: Sequence[tuple[int, int]]) -> str:
    """`#7, #9-#12 and 3 more`; neighbours become one range."""
    merged: list[tuple[int, int]] = []
    for first, last in sorted(found):
        if merged and first <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(merged[-1][1], last))
        else:
            merged.append((first, last))
    shown = [f"#{first}" if first == last else f"#{first}-#{last}" for first, last in merged]
    more = f" and {len(shown) - MOST_NAMED} more" if len(shown) > MOST_NAMED else ""
    return ", ".join(shown[:MOST_NAMED]) + more
