"""The numbers of the routes' rules: `[routes]` and its tables, with their defaults.

Declarations only. Durations in seconds unless a name says otherwise.
"""

from __future__ import annotations

from msgspec import Struct


class ScoreSettings(Struct, frozen=True):
    """`[routes.score]`: what a score is made of, and where a route leaves (`enter`) and returns (`leave`).

    `fall`: evaluations below `enter` before it is ejected; `rise`: passed re-probes before it returns.
    """

    base: float = 100.0
    latency_div: float = 20.0
    failure_weight: float = 15.0
    timeout_weight: float = 10.0
    timeout_window_s: float = 600.0
    latency_samples: int = 5
    enter: float = 40.0
    leave: float = 60.0
    fall: int = 1
    rise: int = 1


class CooldownSettings(Struct, frozen=True):
    """`[routes.cooldown]`: how long an ejected route rests, and how it comes back.

    `retry_after_max_s` bounds what a server may ask for.
    """

    base_s: float = 60.0
    factor: float = 2.0
    max_s: float = 3600.0
    jitter: float = 0.2
    decay_s: float = 1800.0
    max_ejected_percent: float = 50.0
    slow_start_s: float = 120.0
    fault_recheck_s: float = 1800.0
    fault_max: int = 3
    retry_after_max_s: float = 86400.0


class BlockedSettings(Struct, frozen=True):
    """`[routes.blocked]`: when a target refuses a route.

    `circuit_routes` routes blocked by one target within `circuit_window_s` are the target's affair;
    `route_targets` targets that block one route within `route_window_s` are the route's.
    """

    statuses: tuple[int, ...] = (403, 429)
    after: int = 2
    base_s: float = 900.0
    max_s: float = 86400.0
    circuit_routes: int = 3
    circuit_window_s: float = 600.0
    route_targets: int = 3
    route_window_s: float = 3600.0


class RouteSettings(Struct, frozen=True):
    """`[routes]`: probing, its time limits and schedule."""

    probe_urls: tuple[str, ...] = ()
    probe_expect: str = ""
    ip_urls: tuple[str, ...] = ()
    interval_s: float = 60.0
    jitter: float = 0.1
    fast_interval_s: float = 10.0
    tcp_timeout_s: float = 3.0
    connect_timeout_s: float = 5.0
    read_timeout_s: float = 5.0
    budget_s: float = 15.0
    concurrency: int = 8
    verify_on_lease_s: float = 300.0
    full_check_every: int = 10
    full_check_s: float = 3600.0
    probe_claim_s: float = 20.0
    control_retry_s: float = 15.0
    score: ScoreSettings = ScoreSettings()
    cooldown: CooldownSettings = CooldownSettings()
    blocked: BlockedSettings = BlockedSettings()
