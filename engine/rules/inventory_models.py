"""Resources and routes as data: immutable read models with the stable JSON names.

Names here are promises to scripts: fields may be added, none is renamed. Nothing is read here.
"""

from __future__ import annotations

import msgspec


class SlotView(msgspec.Struct, frozen=True, kw_only=True):
    """One lease's worth of a resource or route. `owner` is who leased it, `task` for whom, `held_since` since when."""

    slot: int
    state: str
    owner: str | None
    task: int | None
    held_since: str | None
    lease_until: str | None
    fence: int
    cooldown_until: str | None
    cooldown_reason: str | None
    drain: bool
    pending: str | None
    uses: int
    last_used_at: str | None
    last_error: str | None
    updated_at: str


class ReadyView(msgspec.Struct, frozen=True):
    """What the check of a resource found: `state` is `unasked`, `checking`, `ready` or `not_ready`.

    `until` (UTC): so long the answer stands, then it is asked again where a task wants it. `failures` in a row.
    """

    state: str
    detail: str
    checked_at: str | None
    until: str | None
    failures: int


class ResourceView(SlotView, frozen=True, kw_only=True):
    """A resource, or one slot of a resource of larger capacity: then `id` is `name/slot`.

    `route` is the one that whoever holds it goes out by; `route_soft`: by another where that can't be had. `max_age` in
    seconds; past that, or after `max_uses`, it is given to nobody. `ready` is None where nothing asks whether it is.
    """

    id: str
    resource: str
    pool: str
    kind: str
    capacity: int
    min_reuse: float
    labels: dict[str, str]
    route: str | None
    route_soft: bool
    max_uses: int | None
    max_age: float | None
    removed_at: str | None
    ready: ReadyView | None


class ScoreView(msgspec.Struct, frozen=True):
    """What a score is made of: `base` less the others is `raw`; `value` is what it counts as, 0 to 100."""

    base: float
    latency: float
    failures: float
    timeouts: float
    raw: float
    value: float


class StagesView(msgspec.Struct, frozen=True):
    """The milliseconds of each stage of the last check; None = it failed, was not reached or was not run."""

    tcp: float | None
    probe: float | None
    exit: float | None


class SampleView(msgspec.Struct, frozen=True):
    """One result of a probe or of a task; `error_type` None = passed. `stage` counts the stages that passed."""

    at: str
    source: str
    stage: int
    error_type: str | None
    ms: float | None
    target: str | None


class TargetView(msgspec.Struct, frozen=True):
    """What one target did to a route."""

    target: str
    ok: int
    fail: int
    blocked: int
    consecutive_blocked: int
    blocked_until: str | None
    level: int


class RouteView(msgspec.Struct, frozen=True, kw_only=True):
    """A route; `url` without its password. The last fields are only set where one route is shown.

    `why_not`: why a task can't get it now, in words; empty where it can. `verified`: the last passed check proved that no
    proxy answered in the judge's place (None = none passed yet). `region_source`: whose word the region is.
    `bandwidth`: what may be received by it (bytes/s), None = as many as come. `probe_bytes`: what its checks cost so far.
    `held_since` is the first of the leases that there are now, `lease_until` the first to end.
    """

    id: str
    url: str
    group: str
    state: str
    score: float | None
    latency_ms: float | None
    consecutive_failures: int
    recent_timeouts: int
    exit_ip: str | None
    region: str | None
    region_source: str | None
    verified: bool | None
    cooldown_until: str | None
    cooldown_reason: str | None
    cooldown_level: int
    degraded: bool
    last_error: str | None
    last_error_detail: str | None
    labels: dict[str, str]
    capacity: int
    busy: int
    tasks: list[int]
    held_since: str | None
    lease_until: str | None
    min_reuse: float
    bandwidth: float | None
    max_uses: int | None
    max_age: float | None
    password: str | None
    expected_ip: str | None
    expected_regions: list[str]
    stages: StagesView
    checks: int
    probe_bytes: int
    last_check_at: str | None
    last_ok_at: str | None
    next_check_at: str | None
    exit_seen_at: str | None
    removed_at: str | None
    breakdown: ScoreView | None = None
    slots: list[SlotView] | msgspec.UnsetType = msgspec.UNSET
    samples: list[SampleView] | msgspec.UnsetType = msgspec.UNSET
    targets: list[TargetView] | msgspec.UnsetType = msgspec.UNSET
    why_not: str | msgspec.UnsetType = msgspec.UNSET
