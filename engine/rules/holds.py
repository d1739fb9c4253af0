"""What can be held back as a whole: a type, a pool, or everything. Pure: the words for it, one spelling everywhere.

A hold is a row that stands until it is taken back: it also holds back what is added later. `type:fetch`, `pool:browser` and
`all` are its scopes, in the database, in JSON and on the screen.
"""

from __future__ import annotations

from collections.abc import Iterable

from ..errors import UsageError

EVERYTHING = "all"
KINDS = ("type", "pool")


def scopes(words: Iterable[str]) -> list[str] | None:
    """The scopes that `type:fetch pool:a,b` names; None where any word is something else (ids, a filter)."""
    found: dict[str, None] = {}
    for word in words:
        kind, colon, names = word.partition(":")
        if not colon or kind.lower() not in KINDS:
            return None
        found |= dict.fromkeys(f"{kind.lower()}:{name}" for name in names.split(",") if name)
    return list(found) or None


def check(scope: str) -> str:
    """The scope itself. Raises `UsageError` for what can't be held."""
    kind, _, name = scope.partition(":")
    if scope == EVERYTHING or (kind in KINDS and name):
        return scope
    raise UsageError(f"{scope!r} can't be held", remedy="hold type:NAME, pool:NAME, or all")


def named(scope: str) -> str:
    """In words: `everything`, `type fetch`, `pool browser`."""
    return "everything" if scope == EVERYTHING else scope.replace(":", " ", 1)


def target(scope: str) -> str:
    """As it is written behind a verb of the command line."""
    return "--all" if scope == EVERYTHING else scope


def over(type_name: str, pools: Iterable[str]) -> list[str]:
    """The scopes that a task of this type with these pools is in, the widest first."""
    return [EVERYTHING, f"type:{type_name}", *(f"pool:{pool}" for pool in pools)]
