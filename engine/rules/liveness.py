"""When a silent worker is suspect and when it is lost. Pure; times are seconds of one clock."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct


class Verdict(StrEnum):
    """What silence means. Only LOST is acted on: the worker is ended by its identity first."""

    ALIVE = "alive"
    SUSPECT = "suspect"
    LOST = "lost"


class Signs(Struct, frozen=True):
    """What is known of a worker whose process exists. Seconds; `cpu` is its CPU time, `cpu_at_beat` that at the last beat."""

    silent_for: float
    lease_left: float
    cpu: float
    cpu_at_beat: float


def judge(signs: Signs, suspect_after: float) -> Verdict:
    """A process whose CPU time grows is busy, not dead: that counts as a beat (a starved heartbeat thread)."""
    if signs.silent_for < suspect_after:
        return Verdict.ALIVE
    if signs.cpu > signs.cpu_at_beat:
        return Verdict.ALIVE
    return Verdict.LOST if signs.lease_left <= 0 else Verdict.SUSPECT


STATES = {
    "R": "runs",
    "S": "sleeps",
    "D": "waits for the kernel",
    "T": "is stopped (SIGSTOP)",
    "t": "is stopped by a debugger",
    "Z": "is dead and not collected",
}
"""What the kernel's letters for a process say."""


def evidence(signs: Signs, state: str | None) -> str:
    """Why a worker is suspect, in words; `state` is the kernel's letter for its process."""
    process = "is gone" if state is None else STATES.get(state, f"is in state {state}")
    return (
        f"no heartbeat for {signs.silent_for:.0f} s; its process {process} and has used no CPU since;"
        f" lost in {max(0.0, signs.lease_left):.0f} s"
    )


class Limits(Struct, frozen=True):
    """When a worker is replaced between attempts; 0 = never. Attempts, bytes, seconds."""

    tasks: int = 0
    memory: int = 0
    age: float = 0.0


def worn_out(limits: Limits, *, tasks: int, memory: int, age: float) -> str:
    """Why a worker that has begun so many attempts, and uses so much memory, shall be replaced; empty = it need not.

    One that began nothing stays, whatever it uses: its successor would be no better.
    """
    if not tasks:
        return ""
    if 0 < limits.tasks <= tasks:
        return f"it has begun {tasks} attempts (engine.recycle_tasks)"
    if 0 < limits.memory <= memory:
        return f"it uses {memory >> 20} MiB (engine.recycle_memory)"
    if 0 < limits.age <= age:
        return f"it is {age:.0f} s old (engine.recycle_age)"
    return ""


def gap(since_last_tick: float, every: float) -> bool:
    """The engine itself was away (suspend, stopped VM, stall): everyone gets a fresh lease instead of a verdict."""
    return since_last_tick > 10 * every + 5


AT_START = 5.0
"""Seconds after its start within which a worker that began no attempt died of its start."""


def died_at_start(lived: float, began: bool) -> bool:
    """Did a worker that lived so long die of its start? One that `began` an attempt came up, and what came after is
    bounded by the losses of the tasks: a task that kills its workers must not keep all others waiting."""
    return lived < AT_START and not began


def ended_in_order(code: int | None, *, came_up: bool, said_bye: bool, is_wanted: bool) -> bool:
    """Did a worker that held nothing end as it should? One that is still wanted and ends with 0 before it came up was ended
    by a handler file, and nothing else would tell why no task starts. `code`: how it exited, None = unknown."""
    return said_bye or (code == 0 and (came_up or not is_wanted))


def restart_delay(quick_deaths: int) -> float:
    """Seconds to wait before a worker that keeps dying at its start is started again: 0, 0.5, 1, 2 … 30."""
    return 0.0 if quick_deaths == 0 else min(30.0, 0.25 * 2 ** min(quick_deaths, 10))
