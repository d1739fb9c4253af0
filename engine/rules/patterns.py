"""Regular expressions that are compiled when they are first used.

There are eighty, of which a process needs few: to compile all of them took a third of the start of the smallest ones.
"""

from __future__ import annotations

import re
from typing import Any, AnyStr, cast


def pattern(text: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """What `re.compile` returns, for a name of a module. Raises `re.error` at its first use, if it is wrong."""
    return cast("re.Pattern[AnyStr]", Late(text, flags))


class Late:
    """Stands for a compiled pattern. What was asked of it once it has itself, so that it is as fast as that one."""

    def __init__(self, text: str | bytes, flags: int) -> None:
        self._source: tuple[Any, int] = (text, flags)

    def __getattr__(self, name: str) -> Any:
        value = getattr(re.compile(*self._source), name)  # `re` keeps what it has compiled
        setattr(self, name, value)
        return value
