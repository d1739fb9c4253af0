"""What the deck reads, as plain functions on a view; the bridge calls them in its thread. Nothing is drawn here."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from taskdeck.engine import views
from taskdeck.engine.views import View

from ..masking import Masked
from .stories import EventRow, folded
from .widgets.log_lines import LineFeed
from .widgets.row_ids import NewestFirst, Stretch, Unread

EVENTS_KEPT = 500
"""Events that the stream on the screen goes back to."""
RUNNING_SHOWN = 50
RESULTS = 30
"""Results of a route that are told of it."""
IN_A_ROW = 12
"""Results that its line in the list has room for."""
FIRST = 500
"""Of a list of tasks, the newest that are always read."""
LAST = 200
"""And the oldest."""
AROUND = 500
"""And how many to either side of the cursor, where it is somewhere else."""
EDGE = 150
"""Rows from where one of these stretches ends within which what is behind is read as well; more than a screen has."""


class Heading(NamedTuple):
    """What the header tells: who runs, how many tasks are where, what is held, what is wrong with routes as a whole."""

    engine: views.EngineView
    counts: views.Counts
    holds: list[views.HoldView]
    alerts: list[views.AlertView]
    at: str


class Headings:
    """The engine and the counts; counted only where something has changed. Belongs to the reading thread."""

    def __init__(self) -> None:
        self._seen: tuple[object, ...] | None = None
        self._counted: tuple[views.Counts, list[views.HoldView], list[views.AlertView]] = ({}, [], [])

    def __call__(self, view: View) -> Heading:
        """As it is now."""
        if (version := view.version()) != self._seen:
            self._seen, self._counted = version, (view.counts(), view.holds(), view.alerts())
        return Heading(view.engine(), *self._counted, view.now)


class Queue(NamedTuple):
    """Tasks that run, and those that come next, each with the reason why it waits."""

    running: list[views.TaskView]
    next: list[views.TaskView]

    @property
    def tasks(self) -> list[views.TaskView]:
        return [*self.running, *self.next]


def queue(room: int) -> Any:
    """The running tasks and the next ones, `room` of each at most."""

    def read(view: View) -> Queue:
        busy = views.Filter(states=("RUNNING", "LOST"))
        return Queue(view.tasks(busy, limit=min(room, RUNNING_SHOWN)), view.upcoming(room))

    return read


def resources(view: View) -> list[views.ResourceView]:
    """All resources."""
    return view.resources()


def routes(view: View) -> list[views.RouteView]:
    """All routes as they stand."""
    return view.routes()


def resource(name: str) -> Any:
    """The slots of one resource."""
    return lambda view: view.resources(name)


class RouteStory(NamedTuple):
    """A route with everything about it, and why each route of its group can't be chosen now: empty for those that can."""

    route: views.RouteView
    why_not: dict[str, str]


def route_story(name: str) -> Any:
    """One route with everything about it."""

    def read(view: View) -> RouteStory:
        found = view.route(name, RESULTS)
        return RouteStory(found, view.why_not(found.group))

    return read


def latencies(ids: Sequence[str]) -> Any:
    """The last results of these routes."""
    return lambda view: view.latencies(ids, IN_A_ROW)


class EventStream:
    """The newest events; only what came since the last look is read. Belongs to the reading thread."""

    def __init__(self, wanted: views.EventFilter | None = None, keep: int = EVENTS_KEPT) -> None:
        self._wanted = wanted or views.EventFilter()
        self._keep = keep
        self._rows: list[EventRow] = []

    def __call__(self, view: View) -> list[EventRow]:
        """The newest events, oldest first, repeated ones folded."""
        after = self._rows[-1].last.event_id if self._rows else 0
        if new := view.events(self._wanted, after=after, limit=self._keep):
            self._rows = folded(new, self._rows)[-self._keep :]
        return self._rows


class TaskIds:
    """The ids of the tasks that match, as far as they are looked at: a million cost as much as a thousand.

    Called in the reading thread; the loop says by `around` where it looks: an id, or the place of one that is not known.
    """

    def __init__(self, wanted: views.Filter) -> None:
        self.around: int | Unread | None = None
        self._wanted = wanted
        self._counted: tuple[tuple[object, ...] | None, int] = (None, 0)

    def __call__(self, view: View) -> NewestFirst:
        """All of them, newest first."""
        first = view.task_ids(self._wanted, newest_first=True, limit=FIRST)
        if len(first) < FIRST:
            return NewestFirst(len(first), [Stretch(0, first)])
        last = [each for each in view.task_ids(self._wanted, limit=LAST) if each < first[-1]][::-1]
        middle = self._around(view, first, last)
        total = max(self._count(view), (middle.end if middle.ids else FIRST) + len(last))
        return NewestFirst(total, [Stretch(0, first), middle, Stretch(total - len(last), last)])

    def _count(self, view: View) -> int:
        if (version := view.version()) != self._counted[0]:
            self._counted = (version, view.count(self._wanted))
        return self._counted[1]

    def _around(self, view: View, first: list[int], last: list[int]) -> Stretch:
        """The ids to either side of where the loop looks, between those that are known anyhow."""
        around = self.around
        if isinstance(around, Unread):
            found = view.task_ids(self._wanted, newest_first=True, limit=1, skip=around.place)
            around = found[0] if found else None
        if not last or around is None or not last[min(EDGE, len(last) - 1)] < around <= first[-EDGE]:
            return Stretch(FIRST, [])
        newer = view.task_ids(self._wanted, after=around - 1, limit=AROUND)[::-1]
        older = view.task_ids(self._wanted, before=around, limit=AROUND, newest_first=True)
        between = [each for each in (*newer, *older) if last[0] < each < first[-1]]
        if not between:
            return Stretch(FIRST, [])
        return Stretch(max(view.count(self._wanted, after=between[0]), FIRST), between)


