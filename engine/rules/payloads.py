"""Strict JSON for payloads, checkpoints and results: what is ambiguous or endless is refused with its place.

Owns the limits. Accepts what RFC 8259 calls interoperable, and integers of any size up to the limit, exactly.
Never recurses, so no input can exhaust the stack. Knows nothing of a handler's declared type.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Sequence
from typing import Any, NoReturn

import msgspec

from ..errors import InvalidPayload
from .patterns import pattern

LARGEST = 1 << 20
"""Bytes of UTF-8 text."""
DEEPEST = 64
"""Lists and objects inside each other."""
LONGEST_NUMBER = 400
"""Digits (any characters) of one number."""

_STRING = r'"(?:[^"\\]+|\\.)*+(?:"|\\?\Z)'  # an open one runs to the end, so that no scan starts over
_BRACKETS = pattern(rf"{_STRING}|[\[{{]|[\]}}]", re.DOTALL)
_ESCAPES = pattern(
    r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u[dD][89a-fA-F][0-9a-fA-F]{2}|\\.",
    re.DOTALL,
)
_TOKENS = pattern(
    rf"(?P<string>{_STRING})(?P<key>\s*:)?|(?P<word>-?[A-Za-z0-9][A-Za-z0-9.+-]*)|[{{}}]", re.DOTALL
)
_MANY_DIGITS = pattern(rf"[0-9]{{{LONGEST_NUMBER}}}")
_SMALLEST_TOO_LONG = 10**LONGEST_NUMBER
_SAFE = 2**53
"""Whole numbers below it are the same everywhere, and nothing is to be checked."""


class _Fault(Exception):
    """A hook of the parser met what JSON's grammar allows and we don't; its place is looked up afterwards."""


def decode(text: str | bytes, *, where: str) -> Any:
    """The value of a JSON text. `where` ("payload", "result" …) names it in the message of InvalidPayload."""
    text = _decoded(text, where)
    _check_depth(text, where)
    try:
        value = _parse(text)
    except _Fault:
        _refuse(where, *_first_fault(text))
    except json.JSONDecodeError as error:
        what = "it is empty" if not text.strip() else f"it is not JSON: {error.msg}{_at(text, error.pos)}"
        _refuse(where, what, "write a JSON value, with texts and keys in double quotes")
    for escape in _ESCAPES.finditer(text) if "\\u" in text else ():
        if len(escape[0]) == 6:  # a whole pair has 12 characters, any other escape 2
            what = f"half a surrogate pair{_at(text, escape.start())}"
            _refuse(where, what, "write both halves, or the character itself")
    return value


def encode(value: Any) -> str:
    """The compact JSON text of a value of None, bool, int, float, str, list, tuple and dict with text keys.

    Anything else, and what breaks a limit, raises InvalidPayload with its path (`$.rows[3].when`).
    """
    if type(value) is int and -_SAFE < value < _SAFE:
        return str(value)  # in a tenth of the time
    _check_value(value)
    raw, text = _written(value)
    if len(raw) > LARGEST:
        _refuse("value", _TOO_LARGE, _SMALLER)
    return text


def _written(value: Any) -> tuple[bytes, str]:
    """The compact text of a value that was checked, in UTF-8 and decoded."""
    try:
        raw = _write_fast(value)
        text = raw.decode()
        if not _MAY_BE_REAL.search(text):
            return raw, text
    except (TypeError, ValueError, OverflowError):  # a type of its own, an integer of many digits
        pass
    text = _format(value)
    return text.encode(), text


def read(text: str | bytes, *, where: str) -> tuple[Any, str]:
    """The value of a JSON text, and its compact text: `decode` and `encode` in one. Raises what these raise.

    A short text that is just what would be written for its value holds nothing that is ambiguous, which is all that takes
    `decode` its time to find; so most texts are read by the fast parser and written once.
    """
    if isinstance(text, str) and text.isascii() and (len(text) <= DEEPEST or _is_harmless(text)):
        try:
            value = _fast(text)
            if not _MAY_BE_REAL.search(text) and (compact := _write_fast(value).decode()) == text:
                return value, compact
            compact = _format(value)
        except (msgspec.DecodeError, ValueError):
            pass  # it is told below what is wrong
        else:
            if compact == text or _format_widely(value) == text:
                return value, compact
    value = decode(text, where=where)
    return value, encode(value)


def compacted(texts: Sequence[str]) -> Sequence[str]:
    """The compact text of each of these, as `read` gives it. Empty where they are to be looked at one by one.

    For lists of payloads: they are parsed together.
    """
    together = ",".join(texts)
    if not together.isascii():
        return []
    if max(map(len, texts)) > DEEPEST and not all(
        len(each) <= DEEPEST or _is_harmless(each) for each in texts
    ):
        return []
    try:
        values = _fast(f"[{together}]")
        if not _MAY_BE_REAL.search(together) and [*map(_write_fast, values)] == [*map(str.encode, texts)]:
            return texts
        compact = [*map(_format, values)]
    except (msgspec.DecodeError, ValueError, RecursionError):
        return []
    return compact if compact == [*texts] or [*map(_format_widely, values)] == [*texts] else []


_SHORT = 4096
"""Characters: longer texts are not read twice."""
_TOO_LARGE = f"it is larger than {LARGEST >> 20} MiB as JSON"
_SMALLER = "keep the data in a file and write its path here"
_TOO_DEEP = f"more than {DEEPEST} lists and objects stand inside each other"
_FLATTER = "write it flatter"
_TOO_LONG = f"a number of more than {LONGEST_NUMBER} characters"
_AS_TEXT = "write it as a text"
_HALF = "a text holds half a surrogate pair (it came from bytes that are not UTF-8)"
_DECODED = 'write it in UTF-8, or decode it with errors="replace"; a file: by another name'


def _refuse(where: str, why: str, remedy: str) -> NoReturn:
    raise InvalidPayload(f"the {where} is refused", why, remedy) from None


def _at(text: str, position: int) -> str:
    line = text.count("\n", 0, position) + 1
    return f" at line {line}, column {position - text.rfind(chr(10), 0, position)}"


def _decoded(text: str | bytes, where: str) -> str:
    if len(text) > LARGEST:
        _refuse(where, _TOO_LARGE, _SMALLER)
    try:
        raw = text.encode() if isinstance(text, str) else text
        decoded = raw.decode()
    except UnicodeEncodeError as error:
        _refuse(where, f"{_HALF}, character {error.start + 1}", "write it in UTF-8")
    except UnicodeDecodeError as error:
        _refuse(where, f"byte {error.start + 1} is not UTF-8", "write it in UTF-8")
    if len(raw) > LARGEST:
        _refuse(where, _TOO_LARGE, _SMALLER)
    return decoded.removeprefix("\ufeff")


def _is_harmless(text: str) -> bool:
    """Is it short, and surely within the limits that the fast parser does not have?"""
    if len(text) > _SHORT or _may_be_deep(text):
        return False
    return len(text) < LONGEST_NUMBER or _MANY_DIGITS.search(text) is None


def _may_be_deep(text: str) -> bool:
    return len(text) > DEEPEST and text.count("[") + text.count("{") > DEEPEST


def _check_depth(text: str, where: str) -> None:
    """Before parsing, for the parser recurses. In most texts there are too few brackets to be looked at."""
    if not _may_be_deep(text):
        return
    depth = 0
    for found in _BRACKETS.finditer(text):
        depth += (found[0] in "[{") - (found[0] in "]}")
        if depth > DEEPEST:
            _refuse(where, _TOO_DEEP + _at(text, found.start()), _FLATTER)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise _Fault
    return value


def _integer(digits: str) -> int:
    if len(digits) > LONGEST_NUMBER:
        raise _Fault
    return int(digits)


def _real(digits: str) -> float:
    if len(digits) > LONGEST_NUMBER or not math.isfinite(value := float(digits)):
        raise _Fault
    return value


def _constant(name: str) -> NoReturn:
    raise _Fault


_format = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode
_format_widely = json.JSONEncoder(ensure_ascii=False, allow_nan=False).encode
"""As `json.dumps` writes unless it is told otherwise."""
_fast = msgspec.json.Decoder().decode
_write_fast = msgspec.json.Encoder().encode
"""Writes as `_format` does, but for real numbers."""
_MAY_BE_REAL = pattern(r"[0-9][.eE]")
_parse = json.JSONDecoder(
    object_pairs_hook=_object, parse_int=_integer, parse_float=_real, parse_constant=_constant
).decode


def _first_fault(text: str) -> tuple[str, str]:
    """What the hooks met, with its place: the reason and the remedy."""
    keys: list[set[str]] = []
    for found in _TOKENS.finditer(text):
        if found[0] == "{":
            keys.append(set())
        elif found[0] == "}":
            keys = keys[:-1]
        elif found["key"] and keys:
            key = json.loads(found["string"], strict=False)
            if key in keys[-1]:
                what = f"the key {found['string'][:60]} stands twice in one object,"
                return what + _at(text, found.start()), "remove one of the two"
            keys[-1].add(key)
        elif found["word"] and (fault := _word_fault(found["word"])):
            return fault[0] + _at(text, found.start()), fault[1]
    return "it is ambiguous", "write plain JSON"


def _word_fault(word: str) -> tuple[str, str] | None:
    if len(word) < 300 and word.isdigit():
        return None
    if word in ("NaN", "Infinity", "-Infinity"):
        return f"{word} is not JSON", "write null"
    if len(word) > LONGEST_NUMBER:
        return _TOO_LONG, _AS_TEXT
    is_huge = re.fullmatch(r"-?\d+(\.\d+)?([eE][+-]?\d+)?", word) and math.isinf(float(word))
    return ("a number out of range", _AS_TEXT) if is_huge else None


_HOLDERS = (dict, list, tuple)
_Place = tuple["_Place | None", str | int]


def _check_value(value: Any) -> None:
    """Walk the value with a list instead of the stack; a value that holds itself ends at the depth limit."""
    if not isinstance(value, _HOLDERS):
        return _check_scalar(value, None)
    waiting: list[tuple[Any, int, _Place | None]] = [(value, 0, None)]
    seen = 1
    while waiting:
        holder, depth, place = waiting.pop()
        if depth == DEEPEST:
            _refuse("value", f"{_path(place)}: {_TOO_DEEP}", _FLATTER)
        seen += len(holder)
        if (
            2 * seen - 1 > LARGEST
        ):  # an item is at least a byte, and one follows it; shared parts could unfold without end
            _refuse("value", _TOO_LARGE, _SMALLER)
        for key, item in _parts(holder, place):
            if isinstance(item, _HOLDERS):
                waiting.append((item, depth + 1, (place, key)))
            elif not (isinstance(item, str) and item.isascii()):
                _check_scalar(item, (place, key))
    return None


def _check_scalar(item: Any, place: _Place | None) -> None:
    if fault := _scalar_fault(item):
        _refuse("value", f"{_path(place)}: {fault[0]}", fault[1])


def _parts(
    holder: dict[Any, Any] | list[Any] | tuple[Any, ...], place: _Place | None
) -> Iterable[tuple[Any, Any]]:
    if not isinstance(holder, dict):
        return enumerate(holder)
    for key in holder:
        if not isinstance(key, str):
            _refuse("value", f"{_path(place)}: a key is {type(key).__name__}, not a text", "write str(key)")
        if fault := _scalar_fault(key):
            _refuse("value", f"{_path(place)}: a key: {fault[0]}", fault[1])
    return holder.items()


def _scalar_fault(item: Any) -> tuple[str, str] | None:
    if item is None or isinstance(item, bool):
        return None
    if isinstance(item, str):
        return None if item.isascii() or _is_encodable(item) else (_HALF, _DECODED)
    if isinstance(item, int):
        return None if abs(item) < _SMALLEST_TOO_LONG else (_TOO_LONG, _AS_TEXT)
    if isinstance(item, float):
        return None if math.isfinite(item) else (f"{item} is not JSON", "write None")
    return f"{type(item).__name__} is not JSON", "convert it to a text, number, list or dict"


def _is_encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _path(place: _Place | None) -> str:
    """`$.rows[3].when`; keys that are no plain word stand in quotes."""
    parts: list[str] = []
    while place is not None:
        place, key = place
        plain = isinstance(key, str) and re.fullmatch(r"[A-Za-z_]\w*", key[:60], re.ASCII)
        parts.append(f".{key[:60]}" if plain and isinstance(key, str) else f"[{json.dumps(key)[:60]}]")
    return "$" + "".join(reversed(parts))
