"""When a run ends by itself: nothing is left to do, or it has waited as long as it may. Says what it waits for meanwhile."""

from __future__ import annotations

import logging
from collections.abc import Callable

import msgspec

from ..clock import Clock
from ..rules.selection import failed_to_load
from ..rules.tasks import RETRYING
from ..rules.timing import add_seconds, parse_utc
from ..store import tasks
from ..store.transaction import Transaction
from ..store.writer import Writer
from .dispatch import Limits, stuck_on
from .policies import Policies
from .telling import counted, short_error, summary
from .workforce import Workforce

log = logging.getLogger("taskdeck.engine")

TOLD_EVERY = 60.0
"""Seconds between two notes that the run waits for a person."""


class RunOptions(msgspec.Struct, frozen=True):
    """How this run shall end by itself. `since`: UTC text of the start of the run, over all restarts of its engine."""

    until_idle: bool = False
    max_wait: float | None = None
    since: str = ""


class Idleness:
    """Looked at after each tick of the scheduler that started nothing. `on_end(exit_code)` is called at most once."""

    def __init__(
        self,
        options: RunOptions,
        clock: Clock,
        writer: Writer,
        policies: Policies,
        workforce: Workforce,
        on_end: Callable[[int], None],
    ) -> None:
        self._options = options
        self._clock = clock
        self._writer = writer
        self._policies = policies
        self._workforce = workforce
        self._on_end = on_end
        self._stepped = 0.0
        self._tell_again_at = 0.0
        self._told = ""
        self.reached = False
        """Nothing was left to do."""

    async def look(self, limits: Limits) -> None:
        """End the run if it is over. Until a worker has told what it can run, nobody knows."""
        if not self._options.until_idle or not self._workforce.published.is_set():
            return
        if await self._writer.write(tasks.any_runs):
            return  # before anything is counted: a tick at full house would cost what the queue is long
        left = await self._left()
        if left["open"] == 0:
            await self._end(left)
        else:
            await self._tell_what_is_waited_for(limits, left["open"] - 1)
            if self._waited_too_long():
                log.error(
                    "%s after --max-wait", counted(left["open"], "task still waits", "tasks still wait")
                )
                self._on_end(124)

    async def tell_what_is_left(self) -> None:
        """The last words of a run that was stopped."""
        if self.reached:
            return
        left = await self._left()
        if waiting := left["open"] + left["stuck"]:
            log.info("stopped; %s at the next run", counted(waiting, "task goes on", "tasks go on"))
        else:
            log.info("stopped")

    def clock_was_set(self, seconds: float) -> None:
        """By so many seconds: what is measured from the start of the run still is."""
        if seconds > 0:
            self._stepped += seconds
        else:  # what ends before the start of the run, as the clock has it now, ends in it all the same
            since = add_seconds(self._options.since, seconds)
            self._options = msgspec.structs.replace(self._options, since=since)

    async def _left(self) -> dict[str, int]:
        types = tuple(sorted(self._workforce.types))
        return await self._writer.write(tasks.unfinished, self._options.since, types)

    async def _end(self, left: dict[str, int]) -> None:
        ended = await self._writer.write(tasks.ended_since, self._options.since)
        told = summary(ended, left["review"])
        if left["stuck"]:
            log.error(
                "%s no handler and can't run%s (see: taskdeck config check, taskdeck list state:pending)",
                counted(left["stuck"], "task has", "tasks have"),
                failed_to_load(self._workforce.problems),
            )
            log.info("no other task is left to do: %s", told)
        else:
            log.info("nothing is left to do: %s", told)
        self.reached = True
        self._on_end(1 if left["failed"] or left["stuck"] else 6 if left["review"] else 0)

    async def _tell_what_is_waited_for(self, limits: Limits, others: int) -> None:
        """Nothing runs: where nothing can start by itself, say so and what to do, once a minute at most; else who is next."""
        if self._clock.monotonic() < self._tell_again_at:
            return
        if why := await self._writer.write(stuck_on, limits, self._policies):
            self._tell_again_at = self._clock.monotonic() + TOLD_EVERY
            log.warning("waiting: %s", why)
        elif (following := await self._writer.write(_following)) and following != self._told:
            self._told = following
            more = f", {others} more behind it" if others else ""
            log.info("waiting: %s%s (--max-wait bounds it)", following, more)

    def _waited_too_long(self) -> bool:
        if self._options.max_wait is None:
            return False
        running_for = (self._clock.utc() - parse_utc(self._options.since)).total_seconds() - self._stepped
        return running_for >= self._options.max_wait


def _following(tx: Transaction) -> str:
    """Which task becomes due next, when, and what made it wait, in words; empty where none does."""
    found = tasks.next_dated(tx)
    if found is None:
        return ""
    task_id, state, when, error = found
    if state != RETRYING:
        return f"#{task_id} is due at {when[:19]}Z"
    why = short_error(error, tx.redactor.text)
    return f"#{task_id} retries at {when[:19]}Z{f' after {why}' if why else ''}"
