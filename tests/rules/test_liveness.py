from __future__ import annotations

from taskdeck.engine.rules.liveness import (
    Signs,
    Verdict,
    died_at_start,
    ended_in_order,
    gap,
    judge,
    restart_delay,
)
from tests.faults import fault


def signs(silent_for: float = 0, lease_left: float = 300, cpu: float = 1, cpu_at_beat: float = 1) -> Signs:
    return Signs(silent_for, lease_left, cpu, cpu_at_beat)


def test_a_worker_that_beats_is_alive_whatever_its_lease() -> None:
    assert judge(signs(30, lease_left=-1), 90) is Verdict.ALIVE


@fault("TF028")
def test_silence_alone_makes_a_suspect_and_nothing_more() -> None:
    assert judge(signs(90), 90) is Verdict.SUSPECT
    assert judge(signs(299, lease_left=1), 90) is Verdict.SUSPECT


def test_a_worker_is_lost_when_its_lease_has_run_out() -> None:
    assert judge(signs(300, lease_left=0), 90) is Verdict.LOST


@fault("TF027")
def test_a_process_whose_cpu_time_grows_is_busy_and_not_dead() -> None:
    assert judge(signs(3000, lease_left=-1, cpu=2), 90) is Verdict.ALIVE


def test_a_gap_in_the_engines_own_ticks_is_no_verdict_on_others() -> None:
    assert not gap(12, 10)
    assert gap(6 * 3600, 10)


@fault("TF262")
def test_a_worker_that_dies_at_its_start_is_started_again_with_growing_pauses_up_to_a_cap() -> None:
    delays = [restart_delay(deaths) for deaths in range(12)]
    assert delays[0] == 0
    assert delays == sorted(delays)
    assert delays[-1] == 30


def test_a_wanted_worker_that_ends_before_it_came_up_did_not_end_in_order_whatever_its_exit_code() -> None:
    for code in (0, 1, -9, None):
        assert not ended_in_order(code, came_up=False, said_bye=False, is_wanted=True)
        assert ended_in_order(code, came_up=False, said_bye=True, is_wanted=True)
        assert ended_in_order(code, came_up=True, said_bye=False, is_wanted=True) is (code == 0)
        assert ended_in_order(code, came_up=False, said_bye=False, is_wanted=False) is (code == 0)


def test_a_worker_that_began_an_attempt_did_not_die_of_its_start() -> None:
    assert died_at_start(0.2, began=False)
    assert not died_at_start(0.2, began=True)
    assert not died_at_start(60.0, began=False)
