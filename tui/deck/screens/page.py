"""What every page of the deck is: a place for panes, what it wants to have read, and what its keys are about."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from textual.widget import Widget

from ..bridge import Question, Trouble
from ..widgets.panes import Table
from ..widgets.rooms import Room

if TYPE_CHECKING:
    from ..app import DeckApp


class Target(NamedTuple):
    """What the keys of acts are about: a kind and ids.

    `states` are what is known of them, `held` which tasks hold those resources and routes, `fences` under which lease.
    """

    kind: str
    ids: list[Any]
    states: dict[Any, str] = {}
    held: dict[Any, tuple[int, ...]] = {}
    fences: dict[Any, int] = {}


NOTHING = Target("", [])


def standing(item: Any) -> str:
    """The state that an act goes by: what is asked to pause counts as paused, so that it can be told to go on, and what is
    drained counts as disabled, so that it can be put back.
    """
    if getattr(item, "drain", False):
        return "DISABLED"
    return "PAUSED" if getattr(item, "wanted", None) == "pause" else str(getattr(item, "state", ""))


def holders(item: Any) -> tuple[int, ...]:
    """The tasks that hold a resource, one slot of it, or a route."""
    if (tasks := getattr(item, "tasks", None)) is not None:
        return tuple(tasks)
    task = getattr(item, "task", None)
    return () if task is None else (task,)


def chosen_in(table: Table) -> Target:
    """What is marked in a table, else what is under its cursor."""
    if not table.chosen:
        return NOTHING
    items = {each: table.items[each] for each in table.chosen if each in table.items}
    states = {each: standing(item) for each, item in items.items()}
    held = {each: holders(item) for each, item in items.items()}
    fences = {each: int(getattr(item, "fence", 0) or 0) for each, item in items.items()}
    return Target(table.plan.kind, list(table.chosen), states, held, fences)


class Page(Room):
    """One page. `name` is that of a view, or says what it is a page of."""

    title = ""
    last_focus: Widget | None = None
    """What had the focus when the page was left."""

    @property
    def deck(self) -> DeckApp:
        """The app."""
        return cast("DeckApp", self.app)

    def questions(self) -> Mapping[str, Question]:
        """What is to be kept read while this page is shown."""
        return {}

    def take(self, name: str, value: Any) -> None:
        """Something that was asked for has come."""

    def refuse(self, name: str, trouble: Trouble) -> None:
        """Something could not be read: the page says so where it would stand."""
        self.deck.say(str(trouble), wrong=True)

    def entry(self) -> Widget | None:
        """What has the focus when the page opens."""
        return next(iter(self.query(Table)), None)

    def target(self) -> Target:
        """What an act is about: what is marked in the pane with the focus, else what is under its cursor."""
        focused = self.deck.focused
        table = focused if isinstance(focused, Table) else self.last_focus
        return chosen_in(table) if isinstance(table, Table) else NOTHING

    def holder(self) -> int | None:
        """The task that holds what is shown."""
        return None

    def hint(self, action: str, short: str) -> str:
        """How an action is called at the bottom; nothing where it would do nothing."""
        return "" if action == "app.filter" and self.filter() is None else short

    def opened(self) -> None:
        """It is shown, again perhaps."""

    def section(self, step: int) -> None:
        """Show another section of it, where it has several."""

    def sort(self, step: int) -> None:
        """Sort by another column, or with 0 the other way round, where that can be done."""

    def filter(self) -> str | None:
        """The text of its filter; None where nothing can be filtered."""
        return None

    def set_filter(self, text: str) -> None:
        """Filter by a text, or search it. Raises `UsageError` where it can't be read."""

    def zoom(self) -> None:
        """The pane with the focus alone, or all of them again."""
        was_zoomed = self.has_class("-zoomed")
        for widget in self.query(".-zoom"):
            widget.remove_class("-zoom")
        focused = self.deck.focused
        if not was_zoomed and focused is not None:
            for widget in focused.ancestors:
                if widget is self:
                    break
                widget.add_class("-zoom")
        self.set_class(not was_zoomed, "-zoomed")

    def back(self) -> bool:
        """One step of the ladder inside the page: the zoom, marks, the filter. Returns whether there was one."""
        if self.has_class("-zoomed"):
            self.zoom()
            return True
        for table in self.query(Table):
            if table.marked:
                table.clear_marks()
                return True
        if self.filter():
            self.set_filter("")
            return True
        return False

    def tick(self) -> None:
        """A second has passed."""
        for table in self.query(Table):
            table.tick()
