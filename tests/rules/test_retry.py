"""After a failure: the right state, the right wait, never one attempt too many."""

from __future__ import annotations

import random
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from taskdeck.engine.rules.failures import Failure, FailureClass, from_status
from taskdeck.engine.rules.retry import Charges, RetryPolicy, Verdict, backoff, decide, retry_after
from taskdeck.engine.rules.tasks import TRANSITIONS, TaskState
from tests.faults import fault

NOW = datetime(2026, 11, 29, 12, 0, tzinfo=UTC)
ERROR = Failure(FailureClass.RETRYABLE, "error", "it broke", "unknown exception")


def least(low: float, high: float) -> float:
    return low


def most(low: float, high: float) -> float:
    return high


def run_out(failure: Failure, task: Charges, policy: RetryPolicy | None = None) -> list[Verdict]:
    """The verdicts over a task that fails in the same way until it stops."""
    verdicts: list[Verdict] = []
    while not verdicts or verdicts[-1].delay is not None:
        verdict = decide(failure, task, policy or RetryPolicy(), random.uniform)
        task = structs.replace(
            task,
            retry_count=verdict.retry_count,
            delays=verdict.delays,
            resource_faults=verdict.resource_faults,
        )
        verdicts.append(verdict)
    return verdicts


@fault("TF047")
@pytest.mark.parametrize(
    ("retry", "low", "high"), [(1, 60, 90), (2, 120, 150), (3, 240, 270), (20, 3600, 3630)]
)
def test_waits_double_and_never_fall_below_their_minimum(retry: int, low: float, high: float):
    assert backoff(retry, 30, 3600, least) == low
    assert backoff(retry, 30, 3600, most) == high


@given(
    st.integers(min_value=0),
    st.floats(min_value=0, max_value=1e300),
    st.floats(min_value=0, max_value=1e300),
)
def test_no_count_is_too_large_for_a_finite_wait(retry: int, base: float, longest: float):
    assert 0 <= backoff(retry, base, longest, most) < float("inf")


@fault("TF050")
def test_max_retry_3_means_four_executions_and_retry_count_3():
    verdicts = run_out(ERROR, Charges(max_retry=3))
    assert [verdict.state for verdict in verdicts] == ["RETRYING", "RETRYING", "RETRYING", "NEEDS_REVIEW"]
    assert [verdict.retry_count for verdict in verdicts] == [1, 2, 3, 3]
    assert verdicts[-1].reason == "retries_exhausted"
    (dead,) = run_out(ERROR, Charges(max_retry=0), RetryPolicy(on_exhausted="dead"))
    assert (dead.state, dead.reason, dead.delay) == ("DEAD", "retries_exhausted", None)


@pytest.mark.parametrize(
    ("kind", "reason"),
    [("permission", "fatal_error"), ("invalid_payload", "invalid_payload"), ("check_failed", "check_failed")],
)
def test_a_fatal_failure_ends_the_task_at_once(kind: str, reason: str):
    (verdict,) = run_out(Failure(FailureClass.FATAL, kind, "no", "rule"), Charges())
    assert verdict == Verdict(TaskState.FAILED, reason, None, 0, 0, 0)


def test_a_timeout_is_retried_and_says_so():
    verdict = decide(structs.replace(ERROR, kind="timeout"), Charges(), RetryPolicy(), least)
    assert (verdict.state, verdict.reason, verdict.delay) == ("RETRYING", "timeout", 60)


def test_a_delay_is_kept_to_spends_no_retry_and_has_its_own_bound():
    failure = Failure(FailureClass.DELAYED, "delay", "later", "raised Delay", 7200.0)
    verdicts = run_out(failure, Charges(max_delays=3, max_retry=0))
    assert [verdict.delay for verdict in verdicts] == [7200, 7200, 7200, None]
    assert [verdict.delays for verdict in verdicts] == [1, 2, 3, 3]
    assert {verdict.retry_count for verdict in verdicts} == {0}
    assert [verdict.reason for verdict in verdicts] == ["delayed_error"] * 3 + ["retries_exhausted"]


