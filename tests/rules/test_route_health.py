"""Routes' health: the worked examples of the score, ejection, cooldown and recovery, and a model over random histories."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec import structs

from taskdeck.engine.rules import resources
from taskdeck.engine.rules.resource_states import (
    RESTING,
    CooldownReason,
    Kind,
    ResourceEvent,
    ResourceState,
    check,
)
from taskdeck.engine.rules.resources import Change, Resource
from taskdeck.engine.rules.route_cooldown import (
    Group,
    Judgement,
    Standing,
    Uniform,
    cooldown_wait,
    eject,
    judge,
    level_at,
    may_eject,
    recheck,
)
from taskdeck.engine.rules.route_errors import ERRORS, ErrorType
from taskdeck.engine.rules.route_health import RouteHealth, Sample, observe, score
from taskdeck.engine.rules.route_settings import CooldownSettings, RouteSettings, ScoreSettings

S, E, R = ResourceState, ResourceEvent, CooldownReason
SCORE, SETTINGS = ScoreSettings(), RouteSettings()
TIMEOUT, REFUSED, AUTH = ErrorType.TUNNEL_TIMEOUT, ErrorType.TCP_REFUSED, ErrorType.PROXY_AUTH
LARGE = Group(enabled=10, ejected=0)


def middle(low: float, high: float) -> float:
    return (low + high) / 2


def ok(at: float, ms: float | None = 100.0) -> Sample:
    return Sample(at, None, ms)


def failed(at: float, error: ErrorType = TIMEOUT) -> Sample:
    return Sample(at, error, stages=1)


class Track:
    """One route on its way through samples: health and standing as the store would keep them."""

    def __init__(
        self,
        group: Group = LARGE,
        settings: RouteSettings = SETTINGS,
        state: ResourceState = S.AVAILABLE,
        uniform: Uniform = middle,
    ) -> None:
        self.health, self.standing = RouteHealth(), Standing(state)
        self.group, self.settings, self.uniform = group, settings, uniform
        self.raws: list[float] = []
        self.alerts = 0

    def sees(self, *samples: Sample) -> Judgement:
        judgement = Judgement(self.health)
        for sample in samples:
            judgement = judge(self.standing, self.health, sample, self.group, self.settings, self.uniform)
            self.health = judgement.health
            self.alerts += judgement.alert
            known = score(self.health, sample.at, self.settings.score)
            self.raws.append(round(known.raw, 6) if known else math.nan)
            for change in judgement.changes:
                self.enter(change)
        return judgement

    def enter(self, change: Change) -> None:
        if self.standing.state in (S.LEASED, S.RUNNING) and change.event is not E.RELEASED:
            self.standing = structs.replace(self.standing, pending=change)
            return
        check("eu-1", self.standing.state, change.to, change.event, Kind.ROUTE, change.reason)
        self.standing = Standing(change.to, change.reason, change.until or 0.0)

    @property
    def state(self) -> ResourceState:
        return self.standing.state


def with_counts(latency: float | None, failures: int, timeouts: int) -> RouteHealth:
    return RouteHealth(
        latencies=() if latency is None else (latency,),
        consecutive_failures=failures,
        timeouts=(0.0,) * timeouts,
        samples=1,
    )


def value(health: RouteHealth, now: float) -> tuple[float, float]:
    known = score(health, now, SCORE)
    assert known
    return known.raw, known.value


def test_worked_example_01_a_route_never_checked_has_no_score():
    assert score(RouteHealth(), 0.0, SCORE) is None


def test_worked_example_02_a_fast_route_loses_only_its_latency():
    assert value(with_counts(40, 0, 0), 0.0) == (98.0, 98.0)


def test_worked_example_03_a_timeout_costs_a_failure_and_a_timeout():
    assert value(with_counts(200, 1, 1), 0.0) == (65.0, 65.0)


def after(health: RouteHealth, sample: Sample) -> Judgement:
    return judge(Standing(), health, sample, LARGE, SETTINGS, middle)


def test_worked_example_04_three_timeouts_eject():
    assert value(with_counts(200, 3, 3), 0.0) == (15.0, 15.0)
    judgement = after(with_counts(200, 2, 2), failed(0.0))
    assert value(judgement.health, 0.0)[0] == 15.0
    assert [change.to for change in judgement.changes] == ["COOLDOWN"]


def test_worked_example_05_exactly_40_is_not_below_40():
    assert value(with_counts(300, 3, 0), 0.0) == (40.0, 40.0)
    assert after(with_counts(300, 2, 0), failed(0.0, REFUSED)).changes == ()


def test_worked_example_06_nothing_is_rounded_before_comparing():
    judgement = after(with_counts(301, 2, 0), failed(0.0, REFUSED))
    assert value(judgement.health, 0.0)[0] == pytest.approx(39.95)
    assert [change.to for change in judgement.changes] == ["COOLDOWN"]
    known = score(judgement.health, 0.0, SCORE)
    assert known
    assert known.shown == 39.9


def test_worked_example_07_the_score_is_clamped_and_raw_is_not():
    assert value(with_counts(3000, 2, 2), 0.0) == (-100.0, 0.0)


def example_08() -> Track:
    track = Track()
    track.sees(ok(0), failed(60), failed(120), failed(180))
    return track


def test_worked_example_08_the_third_timeout_ejects_for_a_minute():
    track = example_08()
    assert track.raws == [95, 70, 45, 20]
    assert track.standing == Standing(S.COOLDOWN, R.HEALTH, 240.0)


def test_worked_example_09_a_cold_route_is_ejected_at_its_third_timeout():
    track = Track()
    track.sees(failed(0), failed(60))
    assert track.state == "AVAILABLE"
    track.sees(failed(120))
    assert track.raws == [75, 50, 25]
    assert track.state == "COOLDOWN"


def test_worked_example_10_the_fourth_refusal_ejects():
    track = Track()
    track.sees(ok(0), *[failed(at, REFUSED) for at in (60, 70, 80)])
    assert track.state == "AVAILABLE"
    track.sees(failed(90, REFUSED))
    assert track.raws == [95, 80, 65, 50, 35]
    assert track.state == "COOLDOWN"


def example_11() -> tuple[Track, list[float]]:
    track = example_08()
    ends = [track.standing.cooldown_until]
    for _ in range(7):
        track.sees(failed(track.standing.cooldown_until))
        ends.append(track.standing.cooldown_until)
    return track, ends


def test_worked_example_11_failed_re_probes_double_the_wait_up_to_an_hour():
    track, ends = example_11()
    assert ends == [240, 360, 600, 1080, 2040, 3960, 7560, 11160]
    assert track.standing.reason == "HEALTH"


def test_worked_example_12_a_passed_re_probe_forgives_all_but_the_level():
    track, ends = example_11()
    level = track.health.cooldown_level
    track.sees(ok(ends[-1], 180))
    assert track.state == "AVAILABLE"
    assert value(track.health, ends[-1]) == (91.0, 91.0)
    assert (track.health.consecutive_failures, track.health.timeouts) == (0, ())
    assert track.health.recovered_at == ends[-1]
    assert track.health.cooldown_level == level


@pytest.mark.parametrize(("ms", "state"), [(800, "AVAILABLE"), (801, "COOLDOWN")])
def test_worked_example_13_a_re_probe_must_reach_60(ms: float, state: str):
    track = example_08()
    level = track.health.cooldown_level
    track.sees(ok(240, ms))
    assert track.state == state
    if state == "AVAILABLE":
        assert value(track.health, 240)[0] == 60.0
    else:
        assert (track.standing.reason, track.health.cooldown_level) == ("SLOW", level + 1)
        assert track.standing.cooldown_until == 360.0


def test_worked_example_14_one_outlier_is_harmless():
    track = Track()
    track.sees(*[ok(at, ms) for at, ms in enumerate((100, 110, 90, 8000, 105))])
    assert track.health.latency_ms == 105
    assert track.raws[-1] == 94.75
    assert track.state == "AVAILABLE"


@pytest.mark.parametrize(
    ("group", "state", "degraded"), [(Group(1, 0), "AVAILABLE", True), (Group(2, 0), "COOLDOWN", False)]
)
def test_worked_example_15_slowness_ejects_only_within_the_cap(group: Group, state: str, degraded: bool):
    track = Track(group)
    track.sees(*[ok(at, ms) for at, ms in enumerate((100, 1250, 1250))])
    assert track.health.latency_ms == 1250
    assert track.raws[-1] == 37.5
    assert (track.state, track.health.degraded) == (state, degraded)
    assert track.standing.reason == (None if degraded else "SLOW")


def test_worked_example_16_timeouts_leave_the_window():
    track = Track()
    track.sees(failed(0), failed(60), ok(120))
    scores = [value(track.health, now)[0] for now in (120, 599, 600, 660)]
    assert scores == [75.0, 75.0, 85.0, 95.0]


def test_worked_example_17_a_flapping_route_is_ejected_at_its_fifth_timeout():
    track = Track()
    track.sees(ok(0))
    for at in range(10, 90, 20):
        track.sees(failed(at), ok(at + 10))
    assert track.state == "AVAILABLE"
    track.sees(failed(90))
    assert track.raws[1:] == [70, 85, 60, 75, 50, 65, 40, 55, 30]
    assert track.standing == Standing(S.COOLDOWN, R.HEALTH, 150.0)


@pytest.mark.parametrize(
    ("enabled", "ejected", "allowed"), [(4, 2, False), (3, 1, False), (2, 0, True), (10, 4, True)]
)
def test_worked_example_18_the_cap_holds_soft_ejections_and_no_hard_ones(
    enabled: int, ejected: int, allowed: bool
):
    group = Group(enabled, ejected)
    assert may_eject(group, SETTINGS.cooldown) is allowed
    soft, hard = Track(group), Track(group)
    soft.sees(*[ok(at, 1250) for at in range(3)])
    assert (soft.state == "COOLDOWN") is allowed
    hard.sees(*[failed(at) for at in range(3)])
    assert hard.state == "COOLDOWN"


def test_worked_example_19_health_takes_no_lease_away():
    track = Track(state=S.RUNNING)
    track.sees(ok(0), failed(60), failed(120), failed(180), failed(190))
    assert (track.state, track.health.cooldown_level) == ("RUNNING", 1)
    assert track.standing.pending == Change(S.COOLDOWN, E.EJECTED, R.HEALTH, 240.0)
    held = Resource("eu-1/1", Kind.ROUTE, S.RUNNING, min_reuse=5.0, pending=track.standing.pending)
    track.enter(resources.release(held, 200.0))
    assert track.standing == Standing(S.COOLDOWN, R.HEALTH, 240.0)


def test_worked_example_20_a_wrong_password_twice_is_a_fault_until_it_is_edited():
    track = Track()
    track.sees(failed(0, AUTH))
    assert track.standing == Standing(S.COOLDOWN, R.HEALTH, 60.0)
    assert not track.alerts
    track.sees(failed(60, AUTH))
    assert (track.state, track.alerts, track.health.last_error) == ("FAULT", 1, "PROXY_AUTH")
    assert recheck(track.standing, track.health, 1859.9, SETTINGS.cooldown) is None
    due = recheck(track.standing, track.health, 1860.0, SETTINGS.cooldown)
    assert due == Change(S.COOLDOWN, E.RECHECK_DUE, R.PROBE, 1860.0)
    edited = resources.edited(Resource("eu-1", Kind.ROUTE, S.FAULT), 100.0)
    assert edited == Change(S.COOLDOWN, E.EDITED, R.PROBE, 100.0)
    track.health = RouteHealth()
    assert edited
    track.enter(edited)
    track.sees(ok(100.0))
    assert track.state == "AVAILABLE"


def test_worked_example_21_an_exit_in_a_wrong_region_is_out_at_once_whatever_its_score():
    track = Track(Group(1, 0))
    track.sees(ok(0))
    track.sees(Sample(60, ErrorType.REGION_MISMATCH, 100.0, stages=2))
    assert track.standing == Standing(S.COOLDOWN, R.REGION, 120.0)
    assert track.raws == [95, 95]
    track.sees(Sample(120, ErrorType.REGION_MISMATCH, 100.0, stages=2))
    assert (track.state, track.alerts) == ("FAULT", 1)


def test_worked_example_21_an_unknown_region_is_never_a_fault():
    track = Track(Group(1, 0))
    track.sees(ok(0))
    for _ in range(5):
        at = track.standing.cooldown_until or 60
        track.sees(Sample(at, ErrorType.REGION_UNKNOWN, 100.0, stages=2))
        assert (track.state, track.standing.reason, track.raws[-1]) == ("COOLDOWN", "REGION", 95)
    assert not track.alerts


def test_worked_example_29_calm_time_in_service_lowers_the_level():
    health = RouteHealth(cooldown_level=2, in_service_since=0.0)
    assert level_at(health, 1799.9, SETTINGS.cooldown) == 2
    assert level_at(health, 1800.0, SETTINGS.cooldown) == 1
    out, change = eject(health, 1800.0, R.HEALTH, SETTINGS.cooldown, middle)
    assert change.until == 1800.0 + 120.0
    assert out.cooldown_level == 2


@pytest.mark.parametrize("error", [each for each in ErrorType if each.fatal])
def test_the_same_fatal_error_twice_in_a_row_is_a_fault(error: ErrorType):
    track = Track(Group(1, 0))
    track.sees(ok(0), failed(10, error))
    assert track.state == "COOLDOWN"
    track.sees(failed(track.standing.cooldown_until, error))
    assert (track.state, track.alerts) == ("FAULT", 1)


def test_another_error_in_between_starts_the_row_again():
    track = Track()
    track.sees(failed(0, AUTH), failed(60, REFUSED), failed(180, AUTH))
    assert track.state == "COOLDOWN"
    assert track.standing.cooldown_until == 240.0


def test_a_busy_route_that_fails_for_good_is_in_fault_at_its_release():
    track = Track(state=S.RUNNING)
    track.sees(failed(0, AUTH), failed(1, AUTH), failed(2, AUTH))
    assert track.standing.pending == Change(S.FAULT, E.FATAL_ERROR)
    assert track.alerts == 1


@pytest.mark.parametrize("error", [each for each in ErrorType if each.neutral])
@pytest.mark.parametrize("state", [S.AVAILABLE, S.COOLDOWN])
def test_a_neutral_result_changes_nothing(error: ErrorType, state: ResourceState):
    health = with_counts(900, 2, 2)
    standing = Standing(state, R.HEALTH if state is S.COOLDOWN else None, 0.0)
    assert judge(standing, health, failed(500, error), LARGE, SETTINGS, middle) == Judgement(health)


@pytest.mark.parametrize("ms", [0.0, -5.0, math.nan, math.inf, None])
def test_an_impossible_or_missing_latency_is_no_latency(ms: float | None):
    health = observe(with_counts(100, 2, 0), ok(0, ms), SCORE)
    assert health.latencies == (100,)
    assert (health.consecutive_failures, health.consecutive_successes) == (0, 1)


@pytest.mark.parametrize("sample", [ok(240, None), structs.replace(ok(240), stages=2)])
def test_a_re_probe_without_a_measure_or_its_third_stage_proves_nothing(sample: Sample):
    track = example_08()
    before = track.standing
    assert track.sees(sample).changes == ()
    assert track.standing == before
    track.sees(ok(250))
    assert track.state == "AVAILABLE"


def test_a_success_of_a_task_or_before_its_time_brings_no_route_back():
    track = example_08()
    track.sees(ok(239.9), structs.replace(ok(300), of_probe=False))
    assert track.state == "COOLDOWN"
    track.sees(ok(300))
    assert track.state == "AVAILABLE"


def test_many_reports_of_one_failure_eject_once():
    track = Track()
    track.sees(ok(0), *[structs.replace(failed(180 + n / 1000), of_probe=False) for n in range(20)])
    assert track.health.cooldown_level == 1
    assert track.standing.cooldown_until == pytest.approx(240.002)


def test_an_ejection_during_a_rest_after_use_keeps_the_longer_end_and_its_own_rule():
    track = Track()
    track.sees(ok(0), failed(60), failed(120))
    track.standing = Standing(S.COOLDOWN, R.USE, 500.0)
    track.sees(failed(180))
    assert track.standing == Standing(S.COOLDOWN, R.HEALTH, 500.0)


def test_three_failed_re_checks_disable_a_route():
    track = Track()
    track.sees(failed(0, AUTH), failed(60, AUTH))
    events: list[str] = []
    while track.state == "FAULT":
        at = (track.health.faulted_at or 0) + 1800
        due = recheck(track.standing, track.health, at, SETTINGS.cooldown)
        assert due
        track.enter(due)
        events += [change.event for change in track.sees(failed(at, REFUSED)).changes]
    assert events == ["recheck_failed", "recheck_failed", "recheck_failed", "rechecks_exhausted"]
    assert (track.state, track.alerts) == ("DISABLED", 2)


def test_a_degraded_route_stays_so_until_it_is_clearly_better():
    track = Track(Group(1, 0))
    track.sees(ok(0, 1250))
    assert track.health.degraded
    track.sees(*[ok(at, 1000) for at in range(1, 6)])
    assert (track.raws[-1], track.health.degraded) == (50, True)
    track.sees(*[ok(at, 800) for at in range(6, 11)])
    assert (track.raws[-1], track.health.degraded) == (60, False)


@pytest.mark.parametrize(
    ("retry_after", "wait"), [(None, 60), (10, 60), (-5, 60), (7200, 7200), (1e9, 86400)]
)
def test_a_retry_after_raises_the_wait_up_to_a_day(retry_after: float | None, wait: float):
    _, change = eject(RouteHealth(), 100.0, R.HEALTH, SETTINGS.cooldown, middle, retry_after=retry_after)
    assert change.until == 100.0 + wait


def test_fall_and_rise_ask_for_more_than_one():
    settings = structs.replace(SETTINGS, score=structs.replace(SCORE, fall=2, rise=2))
    track = Track(settings=settings)
    track.sees(failed(0), failed(1), failed(2))
    assert track.state == "AVAILABLE"
    track.sees(failed(3))
    assert track.state == "COOLDOWN"
    track.sees(ok(63))
    assert track.state == "COOLDOWN"
    track.sees(ok(73))
    assert track.state == "AVAILABLE"


def test_samples_that_arrive_late_take_no_later_timeout_away():
    health = observe(observe(RouteHealth(), failed(100), SCORE), failed(50), SCORE)
    assert sorted(health.timeouts) == [50, 100]
    assert value(health, 100)[0] == 100 - 30 - 20


def test_every_error_type_has_a_row_and_consistent_flags():
    assert list(ERRORS) == list(ErrorType)
    for error in ErrorType:
        assert error.meaning
        assert set(error.stages) <= {1, 2, 3}
        assert not (error.neutral and (error.timeout or error.fatal or error.misplaced))
    assert {e for e in ErrorType if e.timeout} == set(
        ["TCP_TIMEOUT", "TUNNEL_TIMEOUT", "PROBE_TIMEOUT", "BUDGET_EXCEEDED"]
    )
    assert {e for e in ErrorType if e.fatal} == set(
        ["PROXY_TLS", "PROXY_PROTO", "PROXY_AUTH", "TLS_INTERCEPT", "EXIT_IP_LEAK", "REGION_MISMATCH"]
    )


@given(st.integers(0, 10**6), st.floats(0, 1))
@example(1023, 0.0)
def test_no_level_makes_a_cooldown_longer_than_its_bound(level: int, chance: float):
    def uniform(low: float, high: float) -> float:
        return low + (high - low) * chance

    wait = cooldown_wait(level, CooldownSettings(), uniform)
    assert 0 < wait <= 3600
    assert wait <= cooldown_wait(level + 1, CooldownSettings(), uniform)


RESULTS = st.one_of(
    st.builds(Sample, at=st.just(0.0), latency_ms=st.floats(1, 600), of_probe=st.booleans()),
    st.builds(Sample, at=st.just(0.0), latency_ms=st.floats(600, 5000), of_probe=st.booleans()),
    st.builds(Sample, at=st.just(0.0), error=st.sampled_from([TIMEOUT, REFUSED, AUTH])),
    st.builds(
        Sample,
        at=st.just(0.0),
        error=st.none() | st.sampled_from(ErrorType),
        latency_ms=st.none() | st.floats(),
        stages=st.integers(0, 3),
        of_probe=st.booleans(),
        retry_after=st.none() | st.floats(-10, 3000),
    ),
)
ACTS = st.sampled_from(["nothing", "nothing", "claim", "release", "recheck", "wait", "wait"])
STEPS = st.lists(st.tuples(st.floats(0, 200), RESULTS, ACTS), min_size=10, max_size=60)


class Model(Track):
    """Checks what must hold after every step of any history."""

    def __init__(self, group: Group, seed: int) -> None:
        super().__init__(group, uniform=random.Random(seed).uniform)

    def step(self, at: float, sample: Sample) -> None:
        before, health = self.standing, self.health
        was_in_service = before.state is not S.COOLDOWN or before.reason in RESTING
        judgement = self.sees(sample)
        for change in judgement.changes:
            self.holds(before, health, sample, change, was_in_service)
        known = score(self.health, at, SCORE)
        assert known is None or 0 <= known.value <= 100
        assert len(self.health.latencies) <= 5
        assert all(0 < ms < math.inf for ms in self.health.latencies)

    def holds(
        self, before: Standing, health: RouteHealth, sample: Sample, change: Change, in_service: bool
    ) -> None:
        if change.to is S.AVAILABLE:
            assert change.event is E.PROBE_PASSED
            assert before.state is S.COOLDOWN
            assert sample.of_probe
            assert (sample.error, sample.stages) == (None, 3)
            assert sample.at >= before.cooldown_until
        if change.to is S.COOLDOWN:
            assert change.until is not None
            assert sample.at < change.until <= max(sample.at + 3600, before.cooldown_until)
            assert self.health.cooldown_level == level_at(health, sample.at, SETTINGS.cooldown) + 1
        if change.to is S.COOLDOWN and change.reason is R.SLOW and in_service:
            assert may_eject(self.group, SETTINGS.cooldown)
        if change.to is S.FAULT and change.event is E.FATAL_ERROR:
            assert sample.error is health.last_error

    def act(self, act: str, at: float) -> None:
        if act == "claim" and self.state is S.AVAILABLE:
            self.standing = Standing(S.RUNNING)
        elif act == "release" and self.state is S.RUNNING:
            held = Resource("eu-1/1", Kind.ROUTE, S.RUNNING, pending=self.standing.pending)
            self.enter(resources.release(held, at))
        elif act == "recheck" and (due := recheck(self.standing, self.health, at, SETTINGS.cooldown)):
            self.enter(due)


@given(STEPS, st.integers(1, 10), st.integers(0, 10), st.integers(0, 2**32))
def test_any_history_of_probes_keeps_the_rules(
    steps: Sequence[tuple[float, Sample, str]], enabled: int, ejected: int, seed: int
):
    model, now = Model(Group(enabled, min(ejected, enabled)), seed), 0.0
    for gap, result, act in steps:
        now += gap
        if act == "wait" and model.state is S.COOLDOWN:
            now = max(now, model.standing.cooldown_until)
        model.act(act, now)
        model.step(now, structs.replace(result, at=now))
