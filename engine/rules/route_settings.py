"""The numbers of the routes' rules: `[routing]` and its tables, with their checks and defaults.

Declarations only. Durations in seconds, in the configuration also as texts such as "30s".
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from msgspec import Struct

from .checks import Choice, Duration, Flag, Number, PathText, Whole
from .inventory_checks import Addresses, Anchors, Expected, Statuses, Urls


class ScoreSettings(Struct, frozen=True):
    """`[routing.score]`: what a score is made of, and where a route leaves (`enter`) and returns (`leave`).

    `fall`: evaluations below `enter` before it is ejected; `rise`: passed re-probes before it returns.
    """

    base: Annotated[float, Number(0, 1000)] = 100.0
    latency_div: Annotated[float, Number(0.001, 1e6)] = 20.0
    failure_weight: Annotated[float, Number(0, 1000)] = 15.0
    timeout_weight: Annotated[float, Number(0, 1000)] = 10.0
    timeout_window_s: Annotated[float, Duration()] = 600.0
    latency_samples: Annotated[int, Whole(1, 1000)] = 5
    enter: Annotated[float, Number(0, 100)] = 40.0
    leave: Annotated[float, Number(0, 100)] = 60.0
    fall: Annotated[int, Whole(1, 100)] = 1
    rise: Annotated[int, Whole(1, 100)] = 1


class CooldownSettings(Struct, frozen=True):
    """`[routing.cooldown]`: how long an ejected route rests, and how it comes back.

    `retry_after_max_s` bounds what a server may ask for.
    """

    base_s: Annotated[float, Duration()] = 60.0
    factor: Annotated[float, Number(1, 100)] = 2.0
    max_s: Annotated[float, Duration()] = 3600.0
    jitter: Annotated[float, Number(0, 0.99)] = 0.2
    decay_s: Annotated[float, Duration(0.001)] = 1800.0
    max_ejected_percent: Annotated[float, Number(0, 100)] = 50.0
    slow_start_s: Annotated[float, Duration()] = 120.0
    fault_recheck_s: Annotated[float, Duration()] = 1800.0
    fault_max: Annotated[int, Whole(1, 1000)] = 3
    retry_after_max_s: Annotated[float, Duration()] = 86400.0


class BlockedSettings(Struct, frozen=True):
    """`[routing.blocked]`: when a target refuses a route.

    `circuit_routes` routes blocked by one target within `circuit_window_s` are the target's affair;
    `route_targets` targets that block one route within `route_window_s` are the route's. Where a tunnel fails, another route
    that reached the target within `witness_s` says that it is the route's own fault.
    """

    statuses: Annotated[tuple[int, ...], Statuses()] = (403, 429)
    after: Annotated[int, Whole(1, 1000)] = 2
    base_s: Annotated[float, Duration()] = 900.0
    factor: Annotated[float, Number(1, 100)] = 2.0
    max_s: Annotated[float, Duration()] = 86400.0
    circuit_routes: Annotated[int, Whole(1, 1000)] = 3
    circuit_window_s: Annotated[float, Duration()] = 600.0
    route_targets: Annotated[int, Whole(1, 1000)] = 3
    route_window_s: Annotated[float, Duration()] = 3600.0
    witness_s: Annotated[float, Duration()] = 300.0


class ChoiceSettings(Struct, frozen=True):
    """`[routing.choice]`: what a route is worth beside its score when one is chosen.

    `unknown`: the score of one that has none yet; `slow_start_least`: the share of its score that one counts with at the
    moment of its recovery; `tries`: races lost to others before a task goes back to waiting.
    """

    unknown: Annotated[float, Number(0, 100)] = 50.0
    busy_cost: Annotated[float, Number(0, 1000)] = 5.0
    degraded_cost: Annotated[float, Number(0, 1000)] = 100.0
    slow_start_least: Annotated[float, Number(0, 1)] = 0.1
    tries: Annotated[int, Whole(1, 100)] = 5


class FreezeSettings(Struct, frozen=True):
    """`[routing.freeze]`: when the judge is suspected instead of the routes that fail at it.

    At least `least` routes of a group were checked, `percent` of them failed past their proxy, and the control fails too. A
    control that passed is believed for `trusted_s`, one that routes have proved wrong is no argument for `distrusted_s`.
    """

    percent: Annotated[float, Number(0, 100)] = 50.0
    least: Annotated[int, Whole(1, 1000)] = 3
    trusted_s: Annotated[float, Duration()] = 5.0
    distrusted_s: Annotated[float, Duration()] = 600.0


class RouteSettings(Struct, frozen=True):
    """`[routing]`: probing, its time limits and schedule, and how a route is chosen.

    `ask_directly`: may this host ask the probe and address URLs without a route, to tell a broken judge from broken routes
    and to know its own addresses? `own_ips` are known besides. `ca_file`: authorities trusted besides the usual ones.
    `starts_per_s`: checks begun per probe host. `control_anchors` tell whether the network is up while the judge fails.
    `concurrency` to `concurrency_max` checks run at once, `concurrency_spare` times as many as the pool needs in between.
    `stale_s`: after a start, a result that is older proves nothing. A loop later than `max_lag_s` measured itself.
    """

    probe_urls: Annotated[tuple[str, ...], Urls()] = ()
    probe_status: Annotated[int, Whole(200, 299)] = 200
    probe_expect: Annotated[str, Expected()] = ""
    ip_urls: Annotated[tuple[str, ...], Urls()] = ()
    ask_directly: Annotated[bool, Flag()] = True
    own_ips: Annotated[tuple[str, ...], Addresses()] = ()
    ca_file: Annotated[Path | None, PathText()] = None
    geo_db: Annotated[Path | None, PathText()] = None
    unknown_region: Annotated[str, Choice("deny", "allow")] = "deny"
    interval_s: Annotated[float, Duration(0.01)] = 60.0
    jitter: Annotated[float, Number(0, 0.99)] = 0.1
    fast_interval_s: Annotated[float, Duration(0.01)] = 10.0
    tcp_timeout_s: Annotated[float, Duration(0.01, 3600)] = 3.0
    connect_timeout_s: Annotated[float, Duration(0.01, 3600)] = 5.0
    read_timeout_s: Annotated[float, Duration(0.01, 3600)] = 5.0
    budget_s: Annotated[float, Duration(0.01, 3600)] = 15.0
    max_lag_s: Annotated[float, Duration(0.001, 3600)] = 0.05
    concurrency: Annotated[int, Whole(1, 256)] = 8
    concurrency_max: Annotated[int, Whole(1, 256)] = 32
    concurrency_spare: Annotated[float, Number(1, 100)] = 1.5
    verify_on_lease_s: Annotated[float, Duration()] = 300.0
    full_check_every: Annotated[int, Whole(1, 100000)] = 10
    full_check_s: Annotated[float, Duration()] = 3600.0
    stale_s: Annotated[float, Duration()] = 600.0
    siblings_after: Annotated[int, Whole(1, 1000)] = 2
    samples_kept: Annotated[int, Whole(1, 10000)] = 50
    probe_claim_s: Annotated[float, Duration(0.01, 3600)] = 20.0
    starts_per_s: Annotated[float, Number(0.01, 10000)] = 2.0
    control_retry_s: Annotated[float, Duration(0.01)] = 15.0
    control_anchors: Annotated[tuple[str, ...], Anchors()] = ("1.1.1.1:443", "9.9.9.9:443")
    strategy: Annotated[str, Choice("p2c", "best", "lru", "round_robin")] = "p2c"
    unique_exit_ip: Annotated[bool, Flag()] = False
    affinity_s: Annotated[float, Duration()] = 3600.0
    score: ScoreSettings = ScoreSettings()
    cooldown: CooldownSettings = CooldownSettings()
    blocked: BlockedSettings = BlockedSettings()
    choice: ChoiceSettings = ChoiceSettings()
    freeze: FreezeSettings = FreezeSettings()