def test_a_resource_fault_is_not_the_tasks_and_is_bounded():
    failure = Failure(FailureClass.RESOURCE_FAULT, "resource_fault", "gone", "raised ResourceFault")
    verdicts = run_out(failure, Charges(max_resource_faults=2, max_retry=0))
    assert [(v.state, v.reason, v.delay) for v in verdicts] == [
        ("PENDING", "resource_fault", 0.0),
        ("PENDING", "resource_fault", 1.0),
        ("NEEDS_REVIEW", "resource_faults_exhausted", None),
    ]


@pytest.mark.parametrize("delay", [float("inf"), float("nan"), -5.0, 1e300])
@pytest.mark.parametrize("class_", [FailureClass.RETRYABLE, FailureClass.DELAYED])
def test_any_named_delay_becomes_a_finite_wait(class_: FailureClass, delay: float):
    verdict = decide(structs.replace(ERROR, class_=class_, delay=delay), Charges(), RetryPolicy(), least)
    assert verdict.delay is not None
    assert 0 <= verdict.delay < 1e9


@given(
    st.sampled_from(FailureClass),
    st.sampled_from(["error", "timeout", "invalid_payload"]),
    st.none() | st.floats(),
    st.builds(Charges, *[st.integers(0, 10)] * 6),
    st.builds(RetryPolicy, st.floats(0, 1e6), st.floats(0, 1e6), st.sampled_from(["review", "dead"])),
)
def test_every_verdict_is_a_row_of_the_task_table(
    class_: FailureClass, kind: str, delay: float | None, task: Charges, policy: RetryPolicy
):
    verdict = decide(Failure(class_, kind, "", "", delay), task, policy, random.uniform)
    assert verdict.reason in TRANSITIONS[TaskState.RUNNING][TaskState(verdict.state)]
    assert (verdict.delay is not None) == (verdict.state in ("RETRYING", "PENDING"))
    spent = verdict.retry_count - task.retry_count, verdict.delays - task.delays
    assert sum(spent) + verdict.resource_faults - task.resource_faults == (verdict.delay is not None)


@fault("TF048", "TF049")
@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("120", 120),
        (" 120 ", 120),
        ("9999999999", 3600),
        ("99999999999999999999", 3600),
        ("9" * 5000, 3600),
        ("Sun, 29 Nov 2026 12:05:00 GMT", 300),
        ("Sunday, 29-Nov-26 12:05:00 GMT", 300),
        ("Sun Nov 29 12:05:00 2026", 300),
        ("Tue, 01 Dec 2026 12:00:00 GMT", 3600),
        ("Wed, 21 Oct 2026 07:28:00 GMT", None),
        ("Sunday, 06-Nov-94 08:49:37 GMT", None),
        ("Fri, 31 Dec 99999 23:59:59 GMT", None),
        ("Fri, 31 Dec 9999 23:59:60 GMT", 3600),
        ("Fri, 32 Dec 2026 23:59:59 GMT", None),
        ("Sun, 29 Nov 2026 12:05:00 +0100", None),
        ("0", None),
        ("-5", None),
        ("+5", None),
        ("1e3", None),
        ("1.5", None),
        ("abc", None),
        ("１２０", None),
        ("inf", None),
        ("", None),
        (None, None),
    ],
)
def test_retry_after_is_read_strictly_and_bounded(header: str | None, seconds: float | None):
    assert retry_after(header, NOW, 3600) == seconds
    failure = from_status(429, "slow down", delay=retry_after(header, NOW, 3600))
    verdict = decide(failure, Charges(), RetryPolicy(), least)
    assert (verdict.state, verdict.delays) == ("RETRYING", 1)
    assert verdict.delay == (seconds or 60)


@given(st.text(max_size=60))
def test_no_header_breaks_the_reader(header: str):
    wait = retry_after(header, NOW, 3600)
    assert wait is None or 0 < wait <= 3600
