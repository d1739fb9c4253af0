"""One recorded demo, and copies of it that may be damaged."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from taskdeck.engine.demo import checking
from taskdeck.engine.demo.stories import HASHED
from tests.tui.calls import PROGRAM


@dataclass
class Ran:
    """A demo that has run, or a copy of it."""

    database: Path
    output: str = ""

    @property
    def folder(self) -> Path:
        return checking.folder_beside(self.database)

    @property
    def anchors(self) -> Path:
        return self.database.with_name(f"{self.database.name}.anchors")

    @property
    def ledger(self) -> Path:
        return self.folder / "ledger.jsonl"

    def copy(self, folder: Path) -> Ran:
        made = Ran(folder / "demo.db")
        shutil.copy(self.database, made.database)
        shutil.copytree(self.folder, made.folder)
        shutil.copy(self.anchors, made.anchors)
        return made

    def problems(self) -> list[str]:
        return checking.examine(self.database, self.folder).problems

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """Write as somebody who is not stopped by triggers, and who knows how the chain is made."""
        with closing(sqlite3.connect(self.database)) as connection:
            connection.row_factory = sqlite3.Row
            for (name,) in connection.execute(
                "SELECT name FROM sqlite_master WHERE type = 'trigger'"
            ).fetchall():
                connection.execute(f"DROP TRIGGER {name}")
            yield connection
            _rehash(connection)
            connection.commit()


def _rehash(connection: sqlite3.Connection) -> None:
    previous = ""
    encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), default=lambda _: None).encode
    for event in connection.execute("SELECT * FROM event_log ORDER BY event_id").fetchall():
        text = encode([event[name] for name in HASHED])
        previous = hashlib.sha256(f"{previous}\n{text}".encode()).hexdigest()
        if previous != event["hash"]:
            connection.execute(
                "UPDATE event_log SET hash = ? WHERE event_id = ?", (previous, event["event_id"])
            )
    connection.execute("UPDATE event_head SET hash = ?", (previous,))


def recorded(base: Path) -> Ran:
    """The demo of this run of tests: whoever asks first runs it, the others wait for it, in other processes too."""
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    database, output = shared / "recorded-demo" / "demo.db", shared / "recorded-demo" / "output"
    database.parent.mkdir(exist_ok=True)
    with (database.parent / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not output.exists():
            command = [*PROGRAM, "demo", "--headless", "--seed", "1", "--db", str(database)]
            done = subprocess.run(command, capture_output=True, text=True, timeout=55, check=False)
            assert done.returncode == 0, done.stdout + done.stderr
            output.write_text(done.stdout, encoding="utf-8")
    return Ran(database, output.read_text(encoding="utf-8"))


def names(problems: list[str], *words: str) -> bool:
    return any(all(word in problem for word in words) for problem in problems)


def change(db: sqlite3.Connection, event_id: int, **columns: Any) -> None:
    names = ", ".join(f"{name} = ?" for name in columns)
    db.execute(f"UPDATE event_log SET {names} WHERE event_id = ?", (*columns.values(), event_id))
