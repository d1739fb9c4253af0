"""A restore: a backup is checked, told what it can't know, settled, and put in the place of the database.

An older copy knows nothing of what was done after it. What it holds as running may have ended, what it holds as waiting may
have been done: started again it would be done twice. So every task of which that may be true waits for a person, unless they
said that it may run again. The database that is replaced tells which these are, if it can be read and is of the same history.
"""

from __future__ import annotations

import os
import re
import sqlite3
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from ..clock import Clock
from ..config import Config
from ..crash import crash_at
from ..edge import identity
from ..edge.paths import told_path
from ..errors import NotFound, Refused, StoreError
from ..rules.payloads import encode
from ..rules.tasks import NEEDS_REVIEW, PAUSED, TaskState
from ..rules.timing import utc_text
from ..store import backup, events, processes, requests, rewinding, slots, tasks
from ..store.database import open_for_writing
from ..store.durable import sync
from ..store.replacing import Replacement, finish, plan_file, replace, settle
from ..store.rewinding import Later
from ..store.tasks import NO_LEASE
from ..store.transaction import Redacts, Transaction
from .leftovers import end_all, story
from .losing import take_all
from .policies import Policies
from .telling import counted


class RestoreReport(msgspec.Struct, frozen=True, kw_only=True):
    """What a restore did, or would do. `kept`: where the replaced database is now; `known`: could it be asked?"""

    path: str
    kept: str | None
    known: bool
    events_after: int
    """Events of the replaced database that are not in the backup: its history is given up from there on."""
    tasks_after: int | None
    """Tasks that were added after the backup and are not in it; None where nobody knows."""
    interrupted: int
    """Tasks that were running when the backup was made."""
    to_review: list[int]
    """Tasks that may have been done since, and wait for a person."""
    left: int
    """Tasks that go on by themselves."""


def restore(
    config: Config,
    source: Path,
    actor: str,
    clock: Clock,
    redactor: Redacts,
    *,
    rerun: bool,
    dry_run: bool = False,
) -> RestoreReport:
    """Put the backup `source` in the place of the database; the caller holds the database lock.

    `rerun`: what may have been done since runs again without asking. Raises `StoreError` for a file that is not whole,
    `SchemaMismatch`, `Refused` while workers of the old engine are alive. Until the last step nothing is changed.
    """
    if not source.is_file():
        raise NotFound(
            "an empty word names no backup" if source == Path() else f"there is no file {source}",
            remedy="name a backup; see: ls " + str(config.backup_directory),
        )
    _refuse_a_log_beside(source)
    found = backup.check(source)
    finish(config.db)
    _remove_what_killed_restores_left(config.db)
    settle(config.db)
    later = rewinding.look(config.db, found.head, _open_tasks(source))
    _refuse_living_workers(later)
    now = utc_text(clock.utc())
    new = config.db.with_name(f".{config.db.name}.new-{os.getpid()}")
    aside = _aside(config.db, now)
    try:
        report = _prepare(config, source, new, actor, clock, redactor, later, aside, rerun=rerun)
        if not dry_run:
            _end_what_still_runs(config, clock)
            crash_at("before_restore")
            head = _first_event_behind(new, found.head.event_id)
            replace(config.db, Replacement(new.name, aside.name, head, now), crash_at)
    finally:
        # With a plan it is still needed: whoever opens the database next carries the plan through.
        if not plan_file(config.db).exists():
            for suffix in ("", "-wal", "-shm", "-journal"):
                Path(f"{new}{suffix}").unlink(missing_ok=True)
    return report


def _prepare(
    config: Config,
    source: Path,
    new: Path,
    actor: str,
    clock: Clock,
    redactor: Redacts,
    later: Later,
    aside: Path,
    *,
    rerun: bool,
) -> RestoreReport:
    """The copy, migrated, settled and closed, as one durable file."""
    os.close(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))
    try:
        connection = backup.open_copy(source)
        try:
            head = backup.copy(connection, new).head
        finally:
            connection.close()
        database = open_for_writing(new, utc_text(clock.utc()), keep_old=False)
        try:
            tx = Transaction(database.connection(), clock, identity.boot_id(), redactor, database)
            tx.begin()
            unit = _Settlement(config, later, head.event_id, rerun)
            told = tx.unit(unit, source, actor)
            tx.commit()
            database.execute_sql("PRAGMA wal_checkpoint(TRUNCATE)")
            database.execute_sql("PRAGMA journal_mode = DELETE")
        finally:
            database.close()
        sync(new)
    except (OSError, sqlite3.Error) as error:
        raise StoreError("the restore can't be prepared", str(error), f"make room in {new.parent}") from error
    return msgspec.structs.replace(
        told, path=told_path(source), kept=str(aside) if config.db.exists() else None
    )


