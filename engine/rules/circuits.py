"""The circuit of one (type, target): opens when its tasks keep failing there, then lets one trial through at a time.

Source: "A circuit breaker per (type, target)" of the domain and targets of the routes. Pure; times are seconds of the boot
clock. Which attempts are trials is told by their fence: fences only grow, and nothing starts while a circuit is open, so that
whatever has a fence above `opened_fence` is a trial. No trial can get lost, since none is remembered.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from msgspec import Struct, structs

from .checks import Duration, Number, Whole


class CircuitSettings(Struct, frozen=True):
    """`[circuit]`: so many failures in a row, within `window_s` of each other, open it.

    It rests for `rest_s`, longer each time, up to `max_s`. Then `trials` attempts may run at once, until one has passed.
    """

    failures: Annotated[int, Whole(1, 100000)] = 5
    window_s: Annotated[float, Duration()] = 600.0
    rest_s: Annotated[float, Duration()] = 60.0
    factor: Annotated[float, Number(1, 100)] = 2.0
    max_s: Annotated[float, Duration()] = 900.0
    trials: Annotated[int, Whole(1, 1000)] = 1


class Cause(StrEnum):
    """Why it opened. It decides what closes it: a success of a task, or an answer that refuses nothing."""

    FAILURES = "failures"
    REFUSALS = "refusals"


class Circuit(Struct, frozen=True):
    """`failures` in a row, the last one at `last_at`. Open: `until` is the end of its rest, `level` counts the rests."""

    failures: int = 0
    last_at: float | None = None
    level: int = 0
    cause: Cause | None = None
    opened_fence: int = 0
    until: float | None = None

    @property
    def is_open(self) -> bool:
        """Open or half open: until a trial has passed."""
        return self.until is not None

    def is_trial(self, fence: int) -> bool:
        """Was the attempt of this fence begun since it opened?"""
        return self.is_open and fence > self.opened_fence


CLOSED = Circuit()


def failed(circuit: Circuit, fence: int, now: float, newest_fence: int, settings: CircuitSettings) -> Circuit:
    """An attempt failed there. Of an open circuit only a trial tells anything; one that was open already rests longer."""
    if circuit.is_open:
        trial = circuit.is_trial(fence) and circuit.cause is Cause.FAILURES
        return _opened(circuit, Cause.FAILURES, now, newest_fence, settings) if trial else circuit
    fresh = circuit.last_at is not None and now - circuit.last_at < settings.window_s
    counted = structs.replace(circuit, failures=circuit.failures + 1 if fresh else 1, last_at=now)
    if counted.failures < settings.failures:
        return counted
    return _opened(counted, Cause.FAILURES, now, newest_fence, settings)


def refused(
    circuit: Circuit, fence: int, now: float, newest_fence: int, rest_s: float, settings: CircuitSettings
) -> Circuit:
    """The target refuses too many routes, or the trial again: it rests for `rest_s` at least."""
    if circuit.is_open and not circuit.is_trial(fence):
        return circuit
    opened = _opened(circuit, Cause.REFUSALS, now, newest_fence, settings)
    return structs.replace(opened, until=max(opened.until or now, now + rest_s))


def succeeded(circuit: Circuit, fence: int, cause: Cause) -> Circuit:
    """An attempt succeeded there, or (for `REFUSALS`) got an answer: what is closed forgets, and a trial closes it."""
    if circuit.is_open and not (circuit.is_trial(fence) and circuit.cause is cause):
        return circuit
    return circuit if not circuit.is_open and cause is Cause.REFUSALS else CLOSED


def room(circuit: Circuit, now: float, fences: list[int], settings: CircuitSettings) -> int | None:
    """How many more attempts may start now; None = any number. `fences` are those of the attempts that run there.

    What was begun before it opened is waited for as well, for one more rest at most: its result is as good as a trial's,
    and a target that accepts and never answers is not given more while it still holds those.
    """
    if circuit.until is None:
        return None
    if now < circuit.until:
        return 0
    waits_for_old = now < circuit.until + _rest(circuit.level - 1, settings)
    trials = sum(waits_for_old or circuit.is_trial(fence) for fence in fences)
    return max(0, settings.trials - trials)


def _opened(
    circuit: Circuit, cause: Cause, now: float, newest_fence: int, settings: CircuitSettings
) -> Circuit:
    return structs.replace(
        circuit,
        last_at=now,
        level=circuit.level + 1,
        cause=cause,
        opened_fence=newest_fence,
        until=now + _rest(circuit.level, settings),
    )


def _rest(level: int, settings: CircuitSettings) -> float:
    return min(settings.max_s, settings.rest_s * settings.factor ** min(max(level, 0), 64))
