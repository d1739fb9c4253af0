"""Start-up recovery: before the first dispatch, everything that an earlier engine left is settled, each thing once.

Idempotent, since it may be killed at any point and run again: it acts on what it finds held, conditionally on the dead owner
still being the owner. It holds the database lock, which proves that every earlier engine is gone. Workers that live go on;
only what is proven dead is taken over, after what it had kept has been written.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from msgspec import Struct, field

from ..clock import Clock
from ..config import Config
from ..crash import crash_at
from ..edge import identity
from ..errors import StoreError
from ..store import operations, processes, slots, tasks
from ..store.tasks import ENGINE
from ..store.transaction import Transaction
from ..store.writer import Writer
from . import groups, journal, kin, setting_aside, spool, withstanding
from .foundlings import Foundlings
from .leftovers import end_leftovers
from .losing import fall_back, take_all
from .messages import Bye, Left
from .outcomes import Outcomes
from .policies import Policies
from .recording import Recorder
from .starting import journal_of
from .telling import counted

log = logging.getLogger("taskdeck.recovery")

AT_ONCE = 500
"""Kept reports that are written in one transaction."""
PART = 10_000
"""Lost tasks that are taken over in one transaction."""
IN_DOUBT = "it may have ended: what its worker had kept can't be read"
"""Why what a worker had begun goes to a person where not all of its last words can be read."""


class Recovered(Struct):
    """What recovery found: the story of each task, and the rows of the workers that live."""

    stories: list[str] = field(default_factory=list)
    survivors: list[dict[str, Any]] = field(default_factory=list)


async def recover(
    config: Config,
    clock: Clock,
    writer: Writer,
    policies: Policies,
    engine_id: int,
    foundlings: Foundlings | None = None,
) -> Recovered:
    """Settle what earlier engines and workers left. The stories: e.g. "#5 resumes at checkpoint 7", "#9 goes on"."""
    recorder = Recorder(config, policies, Outcomes(policies, random.SystemRandom().uniform))
    engines, workers = await writer.write(_left_behind, engine_id)
    await writer.write(_end_engines, engines)
    crash_at("after_recovery_engines")
    found = Recovered()
    gone = [each for each in workers if not identity.alive(identity.named_by(each))]
    ends = Ends(config, clock, writer, foundlings or Foundlings())
    ends.begin(gone)
    for worker in workers:
        if worker not in gone:
            found.survivors.append(worker)
            found.stories += await writer.write(_wait_for, worker, config.engine.lease)
        else:
            try:
                found.stories += await _settle_dead(config, writer, policies, recorder, worker, ends)
            except StoreError:
                raise
            except Exception as error:
                log.error("worker %d can't be settled", worker["id"], exc_info=error)
                found.stories += await writer.write(leave, worker["id"], worker["pid"], error)
        crash_at("after_recovery_worker")
    alive = {worker["id"] for worker in found.survivors}
    found.stories += await writer.write(_orphans, alive, policies, config.engine.max_losses)
    await writer.write(_report, found.stories, len(engines), len(gone))
    survivors = {worker["incarnation"] for worker in found.survivors}
    await asyncio.to_thread(groups.sweep, config.log_directory / "workers", survivors)
    return found


def forget_files(journal_path: Path, *, unreadable: bool = False) -> None:
    """All that a settled worker kept is written: its files are of no more use. What can't be read is kept for a person."""
    kept = journal_path.with_suffix(".spool")
    _tidy(kept, kept.with_suffix(".unreadable") if unreadable else None)
    groups.forget(journal_path)
    _tidy(journal_path.with_suffix(kin.SUFFIX), None)
    _tidy(journal_path, None)


def _tidy(path: Path, moved_to: Path | None) -> None:
    try:
        path.rename(moved_to) if moved_to else path.unlink(missing_ok=True)
    except OSError as error:  # it is in nobody's way: no other worker will have its name
        log.warning("%s can't be removed and stays: %s", path, error.strerror)


class Replayed(NamedTuple):
    """The last words of a worker that is gone: how many reports were written down now.

    `unreadable`: why some of them can't be read, "" where all could.
    """

    reports: int
    said_bye: bool
    unreadable: str


async def replay(
    write: Callable[..., Awaitable[Any]], recorder: Recorder, worker_id: int, path: Path
) -> Replayed:
    """Write down what a worker that is gone had kept, each report once, as far as it can be read."""
    unreadable = ""
    try:
        reports = await asyncio.to_thread(spool.read, path)
    except spool.Unreadable as damage:
        reports, unreadable = damage.reports, damage.why
        log.error("%s can't be read: %s; what worker %d had begun goes to review", path, damage, worker_id)
    for start in range(0, len(reports), AT_ONCE):
        part = reports[start : start + AT_ONCE]
        await write(lambda tx, part=part: recorder.record_once(tx, worker_id, part, worker_lives=False))
        crash_at("after_replay")
    return Replayed(len(reports), any(isinstance(report, Bye) for _, report in reports), unreadable)