class _Settlement:
    """One unit: what the copy must be told before anything may run on it."""

    def __init__(self, config: Config, later: Later, last_event: int, rerun: bool) -> None:
        self._config = config
        self._later = later
        self._last_event = last_event
        self._rerun = rerun
        self._policies = Policies(config)

    def __call__(self, tx: Transaction, source: Path, actor: str) -> RestoreReport:
        self._policies.load(processes.type_settings(tx))
        after = max(0, self._later.last_event - self._last_event)
        self._put_on_record(tx, source, actor, after)
        rewinding.move_numbers_on(tx, self._later)
        seen = rewinding.unfinished(tx)
        interrupted = [
            row["id"] for row in seen if row["worker_id"] is not None or row["state"] in ("RUNNING", "LOST")
        ]
        self._end_processes(tx)
        slots.sweep(tx)
        doubtful = [row["id"] for row in seen if row["id"] in interrupted or self._may_have_run(row, tx.now)]
        reviewed = (
            [] if self._rerun else [task_id for task_id in doubtful if self._review(tx, task_id, actor)]
        )
        left = [row for row in rewinding.unfinished(tx) if row["state"] != PAUSED]
        return RestoreReport(
            path="",
            kept=None,
            known=self._later.same_history,
            events_after=after,
            tasks_after=self._later.added if self._later.same_history else None,
            interrupted=len(interrupted),
            to_review=reviewed,
            left=len(left),
        )

    def _put_on_record(self, tx: Transaction, source: Path, actor: str, after: int) -> None:
        behind = f"; {counted(after, 'later event', 'later events')} given up" if after else ""
        tx.event(
            "OPERATOR_RESTORED",
            actor=actor,
            level="warning",
            reason="restored",
            message=f"the backup {told_path(source)} took the place of the database, as of event {self._last_event}{behind}",
            payload={
                "from": told_path(source),
                "event": self._last_event,
                "given_up": after,
                "rerun": self._rerun,
            },
        )

    def _end_processes(self, tx: Transaction) -> None:
        """Nothing of the old life is alive: its leases end, its attempts are lost, uncharged."""
        for engine in processes.open_engines(tx):
            processes.end_engine(tx, engine["id"], "restored")
        for worker in processes.open_workers(tx):
            processes.end_worker(tx, worker["id"], "LOST", "a backup was restored")
        held = tasks.all_held(tx)
        cause = "a backup was restored in which it was running"
        fences = {row["fence"] for row in held}
        take_all(tx, held, cause, fences, self._policies, self._config.engine.max_losses, charged=False)

    def _may_have_run(self, row: Mapping[str, Any], now: str) -> bool:
        """Was it started after the backup, or can nobody say that it was not?"""
        if self._later.same_history:
            known = self._later.tasks.get(row["id"])
            return (
                known is None
                or known[1] != row["attempt"]
                or known[0] not in ("PENDING", "RETRYING", "PAUSED")
            )
        return row["state"] != PAUSED and row["next_run_at"] <= now

    def _review(self, tx: Transaction, task_id: int, actor: str) -> bool:
        """To a person with it, unless it waits for one or has ended by itself."""
        task = tasks.get(tx, task_id)
        if task["state"] not in (TaskState.PENDING, TaskState.RETRYING, PAUSED):
            return task["state"] is NEEDS_REVIEW
        why = self._why(task_id)
        error = encode({"class": "lost", "kind": "restored", "message": why, "rule": "restore"})
        columns = {**NO_LEASE, "error": error}
        tasks.transition(tx, task, NEEDS_REVIEW, "restored", actor=actor, message=why, columns=columns)
        requests.close_all_of(tx, task_id, "a backup was restored")
        return True

    def _why(self, task_id: int) -> str:
        known = self._later.tasks.get(task_id)
        if known:
            attempts = counted(known[1], "attempt", "attempts")
            return f"after the backup it became {known[0]} ({attempts}): look before it runs again"
        return "it may have been done after the backup: look before it runs again"


def _refuse_a_log_beside(source: Path) -> None:
    """A backup is one file. A log beside it is of another file, or this is no backup: neither may be mixed in."""
    for suffix in ("-wal", "-journal"):
        log = Path(f"{source}{suffix}")
        if log.exists() and log.stat().st_size:
            raise Refused(
                f"{log} lies beside {source}",
                "a backup is one file: either the log belongs to another one, or this is a raw copy that needs it",
                f"if they belong together: taskdeck backup --db {source} NEW, and restore NEW; else move the log away",
            )


def _refuse_living_workers(later: Later) -> None:
    """A worker that outlived its engine works on; what it does now would be lost or done twice."""
    alive = [worker["pid"] for worker in later.open_workers if identity.alive(identity.named_by(worker))]
    if alive:
        pids = " ".join(map(str, alive))
        raise Refused(
            f"workers of the last engine are still at work (pid {pids})",
            "what they do now would be lost, or done twice",
            f"end them in order: taskdeck run, then taskdeck stop; or at once: kill {pids}",
        )


def _end_what_still_runs(config: Config, clock: Clock) -> None:
    """Commands that outlived their workers: the copy knows nothing of them, and would start them beside themselves."""
    if problems := end_all(config.db, clock):
        raise Refused(
            "something of the old engine still runs",
            story(problems),
            "end it, then restore again",
        )


def _remove_what_killed_restores_left(database: Path) -> None:
    """Copies that were never put in the place of the database; a plan that needed one has been carried through."""
    copy = re.compile(rf"\.{re.escape(database.name)}\.new-[0-9]+(-wal|-shm|-journal)?")
    for path in database.parent.iterdir():
        if copy.fullmatch(path.name):
            path.unlink(missing_ok=True)


def _open_tasks(source: Path) -> list[int]:
    connection = backup.open_copy(source)
    try:
        sql = "SELECT id FROM task WHERE state IN ('PENDING','RUNNING','PAUSED','RETRYING','LOST')"
        return [row[0] for row in connection.execute(sql)]
    finally:
        connection.close()


def _first_event_behind(new: Path, event_id: int) -> tuple[int, int, str]:
    """The event of the restore itself, as it is noted outside the database."""
    connection = backup.open_copy(new)
    try:
        (row,) = events.window(connection, event_id, event_id + 1, 1)
    finally:
        connection.close()
    return row[0], row[0], row[-1]


def _aside(database: Path, now: str) -> Path:
    """`taskdeck.db.replaced-20261130T101500Z`, with a number behind it where there is one."""
    name = f"{database.name}.replaced-{re.sub(r'[-:]|[.][0-9]+', '', now)}"
    path, number = database.with_name(name), 1
    while path.exists():
        number += 1
        path = database.with_name(f"{name}-{number}")
    return path
