"""Real processes, killed at every fault point: a supervised engine with its workers and commands, at work on a dozen tasks.

    .venv/bin/python -m benchmarks.crash_points [--every N] [--times N] [--point NAME:N]

One run counts: each process notes the points that it passes. Then each point is killed in runs of its own, at its first, a
middle and its last passing (`--times`), whoever comes there first; the supervisor starts again what died, and the nine
invariants are judged when nothing is left to do. A run takes some seconds. `--point` kills at this one `--times` times.
Exit 1 where anything was wrong.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from taskdeck.engine.chaos import jobs, judging
from taskdeck.engine.clock import SystemClock
from taskdeck.engine.commands import call
from taskdeck.engine.config import load
from taskdeck.engine.demo import stage
from taskdeck.engine.demo.invariants import Outside
from taskdeck.engine.edge import trees
from taskdeck.engine.edge.paths import database_hash

PROGRAM = (sys.executable, "-c", "from taskdeck.tui.cli import script; script()")
CONFIG = """\
[taskdeck]
db = "{folder}/taskdeck.db"
logs = "{folder}/logs"
handlers = ["taskdeck.engine.chaos.jobs"]

[engine]
workers = 2
heartbeat = "200ms"
suspect_after = "2s"
lease = "6s"
stop_grace = "2s"
cancel_grace = "500ms"
output_drain = "200ms"
max_losses = 10

[retry]
base = "50ms"
max_delay = "500ms"

[[resources]]
id = "browser"
pool = "browser"
count = 2
"""
LONGEST = 90.0
"""Seconds after which a run has failed to come to its end."""


def tasks(folder: Path) -> Iterator[dict[str, object]]:
    """A dozen tasks of every kind that needs no network."""
    for n in range(3):
        yield {"type": "chaos_walk", "payload": {"name": f"walk-{n}", "steps": 6, "folder": str(folder)}}
        yield {"type": "chaos_book", "payload": {"name": f"book-{n}", "steps": 2, "folder": str(folder)}}
        script = f'echo "command-{n} $TASKDECK_TASK_ID $TASKDECK_ATTEMPT" >> runs.log; sleep 0.2'
        yield {
            "command": {"argv": ["sh", "-c", script], "cwd": str(folder)},
            "on_lost": ("rerun", "review")[n % 2],
        }
    for type_ in ("chaos_use", "chaos_use_sync"):
        yield {"type": type_, "payload": {"seconds": 0.2, "folder": str(folder)}}
    for how in ("fatal", "delay", "retry"):
        yield {"type": "chaos_fail", "payload": {"how": how}}


@contextmanager
def scratch() -> Iterator[Path]:
    """A folder, gone again with all that was started in it."""
    folder = Path(tempfile.mkdtemp(prefix="taskdeck-crash-points-"))
    try:
        yield folder
    finally:
        trees.end_tree(f"{database_hash(folder / 'taskdeck.db')}:", grace=0.0, clock=SystemClock())
        shutil.rmtree(folder, ignore_errors=True)


def run(folder: Path, variables: Mapping[str, str]) -> list[str]:
    """One run to its end, and its judgement."""
    (folder / jobs.LOCKS).mkdir()
    path = folder / "config.toml"
    path.write_text(CONFIG.format(folder=folder))
    config = load(path=path, environ={})
    specs = [{"key": f"task-{n}", **spec} for n, spec in enumerate(tasks(folder))]
    answers = call(config, "submit", "cli:test", specs=specs)
    told = {str(spec["key"]): answer["id"] for spec, answer in zip(specs, answers, strict=True)}
    environment = {name: value for name, value in os.environ.items() if not name.startswith("TASKDECK_")}
    command = [*PROGRAM, "run", "--until-idle", "--max-wait", f"{LONGEST / 2}s", "--config", str(path)]
    with (folder / "engine.out").open("wb") as output:
        engine = subprocess.Popen(
            command, env={**environment, **variables}, stdout=output, stderr=output, start_new_session=True
        )
    with suppress(subprocess.TimeoutExpired):
        engine.wait(LONGEST)
    stage.end(engine, 5.0)
    stage.end_engine(config, engine.pid)
    verdicts = judging.examine(folder / "taskdeck.db", folder, Outside(told))
    problems = [f"{number}. {each}" for number, found in verdicts.problems.items() for each in found]
    if engine.returncode not in (
        1,
        6,
    ):  # what is meant to fail, fails; what may not run twice waits for a person
        told = (folder / "engine.out").read_text()[-500:]
        problems.append(f"exit code {engine.returncode}: {told}")
    return problems


def count() -> Counter[str]:
    """How often one process passes each point at most."""
    with scratch() as folder:
        problems = run(folder, {"TASKDECK_CRASH_LOG": str(folder / "points")})
        assert not problems, problems
        passed = Counter(tuple(line.split()) for line in (folder / "points").read_text().splitlines())
    most = Counter[str]()
    for (_, name), times in passed.items():
        most[name] = max(most[name], times)
    print(
        f"{passed.total()} passings of {len(most)} fault points in {len({pid for pid, _ in passed})} processes"
    )
    return most


def kill(point: str) -> list[str]:
    """One run in which somebody dies at this point (`name:N`)."""
    with scratch() as folder:
        once = folder / "died"
        problems = run(folder, {"TASKDECK_CRASH_AT": point, "TASKDECK_CRASH_ONCE": str(once)})
        if problems:
            shutil.copytree(folder, kept := folder.with_name(f"{folder.name}-kept"), dirs_exist_ok=True)
            problems.append(f"kept: {kept}")
        died = f"pid {once.read_text().strip()}" if once.exists() else "nobody came there"
    print(f"{point:32} {died:24} {'; '.join(problems) or 'nothing is wrong'}", flush=True)
    return problems


def main() -> int:
    """Everything."""
    parser = argparse.ArgumentParser(prog="benchmarks.crash_points")
    parser.add_argument("--every", type=int, default=1, help="only every N-th of them")
    parser.add_argument("--times", type=int, default=3, help="passings of each point that are killed")
    parser.add_argument("--point", metavar="NAME:N", help="only this one, again and again")
    options = parser.parse_args()
    points = (
        [options.point] * options.times
        if options.point
        else [
            f"{name}:{number}"
            for name, most in sorted(count().items())
            for number in sorted(
                {1 + (most - 1) * n // max(1, options.times - 1) for n in range(options.times)}
            )
        ]
    )
    wrong = [point for point in points[:: options.every] if kill(point)]
    print(f"{len(points[:: options.every])} runs, wrong in {len(wrong)}: {', '.join(wrong)}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
