"""The two lines on top: who runs and how much is where, and the views. Drawn as plain text; asks nobody anything."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from textual import events
from textual.content import Content
from textual.widgets import Static

from taskdeck.engine import views
from taskdeck.engine.silence import Silence

from ... import format as look
from ..reads import Heading
from ..states import STYLES, TASKS, Glyphs
from .cells import cut_mark

ORDER = ("RUNNING", "PENDING", "RETRYING", "NEEDS_REVIEW", "LOST", "FAILED", "DEAD", "PAUSED", "SUCCESS")
ALWAYS = ("RUNNING", "PENDING")
INBOX = ("NEEDS_REVIEW", "DEAD", "LOST")


class Header(Static):
    """One line: the engine, the counts, the time."""

    def __init__(self, glyphs: Glyphs, *, read_only: bool = False) -> None:
        super().__init__(Content(""), id="header", markup=False)
        self._glyphs = glyphs
        self._read_only = read_only
        self._heading: Heading | None = None
        self._trouble = ""
        self._waits = "reading"
        self._drawn: Content | None = None
        self._told: Mapping[str, Any] = {}
        self._silence: Silence | None = None
        self.is_slow = False
        """Is the terminal slow, so that less is drawn?"""

    def tell(self, heading: Heading | None, trouble: str = "", *, waits: str = "reading") -> None:
        """Show these figures; with `trouble` that they are old; `waits` says why there are none yet."""
        self._heading, self._trouble, self._waits = heading or self._heading, trouble, waits
        self.redraw()

    def describe(self, told: Mapping[str, Any], silence: Silence | None = None) -> None:
        """What the engine says of itself: whether it is stopping, and whether its newest configuration was refused.

        Or that it says nothing.
        """
        self._told, self._silence = told, silence
        self.redraw()

    def on_resize(self) -> None:
        self.redraw()

    def redraw(self) -> None:
        """Draw again, since the time or the room changed."""
        width = self.size.width or 80
        left = self._left()
        right = f"{look.here(views.now()):%H:%M}"
        room = width - len(right) - 1
        counts = self._counts()
        least = sum(part.cell_length + 1 for part in counts[: len(ALWAYS)])
        if sum(part.cell_length + 1 for part in left) - 1 + least > room:
            left = self._left(brief=True)
        # Where not all have room with two blanks between them, they have one.
        needed = sum(part.cell_length + 2 for part in (*left, *counts)) - 2
        between = Content("  " if needed <= room else " ")
        line = between.join(left)
        if line.cell_length + least > room and not self._trouble:
            line = line.truncate(max(room - least - 1, 0), ellipsis=False) + cut_mark(self._glyphs.ascii_only)
        for part in counts:
            longer = line + between + part
            if longer.cell_length > room:
                break
            line = longer
        line = line.truncate(room, ellipsis=False)
        line = line + Content(" " * (width - line.cell_length - len(right)) + right)
        if self._drawn is None or not self._drawn.is_same(line):
            self._drawn = line
            self.update(line, layout=False)

    def _left(self, *, brief: bool = False) -> list[Content]:
        """Who runs and what is wrong; `brief` where the counts would have no room beside it."""
        name = [] if brief else [Content.styled("taskdeck", "bold")]
        slow = [Content.styled("slow link", "reverse")] if self.is_slow else []
        return [*name, *self._engine(brief=brief), *self._held(), *slow]

    def _engine(self, *, brief: bool) -> list[Content]:
        marks = [Content.styled("[RO]", "bold")] if self._read_only else []
        if self._trouble:
            return [*marks, Content.styled(f" {look.tidy(self._trouble)} ", "bold reverse $text-error")]
        if self._heading is None:
            return [*marks, Content.styled(self._waits, "dim")]
        engine = self._heading.engine
        if not engine.running:
            return [*marks, Content.styled(" NO ENGINE ", "bold reverse $text-warning")]
        if self._silence and self._silence.pid == engine.pid:
            told = "STOPPED" if self._silence.is_stopped else "SILENT"
            return [*marks, Content.styled(f" ENGINE {told} ", "bold reverse $text-error")]
        since = ""
        if engine.since and not brief:
            since = f" up {look.span(views.seconds_between(engine.since, self._heading.at) // 60 * 60)}"
            since = since.replace("m00s", "m").replace(" 0s", " <1m")
        word = "stopping" if self._told.get("stopping") else "engine"
        return [*marks, Content(f"{word}{since}"), *self._alerts(), *self._rejected()]

    def _alerts(self) -> list[Content]:
        """What threatens the storage, then what is wrong with routes; the worst in words: `taskdeck status` tells all."""
        found = (self._told.get("storage") or {}).get("alerts") or []
        reasons = [each["reason"] for each in found]
        reasons += [each.reason for each in self._heading.alerts] if self._heading else []
        if not reasons:
            return []
        more = f" +{len(reasons) - 1}" if len(reasons) > 1 else ""
        style = "bold reverse $text-error" if found and found[0]["pauses"] else "bold reverse $text-warning"
        return [Content.styled(f" {look.tidy(reasons[0]).replace('_', ' ').upper()}{more} ", style)]

    def _rejected(self) -> list[Content]:
        """A newer configuration that is not in force (TF205)."""
        config = self._told.get("config") or {}
        if not (rejected := config.get("rejected")):
            return []
        text = (
            f" CONFIG REJECTED {look.local(rejected['at'], now=views.now())}, on version {config['version']} "
        )
        return [Content.styled(text, "bold reverse $text-error")]

    def _held(self) -> list[Content]:
        held = [hold.scope for hold in self._heading.holds] if self._heading else []
        return [Content.styled(f" HELD {look.tidy(' '.join(held))} ", "reverse")] if held else []

    def _counts(self) -> list[Content]:
        counts = self._heading.counts if self._heading else {}
        wanted = [name for name in ORDER if counts.get(name) or name in ALWAYS]
        return [
            Content.styled(f"{TASKS[name].word} {counts.get(name, 0):,}", STYLES.get(TASKS[name].look, ""))
            for name in wanted
        ]


class Tabs(Static):
    """One line: the views with their keys; the one that is shown stands in brackets."""

    def __init__(self, views_: Sequence[tuple[str, str, str]]) -> None:
        super().__init__(Content(""), id="tabs", markup=False)
        self._views = views_
        self._shown = ""
        self._inbox = 0

    def tell(self, shown: str | None = None, inbox: int | None = None) -> None:
        """Show which view is open and how many tasks wait for a person."""
        before = (self._shown, self._inbox)
        self._shown = self._shown if shown is None else shown
        self._inbox = self._inbox if inbox is None else inbox
        if before != (self._shown, self._inbox):
            self.update(self._line(), layout=False)

    async def on_click(self, event: events.Click) -> None:
        edge = 0
        for (_, name, _), text in zip(self._views, self._texts(), strict=True):
            edge += len(text)
            if event.x < edge:
                await self.app.run_action(f"view('{name}')")
                return

    def _texts(self) -> list[str]:
        """Each view as it is written, with brackets or blanks around it."""
        texts = []
        for key, name, title in self._views:
            waiting = f":{self._inbox}!" if name == "inbox" and self._inbox else ""
            left, right = "[]" if name == self._shown else "  "
            texts.append(f"{left}{key} {title}{waiting}{right}")
        return texts

    def _line(self) -> Content:
        return Content("").join(
            [Content.styled(text, "bold" if text[0] == "[" else "dim") for text in self._texts()]
        )


def inbox(heading: Heading) -> int:
    """How many tasks wait for a person."""
    return sum(heading.counts.get(name, 0) for name in INBOX)
