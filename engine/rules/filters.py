"""The filter language of screens and verbs, and lists of task ids: text in, frozen values out.

`state:failed type:fetch,shell older:2h tag:nightly key:"a b" "some text" 3-7`: values of one term (comma or repeated) are
alternatives, different terms must all hold. `age>2h` says the same as `older:2h`, but a shell must be kept from reading
its `>`. Pure: which rows match is asked by `store.reading`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

from ..errors import UsageError
from .patterns import pattern
from .tasks import TaskState
from .timing import parse_duration

Range = tuple[int, int]
"""First and last id, both included."""

LARGEST_ID = 2**63 - 1
LEVELS = ("debug", "info", "warning", "error")
AGES = {"older": "older", "newer": "younger", "age": ""}
"""Terms of an age and the field that each fills; `age` needs a comparison and fills either."""


class Filter(msgspec.Struct, frozen=True, kw_only=True):
    """Which tasks; an empty field asks nothing. Ages are in seconds since creation."""

    states: tuple[str, ...] = ()
    types: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()
    reasons: tuple[str, ...] = ()
    pools: tuple[str, ...] = ()
    pooled_types: tuple[str, ...] = ()
    """Types that need one of `pools`; filled in by who knows the types."""
    workers: tuple[Range, ...] = ()
    parents: tuple[Range, ...] = ()
    ids: tuple[Range, ...] = ()
    text: tuple[str, ...] = ()
    older: float | None = None
    younger: float | None = None


class EventFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which events; an empty field asks nothing. Ages are in seconds since the event."""

    types: tuple[str, ...] = ()
    levels: tuple[str, ...] = ()
    reasons: tuple[str, ...] = ()
    actors: tuple[str, ...] = ()
    tasks: tuple[Range, ...] = ()
    workers: tuple[Range, ...] = ()
    resources: tuple[str, ...] = ()
    routes: tuple[str, ...] = ()
    text: tuple[str, ...] = ()
    older: float | None = None
    younger: float | None = None


def parse(text: str) -> Filter:
    """Read a task filter; `UsageError` names the term that is wrong and the known ones."""
    return Filter(**_read(_words(text), _TASK_TERMS, bare="ids"))


def parse_arguments(arguments: Iterable[str]) -> Filter:
    """Read a task filter from words that a shell has already split and unquoted."""
    return Filter(**_read(_shell_words(arguments), _TASK_TERMS, bare="ids"))


def parse_events(arguments: Iterable[str]) -> EventFilter:
    """Read an event filter from the words of a command line; a bare number is a task."""
    return EventFilter(**_read(_shell_words(arguments), _EVENT_TERMS, bare="tasks"))


def ids(text: str) -> list[Range]:
    """Read `1 #42 3-7,9` as ranges in the order given; `UsageError` for anything else."""
    words = text.replace(",", " ").split()
    if not words:
        raise UsageError("no task id was given", remedy="write ids such as 42, #42, 3-7 or 1,2")
    return [_range(word, "id") for word in words]


def is_ids(word: str) -> bool:
    """Does this word read as ids and ranges only?"""
    return bool(_IDS.fullmatch(word))


_IDS = pattern(r"#?\d+(?:-#?\d+)?(?:,#?\d+(?:-#?\d+)?)*,?", re.ASCII)
_RANGE = pattern(r"#?(\d{1,19})(?:-#?(\d{1,19}))?", re.ASCII)
_TERM = pattern(r"([A-Za-z_]+)(:|[<>]=?)(.*)", re.DOTALL)
_WORD = pattern(r'(?P<head>[A-Za-z_]+(?::|[<>]=?))?"(?P<quoted>(?:[^"\\]|\\.)*)"?|(?P<plain>\S+)', re.DOTALL)

Word = tuple[str, bool]
"""A word and whether it is quoted text, which is never read as a term."""


def _words(text: str) -> list[Word]:
    found: list[Word] = []
    for match in _WORD.finditer(text):
        if match["plain"] is not None:
            found.append((match["plain"], False))
        else:
            quoted = re.sub(r"\\(.)", r"\1", match["quoted"], flags=re.DOTALL)
            found.append(((match["head"] or "") + quoted, match["head"] is None))
    return found


def _shell_words(arguments: Iterable[str]) -> list[Word]:
    words: list[Word] = []
    for argument in arguments:
        pieces = argument.split()
        # `'key:a b'` is one term and `'some text'` one text; only a whole filter in one argument is split again.
        if '"' in argument or any(_TERM.fullmatch(piece) for piece in pieces[1:]):
            words += _words(argument)
        elif argument:
            words.append((argument, len(pieces) > 1 and not _TERM.fullmatch(argument)))
    return words


def _read(words: Iterable[Word], terms: Mapping[str, Term], *, bare: str) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for word, quoted in words:
        term = None if quoted else _TERM.fullmatch(word)
        if term:
            _add(fields, terms, term[1].lower(), term[2], term[3])
        elif not quoted and is_ids(word):
            _extend(fields, bare, [_range(part, "id") for part in word.strip(",").split(",")])
        elif word:
            if not quoted:
                _refuse_half_a_term(word.lower(), terms)
            _extend(fields, "text", [word])
    return fields


