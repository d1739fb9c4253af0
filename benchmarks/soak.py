"""A busy box for minutes: 16 workers, three decks on terminals of their own and a loop of the command line, on one database.

Shows that no lock reaches anybody ("database is locked"), that the write-ahead log stays small and that nothing is lost.

usage: python benchmarks/soak.py [--minutes 60] [--workers 16] [--decks 3]
"""

from __future__ import annotations

import argparse
import json
import os
import pty
import signal
import sqlite3
import struct
import subprocess
import sys
import tempfile
import termios
import threading
import time
from collections import Counter
from contextlib import suppress
from fcntl import ioctl
from pathlib import Path

TASKDECK = Path(sys.executable).with_name("taskdeck")
HANDLERS = """\
from taskdeck.engine import task

@task("steps")
async def steps(ctx, params: dict) -> dict:
    for number in range(params.get("count", 3)):
        await ctx.save(number=number)
    return params
"""
CONFIG = """\
[taskdeck]
handlers = ["jobs.py"]
[engine]
heartbeat = "1s"
suspect_after = "30s"
lease = "60s"
max_running = 256
"""
MANY = 500
"""Tasks that one turn of the loop adds at once."""
VERBS = (
    ("add", "--", "true"),
    ("add", "steps", '{"count": 5}'),
    ("list", "--limit", "20"),
    ("status", "--json"),
    ("add", "--", "sh", "-c", "echo some output; exit 0"),
    ("events", "--limit", "20"),
    ("show", "1"),
    ("add", "--in", "1s", "steps", "{}"),
    ("add", "-f", "many.jsonl"),
)


class Box:
    """The scratch home and what runs in it."""

    def __init__(self, home: Path, workers: int) -> None:
        self.home = home
        self.env = {key: value for key, value in os.environ.items() if not key.startswith("TASKDECK_")}
        for name in ("config", "state", "runtime"):
            (home / name).mkdir(mode=0o700)
            self.env[f"XDG_{name.upper()}_{'DIR' if name == 'runtime' else 'HOME'}"] = str(home / name)
        folder = home / "config" / "taskdeck"
        folder.mkdir()
        (folder / "config.toml").write_text(CONFIG)
        (folder / "jobs.py").write_text(HANDLERS)
        (home / "many.jsonl").write_text('{"type": "steps", "payload": {"count": 5}}\n' * MANY)
        self.env |= {"TASKDECK_ENGINE__WORKERS": str(workers), "TERM": "xterm-256color"}
        self.db = home / "state" / "taskdeck" / "taskdeck.db"
        self.said = b""

    def run(self, *arguments: str, patience: float = 120.0) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [TASKDECK, *arguments], env=self.env, cwd=self.home, stdin=subprocess.DEVNULL, capture_output=True,
            text=True, timeout=patience, check=False,
        )  # fmt: skip

    def engine(self) -> subprocess.Popen[bytes]:
        with (self.home / "run.log").open("ab") as log:
            return subprocess.Popen(
                [TASKDECK, "run"], env=self.env, cwd=self.home, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                start_new_session=True,
            )  # fmt: skip

    def deck(self) -> int:
        """A deck on a terminal of its own; its screen is read and thrown away. Returns its pid."""
        pid, terminal = pty.fork()
        if pid == 0:
            os.chdir(self.home)
            os.execve(TASKDECK, ["taskdeck"], self.env)
        ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        threading.Thread(target=self._watch, args=(terminal,), daemon=True).start()
        return pid

    def _watch(self, terminal: int) -> None:
        tail = b""
        with suppress(OSError):
            while data := os.read(terminal, 65536):
                tail = tail[-64:] + data
                if b"locked" in tail:
                    self.said += tail

    def locked(self) -> list[str]:
        """Every line of any log in which a lock is complained of."""
        found = [self.said.decode("utf-8", "replace")] if self.said else []
        for path in (self.home / "run.log", *self.home.rglob("*.log*")):
            with suppress(OSError):
                found += [
                    line for line in path.read_text("utf-8", "replace").splitlines() if "locked" in line
                ]
        return found


def percentile(values: list[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(len(values) * share))] if values else 0.0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--workers", type=int, default=16)
    parser.add_argument("--decks", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="taskdeck-soak-") as folder:
        return soak(Box(Path(folder), options.workers), options)


def soak(box: Box, options: argparse.Namespace) -> int:
    box.run("add", "--", "true")
    engine = box.engine()
    while not json.loads(box.run("status", "--json").stdout or "{}").get("workers"):
        time.sleep(0.2)
    decks = [box.deck() for _ in range(options.decks)]
    end = time.monotonic() + options.minutes * 60
    took: list[float] = []
    failed: list[str] = []
    largest, turn = 0, 0
    wal = box.db.with_name(box.db.name + "-wal")
    while time.monotonic() < end:
        verb = VERBS[turn % len(VERBS)]
        turn += 1
        began = time.monotonic()
        done = box.run(*verb)
        took.append(time.monotonic() - began)
        if done.returncode or "locked" in done.stdout + done.stderr:
            failed.append(f"{' '.join(verb)} → {done.returncode}: {done.stderr.strip()}")
        with suppress(OSError):
            largest = max(largest, wal.stat().st_size)
    alive = [pid for pid in decks if os.waitpid(pid, os.WNOHANG) == (0, 0)]
    for pid in alive:
        os.kill(pid, signal.SIGHUP)
        os.waitpid(pid, 0)
    while True:
        counts = json.loads(box.run("status", "--json").stdout)["counts"]
        if not any(counts.get(state) for state in ("PENDING", "RUNNING", "RETRYING")):
            break
        time.sleep(0.5)
    engine.send_signal(signal.SIGTERM)
    code = engine.wait(120)
    audit = box.run("audit", "verify", patience=1800.0).returncode
    with sqlite3.connect(box.db) as connection:
        events = connection.execute("SELECT count(*) FROM event_log").fetchone()[0]
    figures = {
        "minutes": options.minutes,
        "workers": options.workers,
        "decks_alive_at_the_end": len(alive),
        "commands": turn,
        "commands_failed": len(failed),
        "command_p50_ms": round(percentile(took, 0.5) * 1000),
        "command_p99_ms": round(percentile(took, 0.99) * 1000),
        "tasks": {name: count for name, count in Counter(counts).items() if count},
        "events": events,
        "largest_wal_bytes": largest,
        "locked": len(box.locked()),
        "engine_exit": code,
        "audit_exit": audit,
    }
    print(json.dumps(figures, indent=2))
    for line in [*failed[:10], *box.locked()[:10]]:
        print(line)
    return int(bool(failed or box.locked() or code or audit or len(alive) != options.decks))


if __name__ == "__main__":
    sys.exit(main())
