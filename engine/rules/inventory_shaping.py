"""Rows of resources and routes as read models. Pure: rows, health and settings in, models out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from .inventory_models import (
    ReadyView,
    ResourceView,
    RouteView,
    SampleView,
    ScoreView,
    SlotView,
    StagesView,
    TargetView,
)
from .redaction import Redactor
from .resource_states import BUSY
from .resources import Change
from .route_cooldown import Standing
from .route_health import RouteHealth, Score
from .route_urls import shown_url

Row = Mapping[str, Any]

_SAME_IN_SLOT = (
    "state",
    "lease_until",
    "fence",
    "cooldown_until",
    "cooldown_reason",
    "uses",
    "last_used_at",
    "updated_at",
)
_SAME_IN_RESOURCE = ("pool", "kind", "capacity", "min_reuse", "max_uses", "max_age", "removed_at")
_SAME_IN_ROUTE = (
    "group",
    "capacity",
    "min_reuse",
    "max_uses",
    "max_age",
    "exit_ip",
    "region_source",
    "cooldown_level",
    "expected_ip",
    "checks",
    "probe_bytes",
    "last_check_at",
    "last_ok_at",
    "next_check_at",
    "exit_seen_at",
    "removed_at",
)


class RouteFacts(NamedTuple):
    """What the database says of one route at one moment: its row with its health's columns, its slots, the rest derived."""

    row: Row
    slots: Sequence[Row]
    standing: Standing
    health: RouteHealth
    score: Score | None
    recent_timeouts: int


class InventoryShaper:
    """Makes models of rows, without the secrets that `redactor` knows."""

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor

    def resource(self, row: Row) -> ResourceView:
        """A slot with the columns of its resource."""
        return ResourceView(
            id=slot_name(row["resource_id"], row),
            resource=row["resource_id"],
            labels=_json(row["labels"], dict[str, str]),
            route=row["route_id"],
            route_soft=bool(row["route_soft"]),
            ready=self._ready(row),
            **{name: row[name] for name in _SAME_IN_RESOURCE},
            **self._slot(row),
        )

    def route(self, known: RouteFacts, **more: Any) -> RouteView:
        """A route with what is known of it at this moment; `more` are the fields that only one route has."""
        row, slots, standing, health, score, timeouts = known
        resting = [slot for slot in slots if slot["state"] == standing.state and slot["cooldown_until"]]
        held = [slot for slot in slots if slot["task_id"] is not None]
        first = min(resting, key=lambda slot: slot["cooldown_until"], default=None)
        return RouteView(
            id=row["route_id"],
            url=shown_url(row["scheme"], row["host"], row["port"], row["username"], bool(row["secret_ref"])),
            state=standing.state.value,
            score=None if score is None else score.shown,
            breakdown=None if score is None else ScoreView(*score, score.raw, score.value),
            latency_ms=health.latency_ms,
            consecutive_failures=health.consecutive_failures,
            recent_timeouts=timeouts,
            region=row["exit_region"],
            bandwidth=row["bandwidth"] or None,
            verified=None if row["verified"] is None else bool(row["verified"]),
            cooldown_until=first["cooldown_until"] if first else None,
            cooldown_reason=first["cooldown_reason"] if first else None,
            degraded=bool(row["degraded"]),
            last_error=row["last_error_type"],
            last_error_detail=self._text(row["last_error_detail"]),
            labels=_json(row["labels"], dict[str, str]),
            busy=sum(slot["state"] in BUSY for slot in slots),
            tasks=sorted({slot["task_id"] for slot in held}),
            held_since=min((slot["last_used_at"] for slot in held if slot["last_used_at"]), default=None),
            lease_until=min((slot["lease_until"] for slot in held if slot["lease_until"]), default=None),
            password=row["secret_ref"],
            expected_regions=_json(row["expected_regions"], list[str]),
            stages=StagesView(row["tcp_ms"], row["probe_ms"], row["exit_ms"]),
            **{name: row[name] for name in _SAME_IN_ROUTE},
            **more,
        )

    def slot(self, row: Row) -> SlotView:
        """One slot."""
        return SlotView(**self._slot(row))

    def sample(self, row: Row) -> SampleView:
        """One sample of a route."""
        return SampleView(**{name: row[name] for name in SampleView.__struct_fields__})

    def target(self, row: Row) -> TargetView:
        """One target of a route."""
        return TargetView(**{name: row[name] for name in TargetView.__struct_fields__})

    def _ready(self, row: Row) -> ReadyView | None:
        if not row["has_check"]:
            return None
        return ReadyView(
            row["ready_state"] or "unasked",
            self._text(row["ready_detail"]) or "",
            row["ready_checked_at"],
            row["ready_until"],
            row["ready_failures"],
        )

    def _slot(self, row: Row) -> dict[str, Any]:
        held = row["task_id"] is not None
        return {name: row[name] for name in _SAME_IN_SLOT} | {
            "slot": row["number"],
            "owner": row["lease_owner"],
            "task": row["task_id"],
            "held_since": row["last_used_at"] if held else None,
            "drain": bool(row["drain"]),
            "pending": _pending(row["pending"]),
            "last_error": self._text(row["last_error"]),
        }

    def _text(self, text: str | None) -> str | None:
        return text and self._redactor.text(text)


def slot_name(name: str, row: Row) -> str:
    """`browser-1`, or `gpu/2` where there are several slots."""
    return name if row["capacity"] == 1 else f"{name}/{row['number']}"


def _pending(text: str | None) -> str | None:
    """What a busy one becomes at its release: `COOLDOWN HEALTH`, `FAULT`."""
    if text is None:
        return None
    change = _json(text, Change)
    return f"{change.to} {change.reason}" if change.reason else change.to.value


def _json(text: str, type: Any) -> Any:
    return msgspec.json.decode(text, type=type)
