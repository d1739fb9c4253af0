"""JSON that a person wrote, read so that nothing of it is passed over: a key that stands twice, a number without end."""

from __future__ import annotations

import json
from typing import Any


class Unclear(Exception):
    """It is JSON, and yet what is meant can't be kept. Says why; holds no value."""


def read_json(text: str) -> Any:
    """The value of a JSON text. Raises `json.JSONDecodeError` for what is none, else `Unclear`."""
    try:
        return _decode(text)
    except RecursionError:
        raise Unclear("it is nested too deeply") from None
    except ValueError as error:
        if isinstance(error, json.JSONDecodeError):
            raise
        raise Unclear("a number in it has too many digits") from None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise Unclear(f"the key {json.dumps(key)[:60]} stands twice in one object")
        found[key] = value
    return found


_decode = json.JSONDecoder(object_pairs_hook=_object).decode
