"""Descendants of commands that carry no mark, as a worker notes them beside its journal when it sees them.

With its worker alive such a process is known by descent; once the worker is killed only this tells whose it was, exactly: by
pid, start time and boot. Must not end anything.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from ..edge import trees
from ..edge.identity import Identity
from ..edge.paths import open_private

SUFFIX = ".kin"
OF_NONE = 0
"""Stands for a task where it can't be told of which one a process is; of that worker it is for sure."""


class Kin:
    """The worker's side: writes each down once. `path` None: nowhere."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._judged: set[Identity] = set()

    def note(self, mark: str, members: set[Identity]) -> None:
        """These are of the command with this mark ("": of one that can't be told); who doesn't carry it is written down."""
        fresh = {one for one in members - self._judged if not mark or trees.mark_of(one.pid) != mark}
        self._judged |= members - fresh
        if fresh and self._path is not None:
            task_id = mark.split(":")[1] if mark else OF_NONE
            lines = "".join(f"{one.pid} {one.start_time} {one.boot_id} {task_id}\n" for one in fresh)
            with suppress(OSError), open(self._path, "a", encoding="ascii", opener=open_private) as file:
                file.write(lines)  # as far as a full disk lets it: it is looked at again
                self._judged |= fresh

    def keep(self, members: set[Identity]) -> None:
        """Only these are still there."""
        self._judged &= members


def read(journal: Path) -> dict[Identity, int]:
    """Those that the worker with this journal wrote down, each with its task; what can't be read tells of nobody."""
    try:
        text = journal.with_suffix(SUFFIX).read_text(encoding="ascii", errors="replace")
    except OSError:
        return {}
    return dict(_entries(text))


def _entries(text: str) -> Iterator[tuple[Identity, int]]:
    for line in text.splitlines(keepends=True):
        words = line.split()
        numbers = [word for word in (*words[:2], *words[3:]) if word.isdecimal()]
        if len(words) == 4 and len(numbers) == 3 and line.endswith("\n"):  # a torn last one tells of nobody
            yield Identity(int(words[0]), int(words[1]), words[2]), int(words[3])
