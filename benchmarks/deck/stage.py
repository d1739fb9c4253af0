"""The two big widgets alone on a stage, with as many rows, changes and lines as are asked for.

python -m benchmarks.deck.stage ROWS CHANGES LINES REPORT [--each]

ROWS in the list, CHANGES of rows and LINES of the log a second, in batches five times a second, or each change by itself.
o opens all rows, r takes every second one, q writes how late the loop was (seconds) to REPORT and ends.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
from collections.abc import Sequence
from pathlib import Path

from textual.app import App, ComposeResult
from textual.binding import Binding

from taskdeck.tui.deck.driver import SafeDriver
from taskdeck.tui.deck.widgets.virtual_list import Column, Id, VirtualList
from taskdeck.tui.deck.widgets.virtual_log import VirtualLog

COLUMNS = (
    Column("glyph", "", 1),
    Column("id", "ID", 8, "right"),
    Column("state", "STATE", 7),
    Column("type", "TYPE", 16),
    Column("progress", "PROG", 5, "right"),
    Column("try", "TRY", 4, "right"),
    Column("resource", "RES", 9),
    Column("next", "NEXT", 9, "right"),
    Column("note", "NOTE", 20, flex=True),
)
BATCH = 0.2
TICK = 0.01


class Stage(App[None]):
    """A list above a log."""

    ENABLE_COMMAND_PALETTE = False
    BINDINGS = [
        Binding("o", "open"),
        Binding("r", "refilter"),
        Binding("q", "report"),
    ]

    def __init__(self, rows: int, changes: int, lines: int, report: Path, *, each: bool) -> None:
        super().__init__(driver_class=SafeDriver)
        self._rows, self._changes, self._lines, self._each = rows, changes, lines, each
        self._report = report
        self._late: list[float] = []
        self._versions: dict[Id, int] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self.list = VirtualList(COLUMNS, self._row)
        self.log_ = VirtualLog()

    def compose(self) -> ComposeResult:
        yield self.list
        if self._lines:
            yield self.log_

    def on_mount(self) -> None:
        self.list.focus()
        self.list.set_rows(range(1, min(self._rows, 100) + 1))

    def on_ready(self) -> None:
        for work in (self._watch(), self._change(), self._write()):
            self._tasks.add(asyncio.create_task(work))

    def action_open(self) -> None:
        self.list.set_rows(range(1, self._rows + 1))

    def action_refilter(self) -> None:
        self.list.set_rows(list(range(2, self._rows + 1, 2)))

    def action_report(self) -> None:
        self._report.write_text(json.dumps(self._late))
        self.exit()

    def _row(self, id: Id) -> dict[str, tuple[str, str]]:
        version = self._versions.get(id, 0)
        return {
            "glyph": ("▸", "run"),
            "id": (f"{id:07}", ""),
            "state": ("RUN", "run"),
            "type": ("fetch_orders", ""),
            "progress": (f"{version % 101}%", ""),
            "try": ("1/5", ""),
            "resource": ("acct-07", ""),
            "next": ("4m02s", ""),
            "note": (f"page {version} of 500", "dim"),
        }

    async def _watch(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            due = loop.time() + TICK
            await asyncio.sleep(TICK)
            self._late.append(max(loop.time() - due, 0.0))

    async def _change(self) -> None:
        choice = random.Random(7)
        every = 1 / self._changes if self._each else BATCH
        while self._changes:
            await asyncio.sleep(every)
            seen = self.list.shown_ids
            for id in self._some(choice, seen, 1 if self._each else round(self._changes * BATCH)):
                self._versions[id] = self._versions.get(id, 0) + 1
                self.list.update_row(id)

    def _some(self, choice: random.Random, seen: Sequence[Id], count: int) -> list[Id]:
        return choice.choices(seen, k=count) if seen else []

    async def _write(self) -> None:
        written = 0
        while self._lines:
            await asyncio.sleep(BATCH)
            count = round(self._lines * BATCH)
            self.log_.append(
                f"11:41:{n % 60:02} INFO page={n} ok rows=100 elapsed=0.{n % 100:02}s"
                for n in range(written, written + count)
            )
            written += count


def main() -> None:
    rows, changes, lines = map(int, sys.argv[1:4])
    Stage(rows, changes, lines, Path(sys.argv[4]), each="--each" in sys.argv).run()


if __name__ == "__main__":
    main()
