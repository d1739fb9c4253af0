"""Routes: when they are probed, when a broken target freezes all verdicts, and who answers for a refusal."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from taskdeck.engine.rules.resource_states import CooldownReason, ResourceState
from taskdeck.engine.rules.route_cooldown import Standing
from taskdeck.engine.rules.route_errors import ErrorType
from taskdeck.engine.rules.route_health import RouteHealth, Sample
from taskdeck.engine.rules.route_settings import RouteSettings
from taskdeck.engine.rules.route_targets import (
    Blame,
    Block,
    RouteTarget,
    blame_status,
    blame_tunnel,
    circuit_opens,
    failed,
    is_blocked,
    refused,
    route_is_blocked,
    succeeded,
)
from taskdeck.engine.rules.routes import (
    Control,
    ProbeClaim,
    accepted,
    after_start,
    concurrency,
    first_probe_at,
    is_doubtful,
    may_probe,
    must_verify,
    needs_exit_stage,
    next_probe_at,
    result_counts,
)
from taskdeck.engine.rules.settings import EngineSettings

S, R = ResourceState, CooldownReason
SETTINGS = RouteSettings()
BLOCKED = SETTINGS.blocked
FREEZE = SETTINGS.freeze


def least(low: float, high: float) -> float:
    return low


def most(low: float, high: float) -> float:
    return high


def test_an_idle_route_is_probed_every_minute_give_or_take_a_tenth():
    health = RouteHealth(last_at=1000.0, last_ok_at=1000.0)
    assert next_probe_at(Standing(), health, 0.0, SETTINGS, least) == 1054
    assert next_probe_at(Standing(), health, 0.0, SETTINGS, most) == 1066


def test_after_a_failure_it_is_probed_in_ten_seconds():
    health = RouteHealth(last_at=1000.0, last_error=ErrorType.TCP_TIMEOUT)
    assert next_probe_at(Standing(), health, 0.0, SETTINGS, most) == 1010


@pytest.mark.parametrize("reason", R)
def test_in_cooldown_it_is_probed_only_when_due(reason: CooldownReason):
    standing = Standing(S.COOLDOWN, reason, 1240.0)
    health = RouteHealth(last_at=1180.0, last_error=ErrorType.TCP_TIMEOUT)
    assert next_probe_at(standing, health, 0.0, SETTINGS, most) == 1240


def test_a_half_open_probe_that_decided_nothing_is_tried_again_soon():
    standing = Standing(S.COOLDOWN, R.HEALTH, 1240.0)
    assert next_probe_at(standing, RouteHealth(last_at=1240.0), 0.0, SETTINGS, most) == 1250


def test_in_fault_it_is_checked_again_after_half_an_hour_and_disabled_never():
    health = RouteHealth(last_at=1100.0, faulted_at=1000.0)
    assert next_probe_at(Standing(S.FAULT), health, 0.0, SETTINGS, most) == 2800
    assert next_probe_at(Standing(S.DISABLED), health, 0.0, SETTINGS, most) is None


def test_the_only_slot_of_a_busy_route_is_left_alone():
    health = RouteHealth(last_at=1000.0)
    assert next_probe_at(Standing(S.RUNNING), health, 0.0, SETTINGS, most, capacity=1) is None
    assert next_probe_at(Standing(S.RUNNING), health, 0.0, SETTINGS, most, capacity=2) == 1066


def test_500_routes_of_one_start_spread_over_an_interval_always_in_the_same_way():
    firsts = sorted(first_probe_at(f"route-{n}", 1000.0, 60.0) for n in range(500))
    assert all(1000 <= at < 1060 for at in firsts)
    seconds = [sum(1000 + n <= at < 1001 + n for at in firsts) for n in range(60)]
    assert max(seconds) < 30
    assert first_probe_at("eu-1", 0.0, 60.0) == first_probe_at("eu-1", 0.0, 60.0)
    assert next_probe_at(Standing(), RouteHealth(), 1042.0, SETTINGS, most) == 1042


def test_worked_example_01_a_route_never_checked_must_be_verified_before_its_lease():
    assert must_verify(RouteHealth(), 0.0, SETTINGS)
    assert not must_verify(RouteHealth(last_ok_at=100.0), 400.0, SETTINGS)
    assert must_verify(RouteHealth(last_ok_at=100.0), 400.1, SETTINGS)


def test_after_a_start_old_results_are_stale():
    known = RouteHealth(last_at=0.0, last_ok_at=0.0, latencies=(90.0,))
    lasting = structs.replace(SETTINGS, verify_on_lease_s=3600.0)
    assert not must_verify(after_start(known, 600.0, lasting), 600.0, lasting)
    assert must_verify(after_start(known, 600.1, lasting), 600.1, lasting)
    assert after_start(known, 601.0, SETTINGS).latencies == (90.0,)


@pytest.mark.parametrize(
    ("state", "checks", "seen", "needed"),
    [
        (S.AVAILABLE, 0, 900.0, False),
        (S.AVAILABLE, 8, 900.0, False),
        (S.AVAILABLE, 9, 900.0, True),
        (S.AVAILABLE, 0, None, True),
        (S.AVAILABLE, 0, -2700.0, True),
        (S.COOLDOWN, 0, 900.0, True),
        (S.FAULT, 0, 900.0, True),
    ],
)
def test_the_exit_stage_runs_every_tenth_time_and_whenever_in_doubt(
    state: ResourceState, checks: int, seen: float | None, needed: bool
):
    assert needs_exit_stage(Standing(state), checks, seen, 1000.0, SETTINGS) is needed


@pytest.mark.parametrize(("routes", "wanted"), [(1, 8), (213, 8), (400, 15), (5000, 32)])
def test_large_pools_are_probed_more_at_once(routes: int, wanted: int):
    assert concurrency(routes, 1.5, SETTINGS) == wanted


def test_how_many_checks_run_at_once_can_be_set():
    ours = structs.replace(SETTINGS, concurrency=2, concurrency_spare=1.0, concurrency_max=5)
    assert [concurrency(routes, 1.5, ours) for routes in (10, 160, 5000)] == [2, 4, 5]


def test_what_freezes_a_group_and_who_is_a_witness_can_be_set():
    ours = structs.replace(FREEZE, least=2, percent=100.0)
    assert is_doubtful(cycle(2, 0), ours)
    assert not is_doubtful(cycle(2, 1), ours)
    brief = structs.replace(BLOCKED, witness_s=10.0, factor=3.0, after=1)
    assert blame_tunnel(989.0, 1000.0, brief) is Blame.TARGET
    assert refused(RouteTarget(level=2), 0.0, brief).blocked_until == 8100


def test_every_number_of_the_model_is_a_setting_and_by_default_what_the_model_says():
    assert msgspec.to_builtins(SETTINGS.score) == {
        "base": 100, "latency_div": 20, "failure_weight": 15, "timeout_weight": 10, "timeout_window_s": 600,
        "latency_samples": 5, "enter": 40, "leave": 60, "fall": 1, "rise": 1,
    }  # fmt: skip
    assert msgspec.to_builtins(SETTINGS.cooldown) == {
        "base_s": 60, "factor": 2, "max_s": 3600, "jitter": 0.2, "decay_s": 1800, "max_ejected_percent": 50,
        "slow_start_s": 120, "fault_recheck_s": 1800, "fault_max": 3, "retry_after_max_s": 86400,
    }  # fmt: skip
    assert msgspec.to_builtins(BLOCKED) == {
        "statuses": (403, 429), "after": 2, "base_s": 900, "factor": 2, "max_s": 86400, "circuit_routes": 3,
        "circuit_window_s": 600, "route_targets": 3, "route_window_s": 3600, "witness_s": 300,
    }  # fmt: skip
    assert msgspec.to_builtins(SETTINGS.choice) == {
        "unknown": 50, "busy_cost": 5, "degraded_cost": 100, "slow_start_least": 0.1, "tries": 5,
    }  # fmt: skip
    assert (FREEZE.percent, FREEZE.least) == (50, 3)
    own = {
        "interval_s": 60, "jitter": 0.1, "fast_interval_s": 10, "tcp_timeout_s": 3, "connect_timeout_s": 5,
        "read_timeout_s": 5, "budget_s": 15, "max_lag_s": 0.05, "concurrency": 8, "concurrency_max": 32,
        "concurrency_spare": 1.5, "verify_on_lease_s": 300, "full_check_every": 10, "full_check_s": 3600,
        "stale_s": 600, "siblings_after": 2, "samples_kept": 50, "probe_claim_s": 20, "starts_per_s": 2,
        "control_retry_s": 15,
    }  # fmt: skip
    assert {name: getattr(SETTINGS, name) for name in own} == own
    engine = EngineSettings()
    assert (engine.lease, engine.heartbeat, engine.lock_delay) == (300, 30, 30)


def test_worked_example_27_only_the_claims_own_result_counts():
    claim = ProbeClaim("a", until=20.0, config_rev=3)
    assert not may_probe(claim, 19.9)
    assert may_probe(claim, 20.0)
    assert may_probe(None, 0.0)
    assert result_counts(claim, "a", 3)
    assert not result_counts(claim, "b", 3)
    assert not result_counts(claim, "a", 2)
    assert not result_counts(None, "a", 3)


def cycle(failing: int, passing: int, error: ErrorType = ErrorType.PROBE_TIMEOUT) -> list[Sample]:
    stages = min(error.stages) - 1
    return [Sample(0.0, error, stages=stages)] * failing + [Sample(0.0, None, 100.0)] * passing


def test_worked_example_23_a_broken_probe_target_costs_no_route_anything():
    samples = cycle(10, 0)
    assert accepted(samples, Control(direct=False, anchors=True), FREEZE) == ([], ErrorType.PROBE_TARGET_DOWN)
    assert accepted(samples, Control(direct=False, anchors=False), FREEZE) == ([], ErrorType.LOCAL_NET_DOWN)
    assert accepted(samples, Control(second=False), FREEZE) == ([], ErrorType.PROBE_TARGET_DOWN)


def test_routes_that_fail_while_the_control_passes_are_judged():
    samples = cycle(10, 0)
    for control in (Control(direct=True), Control(second=True), Control()):
        assert accepted(samples, control, FREEZE) == (samples, None)


@pytest.mark.parametrize(
    ("failing", "passing", "error", "doubtful"),
    [
        (2, 0, ErrorType.PROBE_TIMEOUT, False),
        (2, 1, ErrorType.PROBE_TIMEOUT, True),
        (2, 2, ErrorType.EXIT_PARSE, True),
        (2, 3, ErrorType.PROBE_TIMEOUT, False),
        (10, 0, ErrorType.TCP_REFUSED, False),
        (10, 0, ErrorType.CANCELLED, False),
    ],
)
def test_half_of_at_least_three_routes_must_fail_past_their_proxy(
    failing: int, passing: int, error: ErrorType, doubtful: bool
):
    samples = cycle(failing, passing, error)
    assert is_doubtful(samples, FREEZE) is doubtful
    counted, alert = accepted(samples, Control(direct=False), FREEZE)
    assert (not counted, alert is not None) == (doubtful, doubtful)


def test_worked_example_22_a_target_that_refuses_twice_is_left_for_a_quarter_of_an_hour():
    once = refused(RouteTarget(), 0.0, BLOCKED)
    assert not is_blocked(once, 0.0)
    twice = refused(once, 10.0, BLOCKED)
    assert twice.blocked_until == 910
    assert is_blocked(twice, 909.9)
    assert not is_blocked(twice, 910.0)
    third = refused(twice, 910.0, BLOCKED)
    assert third.blocked_until == 910 + 1800
    assert refused(refused(succeeded(third), 0.0, BLOCKED), 0.0, BLOCKED).blocked_until == 900


def test_refusals_that_were_under_way_lengthen_nothing():
    target = RouteTarget()
    for n in range(20):
        target = refused(target, n / 100, BLOCKED)
    assert (target.blocked, target.level) == (20, 1)
    assert target.blocked_until == pytest.approx(900.01)


@pytest.mark.parametrize(
    ("retry_after", "wait"), [(30.0, 30), (1e9, 86400), (0.0, 900), (-3.0, 900), (None, 900)]
)
def test_a_refusal_obeys_retry_after_up_to_a_day(retry_after: float | None, wait: float):
    target = refused(refused(RouteTarget(), 0.0, BLOCKED), 0.0, BLOCKED, retry_after)
    assert target.blocked_until == wait


@given(st.integers(0, 10**6))
def test_no_row_of_refusals_blocks_for_more_than_a_day(level: int):
    target = refused(RouteTarget(consecutive_blocked=5, level=level), 0.0, BLOCKED)
    assert target.blocked_until is not None
    assert 0 < target.blocked_until <= 86400


def test_other_failures_neither_start_nor_end_a_row_of_refusals():
    once = failed(refused(RouteTarget(), 0.0, BLOCKED))
    assert refused(once, 0.0, BLOCKED).blocked_until == 900


@pytest.mark.parametrize(
    ("status", "blame"),
    [(200, "nobody"), (304, "nobody"), (403, "blocked"), (429, "blocked"), (404, "task"), (503, "target")],
)
def test_a_status_is_never_the_routes_fault(status: int, blame: str):
    assert blame_status(status, BLOCKED) == blame


def test_a_failed_tunnel_is_the_routes_fault_only_where_another_got_through():
    assert blame_tunnel(None, 1000.0, BLOCKED) is Blame.TARGET
    assert blame_tunnel(700.0, 1000.0, BLOCKED) is Blame.ROUTE
    assert blame_tunnel(699.0, 1000.0, BLOCKED) is Blame.TARGET


def test_a_target_that_refuses_three_routes_is_its_own_affair():
    blocks = [Block(f"r{n}", "x", at) for n, at in enumerate((0.0, 300.0, 599.0))]
    assert circuit_opens(blocks, "x", 599.0, BLOCKED)
    assert not circuit_opens(blocks, "x", 600.0, BLOCKED)
    assert not circuit_opens(blocks, "y", 599.0, BLOCKED)
    assert not circuit_opens([structs.replace(each, route_id="r0") for each in blocks], "x", 599.0, BLOCKED)


def test_a_route_that_three_targets_refuse_needs_a_rest():
    blocks = [Block("r0", target, 0.0) for target in "xyz"]
    assert route_is_blocked(blocks, "r0", 3599.0, BLOCKED)
    assert not route_is_blocked(blocks, "r0", 3600.0, BLOCKED)
    assert not route_is_blocked(blocks[:2] * 5, "r0", 10.0, BLOCKED)
    assert not route_is_blocked(blocks, "r1", 10.0, BLOCKED)
