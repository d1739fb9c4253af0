"""What the deck reads, as plain functions on a view; the bridge calls them in its thread. Nothing is drawn here."""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple, overload

from taskdeck.engine import views
from taskdeck.engine.views import View

from ..masking import Masked
from .stories import EventRow, folded
from .widgets.log_lines import LineFeed

EVENTS_KEPT = 500
"""Events that the stream on the screen goes back to."""
RUNNING_SHOWN = 50
LARGEST_ID = 2**63 - 1


class Heading(NamedTuple):
    """What the header tells: who runs, how many tasks are where, what is held."""

    engine: views.EngineView
    counts: views.Counts
    holds: list[views.HoldView]
    at: str


class Headings:
    """The engine and the counts; counted only where something has changed. Belongs to the reading thread."""

    def __init__(self) -> None:
        self._seen: tuple[object, ...] | None = None
        self._counted: tuple[views.Counts, list[views.HoldView]] = ({}, [])

    def __call__(self, view: View) -> Heading:
        """As it is now."""
        if (version := view.version()) != self._seen:
            self._seen, self._counted = version, (view.counts(), view.holds())
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


def route(name: str) -> Any:
    """One route with everything about it."""
    return lambda view: view.route(name, 30)


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


class NewestFirst(Sequence[int]):
    """Ascending ids read from their end: the newest first. A million are eight megabytes."""

    def __init__(self, ids: array[int] | Sequence[int], length: int | None = None) -> None:
        self._ids = ids
        self._length = len(ids) if length is None else length

    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, place: int) -> int: ...
    @overload
    def __getitem__(self, place: slice) -> list[int]: ...
    def __getitem__(self, place: int | slice) -> int | list[int]:
        if isinstance(place, slice):
            return [self._ids[self._length - 1 - n] for n in range(*place.indices(self._length))]
        if not -self._length <= place < self._length:
            raise IndexError(place)
        return self._ids[self._length - 1 - place % self._length]

    def index(self, value: int, start: int = 0, stop: int | None = None) -> int:
        """Where this id stands; by halving, since ids ascend. Raises ValueError."""
        from bisect import bisect_left

        found = bisect_left(self._ids, value, 0, self._length)
        if found == self._length or self._ids[found] != value:
            raise ValueError(f"{value} is not among them")
        return self._length - 1 - found

    def __iter__(self) -> Iterator[int]:
        return iter(self._ids[self._length - 1 :: -1] if self._length else ())

    def __contains__(self, value: object) -> bool:
        try:
            return isinstance(value, int) and self.index(value) >= 0
        except ValueError:
            return False


class TaskIds:
    """The ids of all matching tasks. Without a filter only new ones are asked for. Belongs to the reading thread."""

    def __init__(self, wanted: views.Filter) -> None:
        self._wanted = wanted
        self._ids: array[int] = array("q")

    def __call__(self, view: View) -> NewestFirst:
        """All of them, newest first."""
        if self._wanted == views.Filter() and self._ids:
            self._ids.extend(view.task_ids(views.Filter(ids=((self._ids[-1] + 1, LARGEST_ID),))))
        else:
            self._ids = array("q", view.task_ids(self._wanted))
        return NewestFirst(self._ids, len(self._ids))


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
        self._log: views.LogView | None = None
        self._position: int | None = None
        self._quiet = 0
        self._lines: deque[list[str]] = deque()

    def __call__(self, view: View) -> LogStream:
        """Read what has come since the last call."""
        found = view.log(self.task_id, self._wanted)
        if found != self._log:
            self._begin(found, view)
        self._position, chunk = view.read_log_on(found, self._position, tail=LOG_LINES)
        self._quiet = 0 if chunk else self._quiet + 1
        if chunk:
            self._add(self._feed.feed(self._masked.feed(chunk)))
        elif self._quiet == QUIET:
            self._add([*self._feed.feed(self._masked.rest()), *self._feed.rest()])
        return self

    def _begin(self, found: views.LogView, view: View) -> None:
        if self._log is not None:
            self._add([f"--- attempt {found.attempt} ---"])
        self._log, self.attempt, self._position = found, found.attempt, None
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


def actor() -> str:
    """Who acts from this deck, for the audit: `deck:ann`."""
    import getpass

    try:
        return f"deck:{getpass.getuser()}"
    except (KeyError, OSError):  # a container's user without a name
        return "deck"
