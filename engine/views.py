"""What can be seen: immutable read models for screens, verbs and JSON, and the view that reads them.

Owns what can be asked of a database, and the words of the rules that screens need: they import nothing below this module.
Reads only; what leaves here holds no secret. Cleaning for a terminal is the business of who draws (`clean`).
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec

from .clock import Clock, system_clock
from .config import Config, read_secrets
from .errors import NotFound
from .rules.bandwidth import format_rate
from .rules.checkpoints import undone_under
from .rules.filters import EventFilter, Filter, ids, is_ids, parse, parse_arguments, parse_events, state_named
from .rules.holds import EVERYTHING
from .rules.holds import named as hold_named
from .rules.holds import scopes as hold_scopes
from .rules.holds import target as hold_target
from .rules.inventory_models import ResourceView, RouteView, SampleView, ScoreView, SlotView, TargetView
from .rules.models import (
    IN_DOUBT,
    OR_LATER,
    SETTLED,
    STRANDED,
    AlertView,
    AnchorView,
    AttemptView,
    AuditReport,
    CheckpointView,
    Counts,
    EngineView,
    EventView,
    HoldView,
    LeftoverView,
    LogView,
    OperationView,
    Progress,
    StepView,
    TaskView,
    WorkerView,
)
from .rules.needs import needs_text
from .rules.redaction import Redactor, clean
from .rules.selection import COMMAND_TYPE, Loaded, Situation, no_handler
from .rules.shaping import Row, Shaper, worker
from .rules.storage import size_text
from .rules.tasks import WAITING, TaskState
from .rules.timing import format_duration, parse_duration, parse_utc, seconds_between, utc_text
from .run import waiting
from .run.messages import TypeInfo, from_stored
from .run.policies import Policies
from .run.stock import Stock

__all__ = [
    "EVERYTHING",
    "AlertView",
    "AnchorView",
    "AttemptView",
    "AuditReport",
    "CheckpointView",
    "Counts",
    "EngineView",
    "EventFilter",
    "EventView",
    "Filter",
    "HoldView",
    "LeftoverView",
    "LogView",
    "OperationView",
    "Progress",
    "ResourceView",
    "RouteView",
    "SampleView",
    "ScoreView",
    "SlotView",
    "StepView",
    "TargetView",
    "TaskState",
    "TaskView",
    "View",
    "WorkerView",
    "clean",
    "doubts",
    "format_duration",
    "format_rate",
    "gave_up",
    "hold_named",
    "hold_scopes",
    "hold_target",
    "holder",
    "ids",
    "is_ids",
    "now",
    "open_view",
    "parse",
    "parse_arguments",
    "parse_duration",
    "parse_events",
    "parse_utc",
    "seconds_between",
    "size_text",
    "state_named",
    "utc_text",
]

POLL = 0.25
"""Seconds between two looks at whether the database has changed."""


def now() -> datetime:
    """This moment, for verbs that turn `--in 5m` into a time."""
    return system_clock().utc()


def holder(config: Config) -> EngineView:
    """Who runs on the database, told by its lock alone; changes nothing and needs no database."""
    from .edge.locks import DatabaseLock, is_held

    if not is_held(config.db):
        return EngineView(running=False)
    found = DatabaseLock.holder(config.db)
    if found is None:
        return EngineView(running=True)
    if found.role != "engine":
        return EngineView(running=False)
    return EngineView(running=True, pid=found.pid, incarnation=found.incarnation, socket=found.socket or None)


def doubts(task: TaskView) -> list[str]:
    """A sentence for each operation in doubt: since when, and what to type; of a task that was read as a whole."""
    if not isinstance(task.operations, list):
        return []
    return [
        IN_DOUBT.format(
            key=each.key, since=each.doubt_at or each.begun_at, word=shlex.quote(each.key), id=task.id
        )
        for each in task.operations
        if each.state == "IN_DOUBT"
    ]


def gave_up(config: Config) -> str:
    """What the last supervisor said when it could keep no engine alive; "" once an engine has started again."""
    from .edge.paths import read_gave_up

    return read_gave_up(config.db)


@contextmanager
def open_view(
    config: Config, clock: Clock | None = None, told: Callable[[], Mapping[str, Any]] = dict
) -> Iterator[View]:
    """Open the database of `config` for reading. `told`: what the engine says of itself, asked where a task waits for it.

    Raises `NotFound`, `NotPermitted`, `SchemaMismatch` or `StoreError`."""
    from .store.reading import Reader  # only loaded when something is read

    with Reader(config.db) as reader:
        yield View(config, reader, clock or system_clock(), told)


class View:
    """Everything that can be asked about one database; use it in one thread."""

    def __init__(
        self, config: Config, reader: Any, clock: Clock, told: Callable[[], Mapping[str, Any]] = dict
    ) -> None:
        self.config = config
        self._told_by_engine = told
        self._reader = reader
        self._clock = clock
        redactor = Redactor(read_secrets(config)[0], config.secrets.names)
        self.mask = redactor.text
        """Any text without secrets."""
        self._shaper = Shaper(redactor)
        self._stock = Stock(reader, clock, config, redactor)

    @property
    def now(self) -> str:
        """This moment as UTC text."""
        return utc_text(self._clock.utc())

    def version(self) -> tuple[object, ...]:
        """A value that differs once anyone has changed the database; costs a few µs."""
        return self._reader.version()

    def tasks(
        self, wanted: Filter, limit: int = 100, *, before: int | None = None, whole: bool = False
    ) -> list[TaskView]:
        """The newest matching tasks, newest first, ids under `before`; `whole` adds checkpoint and result."""
        policies = self._policies()
        wanted = _with_pools(wanted, policies)
        rows = self._reader.tasks(wanted, now=self.now, limit=limit, before=before, whole=whole)
        situation = self._situation(rows, policies)
        held, no_route = self._stock.held(rows), self._stock.no_route(policies)
        return [self._task(row, situation, policies, no_route, **held(row)) for row in rows]

    def upcoming(self, limit: int) -> list[TaskView]:
        """The waiting tasks that come next: those that are due in the order of the queue, then by their time."""
        rows = self._reader.upcoming(now=self.now, limit=limit)
        policies = self._policies()
        situation = self._situation(rows, policies)
        no_route = self._stock.no_route(policies)
        return [self._task(row, situation, policies, no_route) for row in rows]

    def task(self, task_id: int) -> TaskView:
        """One task with payload and attempts. Raises `NotFound`."""
        rows = self._reader.tasks(Filter(ids=((task_id, task_id),)), now=self.now, whole=True)
        if not rows:
            raise self.no_task(task_id)
        payload = self._shaper.json(rows[0]["payload"])
        policies = self._policies()
        situation = self._situation(rows, policies)
        attempts = self._reader.attempts(task_id)
        more = self._stock.held(rows)(rows[0]) | self._records(task_id, attempts)
        more["left"] = self.leftovers(task_id)
        no_route = self._stock.no_route(policies)
        found = self._task(rows[0], situation, policies, no_route, payload=payload, **more)
        if found.state == TaskState.RUNNING and found.waits:
            return msgspec.structs.replace(found, waits=[self._stranded(task_id, found.worker)])
        if found.state == TaskState.NEEDS_REVIEW and (told := doubts(found)):
            others = [] if found.reason == "in_doubt" and not found.ending else found.waits
            return msgspec.structs.replace(found, waits=[*others, *told])
        if (found.state, found.reason, found.error) == (TaskState.NEEDS_REVIEW, "in_doubt", None):
            return msgspec.structs.replace(found, waits=[SETTLED.format(id=task_id)])
        return found

    def _records(self, task_id: int, attempts: list[Row]) -> dict[str, Any]:
        """What one task has on record."""
        numbers = {row["id"]: row["number"] for row in attempts}
        operations = self._reader.operations(task_id)
        undone = undone_under(operations)
        return {
            "attempts": [
                self._shaper.attempt(row, **held) for row, held in self._stock.attempts(task_id, attempts)
            ],
            "checkpoints": [
                self._shaper.checkpoint(row, numbers, undone) for row in self._reader.checkpoints(task_id)
            ],
            "operations": [self._shaper.operation(row, numbers) for row in operations],
            "rollback": [self._shaper.step(row) for row in self._reader.rollback_steps(task_id)],
        }

    def in_doubt(self) -> list[tuple[int, OperationView]]:
        """Every operation in doubt with its task, by task; their attempts' numbers are not told."""
        return [(row["task_id"], self._shaper.operation(row, {})) for row in self._reader.in_doubt()]

    def _stranded(self, task_id: int, worker_id: int | None) -> str:
        kept = self._reader.checkpoints(task_id)
        begins = not kept or kept[0]["again_from"] == 0
        point = "the beginning" if begins else f"checkpoint {kept[0]['seq']}"
        return STRANDED.format(point=point + (OR_LATER if self._has_kept_more(worker_id) else ""))

    def _has_kept_more(self, worker_id: int | None) -> bool:
        """Did this worker, which is gone, go on without an engine and keep what the next one has to write down?"""
        from .run.spool import keeps_reports
        from .run.starting import journal_of

        return any(
            keeps_reports(journal_of(self.config, row).with_suffix(".spool"))
            for row in self._reader.workers()
            if row["id"] == worker_id
        )

    def no_task(self, task_id: int) -> NotFound:
        """The error for an id that no task has: an archived one is said to be in its file."""
        if found := self.archived_task(task_id):
            return NotFound(
                f"#{task_id} ({found['type']}, {found['state']}) was archived on {found['created_at'][:10]}",
                f"it is in {found['path']}",
                f'see it: zgrep \'^{{"task":{{"id":{task_id},\' {found["path"]}',
            )
        return NotFound(f"there is no task #{task_id}", remedy="see: taskdeck list")

    def task_ids(
        self,
        wanted: Filter,
        *,
        after: int | None = None,
        before: int | None = None,
        limit: int = 0,
        skip: int = 0,
        newest_first: bool = False,
    ) -> list[int]:
        """The ids of the matching tasks, oldest first, between `after` and `before`; `limit` 0 = all of them.

        With a limit and keys the cost is that of the answer; `skip` is counted through, 20 ms a million.
        """
        return self._reader.task_ids(
            self._told(wanted),
            now=self.now,
            after=after,
            before=before,
            limit=limit,
            skip=skip,
            newest_first=newest_first,
        )

    def count(self, wanted: Filter, *, after: int | None = None) -> int:
        """How many tasks match, with ids over `after` (30 ms a million without a filter)."""
        return self._reader.count(self._told(wanted), now=self.now, after=after)

    def _told(self, wanted: Filter) -> Filter:
        """A filter with what the store can't know: which types lease from the pools it names."""
        return _with_pools(wanted, self._policies()) if wanted.pools else wanted

    def states(self, task_ids: Sequence[int]) -> dict[int, str]:
        """The state of each of these tasks that exists."""
        return self._reader.states(list(task_ids))

    def why(self, task_id: int) -> tuple[TaskView, list[str]]:
        """One task and the reasons why it does not run now, tasks ahead of it counted."""
        task = self.task(task_id)
        if task.state not in WAITING:
            return task, task.waits
        row = self._reader.tasks(Filter(ids=((task_id, task_id),)), now=self.now, whole=True)[0]
        policies = self._policies()
        situation = self._situation([row], policies)
        waits = waiting.waits(
            row,
            situation,
            policies,
            self._outlived,
            ahead=self._reader.ahead(row, now=self.now),
            no_route=self._stock.no_route(policies),
        )
        return task, [*waits, *([] if self._settles_doubt(task) else doubts(task))]

    def _settles_doubt(self, task: TaskView) -> bool:
        """Does its next attempt find out by itself what became of an operation in doubt?"""
        declared = self.types().get(task.type)
        return task.type == COMMAND_TYPE or (declared is not None and declared.verifies)

    def workers(self, *, ended: int = 0) -> list[WorkerView]:
        """The workers that live, and the last `ended` that don't."""
        runs: dict[int, list[str]] = {}
        for row in self._reader.running_attempts():
            runs.setdefault(row["worker_id"], []).append(f"#{row['task_id']}.{row['number']}")
        return [
            worker(row, runs.get(row["id"], []), alive=_lives(row))
            for row in self._reader.workers(ended=ended)
        ]

    def _outlived(self) -> frozenset[int]:
        """The workers that run on although no engine does."""
        return frozenset(row["id"] for row in self._reader.workers() if _lives(row))

    def resources(self, name: str | None = None) -> list[ResourceView]:
        """All resources by pool, a row each or one for each slot; with `name` those of one. Raises `NotFound`."""
        return self._stock.resources(name)

    def routes(self) -> list[RouteView]:
        """All routes by group, as they stand at this moment."""
        return self._stock.routes()

    def route(self, route_id: str, samples: int = 50) -> RouteView:
        """One route with its slots, last samples and targets, and why it can't be chosen now. Raises `NotFound`."""
        return self._stock.route(route_id, samples)

    def why_not(self, wish: str) -> dict[str, str]:
        """Why a task can't get each route of a group (or this route) now, in words; empty where it can."""
        return self._stock.why_not(wish)

    def latencies(self, route_ids: Sequence[str], limit: int = 16) -> dict[str, list[float | None]]:
        """The last results of these routes in milliseconds, the newest last; None for one that failed."""
        return self._stock.latencies(route_ids, limit)

    def missing(self, needs: Iterable[str], routes: Iterable[str]) -> list[str]:
        """What of these needs (`POOL[:N]`) and groups or ids of routes neither exists now nor comes with the next engine."""
        inventory = [each for each in self.resources() if each.removed_at is None]
        pools = {each.pool for each in (*inventory, *self.config.resources)}
        open_ = [each for each in self.routes() if each.removed_at is None]
        exits = {name for each in (*open_, *self.config.routes) for name in (each.group, each.id)}
        wanted = {need.partition(":")[0] for need in needs}
        lacking = [f"pool {name} (see: taskdeck resource list)" for name in sorted(wanted - pools)]
        return lacking + [
            f"route or group {name} (see: taskdeck route list)" for name in sorted(set(routes) - exits)
        ]

    def events(self, wanted: EventFilter, *, after: int = 0, limit: int = 100) -> list[EventView]:
        """The newest matching events with ids over `after`, oldest first."""
        return [
            EventView(**row) for row in self._reader.events(wanted, now=self.now, after=after, limit=limit)
        ]

    def counts(self) -> Counts:
        """How many tasks are in each state."""
        found = self._reader.counts()
        return {state.value: found.get(state.value, 0) for state in TaskState}

    def engine(self) -> EngineView:
        """The engine that runs on this database, or the last that did."""
        running = holder(self.config)
        row = self._reader.engine()
        if row is None or (running.running and running.incarnation not in ("", None, row["incarnation"])):
            return running
        return EngineView(
            running=running.running,
            pid=row["pid"],
            since=row["started_at"],
            version=row["code_version"],
            host=row["host"],
            supervisor=row["supervisor_pid"],
            incarnation=row["incarnation"],
            socket=running.socket,
            ended_at=row["ended_at"],
            end_reason=row["end_reason"],
        )

    def holds(self) -> list[HoldView]:
        """What is held back, and by whom."""
        return [HoldView(**row) for row in self._reader.holds()]

    def alerts(self) -> list[AlertView]:
        """What is wrong with routes as a whole: the judge is down, a target refuses all of them."""
        return [AlertView(**{**row, "message": self.mask(row["message"])}) for row in self._reader.alerts()]

    def leftovers(self, task_id: int | None = None) -> list[LeftoverView]:
        """What could not be ended and lives at this moment, of one task or of all."""
        from .edge import identity

        return [
            LeftoverView(
                row["pid"], self.mask(row["name"]), row["task_id"], row["worker_id"], row["found_at"]
            )
            for row in self._reader.leftovers()
            if task_id in (None, row["task_id"]) and identity.alive(identity.named_by(row))
        ]

    def types(self) -> dict[str, TypeInfo]:
        """The handler types as the last worker published them: by name."""
        return {row["name"]: from_stored(row["settings"]) for row in self._reader.types()}

    def unhandled(self) -> list[str]:
        """A sentence for each type that has waiting tasks, and that the last worker had no handler for."""
        types = frozenset(self.types())
        lacking = list(filter(Loaded(types).lacks, self._reader.waiting_types()))
        loaded = waiting.loaded(self._reader, types, self.now) if lacking else None
        return [self.mask(no_handler(name, loaded)) for name in lacking if loaded is not None]

    def checkpoints(self, task_id: int) -> list[dict[str, Any]]:
        """The kept checkpoints of a task, newest first, their `data` decoded."""
        return [row | {"data": self._shaper.json(row["data"])} for row in self._reader.checkpoints(task_id)]

    def rollback_steps(self, task_id: int) -> list[StepView]:
        """The undo steps that a task registered."""
        return [self._shaper.step(row) for row in self._reader.rollback_steps(task_id)]

    def operations(self, task_id: int) -> list[dict[str, Any]]:
        """The operations that a task began, their `result` decoded."""
        return [
            row | {"result": self._shaper.json(row["result"])} for row in self._reader.operations(task_id)
        ]

    def log(self, task_id: int, attempt: int | None = None) -> LogView:
        """Where the output of an attempt (the last by default) is kept. Raises `NotFound`."""
        found = [row for row in self._reader.attempts(task_id) if attempt in (None, row["number"])]
        if not found:
            which = f"attempt {attempt} of #{task_id}" if attempt else f"attempt of #{task_id} yet"
            raise NotFound(f"there is no {which}", remedy=f"see: taskdeck show {task_id}")
        number, path = found[-1]["number"], found[-1]["log_path"]
        ended = found[-1]["ended_at"] is not None
        if not path:
            raise NotFound(f"attempt {number} of #{task_id} keeps no log")
        if ended and found[-1]["tail"] and not _is_kept(self.config.log_directory / path):
            raise NotFound(
                f"the output of attempt {number} of #{task_id} is no longer kept",
                "it was removed, since all logs together are bounded ([logging] attempts_total_bytes), or by a person",
                f"its last lines stand in: taskdeck show {task_id}",
            )
        return LogView(task_id, number, self.config.log_directory / path, ended)

    @property
    def prints(self) -> Path:
        """Where async handlers print to: all of them, since that can't be told apart by attempts."""
        from .run.summons import OUTPUT

        return self.config.log_directory / "workers" / OUTPUT

    def read_log(self, log: LogView, *, tail: int | None = None) -> Iterator[bytes]:
        """The output so far, raw and unmasked; with `tail` only the last lines. Nothing where nothing was written."""
        from .edge.logs import read_log

        return read_log(log.path, tail=tail)

    def read_log_on(self, log: LogView, position: int | None, *, tail: int) -> tuple[int, bytes]:
        """Raw output from a position on (None = the last `tail` lines), in pieces of a megabyte; and where to go on."""
        from .edge.logs import read_on

        return read_on(log.path, position, tail=tail)

    def follow_log(
        self, log: LogView, *, tail: int | None = None, each_look: Callable[[], object] = bool
    ) -> Iterator[bytes]:
        """The output as it grows, until the attempt has ended; `each_look` is called before each look for more."""
        from .edge.logs import follow_log

        def ended() -> bool:
            each_look()
            rows = self._reader.attempts(log.task_id)
            return all(row["ended_at"] for row in rows if row["number"] == log.attempt)

        return follow_log(log.path, ended, self._clock, tail=tail)

    def anchors(self) -> list[AnchorView]:
        """The heads of the chain noted outside the database, oldest first."""
        from .store import anchors

        return anchors.read(self.config.db)

    def verify_audit(self, *, archives: bool = True, folder: Path | None = None) -> AuditReport:
        """Walk the whole audit in constant memory and name the first event that is not as it was written.

        `folder`: where the archives are, if not where the configuration says; without `archives` only the table is walked.
        Raises `NotFound` where `folder` is none.
        """
        from .run import auditing

        if folder is not None and not folder.is_dir():
            raise NotFound(f"there is no folder {folder}", remedy="name the one where the archives are")

        where = folder or self.config.archive_directory
        return auditing.verify(self._reader, self.config.db, where if archives else None)

    def retention_outlook(self, tasks: float | None = None, events: float | None = None) -> dict[str, Any]:
        """What `prune` would archive now by these ages in seconds, by default the configured ones. Raises `UsageError`."""
        from .run import pruning

        return pruning.look(self.config, pruning.ages_of(self.config, tasks, events), self.now)

    def archived_task(self, task_id: int) -> dict[str, Any] | None:
        """Where an archived task is: type, state, path and when it was archived; None for any other."""
        found = self._reader.archived(task_id)
        return found and {**found, "path": str(self.config.archive_directory / found["file"])}

    def archived_events(self) -> int:
        """The last event that is in an archive and may be gone from the table; 0 where none is."""
        return max((each.last for each in self._reader.archives() if each.kind == "events"), default=0)

    def wait_for_change(self, seconds: float) -> bool:
        """Wait until anyone changes the database, at most `seconds`. Returns whether someone did.

        Looks four times a second.
        """
        deadline = self._clock.monotonic() + seconds
        seen = self._reader.version()
        while self._clock.monotonic() < deadline:
            self._clock.sleep(min(POLL, max(deadline - self._clock.monotonic(), 0)))
            if self._reader.version() != seen:
                return True
        return False

    def _policies(self) -> Policies:
        found = Policies(self.config)
        found.publish(list(self.types().values()))
        return found

    def _situation(self, rows: Sequence[Row], policies: Policies) -> Situation:
        return waiting.situation(
            rows,
            self._reader,
            policies,
            self.config,
            now=self.now,
            moment=self._stock.moment,
            engine=holder(self.config).running,
            told=self._told_by_engine,
        )

    def _task(
        self,
        row: Row,
        situation: Situation,
        policies: Policies,
        no_route: Callable[[Row], str],
        **more: Any,
    ) -> TaskView:
        policy = policies.of(row)
        return self._shaper.task(
            row,
            max_retry=policy.max_retry,
            waits=waiting.waits(row, situation, policies, self._outlived, no_route=no_route),
            needs=needs_text(policy.needs),
            wants_route=policy.route or None,
            allow_direct=policy.allow_direct,
            **more,
        )


def _with_pools(wanted: Filter, policies: Policies) -> Filter:
    """A filter by pool means the types that need it as well: these are known from handlers and configuration only."""
    if not wanted.pools:
        return wanted
    return msgspec.structs.replace(wanted, pooled_types=policies.types_in(wanted.pools))


def _lives(row: Row) -> bool:
    """Does the process of this worker exist, on this host?"""
    if row["ended_at"] is not None:
        return False
    from .edge import identity  # not every look asks

    return identity.alive(identity.named_by(row))


def _is_kept(path: Path) -> bool:
    from .edge.logs import pieces

    return bool(pieces(path))
