"""The keys of the deck: every one has an id, so that it can be bound anew, and says what it does. The help is made of these.

Owns keys and their names only; what an action does stands where it is carried out.
"""

from __future__ import annotations

from textual.binding import Binding, BindingType

VIEWS = (
    ("1", "overview", "Overview"),
    ("2", "tasks", "Tasks"),
    ("3", "inbox", "Inbox"),
    ("4", "resources", "Resources"),
    ("5", "routes", "Routes"),
    ("7", "events", "Events"),
)
"""Key, name and title of each view; 6 and 8 are kept for flows and the system."""


def _key(
    keys: str,
    action: str,
    short: str,
    name: str,
    long: str = "",
    *,
    priority: bool = False,
    hint: bool = False,
) -> Binding:
    """`short` stands in the line of hints (with `hint`), `long` in the help."""
    return Binding(keys, f"app.{action}", short, id=name, tooltip=long or short, priority=priority, show=hint)


ANYWHERE: list[BindingType] = [
    *(_key(key, f"view('{name}')", title, f"view.{key}", f"the view {title}") for key, name, title in VIEWS),
    # Before all others, so that what is typed right behind them (a burst over a slow line) is never taken for keys.
    _key(
        "slash,／,、",
        "filter",
        "filter",
        "app.filter",
        "filter this list, or search this log",
        priority=True,
        hint=True,
    ),
    _key("colon,：,ctrl+p", "command", "cmd", "app.command", "type a command", priority=True, hint=True),
    _key("question_mark,？", "help", "help", "app.help", "the keys that work here", hint=True),
    _key("tab", "pane(1)", "next pane", "pane.next"),
    _key("shift+tab", "pane(-1)", "previous pane", "pane.previous"),
    _key("escape", "back", "back", "app.back", "close, clear marks, clear the filter, go back"),
    _key("minus", "last", "last view", "app.last", "the view before this one"),
    _key("q", "leave", "back", "app.quit", "back; at the top leave the deck (the engine goes on)"),
    _key("d", "detach", "detach", "app.detach", "leave the deck at once (the engine goes on)"),
    _key("ctrl+c", "interrupt", "twice: leave", "app.interrupt", "twice: leave the deck", priority=True),
    _key(
        "ctrl+z", "suspend", "suspend", "app.suspend", "suspend the deck (the engine goes on)", priority=True
    ),
    _key("ctrl+l,R", "redraw", "redraw", "app.redraw", "read and draw everything again"),
    _key("z", "zoom", "zoom", "pane.zoom", "this pane alone, or all of them again"),
    _key("y", "copy", "copy", "app.copy", "copy the name of what is under the cursor"),
    _key("Y", "copy(True)", "copy all", "app.copy_all", "copy all that is known of it, as JSON"),
    _key("u", "undo", "undo", "app.undo", "undo what was asked for and not done yet"),
]

TASK: list[BindingType] = [
    _key("p", "act('pause')", "pause", "task.pause", "pause, or let go on", hint=True),
    _key("c", "act('cancel')", "cancel", "task.cancel", "cancel (u takes it back for 5 s)", hint=True),
    _key(
        "r",
        "act('retry')",
        "retry",
        "task.retry",
        "retry now, or run again (u takes it back for 5 s)",
        hint=True,
    ),
    _key("K", "act('kill')", "kill", "task.kill", "kill at once, without grace (asks first)"),
    _key("w", "why", "why", "task.why", "why does it not run?", hint=True),
    _key("l", "log", "log", "task.log", "its output", hint=True),
    _key("e", "events", "events", "task.events", "its events", hint=True),
]
"""Where a task is meant: in lists of tasks and on a task's page."""

RESOURCE: list[BindingType] = [
    _key(
        "p",
        "act('toggle')",
        "on/off",
        "resource.pause",
        "take it out of service (when its attempt ends), or back",
        hint=True,
    ),
    _key(
        "r",
        "act('reset')",
        "reset",
        "resource.reset",
        "end its rest or its fault: you have looked at it",
        hint=True,
    ),
    _key(
        "K",
        "act('kick')",
        "kick",
        "resource.kick",
        "take it from who holds it, whose attempt is stopped (asks)",
    ),
    _key("e", "events", "events", "resource.events", "its events", hint=True),
]

ROUTE: list[BindingType] = [
    _key(
        "p",
        "act('toggle')",
        "on/off",
        "route.pause",
        "take it out of service (when its attempt ends), or back",
        hint=True,
    ),
    _key("r", "act('check')", "check", "route.check", "check it now", hint=True),
    _key("c", "act('reset')", "reset", "route.reset", "end its rest", hint=True),
    _key(
        "K", "act('kick')", "kick", "route.kick", "take it from who holds it, whose attempt is stopped (asks)"
    ),
    _key("e", "events", "events", "route.events", "its events", hint=True),
]

ROUTES: list[BindingType] = [
    _key(
        "i", "import_list", "import", "routes.import", "import a list of routes; it is shown first", hint=True
    ),
]
"""Where all routes are meant."""

SORT: list[BindingType] = [
    _key("less_than_sign", "sort(-1)", "sort", "list.sort_left", "sort by the column to the left"),
    _key("greater_than_sign", "sort(1)", "sort", "list.sort_right", "sort by the column to the right"),
    _key("tilde", "sort(0)", "reverse", "list.reverse", "the other way round"),
]
"""Where a list is held as a whole."""

HOLDER: list[BindingType] = [
    _key("enter", "holder", "its task", "stock.holder", "open the task that holds it", hint=True),
]
"""Where one resource or route is told of."""

TEXT: list[BindingType] = [
    Binding("j,down", "scroll_down", "down", id="text.down", show=False),
    Binding("k,up", "scroll_up", "up", id="text.up", show=False),
    Binding("g,home", "scroll_home", "to the beginning", id="text.top", show=False),
    Binding("G,end", "scroll_end", "to the end", id="text.bottom", show=False),
    Binding("pagedown,ctrl+d", "page_down", "a page down", id="text.page_down", show=False),
    Binding("pageup,ctrl+u", "page_up", "a page up", id="text.page_up", show=False),
]

SECTIONS: list[BindingType] = [
    _key("left_square_bracket", "section(-1)", "previous", "section.previous", "the section before"),
    _key("right_square_bracket", "section(1)", "next", "section.next", "the next section"),
]
