"""Where each key of a TOML text stands: tomllib reads values but tells no lines.

A reader of key positions only. It expects text that tomllib accepts; on other text it returns what it saw
before it lost the thread, which is enough to say where a key was defined first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple

from .patterns import pattern

_PART = r"""(?:[A-Za-z0-9_-]+|"(?:[^"\\\n]|\\.)*"|'[^'\n]*')"""
_DOTTED = rf"{_PART}(?:[ \t]*\.[ \t]*{_PART})*"
_HEADER = pattern(rf"[ \t]*(\[\[?)[ \t]*({_DOTTED})[ \t]*\]")
_KEY = pattern(rf"[ \t]*({_DOTTED})[ \t]*=")
_PARTS = pattern(_PART)
_VALUE = pattern(
    r'''"""(?:[^\\]|\\[\s\S])*?"{3,5}|\'\'\'[\s\S]*?'{3,5}|"(?:[^"\\\n]|\\.)*"|'[^'\n]*'|#[^\n]*|[\[{]|[\]}]|\n|[^"'#\[\]{}\n]+'''
)

_LIKE_DB = pattern(r"""\bdb["']?[ \t]*=""")


class KeyLine(NamedTuple):
    """One definition: the whole key, its line (from 1), and whether it is a table's header."""

    key: tuple[str, ...]
    line: int
    is_header: bool


def key_lines(text: str) -> list[KeyLine]:
    """Every header and key of `text` in order; what stands inside an inline table is not listed."""
    return list(_definitions(text.replace("\r\n", "\n")))


def line_of(lines: list[KeyLine], key: tuple[str, ...]) -> int | None:
    """The line where `key`, or else the nearest table or value around it, is defined."""
    for length in range(len(key), 0, -1):
        for found in lines:
            if found.key[:length] == key[:length] and (length == len(key) or len(found.key) == length):
                return found.line
    return None


def defined_twice(lines: list[KeyLine]) -> tuple[KeyLine, KeyLine] | None:
    """The first key that is defined a second time, with its first definition."""
    seen: dict[tuple[str, ...], KeyLine] = {}
    for found in lines:
        if found.key in seen:
            return seen[found.key], found
        seen[found.key] = found
    return None


def places_named(text: str, lines: list[KeyLine]) -> dict[str, Any] | None:
    """`db` and `logs` of `[taskdeck]` in a text that is no TOML as a whole; None where they can't be told for certain.

    Each must stand once, on a line that is TOML by itself, and nothing that looks like a `db` may stand anywhere else.
    """
    rows = text.split("\n")
    named = [each for each in lines if each.key in (("taskdeck", "db"), ("taskdeck", "logs"))]
    code = "\n".join(row for row in rows if not row.lstrip().startswith("#"))
    places = [each.key for each in named]
    if len(set(places)) < len(places) or len(_LIKE_DB.findall(code)) != places.count(("taskdeck", "db")):
        return None
    import tomllib  # for a broken file alone

    try:
        values = {
            each.key[1]: tomllib.loads(f"_ ={rows[each.line - 1].partition('=')[2]}")["_"] for each in named
        }
    except ValueError:
        return None
    return {"taskdeck": values} if any(each.key[0] == "taskdeck" for each in lines) else {}


def _definitions(text: str) -> Iterator[KeyLine]:
    table: tuple[str, ...] = ()
    repeated: Counter[tuple[str, ...]] = Counter()
    position, line = 0, 1
    while position < len(text):
        header, key = _HEADER.match(text, position), _KEY.match(text, position)
        end = _value_end(text, key.end()) if key and not header else _line_end(text, position)
        if header:
            table = _split(header[2])
            if header[1] == "[[":  # each of a list of tables has its number in its key
                repeated[table] += 1
                table = (*table, str(repeated[table] - 1))
            yield KeyLine(table, line, True)
        elif key:
            yield KeyLine((*table, *_split(key[1])), line, False)
        line += text.count("\n", position, end)
        position = end


def _split(dotted: str) -> tuple[str, ...]:
    return tuple(part.strip("\"'") if part[0] in "\"'" else part for part in _PARTS.findall(dotted))


def _line_end(text: str, position: int) -> int:
    end = text.find("\n", position)
    return len(text) if end < 0 else end + 1


def _value_end(text: str, position: int) -> int:
    """Behind the line on which the value ends: strings may hold lines, and so may brackets."""
    depth = 0
    for token in _VALUE.finditer(text, position):
        first = token[0][0]
        depth += (first in "[{" and len(token[0]) == 1) - (first in "]}")
        if first == "\n" and depth <= 0:
            return token.end()
    return len(text)
