"""Resources: forbidden pairs are refused in words, and each end of a lease leads where it should (see test_states too)."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
from msgspec import structs

from taskdeck.engine.errors import IllegalTransition, StaleLease
from taskdeck.engine.rules import resources
from taskdeck.engine.rules.resource_states import (
    EJECTING,
    RESTING,
    CooldownReason,
    Kind,
    ResourceEvent,
    ResourceState,
    check,
)
from taskdeck.engine.rules.resources import Change, Resource

S, E, R = ResourceState, ResourceEvent, CooldownReason
BUSY = [S.LEASED, S.RUNNING]
IDLE = [S.AVAILABLE, S.COOLDOWN, S.FAULT]
HEALTH = Change(S.COOLDOWN, E.EJECTED, R.HEALTH, 160.0)


def unit(state: ResourceState = S.RUNNING, **fields: Any) -> Resource:
    return structs.replace(Resource("browser-1", state=state, fence=7, lease_until=60.0), **fields)


def route(state: ResourceState = S.RUNNING, **fields: Any) -> Resource:
    return unit(state, id="eu-1", kind=Kind.ROUTE, **fields)


@pytest.mark.parametrize(
    ("state", "to"),
    [
        (S.DISABLED, S.RUNNING),
        (S.DISABLED, S.LEASED),
        (S.DISABLED, S.FAULT),
        (S.AVAILABLE, S.RUNNING),
        (S.AVAILABLE, S.AVAILABLE),
        (S.COOLDOWN, S.LEASED),
        (S.COOLDOWN, S.RUNNING),
        (S.FAULT, S.LEASED),
        (S.FAULT, S.RUNNING),
        (S.RUNNING, S.LEASED),
        (S.RUNNING, S.RUNNING),
    ],
)
def test_a_forbidden_pair_is_refused_whatever_the_event(state: ResourceState, to: ResourceState):
    for event, kind, reason in product(E, Kind, (None, *R)):
        with pytest.raises(IllegalTransition) as caught:
            check("browser-1", state, to, event, kind, reason, "cli:ann")
        assert all(word in str(caught.value) for word in ("browser-1", state, to, event))


@pytest.mark.parametrize(("kind", "reason"), [(Kind.UNIT, R.HEALTH), (Kind.ROUTE, R.USE), (Kind.ROUTE, None)])
def test_a_cooldown_needs_a_reason_that_fits(kind: Kind, reason: CooldownReason | None):
    with pytest.raises(IllegalTransition):
        check("x", S.AVAILABLE, S.COOLDOWN, E.EJECTED, kind, reason)


def test_the_engine_does_no_persons_act_by_itself():
    check("x", S.AVAILABLE, S.DISABLED, E.USER_DISABLE, actor="cli:ann")
    with pytest.raises(IllegalTransition, match="a person's act"):
        check("x", S.AVAILABLE, S.DISABLED, E.USER_DISABLE)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, Change(S.AVAILABLE, E.RELEASED)),
        ({"min_reuse": 30.0}, Change(S.COOLDOWN, E.RELEASED, R.USE, 130.0)),
        ({"pending": HEALTH}, Change(S.COOLDOWN, E.RELEASED, R.HEALTH, 160.0)),
        ({"pending": HEALTH, "min_reuse": 90.0}, Change(S.COOLDOWN, E.RELEASED, R.HEALTH, 190.0)),
        ({"pending": structs.replace(HEALTH, until=50.0)}, Change(S.COOLDOWN, E.RELEASED, R.HEALTH, 100.0)),
        ({"pending": Change(S.FAULT, E.FATAL_ERROR), "min_reuse": 30.0}, Change(S.FAULT, E.RELEASED)),
        ({"drain": True}, Change(S.DISABLED, E.RELEASED)),
        ({"drain": True, "pending": HEALTH}, Change(S.DISABLED, E.RELEASED)),
        ({"drain": True, "min_reuse": 30.0}, Change(S.DISABLED, E.RELEASED, R.USE, 130.0)),
    ],
)
def test_a_released_route_goes_where_its_use_its_ejection_and_its_drain_say(
    fields: dict[str, Any], expected: Change
):
    assert resources.release(route(**fields), 100.0) == expected


def test_worked_example_19_a_score_that_drops_while_running_counts_at_release():
    held = route(pending=HEALTH, min_reuse=10.0)
    assert held.state == "RUNNING"
    change = resources.release(held, 100.0)
    assert (change.to, change.reason) == ("COOLDOWN", "HEALTH")


def test_what_the_holder_found_broken_is_in_fault():
    assert resources.release(unit(min_reuse=30.0), 100.0, faulty=True) == Change(S.FAULT, E.RELEASED)
    assert resources.release(unit(drain=True), 100.0, faulty=True).to == "DISABLED"


def test_a_release_before_the_start_owes_no_rest():
    assert resources.release(unit(S.LEASED, min_reuse=30.0), 100.0) == Change(S.AVAILABLE, E.RELEASED)


@pytest.mark.parametrize("state", BUSY)
def test_worked_example_25_an_expired_lease_rests_for_the_lock_delay(state: ResourceState):
    held = unit(state)
    assert not resources.lease_ended(held.lease_until, 59.9)
    assert resources.lease_ended(held.lease_until, 60.0)
    assert resources.expire(held, 61.0, 30.0) == Change(S.COOLDOWN, E.EXPIRED, R.EXPIRED, 91.0)
    cooling = unit(S.COOLDOWN, cooldown_until=91.0, cooldown_reason=R.EXPIRED)
    assert resources.rested(cooling, 90.9) is None
    assert resources.rested(cooling, 91.0) == Change(S.AVAILABLE, E.RESTED)


def test_a_kick_keeps_the_lock_delay_and_proof_of_death_needs_none():
    assert resources.expire(unit(), 10.0, 30.0, "cli:ann") == Change(S.COOLDOWN, E.USER_KICK, R.EXPIRED, 40.0)
    assert resources.release(unit(), 10.0, dead=True) == Change(S.AVAILABLE, E.RECLAIMED)


def test_an_expired_route_still_minds_what_was_remembered():
    assert resources.expire(route(pending=HEALTH), 61.0, 30.0).reason == "HEALTH"
    assert resources.expire(route(pending=HEALTH), 61.0, 300.0).until == 361.0
    assert resources.expire(route(pending=Change(S.FAULT, E.FATAL_ERROR)), 61.0, 30.0).to == "FAULT"
    assert resources.expire(route(drain=True), 61.0, 30.0).to == "DISABLED"


def test_worked_example_24_a_second_claim_is_refused():
    assert resources.claim(unit(S.AVAILABLE)).to == "LEASED"
    with pytest.raises(IllegalTransition):
        resources.claim(unit(S.LEASED))


def test_worked_example_26_a_lease_is_renewed_up_to_its_last_instant():
    assert resources.renewed(unit(), 7, 59.9, 60.0) == pytest.approx(119.9)
    with pytest.raises(StaleLease):
        resources.renewed(unit(), 7, 60.0, 60.0)


@pytest.mark.parametrize(
    ("state", "fence", "now"),
    [(S.RUNNING, 6, 10.0), (S.RUNNING, 8, 10.0), (S.COOLDOWN, 7, 10.0), (S.AVAILABLE, 7, 10.0)],
)
def test_an_old_fence_or_a_second_release_holds_nothing(state: ResourceState, fence: int, now: float):
    with pytest.raises(StaleLease, match="browser-1"):
        resources.check_lease(unit(state), fence, now)
    with pytest.raises(StaleLease):
        resources.start(unit(state), fence, now)


def test_a_released_one_can_not_be_released_again():
    for state in (S.AVAILABLE, S.COOLDOWN, S.FAULT, S.DISABLED):
        with pytest.raises(IllegalTransition):
            resources.release(unit(state), 10.0)


@pytest.mark.parametrize("reason", sorted(EJECTING | {R.PROBE}))
def test_time_alone_brings_no_ejected_route_back(reason: CooldownReason):
    cooling = route(S.COOLDOWN, cooldown_until=10.0, cooldown_reason=reason)
    assert resources.rested(cooling, 1e9) is None


@pytest.mark.parametrize("reason", sorted(RESTING))
def test_time_ends_a_rest(reason: CooldownReason):
    cooling = route(S.COOLDOWN, cooldown_until=10.0, cooldown_reason=reason)
    assert resources.rested(cooling, 9.99) is None
    assert resources.rested(cooling, 10.0) == Change(S.AVAILABLE, E.RESTED)


@pytest.mark.parametrize("state", BUSY)
def test_a_busy_one_is_drained_and_can_be_kept(state: ResourceState):
    draining = resources.disable(unit(state), "cli:ann")
    assert draining == Change(state, E.USER_DISABLE, drain=True)
    assert resources.enable(unit(state, drain=True), 10.0, "cli:ann") == Change(state, E.USER_ENABLE)
    with pytest.raises(IllegalTransition):
        resources.enable(unit(state), 10.0, "cli:ann")


@pytest.mark.parametrize("state", IDLE)
def test_an_idle_one_is_disabled_at_once(state: ResourceState):
    for each in (unit(state), route(state)):
        assert resources.disable(each, "deck:ann") == Change(S.DISABLED, E.USER_DISABLE)


def test_enabling_probes_a_route_and_frees_a_unit():
    assert resources.enable(unit(S.DISABLED), 10.0, "cli:ann") == Change(S.AVAILABLE, E.USER_ENABLE)
    assert resources.enable(route(S.DISABLED), 10.0, "cli:ann") == Change(
        S.COOLDOWN, E.USER_ENABLE, R.PROBE, 10.0
    )


def test_switching_off_and_on_cuts_no_rest_short():
    cooling = unit(S.COOLDOWN, cooldown_until=91.0, cooldown_reason=R.EXPIRED)
    off = resources.disable(cooling, "cli:ann")
    assert (off.reason, off.until) == ("EXPIRED", 91.0)
    disabled = unit(S.DISABLED, cooldown_until=off.until, cooldown_reason=off.reason)
    on = resources.enable(disabled, 70.0, "cli:ann")
    assert (on.to, on.reason, on.until) == ("COOLDOWN", "EXPIRED", 91.0)
    assert resources.enable(disabled, 91.0, "cli:ann").to == "AVAILABLE"
    slot = route(S.DISABLED, cooldown_until=91.0, cooldown_reason=R.EXPIRED)
    assert resources.enable(slot, 70.0, "cli:ann").until == 91.0


def test_a_reset_or_an_edit_frees_a_unit_and_probes_a_route():
    assert resources.reset(unit(S.FAULT), 5.0, "cli:ann") == Change(S.AVAILABLE, E.USER_RESET)
    assert resources.reset(route(S.FAULT), 5.0, "cli:ann") == Change(S.COOLDOWN, E.USER_RESET, R.PROBE, 5.0)
    assert resources.edited(unit(S.FAULT), 5.0) == Change(S.AVAILABLE, E.EDITED)
    assert resources.edited(route(S.FAULT), 5.0) == Change(S.COOLDOWN, E.EDITED, R.PROBE, 5.0)
    assert resources.edited(route(S.AVAILABLE), 5.0) is None
    with pytest.raises(IllegalTransition):
        resources.reset(route(S.RUNNING), 5.0, "cli:ann")


def test_only_an_available_one_can_be_sent_to_rest():
    assert resources.rest(unit(S.AVAILABLE), 50.0, "cli:ann") == Change(
        S.COOLDOWN, E.USER_REST, R.MANUAL, 50.0
    )
    with pytest.raises(IllegalTransition):
        resources.rest(route(S.COOLDOWN, cooldown_reason=R.HEALTH), 50.0, "cli:ann")