def tell_unreadable(tx: Transaction, worker_id: int, path: Path, why: str) -> str:
    """Raise the alert. Returns why the attempts that this worker had begun are a person's matter."""
    kept = path.with_suffix(".unreadable")
    tx.event(
        "ALERT_RAISED",
        actor=ENGINE,
        worker_id=worker_id,
        level="error",
        reason="spool_unreadable",
        message=f"what worker {worker_id} had kept can't be read: {why}; kept as {kept.name}, and what it had begun is"
        " in doubt",
        payload={"file": str(kept)},
    )
    return IN_DOUBT


class Ends:
    """Ends what dead workers left running, of all of them at the same time: most of that is waiting."""

    def __init__(self, config: Config, clock: Clock, writer: Writer, foundlings: Foundlings) -> None:
        self._config, self._clock, self._writer = config, clock, writer
        self.foundlings = foundlings
        self._begun: dict[int, asyncio.Task[Ended]] = {}

    def begin(self, workers: list[dict[str, Any]]) -> None:
        """Begin with these; each is asked for later, and what fails is raised there."""
        self._begun = {each["id"]: asyncio.create_task(self._end(each)) for each in workers}

    async def of(self, worker: dict[str, Any]) -> Ended:
        """What it held, and what could not be ended."""
        return await self._begun[worker["id"]]

    async def _end(self, worker: dict[str, Any]) -> Ended:
        held = await self._writer.write(tasks.held_by, worker["id"])
        left = await asyncio.to_thread(
            end_leftovers,
            self._config.db,
            worker["incarnation"],
            [row["id"] for row in held],
            self._clock,
            journal_of(self._config, worker),
            partial(self.foundlings.left_by, identity.named_by(worker)),
        )
        return Ended(held, left)


class Ended(NamedTuple):
    """The tasks that a dead worker held (`id`, `fence`, `worker_id`, `attempt`), and the processes that withstand."""

    held: list[dict[str, Any]]
    left: list[Left]


async def _settle_dead(
    config: Config,
    writer: Writer,
    policies: Policies,
    recorder: Recorder,
    worker: dict[str, Any],
    ends: Ends,
) -> list[str]:
    path = journal_of(config, worker)
    held, left = await ends.of(worker)
    crash_at("after_recovery_ended_leftovers")
    for problem in left:
        log.error("recovery: %s", problem)
    await writer.write(withstanding.record, left, worker["id"])
    await writer.write(
        withstanding.record_doubtful, ends.foundlings.doubtful(identity.named_by(worker)), worker["id"]
    )
    replayed = await replay(writer.write, recorder, worker["id"], path.with_suffix(".spool"))
    had = held
    if replayed.reports:
        held = await writer.write(tasks.held_by, worker["id"])
    still = {row["fence"] for row in held}
    finished = [row for row in had if row["fence"] not in still]
    stories = [f"#{row['id']} ended while there was no engine" for row in finished]
    take = partial(
        take_all,
        cause=f"worker {worker['id']} was lost while there was no engine",
        started=begun(path, worker["boot_id"], held),
        policies=policies,
        max_losses=config.engine.max_losses,
        doubt=IN_DOUBT if replayed.unreadable else "",
    )
    *parts, last = [held[first : first + PART] for first in range(0, len(held) or 1, PART)]
    for part in parts:  # the worker is open until the last of them, so that a next recovery finds the rest
        stories += await writer.write(partial(take, held=part))
        crash_at("after_recovery_part")
    orderly = replayed.said_bye or _never_up(worker)
    unreadable = (path, replayed.unreadable)
    stories += await writer.write(_bury, worker, held, orderly, unreadable, partial(take, held=last))
    crash_at("after_burial")
    forget_files(path, unreadable=bool(replayed.unreadable))
    return stories


def _never_up(worker: dict[str, Any]) -> bool:
    """Was its engine lost before it had a word with it? Then it went by itself, and nothing is missing."""
    return worker["state"] == "STARTING"


