"""A writer that is killed at any moment leaves a chain that goes through to its end."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

from taskdeck.engine.store import backup
from taskdeck.engine.store.database import open_for_writing
from tests.faults import fault
from tests.scratch import Scratch

WRITES = """
import sys
from pathlib import Path
from taskdeck.engine.clock import SystemClock
from taskdeck.engine.rules.redaction import Redactor
from taskdeck.engine.store.database import open_for_writing
from taskdeck.engine.store.transaction import Transaction
connection = open_for_writing(Path(sys.argv[1]), "2026-11-29T12:00:00.000000Z").connection()
tx = Transaction(connection, SystemClock(), "b", Redactor())
while True:
    tx.begin()
    for _ in range(20):
        tx.event("NOTE", actor="engine", message="hello")
    tx.commit()
    print("committed", flush=True)
"""


@fault("TF252")
def test_a_writer_that_is_killed_again_and_again_never_breaks_the_chain(tmp_path: Path) -> None:
    made = Scratch(tmp_path)
    made.close()
    committed = 0
    for round_ in range(8):
        with subprocess.Popen(
            [sys.executable, "-c", WRITES, str(made.path)], stdout=subprocess.PIPE, text=True
        ) as writer:
            assert writer.stdout is not None
            for _ in range(round_ + 1):
                committed += writer.stdout.readline() == "committed\n"
            writer.kill()
        assert writer.returncode == -signal.SIGKILL
    open_for_writing(
        made.path, "2026-11-29T12:00:00.000000Z"
    ).close()  # takes in the log that the last one left
    assert backup.check(made.path).head.length >= committed * 20
