"""Payloads that surely fit their type, told by the type's shape alone, where no handler is loaded. Pure.

A shape is JSON: `"any"`, `"null"`, `"bool"`, `"int"`, `"float"`, `"str"`, `["list", shape]`, `["map", shape]`,
`["or", shape, …]`, `["object", {key: shape, …}, [required key, …]]`. A worker makes it only of a type whose whole meaning it
tells (`run.params.shape`); of all others there is none, and who can't tell asks a worker.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import msgspec

_SCALARS = {
    "null": (type(None),),
    "bool": (bool,),
    "int": (int,),
    "float": (float, int),
    "str": (str,),
}
DEEPEST = 8
"""Shapes inside each other that are looked at; a payload that goes deeper is shown to a worker."""


def surely_fits(shape: str, payload: str) -> bool:
    """Whether a payload (JSON text) certainly fits a shape (JSON text); False also where nobody here can tell."""
    return bool(shape) and _fits(_read(shape), msgspec.json.decode(payload), DEEPEST)


def surely_all_fit(shape: str, payloads: Sequence[str]) -> bool:
    """Whether all of these certainly fit one shape: they are parsed together."""
    return surely_fits(_list_of(shape), f"[{','.join(payloads)}]")


def doubtful(shapes: Mapping[str, str], tasks: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """Those of these (type, payload) of which `surely_fits` can't tell, in order. `shapes` has each of the types.

    What stands together is parsed together.
    """
    found = list[tuple[str, str]]()
    for first in range(0, len(tasks), _AT_ONCE):
        some = tasks[first : first + _AT_ONCE]
        names, payloads = zip(*some, strict=True)
        if names.count(names[0]) != len(names) or not surely_all_fit(shapes[names[0]], payloads):
            found += [each for each in some if not surely_fits(shapes[each[0]], each[1])]
    return found


_AT_ONCE = 256


def _list_of(shape: str) -> str:
    return shape and f'["list",{shape}]'


@lru_cache(maxsize=512)
def _read(shape: str) -> Any:
    return msgspec.json.decode(shape)


def _fits(shape: Any, value: Any, depth: int) -> bool:
    if isinstance(shape, str):
        return shape == "any" or type(value) in _SCALARS[shape]
    if not depth:
        return False
    match shape[0]:
        case "object":
            fields, required = shape[1], shape[2]
            return (
                isinstance(value, dict)
                and all(key in value for key in required)
                and all(key in fields and _fits(fields[key], item, depth - 1) for key, item in value.items())
            )
        case "list":
            return isinstance(value, list) and _all_fit(shape[1], value, depth - 1)
        case "map":
            return isinstance(value, dict) and all(
                _fits(shape[1], item, depth - 1) for item in value.values()
            )
        case _:
            return any(_fits(each, value, depth - 1) for each in shape[1:])


def _all_fit(shape: Any, values: list[Any], depth: int) -> bool:
    if isinstance(shape, str):
        return shape == "any" or set(map(type, values)).issubset(_SCALARS[shape])
    return all(_fits(shape, value, depth) for value in values)
