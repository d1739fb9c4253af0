"""What a checkpoint holds after a change, and which of the kept ones a resumed attempt may start from.

Pure: rows come in as mappings, newest first, as the store gives them. Who saves and drops them is the store's
affair.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import Struct

from ..errors import InvalidPayload
from . import payloads


class Resume(Struct, frozen=True):
    """Where to go on: the checkpoint's number and value, and why each newer one was passed over.

    `seq` is 0 and `data` empty where there is no valid one. `needs_review` then tells that some were there:
    to start from nothing would repeat work that was done.
    """

    seq: int
    data: Any
    skipped: tuple[str, ...] = ()

    @property
    def needs_review(self) -> bool:
        return self.seq == 0 and bool(self.skipped)


def merge(old: Any, patch: Any) -> Any:
    """`old` changed by a JSON merge patch (RFC 7386): null removes a key, objects merge, all else replaces.

    Neither argument is changed. Without recursion, so that depth can't hurt.
    """
    if not isinstance(patch, Mapping):
        return patch
    merged = dict(old) if isinstance(old, Mapping) else {}
    waiting: list[tuple[dict[str, Any], Mapping[str, Any]]] = [(merged, patch)]
    while waiting:
        target, changes = waiting.pop()
        for key, value in changes.items():
            if value is None:
                target.pop(key, None)
            elif isinstance(value, Mapping):
                current = target.get(key)
                target[key] = below = dict(current) if isinstance(current, Mapping) else {}
                waiting.append((below, value))
            else:
                target[key] = value
    return merged


def fault_of(data: str, version: int, wanted: int) -> str:
    """Why a handler of version `wanted` can't resume from this text; empty where it can."""
    if version != wanted:
        return f"it is of version {version}, the handler of version {wanted}"
    try:
        value = payloads.decode(data, where="checkpoint")
    except InvalidPayload as error:
        return error.why
    return "" if isinstance(value, dict) else "it is no object"


def is_valid(data: str, version: int, wanted: int) -> bool:
    """Whether a handler of version `wanted` can resume from this text."""
    return not fault_of(data, version, wanted)


def latest_valid(rows: Iterable[Mapping[str, Any]], version: int) -> Resume:
    """The newest row (`seq`, `version`, `data`; newest first) that a handler of `version` can resume from."""
    skipped: list[str] = []
    for row in rows:
        fault = fault_of(row["data"], row["version"], version)
        if not fault:
            return Resume(row["seq"], payloads.decode(row["data"], where="checkpoint"), tuple(skipped))
        skipped.append(f"checkpoint {row['seq']}: {fault}")
    return Resume(0, {}, tuple(skipped))
