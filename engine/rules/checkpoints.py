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
from .rollback import is_step

NOTHING_SAVED = ("", "{}")
"""What an attempt is given as its checkpoint where there is none."""

ROLLED_BACK = "rolled_back"
"""Stage of the row that says `from the beginning` because the task was rolled back, not since a person chose so."""


class Resume(Struct, frozen=True):
    """Where to go on: the checkpoint's number and value, and why each newer one was passed over.

    `seq` is 0 and `data` empty where there is no valid one. `needs_review` then tells that some were there:
    to start from nothing would repeat work that was done. `version` is that of the handler which saved it, `again_from`
    the number that a person chose (0 = the beginning). `older` are the further ones that may be tried, newest first.
    """

    seq: int
    data: Any
    skipped: tuple[str, ...] = ()
    version: int = 0
    again_from: int | None = None
    older: tuple[tuple[int, int, str], ...] = ()

    @property
    def needs_review(self) -> bool:
        return self.seq == 0 and bool(self.skipped)

    @property
    def story(self) -> str:
        """`resumes at checkpoint 7`, in words for people."""
        if not self.seq or self.again_from == 0:
            return "starts again from the beginning"
        return f"resumes at checkpoint {self.again_from or self.seq}"


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


def fault_of(data: str, version: int, wanted: int, *, migrates: bool = False) -> str:
    """Why a handler of version `wanted` can't resume from this text; empty where it can. `migrates`: from older ones too."""
    if version != wanted and not (migrates and version < wanted):
        return f"it is of version {version}, the handler of version {wanted}"
    try:
        value = payloads.decode(data, where="checkpoint")
    except InvalidPayload as error:
        return error.why
    return "" if isinstance(value, dict) else "it is no object"


def undone_under(operations: Iterable[Mapping[str, Any]]) -> int:
    """The fence of the last undo step that was done (0 = none): what was saved under a smaller one builds on what is undone.

    By fences, which no step of the clock moves. `operations` are those of one task (`scope`, `state`, `fence`).
    """
    done = (row["fence"] for row in operations if is_step(row["scope"]) and row["state"] == "DONE")
    return max(done, default=0)


def is_undone(row: Mapping[str, Any], under: int) -> bool:
    """Whether a kept row (`fence`, `again_from`) builds on effects that were rolled back; the beginning never does."""
    return row["again_from"] != 0 and row["fence"] < under


def is_valid(data: str, version: int, wanted: int) -> bool:
    """Whether a handler of version `wanted` can resume from this text."""
    return not fault_of(data, version, wanted)


def latest_valid(rows: Iterable[Mapping[str, Any]], version: int, *, migrates: bool = False) -> Resume:
    """The newest row (`seq`, `version`, `data`, `again_from`; newest first) that a handler of `version` can resume from.

    Never one behind a row that a person chose to start again from: what came before it was left on purpose.
    """
    skipped: list[str] = []
    found: list[Mapping[str, Any]] = []
    for row in rows:
        again_from = row.get("again_from")
        fault = "" if again_from == 0 else fault_of(row["data"], row["version"], version, migrates=migrates)
        if not fault:
            found.append(row)
        elif not found:
            skipped.append(f"checkpoint {again_from or row['seq']}: {fault}")
        if again_from is not None:
            break
    if not found:
        return Resume(0, {}, tuple(skipped))
    first, *older = found
    return Resume(
        first["seq"],
        payloads.decode(first["data"], where="checkpoint"),
        tuple(skipped),
        version if first.get("again_from") == 0 else first["version"],
        first.get("again_from"),
        tuple((row["seq"], row["version"], row["data"]) for row in older if row.get("again_from") != 0),
    )