def _refuse_half_a_term(word: str, terms: Mapping[str, Term]) -> None:
    """A term's name alone is what a shell leaves of `age>2h` (the rest names a file), or a term not finished."""
    if word in terms or word in AGES:
        example = f"{word}:VALUE" if word in terms else "older:2h, newer:10m, or 'age>2h' in quotes"
        raise UsageError(
            f"`{word}` alone is half a filter",
            "an unquoted > or < is the shell's own" if word == "age" else "",
            f"write {example}; as plain text: '\"{word}\"'",
        )


def state_named(word: str) -> str | None:
    """`state:failed` for a plain word such as `failed`, which is searched as text but may have been meant as a state."""
    name = word.upper().replace("-", "_")
    return f"state:{name.lower()}" if name in TaskState.__members__ else None


def _add(fields: dict[str, Any], terms: Mapping[str, Term], name: str, sign: str, value: str) -> None:
    if name == "age":
        fields["older" if sign[0] == ">" else "younger"] = _age(f"age{sign}", sign != ":", value)
        return
    if name in AGES:
        fields[AGES[name]] = _age(f"{name}{sign}", sign == ":", value)
        return
    if name not in terms:
        raise _unknown_term(name, terms)
    if sign != ":":
        raise UsageError(f"`{name}{sign}` can't be compared", remedy=f"write {name}:VALUE")
    if not value:
        raise UsageError(f"`{name}:` names no value", remedy=f"write {name}:VALUE, or leave it out")
    field, read = terms[name]
    # A key may hold commas: it is taken as it stands.
    values = [value] if name == "key" else [part for part in value.split(",") if part]
    _extend(fields, field, [read(part, name) for part in values])


def _extend(fields: dict[str, Any], field: str, values: list[Any]) -> None:
    fields[field] = fields.get(field, ()) + tuple(values)


def _age(term: str, sound: bool, value: str) -> float:
    remedy = "write older:2h or newer:10m"
    if not sound:
        raise UsageError(f"`{term}` can't be read", "an age is older or newer than a duration", remedy)
    try:
        return parse_duration(value)
    except ValueError as error:
        raise UsageError(f"`{term}{value}` names no duration", str(error), remedy) from None


def _unknown_term(name: str, terms: Iterable[str]) -> UsageError:
    known = [*terms, "older", "newer"]
    return UsageError(
        f"`{name}` is no filter term",
        f"{_nearest(name, known)}known: {', '.join(f'{term}:' for term in known)}",
        "put plain text in double quotes, inside the shell's: '\"a:b\"'",
    )


def _nearest(word: str, known: Iterable[str]) -> str:
    import difflib  # only needed for mistakes

    close = difflib.get_close_matches(word, list(known), 1)
    return f"did you mean {close[0]}? " if close else ""


def _state(value: str, _: str) -> str:
    name = value.upper().replace("-", "_")
    if name in TaskState.__members__:
        return name
    known = [state.lower() for state in TaskState.__members__]
    raise UsageError(
        f"`state:{value}` is no state", f"{_nearest(value.lower(), known)}known: {', '.join(known)}"
    )


def _level(value: str, _: str) -> str:
    if value.lower() in LEVELS:
        return value.lower()
    raise UsageError(f"`level:{value}` is no level", f"{_nearest(value, LEVELS)}known: {', '.join(LEVELS)}")


def _range(value: str, name: str) -> Range:
    found = _RANGE.fullmatch(value)
    if not found:
        raise UsageError(f"`{value}` is no {name}", remedy="write ids such as 42, #42, 3-7 or 1,2")
    first, last = int(found[1]), int(found[2] or found[1])
    if first < 1 or last > LARGEST_ID:
        raise UsageError(f"`{value}` is no {name}", "ids start at 1")
    if first > last:
        raise UsageError(f"`{value}` runs backwards", remedy=f"write {last}-{first}")
    return first, last


def _same(value: str, _: str) -> str:
    return value


def _upper(value: str, _: str) -> str:
    return value.upper()


Term = tuple[str, Callable[[str, str], Any]]
"""The field that a term fills, and how one value of it is read."""

_TASK_TERMS: Mapping[str, Term] = {
    "state": ("states", _state),
    "type": ("types", _same),
    "tag": ("tags", _same),
    "key": ("keys", _same),
    "reason": ("reasons", _same),
    "pool": ("pools", _same),
    "worker": ("workers", _range),
    "parent": ("parents", _range),
    "id": ("ids", _range),
}

_EVENT_TERMS: Mapping[str, Term] = {
    "type": ("types", _upper),
    "level": ("levels", _level),
    "reason": ("reasons", _same),
    "actor": ("actors", _same),
    "task": ("tasks", _range),
    "worker": ("workers", _range),
    "resource": ("resources", _same),
    "route": ("routes", _same),
}
