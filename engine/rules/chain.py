"""The hash chain of the audit: what one row's hash covers.

Pure arithmetic on one row; who reads the previous hash and who compares is `store.events` and `taskdeck.engine.views`.
"""

from __future__ import annotations

import hashlib

import msgspec

COLUMNS = (
    "event_id",
    "task_id",
    "resource_id",
    "route_id",
    "worker_id",
    "event_type",
    "level",
    "reason",
    "actor",
    "message",
    "payload_json",
    "created_at",
)
"""The columns of `event_log` that a hash covers, in this order for ever."""

_encode = msgspec.json.Encoder().encode
_sha256 = hashlib.sha256


def row_hash(previous: str, row: tuple[int | str | None, ...]) -> str:
    """The sha256 (hex) of the previous row's hash, a newline, and `row` as compact UTF-8 JSON.

    `row` holds the values of `COLUMNS`; the first row's `previous` is the empty text. The JSON equals
    `json.dumps(row, ensure_ascii=False, separators=(",", ":"))`, so that any language can check it.
    """
    return _sha256(previous.encode() + b"\n" + _encode(row)).hexdigest()