def tasks(ids: Iterable[int]) -> Any:
    """These tasks, by id; those that are gone are left out."""
    wanted = views.Filter(ids=ranges(ids))

    def read(view: View) -> dict[int, views.TaskView]:
        return {task.id: task for task in view.tasks(wanted, limit=0)} if wanted.ids else {}

    return read


def ranges(ids: Iterable[int]) -> tuple[tuple[int, int], ...]:
    """Ids as ranges, for a short question."""
    found: list[tuple[int, int]] = []
    for each in sorted(ids):
        if found and each == found[-1][1] + 1:
            found[-1] = (found[-1][0], each)
        else:
            found.append((each, each))
    return tuple(found)


class Recovered(NamedTuple):
    """What a start decided about one task that an earlier engine left."""

    task: int
    story: str


class Recovery(NamedTuple):
    """The last start that found tasks left behind: its event, what it decided, and of how many tasks."""

    event_id: int
    decided: list[Recovered]
    tasks: int


RECENT = 900.0
"""Seconds for which a recovery is news."""
LOOKED_BACK = 5_000
"""Events before those that come from now on, among which a recovery is looked for."""
ENDED = ("SUCCESS", "FAILED", "DEAD", "CANCELLED")
"""States of tasks about which a recovery has nothing more to tell."""
_BEGINS = re.compile(r"(?:^|; )#(\d+):? ")


class Recoveries:
    """The last recovery while it is news; only new events are looked at. Belongs to the reading thread."""

    def __init__(self) -> None:
        self._after: int | None = None
        self._last: views.EventView | None = None

    def __call__(self, view: View) -> Recovery | None:
        """As it is now, of tasks that have not ended; None where the last start recovered nothing, or long ago."""
        newest = view.events(views.EventFilter(), limit=1)
        if not newest:
            return None
        after = max(newest[0].event_id - LOOKED_BACK, 0) if self._after is None else self._after
        self._after = newest[0].event_id
        # An engine that ended in order left nothing to the next one: what was recovered before is no news then.
        marks = views.EventFilter(types=("ENGINE_RECOVERED", "ENGINE_STOPPED"))
        self._last = next(iter(view.events(marks, after=after, limit=1)), self._last)
        if self._last is None or self._last.event_type != "ENGINE_RECOVERED":
            return None
        if views.seconds_between(self._last.created_at, view.now) > RECENT:
            return None
        return _recovery(self._last, view)


def _recovery(event: views.EventView, view: View) -> Recovery | None:
    """`#5 resumes at checkpoint 7; #9 starts again` as one story for each task, without those that have ended."""
    _, *parts = _BEGINS.split(event.message or "")
    decided = [Recovered(int(number), story) for number, story in zip(parts[::2], parts[1::2], strict=True)]
    found = tasks(each.task for each in decided)(view)
    open_ = [each for each in decided if each.task in found and found[each.task].state not in ENDED]
    count = int(event.payload.get("tasks", len(decided))) - (len(decided) - len(open_))
    return Recovery(event.event_id, open_, count) if open_ else None


class Detail(NamedTuple):
    """One task with everything about it."""

    task: views.TaskView
    why: list[str]
    checkpoints: list[dict[str, Any]]
    operations: list[dict[str, Any]]
    events: list[views.EventView]


def detail(task_id: int) -> Any:
    """One task, why it waits, its checkpoints, operations and last events."""

    def read(view: View) -> Detail:
        task, why = view.why(task_id)
        events = view.events(views.EventFilter(tasks=((task_id, task_id),)), limit=100)
        return Detail(task, why, view.checkpoints(task_id), view.operations(task_id), events)

    return read


LOG_LINES = 10_000
"""Lines of a log that are held in memory."""
QUIET = 2
"""Reads without anything new after which a line without an end is shown."""


class LogStream:
    """The output of an attempt (the last one, and each that comes after it, by default) as it grows, masked.

    Called in the reading thread; `take` hands over in the loop what has come. A last line without an end is shown once
    nothing more comes.
    """

    def __init__(self, task_id: int, attempt: int | None = None) -> None:
        self.task_id = task_id
        self.attempt: int | None = None
        self._wanted = attempt
        self._position: int | None = None
        self._quiet = 0
        self._lines: deque[list[str]] = deque()

    def __call__(self, view: View) -> LogStream:
        """Read what has come since the last call."""
        found = view.log(self.task_id, self._wanted)
        if found.attempt != self.attempt:  # that it has ended makes no other log of it
            self._begin(found, view)
        self._position, chunk = view.read_log_on(found, self._position, tail=LOG_LINES)
        self._quiet = 0 if chunk else self._quiet + 1
        if chunk:
            self._add(self._feed.feed(self._masked.feed(chunk)))
        elif self._quiet == QUIET:
            self._add([*self._feed.feed(self._masked.rest()), *self._feed.rest()])
        return self

    def _begin(self, found: views.LogView, view: View) -> None:
        if self.attempt is not None:
            self._add([f"--- attempt {found.attempt} ---"])
        self.attempt, self._position = found.attempt, None
        self._masked, self._feed = Masked(view.mask), LineFeed()

    def _add(self, lines: list[str]) -> None:
        if lines:
            self._lines.append(lines)

    def take(self) -> list[str]:
        """The lines that have come since the last call."""
        found: list[str] = []
        while self._lines:
            found += self._lines.popleft()
        return found
