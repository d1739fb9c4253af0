"""What becomes of a task after a failed attempt: try again and when, wait for a person, or end.

Source: "Failures are classified" of the domain. Pure: the counters come in, the new ones go out, chance is an
argument.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from msgspec import Struct, structs

from .failures import Failure, FailureClass
from .retry_after import retry_after
from .tasks import DEAD, FAILED, NEEDS_REVIEW, PENDING, RETRYING, TaskState
from .timing import LONGEST

__all__ = ["Charges", "RetryPolicy", "Verdict", "backoff", "decide", "retry_after"]

Uniform = Callable[[float, float], float]
"""`uniform(a, b)`: a random number between the two."""


LONGEST_FAULT_WAIT = 60.0
"""Seconds between two tries on ever other resources: at once first, then 1, 2, 4 …, so that nothing spins through a pool."""


class Charges(Struct, frozen=True):
    """What a task has used up before this failure, and its bounds."""

    retry_count: int = 0
    max_retry: int = 5
    delays: int = 0
    max_delays: int = 100
    resource_faults: int = 0
    max_resource_faults: int = 20


class RetryPolicy(Struct, frozen=True):
    """Seconds of the first wait and of the longest, and what a task becomes past its retries: `review` or `dead`."""

    base: float = 30.0
    max_delay: float = 3600.0
    on_exhausted: str = "review"


class Verdict(Struct, frozen=True):
    """The new state with its reason, the seconds until the task may run again (None: it won't), the new counters."""

    state: TaskState
    reason: str
    delay: float | None
    retry_count: int
    delays: int
    resource_faults: int


def backoff(retry_count: int, base: float, max_delay: float, uniform: Uniform) -> float:
    """Seconds before retry number `retry_count` (from 1): `min(base * 2^retry_count, max_delay) + uniform(0, base)`.

    No count is too large: past 2^64 the bound rules. Never negative, always finite.
    """
    base = min(max(base, 0.0), LONGEST)
    growth = math.ldexp(base, min(max(retry_count, 0), 64))
    return min(growth, max(max_delay, 0.0), LONGEST) + uniform(0.0, base)


def decide(failure: Failure, task: Charges, policy: RetryPolicy, uniform: Uniform) -> Verdict:
    """The verdict over a failed attempt. With `max_retry` 3 a task that always fails runs four times."""
    if failure.class_ is FailureClass.FATAL:
        reason = failure.kind if failure.kind in ("invalid_payload", "check_failed") else "fatal_error"
        return _verdict(task, FAILED, reason)
    if failure.class_ is FailureClass.RESOURCE_FAULT:
        return _resource_fault(task)
    if failure.class_ is FailureClass.DELAYED:
        return _delayed(failure, task, policy, uniform)
    return _retryable(failure, task, policy, uniform)


def _retryable(failure: Failure, task: Charges, policy: RetryPolicy, uniform: Uniform) -> Verdict:
    if task.retry_count >= task.max_retry:
        return _exhausted(task, policy)
    task = structs.replace(task, retry_count=task.retry_count + 1)
    wait = _wait(failure, task.retry_count, policy, uniform)
    return _verdict(task, RETRYING, "timeout" if failure.kind == "timeout" else "retryable_error", wait)


def _delayed(failure: Failure, task: Charges, policy: RetryPolicy, uniform: Uniform) -> Verdict:
    """Spends no retry; a failure that names no time waits like a retry would."""
    if task.delays >= task.max_delays:
        return _exhausted(task, policy)
    task = structs.replace(task, delays=task.delays + 1)
    return _verdict(task, RETRYING, "delayed_error", _wait(failure, task.delays, policy, uniform))


def _wait(failure: Failure, turn: int, policy: RetryPolicy, uniform: Uniform) -> float:
    """Seconds until the next attempt: as the failure names it, else the backoff of this turn."""
    named = _named(failure.delay)
    return backoff(turn, policy.base, policy.max_delay, uniform) if named is None else named


def _resource_fault(task: Charges) -> Verdict:
    """Not the task's fault: at once on another resource, up to a bound."""
    if task.resource_faults >= task.max_resource_faults:
        return _verdict(task, NEEDS_REVIEW, "resource_faults_exhausted")
    wait = 0.0 if task.resource_faults == 0 else min(LONGEST_FAULT_WAIT, 2.0 ** (task.resource_faults - 1))
    task = structs.replace(task, resource_faults=task.resource_faults + 1)
    return _verdict(task, PENDING, "resource_fault", wait)


def _exhausted(task: Charges, policy: RetryPolicy) -> Verdict:
    return _verdict(task, DEAD if policy.on_exhausted == "dead" else NEEDS_REVIEW, "retries_exhausted")


def _named(delay: float | None) -> float | None:
    """The wait that a failure names, made finite; None for none or NaN."""
    return None if delay is None or math.isnan(delay) else min(max(delay, 0.0), LONGEST)


def _verdict(task: Charges, state: TaskState, reason: str, delay: float | None = None) -> Verdict:
    return Verdict(state, reason, delay, task.retry_count, task.delays, task.resource_faults)
