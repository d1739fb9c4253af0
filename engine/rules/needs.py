"""What a task must hold before it starts: how many resources of which pools, and a route of which group.

Pure: the words of configuration, handlers and command line become counts here, wherever they come from.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from .patterns import pattern

MOST = 64
"""The resources of one pool that one task may hold at once."""

NAME = pattern(r"[A-Za-z0-9_.-]{1,64}", re.ASCII)
"""The name of a pool or of a group of routes."""

_NEED = pattern(r"([A-Za-z0-9_.-]{1,64})(?::([0-9]{1,4}))?", re.ASCII)


def parse_needs(needs: Iterable[str]) -> dict[str, int]:
    """`["browser:2", "gpu"]` → `{"browser": 2, "gpu": 1}`, in the order given; ValueError names the wrong one."""
    if isinstance(needs, str | bytes | Mapping) or not isinstance(needs, Iterable):
        raise ValueError('expected a list such as ["browser:2"]')
    counts: dict[str, int] = {}
    for need in needs:
        pool, count = _one(need)
        if pool in counts:
            raise ValueError(
                f'pool "{pool}" is named twice; write "{pool}:{min(counts[pool] + count, MOST)}"'
            )
        counts[pool] = count
    return counts


def needs_text(counts: Mapping[str, int]) -> list[str]:
    """The words for `counts`; `parse_needs` reads them back."""
    return [pool if count == 1 else f"{pool}:{count}" for pool, count in counts.items()]


def parse_group(text: object) -> str:
    """The group of routes that `text` names; ValueError where it can't be one."""
    if not isinstance(text, str) or not NAME.fullmatch(text):
        raise ValueError(f"{_shown(text)} can't be a group of routes: 1 to 64 of A-Z a-z 0-9 _ . -")
    return text


def _one(need: object) -> tuple[str, int]:
    found = _NEED.fullmatch(need) if isinstance(need, str) else None
    if not found:
        raise ValueError(f"{_shown(need)} is no need; write POOL or POOL:COUNT, such as browser:2")
    count = int(found[2]) if found[2] else 1
    if not 1 <= count <= MOST:
        raise ValueError(f"{_shown(need)}: the count must be 1 to {MOST}")
    return found[1], count


def _shown(value: object) -> str:
    text = "".join(c if c.isprintable() else "?" for c in str(value)[:60])
    return f'"{text}"'