def _wait_for(tx: Transaction, worker: dict[str, Any], lease: float) -> list[str]:
    """A worker that lives has a fresh lease from now on, whatever ran out while there was no engine."""
    held = tasks.of_worker(tx, worker["id"])
    tasks.renew(tx, worker["id"], lease)
    state = "DRAINING" if worker["state"] == "DRAINING" else "AWAY"
    why = "its engine was lost; its process lives and is waited for"
    if processes.set_worker(tx, worker["id"], state, evidence=why):
        tx.event(
            "WORKER_AWAY",
            actor=ENGINE,
            worker_id=worker["id"],
            reason="engine_lost",
            message=f"pid {worker['pid']}: {why}; it holds {counted(len(held), 'task', 'tasks')}",
            payload={"pid": worker["pid"], "tasks": [row["id"] for row in held]},
            ours=True,
        )
    return [f"#{row['id']} goes on with worker {worker['id']}" for row in held]


def begun(path: Path, boot_id: str, held: list[dict[str, Any]]) -> set[int]:
    """The fences that were begun. The journal survives a process, not the power: without a sound one all count."""
    try:
        if path.exists() and boot_id == identity.boot_id():
            return journal.read(path)
    except (OSError, ValueError) as error:
        log.warning("%s can't be read, so that all count as begun: %s", path, error)
    return {row["fence"] for row in held}


def _left_behind(tx: Transaction, engine_id: int) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    others = [engine for engine in processes.open_engines(tx) if engine["id"] != engine_id]
    return others, processes.open_workers(tx)


def _end_engines(tx: Transaction, engines: list[dict[str, Any]]) -> None:
    for engine in engines:
        processes.end_engine(tx, engine["id"], "lost")
        tx.event(
            "ENGINE_LOST",
            actor=ENGINE,
            level="error",
            reason="process_gone",
            message=f"engine {engine['id']} (pid {engine['pid']}) ended without a word",
            payload={"engine": engine["id"], "pid": engine["pid"], "started_at": engine["started_at"]},
            ours=True,
        )


def _bury(
    tx: Transaction,
    worker: dict[str, Any],
    held: list[dict[str, Any]],
    orderly: bool,
    lost_words: tuple[Path, str],
    take: Callable[[Transaction], list[str]],
) -> list[str]:
    orderly = orderly and not held
    how = "it was lost while there was no engine"
    if orderly:
        how = (
            "its engine was lost before it was ready" if _never_up(worker) else "no engine came back in time"
        )
    if processes.end_worker(tx, worker["id"], "ENDED" if orderly else "LOST", how):
        tx.event(
            "WORKER_ENDED" if orderly else "WORKER_LOST",
            actor=ENGINE,
            worker_id=worker["id"],
            level="info" if orderly else "error",
            reason="ended" if orderly else "engine_lost",
            message=f"pid {worker['pid']}: {how}; it held {counted(len(held), 'task', 'tasks')}",
            payload={"pid": worker["pid"], "tasks": [row["id"] for row in held]},
            ours=True,
        )
    path, unreadable = lost_words
    if unreadable:
        tell_unreadable(tx, worker["id"], path, unreadable)
    return take(tx)


def leave(tx: Transaction, worker_id: int, pid: int, error: Exception) -> list[str]:
    """What it left can't be settled, so that nobody knows what still runs: a person decides about each of its tasks."""
    cause = f"worker {worker_id} was lost, and what it left can't be settled"
    held = tasks.of_worker(tx, worker_id)
    if processes.end_worker(tx, worker_id, "LOST", "it was lost, and what it left can't be settled"):
        tx.event(
            "WORKER_LOST",
            actor=ENGINE,
            worker_id=worker_id,
            level="error",
            reason="not_settled",
            message=f"pid {pid}: {cause}: {error}",
            payload={"pid": pid, "tasks": [row["id"] for row in held]},
        )
    return [fall_back(tx, row, cause, error) for row in held]


def _orphans(tx: Transaction, alive: set[int], policies: Policies, max_losses: int) -> list[str]:
    """Tasks that no living worker holds: found by their own row, with no join needed (TF016).

    Each part stands for itself: what fails in one keeps neither the others nor the engine.
    """
    held = [row for row in tasks.all_held(tx) if row["worker_id"] not in alive]
    stories = take_all(tx, held, "its worker is gone", {row["fence"] for row in held}, policies, max_losses)
    for what, part in (
        ("what ended attempts had leased can't be given back", slots.sweep),
        ("operations of ended attempts can't be doubted", _doubt),
    ):
        try:
            tx.unit(part)
        except Exception as error:
            setting_aside.tell(tx, what, error)
    return stories


def _doubt(tx: Transaction) -> None:
    operations.doubt_without_attempt(tx, "recovery")


def _report(tx: Transaction, stories: list[str], engines: int, workers: int) -> None:
    if engines or workers or stories:
        tx.event(
            "ENGINE_RECOVERED",
            actor=ENGINE,
            reason="recovery",
            message="; ".join(stories[:20]) or "nothing was running",
            payload={"engines_lost": engines, "workers_lost": workers, "tasks": len(stories)},
            ours=True,
        )
