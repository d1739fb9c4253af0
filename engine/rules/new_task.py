"""A task as it is handed in: checked, and not yet in the database. Pure data."""

from __future__ import annotations

from typing import NamedTuple


class NewTask(NamedTuple):
    """A validated task before it has a row. Times are UTC text, `payload` and `tags` JSON text, durations seconds."""

    type: str
    payload: str
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

    def with_payload(self, payload: str) -> NewTask:
        """The same with another payload: `_replace` takes three times as long, and lists have thousands that are alike."""
        return tuple.__new__(NewTask, (self[0], payload, *self[2:]))

    @property
    def lane(self) -> str:
        """Tasks that wait for the same things share a lane, so that one blocked lane never hides another."""
        return (
            self.type
            if not (self.needs or self.route)
            else f"{self.type}|{self.needs or ''}|{self.route or ''}"
        )
