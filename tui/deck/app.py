"""The deck: header, views, the pages that open over them, the line of messages and the line of keys.

Owns the way from a key to a page or an act, and nothing else: pages know what they show, the bridge reads and writes. Runs in
whatever loop it is started in (`await DeckApp(config).run_async()`), the engine's as well. Pages are imported when they are
opened: all but the first would only delay the first paint.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable
from typing import Any

from textual.app import App, ComposeResult
from textual.driver import Driver
from textual.events import Event, Key, ScreenResume
from textual.geometry import Size
from textual.message import Message
from textual.reactive import Reactive
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import Input

from taskdeck.engine.config import Config
from taskdeck.engine.errors import NotFound, TaskdeckError

from ..commandline import user
from ..output import json_text
from . import kept, keys, reads
from .acting import Acting
from .bridge import PACE, SLOW_PACE, Bridge, Question, Trouble
from .commands import Commands
from .screens.overview import Overview
from .screens.page import NOTHING, Page, Target
from .states import Glyphs, wants_ascii
from .stories import EventRow, story
from .throughput import Throughput
from .widgets.header import Header, Tabs, inbox
from .widgets.lines import Hints, Prompt, StatusLine, TooSmall
from .widgets.panes import Table, moment
from .widgets.rooms import Room

GONE = "the engine has gone; what it ran goes on at the next start"
ASKED_EVERY = 3.0
"""Seconds between two questions to the engine how it is."""
SLOW_FOR = 10
"""Seconds for which a terminal counts as slow after it has fallen behind."""
TWICE = 2.0
"""Seconds within which a second ctrl+c counts."""

WIDTHS = [(0, "-minute"), (40, "-tiny"), (70, "-narrow"), (110, "-normal"), (150, "-wide")]
"""Columns from which a screen has this class in the style sheet."""
HEIGHTS = [(0, "-flat"), (10, "-low"), (22, "-short"), (34, "-high")]
"""The same for rows."""


class MainScreen(Screen[None], inherit_bindings=False):
    """What lies below every window; all keys are the app's and the panes'. It has the classes of its size from the start, and
    the page says what gets the focus: else all would be styled three times before the first paint.
    """

    AUTO_FOCUS = ""
    BLANK = True
    focused: Reactive[Widget | None] = Reactive(None, repaint=False)  # what gets and loses it draws itself

    def __init__(self, size: Size) -> None:
        across = self._get_breakpoint_classes(size.width, WIDTHS)
        down = self._get_breakpoint_classes(size.height, HEIGHTS)
        super().__init__(id="_default", classes=" ".join(across | down))

    def on_screen_resume(self, event: ScreenResume) -> None:
        """A window over it has closed: its keys are no longer those that work. No style depends on that."""
        event.refresh_styles = False
        deck = self.app
        assert isinstance(deck, DeckApp)
        deck.tell_keys()


class DeckApp(App[None], inherit_bindings=False):
    """The deck on the database of `config`. `suspend` is called for ctrl+z; without it ctrl+z only says so."""

    CSS_PATH = "deck.tcss"
    TITLE = "taskdeck"
    ENABLE_COMMAND_PALETTE = False
    BINDINGS = keys.ANYWHERE
    HORIZONTAL_BREAKPOINTS = WIDTHS
    VERTICAL_BREAKPOINTS = HEIGHTS

    class Fresh(Message):
        """The bridge has something to take."""

    def __init__(
        self,
        config: Config,
        read_only: bool = False,
        *,
        driver_class: type[Driver] | None = None,
        suspend: Callable[[], object] | None = None,
    ) -> None:
        colourless = os.environ.get("NO_COLOR") is not None
        super().__init__(driver_class=driver_class, ansi_color=True if colourless else None)
        if colourless:
            self.theme = "ansi-dark"
        self.config = config
        self.ascii = wants_ascii()
        self.glyphs = Glyphs(self.ascii)
        self.read_only = read_only or os.environ.get("TASKDECK_READ_ONLY", "0") not in ("", "0")
        self.heading: reads.Heading | None = None
        self._headings = reads.Headings()
        self._suspend = suspend
        self._header = Header(self.glyphs, read_only=self.read_only)
        self._tabs = Tabs(keys.VIEWS)
        self._body = Room(id="body")
        self._status = StatusLine()
        self._hints = Hints()
        self._prompt = Prompt()
        self._pages: dict[str, Page] = {}
        self._trail: list[Page] = []
        self._before = "overview"
        self._interrupted = -TWICE
        self._has_painted = False
        self._asks_engine = False
        self.ends_engine = False
        """This deck has asked the engine to end: that it goes is told as what it is."""
        self._always_slow = os.environ.get("TASKDECK_SLOW", "0") not in ("", "0")
        self._slow_left = 0
        self.throughput = Throughput()
        """How many tasks end."""
        known, self._kept_trouble = kept.load(kept.folder() / kept.NAME)
        self._prompt.history = {sign: list(lines) for sign, lines in known.history.items()}
        self._chosen_theme = ""
        if known.theme in self.available_themes and not colourless:
            self.theme = known.theme
        self._unreadable: Trouble | None = None

    in_engine = False
    """Is it drawn in the loop of the engine?"""
    painted: Callable[[], None] = staticmethod(lambda: None)
    """Called once the first page stands there with what was read for it, or with what is wrong."""

    def get_default_screen(self) -> Screen[None]:
        """The screen with the views."""
        return MainScreen(self.size)

    def compose(self) -> ComposeResult:
        yield self._header
        yield self._tabs
        yield self._body
        yield self._status
        yield self._prompt
        yield self._hints
        yield TooSmall()

    def on_load(self) -> None:
        """Begin to read before anything is laid out: the first picture shall have something to show."""
        self.bridge = Bridge(
            self.config,
            lambda: self.post_message(self.Fresh()),
            asyncio.get_running_loop().time,
            actor=f"deck:{user()}",
            read_only=self.read_only,
        )
        self.acting = Acting(self)
        self._commands = Commands(self)
        self._trail = [self._view("overview")]
        self.ask()
        self.bridge.start()

    async def on_mount(self) -> None:
        await self._show()
        self._take()
        if self._kept_trouble:
            self.say(self._kept_trouble, wrong=True)
        self.set_interval(1.0, self._tick)
        self.set_interval(ASKED_EVERY, self._ask_engine)

    async def on_unmount(self) -> None:
        await self.acting.finish()
        self.bridge.stop()
        await asyncio.to_thread(self._keep)

    def choose_theme(self, name: str) -> None:
        """Other colours, this time and the next."""
        self.theme = self._chosen_theme = name

    def _keep(self) -> None:
        """Write down what the next deck shall know, without secrets that somebody may have looked for."""
        if not self._chosen_theme and not self._prompt.typed:
            return
        from taskdeck.engine.commands import make_redactor

        clear = make_redactor(self.config).text
        file, theme, typed = kept.folder() / kept.NAME, self._chosen_theme, self._prompt.typed
        with contextlib.suppress(OSError):  # a home that can't be written costs memories, not the way out
            kept.add(file, theme=theme, typed=typed, clear=clear)

    # ---- pages -----------------------------------------------------------------------------------------------------

    @property
    def page(self) -> Page:
        """The page that is shown."""
        return self._trail[-1]

    async def open_view(self, name: str) -> None:
        """Show one of the views."""
        if self._trail and self._trail[0].id != name:
            self._before = self._trail[0].id or self._before
        for page in self._trail[1:]:
            await page.remove()
        self._trail = [self._view(name)]
        await self._show()

    async def open_page(self, page: Page) -> None:
        """Show a page over the others; `back` leads to where it was opened."""
        self._trail.append(page)
        await self._show()

    def _view(self, name: str) -> Page:
        if name not in self._pages:
            self._pages[name] = self._make(name)
        return self._pages[name]

    def _make(self, name: str) -> Page:
        if name == "overview":
            return Overview(self.glyphs)
        from .screens import events, inventory, tasks

        if name in ("tasks", "inbox"):
            return tasks.TasksPage(self.glyphs, name, tasks.INBOX if name == "inbox" else None)
        kinds = {
            "resources": inventory.ResourcesPage,
            "routes": inventory.RoutesPage,
            "events": events.EventsPage,
        }
        return kinds[name](self.glyphs)

    async def _show(self) -> None:
        page = self.page
        with self.batch_update():  # one layout and one picture, not one for each of its panes
            if not page.is_attached:
                await self._body.mount(page)
            for other in self._body.children:
                other.display = other is page
            self._tabs.tell(shown=self._trail[0].id)
            self.ask()
            if entry := page.last_focus or page.entry():
                # At once: `focus()` waits a turn, in which keys would find no list.
                entry.screen.set_focus(entry)
            page.opened()

    def ask(self) -> None:
        """Tell the bridge anew what the page wants to have read."""
        own = {f"{self.page.id}/{name}": question for name, question in self.page.questions().items()}
        self.bridge.show(
            {**own, "heading": Question(self._headings, every=5)}
        )  # it counts, which takes longest

    def on_deck_app_fresh(self) -> None:
        self._take()

    def _take(self) -> None:
        fresh = self.bridge.take()
        for name, value in fresh.items():
            self._receive(name, value)
        if "heading" in fresh and not self._has_painted:
            self._has_painted = True
            self.call_after_refresh(self.painted)

    def _receive(self, name: str, value: Any) -> None:
        if name == "database":
            self._take_database(value)
        elif isinstance(value, Trouble) and value is self._unreadable:
            return  # told once, for all of them
        elif name == "heading":
            self._take_heading(value)
        else:
            owner, _, what = name.partition("/")
            if owner == self.page.id:
                self._hand_over(self.page, what, value)

    def _take_database(self, trouble: Trouble | None) -> None:
        """What keeps everything from being read is told as long as it does; that there is none yet is no trouble."""
        self._unreadable = trouble
        is_to_come = trouble and self.heading is None and isinstance(trouble.error, NotFound)
        told = "" if trouble is None or is_to_come else str(trouble.error.what)
        self._header.tell(None, told, waits="no database yet" if is_to_come else "reading")
        self._status.keep(str(trouble) if trouble and told else "")

    def _hand_over(self, page: Page, name: str, value: Any) -> None:
        if isinstance(value, Trouble):
            page.refuse(name, value)
            return
        try:
            page.take(name, value)
        except Exception as error:  # what can't be drawn takes none of the others with it
            self.say(f"{name} can't be shown: {type(error).__name__}: {error}", wrong=True)

    def _take_heading(self, value: Any) -> None:
        if isinstance(value, Trouble):
            self._header.tell(None, str(value.error.what))
            return
        had_engine = self.heading is not None and self.heading.engine.running
        self.heading = value
        if had_engine and not value.engine.running:
            if not self.ends_engine:
                self.say(GONE + ("" if self.read_only else " (:start)"), wrong=True)
            self.ends_engine = False
        elif value.engine.running:
            self._status.unsay(GONE)
        self._header.tell(value)
        self._tabs.tell(inbox=inbox(value))

    def _tick(self) -> None:
        self._look_at_the_line()
        if self.heading is not None:
            self.throughput.tick(self.heading.counts)
        self._status.tick()
        self.acting.tick()
        self._header.redraw()
        self.page.tick()

    def _look_at_the_line(self) -> None:
        """Where the terminal can't keep up, everything is read and drawn less often."""
        if getattr(self._driver, "is_behind", False):
            self._slow_left = SLOW_FOR
        else:
            self._slow_left = max(self._slow_left - 1, 0)
        self._header.is_slow = self._always_slow or self._slow_left > 0
        self.bridge.pace = SLOW_PACE if self._header.is_slow else PACE

    def _ask_engine(self) -> None:
        """Not again while an answer is waited for: a silent one takes longer than the pause between two questions."""
        if self.heading is not None and self.heading.engine.running and not self._asks_engine:
            self._asks_engine = True
            self.run_worker(self._describe(), group="engine", exit_on_error=False)

    async def _describe(self) -> None:
        try:
            self._header.describe(*await self.bridge.describe())
        finally:
            self._asks_engine = False

    def say(self, text: str, *, wrong: bool = False) -> None:
        """Say something in the line of messages; it stays for some seconds."""
        self._status.say(text, wrong=wrong)

    def on_descendant_focus(self) -> None:
        if self._trail and self.focused is not None and self.page in self.focused.ancestors:
            self.page.last_focus = self.focused
        self.tell_keys()

    def tell_keys(self) -> None:
        """Show the keys that matter here at the bottom."""
        if self._trail and self._hints.is_attached:
            self._hints.tell(self.screen, self.page.hint)

    # ---- opening things --------------------------------------------------------------------------------------------

    async def action_open_row(self) -> None:
        """Open what is under the cursor of the list with the focus."""
        table = self.focused
        if isinstance(table, Table) and table.cursor_id is not None:
            await self.open_item(table.plan.kind, table.cursor_id, table.current)

    async def open_item(self, kind: str, name: Any, item: Any = None) -> None:
        """Open what is known by this kind and name."""
        from .screens.story import StoryPage

        if kind == "task":
            await self.open_task("task", int(name))
        elif kind in ("route", "resource"):
            await self.open_page(StoryPage(kind, self.glyphs, str(name).partition("/")[0]))
        elif kind == "event" and item is not None:
            await self._open_subject(item.last)

    async def _open_subject(self, event: Any) -> None:
        if event.task_id:
            await self.open_item("task", event.task_id)
        elif event.route_id:
            await self.open_item("route", event.route_id)
        else:
            self.say(story(event, self.glyphs))

    def _one(self, kind: str = "task") -> Any:
        """The one item under the cursor, if it is of this kind."""
        focused = self.focused
        if isinstance(focused, Table) and focused.plan.kind == kind:
            return focused.cursor_id
        found = self.page.target()
        return found.ids[0] if found.kind == kind and found.ids else None

    # ---- actions ---------------------------------------------------------------------------------------------------

    async def on_event(self, event: Event) -> None:
        """What a key is bound to is done before the next key is looked at. On its way up from the widget with the focus, as
        Textual sends it, it would be lost where the key before it has just closed the page of that widget.
        """
        if isinstance(event, Key) and not self._body.is_attached:
            return  # typed ahead of the first page, or behind the key that left the deck: there is nothing that it could mean
        if isinstance(event, Key) and not event.is_forwarded and await self._is_done_at_once(event.key):
            return
        await super().on_event(event)

    async def _is_done_at_once(self, key: str) -> bool:
        if isinstance(self.focused, Input):
            return False
        self.app_focus = True
        if isinstance(self.focused, Table):
            self.focused.touch()
        return await self._check_bindings(key, priority=True) or await self._check_bindings(key)

    async def action_view(self, name: str) -> None:
        await self.open_view(name)

    async def action_last(self) -> None:
        await self.open_view(self._before)

    def action_pane(self, step: int) -> None:
        if step > 0:
            self.screen.focus_next()
        else:
            self.screen.focus_previous()

    async def action_back(self) -> None:
        """One step: the prompt, the page's own ladder, the page."""
        if self._prompt.is_open:
            self._prompt.close()
            return
        if not self.page.back():
            await self._leave_page()

    async def _leave_page(self) -> bool:
        if len(self._trail) == 1:
            return False
        await self._trail.pop().remove()
        await self._show()
        return True

    async def action_leave(self) -> None:
        if not await self._leave_page():
            self.action_detach()

    def action_detach(self) -> None:
        """Leave the deck; whoever runs it decides what goes on."""
        self.exit()

    def action_interrupt(self) -> None:
        if moment() - self._interrupted < TWICE:
            self.action_detach()
        self._interrupted = moment()
        self.say("ctrl+c again leaves the deck; the engine goes on (:stop ends it)")

    def action_suspend(self) -> None:
        if self._suspend is None:
            self.say("there is no shell to go back to")
        else:
            self._suspend()

    def action_redraw(self) -> None:
        self.bridge.forget()
        self.ask()
        self.refresh(layout=True)

    async def action_help(self) -> None:
        from .screens.help import Help

        await self.push_screen(Help(dict(self.screen.active_bindings), self.glyphs))

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """`/` and `:` are text while something is typed, and nothing while a question is open."""
        if action in ("filter", "command"):
            return not self._prompt.is_open and len(self.screen_stack) == 1
        return super().check_action(action, parameters)

    def action_filter(self) -> None:
        if (text := self.page.filter()) is None:
            self.say("there is nothing to filter here; / works in lists and logs")
            return
        self._prompt.open("/", text, self._filter)

    def action_command(self) -> None:
        self._prompt.open(":", "", self._commands.run, self._commands)

    async def _filter(self, text: str) -> str:
        try:
            self.page.set_filter(text)
        except TaskdeckError as error:
            return str(error)
        return ""

    async def action_act(self, verb: str) -> None:
        await self.acting.act(verb, self.page.target())

    async def action_undo(self) -> None:
        self.acting.undo()

    async def action_holder(self) -> None:
        if (task := self.page.holder()) is None:
            self.say("nobody holds it")
        else:
            await self.open_item("task", task)

    def action_import_list(self) -> None:
        """Ask for a file; what is in it is shown before anything is written."""
        if self.read_only:
            self.say("this deck only reads (--read-only)", wrong=True)
        else:
            self._prompt.open("<", "", self.import_list)

    async def import_list(self, file: str) -> str:
        """Look at a list and show what it would change. Returns what is wrong with it."""
        from .screens.importing import ImportPage, look_at

        if not file:
            return ""
        try:
            found = await look_at(self.config, file)
        except TaskdeckError as error:
            return str(error)
        await self.push_screen(ImportPage(file, found, self.glyphs), self.acting.import_list)
        return ""

    async def action_why(self) -> None:
        await self._open_task("why")

    async def action_log(self) -> None:
        await self._open_task("log")

    async def _open_task(self, how: str) -> None:
        if (task := self._one()) is not None:
            await self.open_task(how, task)

    async def open_task(self, how: str, task: int) -> None:
        """Open a task's page (`task`), its output (`log`), or why it does not run (`why`)."""
        from .screens import detail, log, why

        if how == "why":
            await self.push_screen(why.Why(self.bridge, task, self.glyphs))
        else:
            await self.open_page((log.LogPage if how == "log" else detail.DetailPage)(self.glyphs, task))

    async def action_events(self) -> None:
        target = self.page.target()
        focused = self.focused
        if isinstance(focused, Table) and focused.cursor_id is not None:
            target = Target(focused.plan.kind, [focused.cursor_id])
        if target != NOTHING:
            from .screens.events import EventsPage

            name = str(target.ids[0]).partition("/")[0]  # a slot's events are those of the whole
            await self.open_page(EventsPage(self.glyphs, f"{target.kind}:{name}"))

    def action_zoom(self) -> None:
        self.page.zoom()

    async def action_copy(self, whole: bool = False) -> None:
        """The name under the cursor, or all that is known of it, to the clipboard."""
        focused = self.focused
        item = focused.current if isinstance(focused, Table) else None
        name = focused.cursor_id if isinstance(focused, Table) else next(iter(self.page.target().ids), None)
        if name is None or (whole and item is None):
            self.say("there is nothing to copy here")
            return
        if isinstance(item, EventRow):
            item = item.last
        from . import clipboard

        text = json_text(item) if whole else str(name)
        if self._driver is not None:
            self._driver.write(clipboard.sequence(text))
        where = await asyncio.to_thread(clipboard.keep, text, kept.folder() / "clipboard.txt")
        self.say(f"copied {'all of ' if whole else ''}{name}{f'; also in {where}' if where else ''}")

    def action_section(self, step: int) -> None:
        self.page.section(step)

    def action_sort(self, step: int) -> None:
        self.page.sort(step)
