"""A task as it is handed in: checked, and not yet in the database. Pure data."""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec


class Kind(NamedTuple):
    """All of a new task but its payload, since lists have thousands that are alike in it.

    Times are UTC text, `tags` JSON text, durations seconds.
    """

    type: str
    priority: int = 100
    scheduled_at: str = ""
    key: str | None = None
    schedule: str | None = None
    parent_id: int | None = None
    tags: str = "[]"
    timeout: float | None = None
    max_retry: int | None = None
    on_lost: str | None = None
    needs: str | None = None
    """JSON list of `pool:count`, or None: as its type says."""
    route: str | None = None
    allow_direct: bool | None = None
    target: str = ""
    """The host that it works on; empty = unknown."""
    bandwidth: float | None = None
    """Bytes a second that an attempt may receive, or None: as its type says."""

    @property
    def lane(self) -> str:
        """Tasks that wait for the same things share a lane, so that one blocked lane never hides another."""
        return (
            self.type
            if not (self.needs or self.route)
            else f"{self.type}|{self.needs or ''}|{self.route or ''}"
        )


class NewTask(msgspec.Struct, frozen=True, gc=False):
    """A validated task before it has a row. `payload` is JSON text."""

    kind: Kind
    payload: str


def new_task(type_name: str, payload: str, *more: Any, **fields: Any) -> NewTask:
    """A task of which the rest is as in `Kind`."""
    return NewTask(Kind(type_name, *more, **fields), payload)
