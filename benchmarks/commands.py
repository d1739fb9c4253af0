"""/bin/true as often as it goes: by taskdeck with an attempt row, an own process group and a captured log each; by others."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
from pathlib import Path
from time import perf_counter

from .frame import Bar, Benchmark, Figures, Skipped, ratio
from .home import home, until

TRUE = "/bin/true"


def benchmark(options: argparse.Namespace) -> Benchmark:
    """What is measured."""
    count = int(2000 * options.scale)
    few = count // 4  # of the slow ones
    return Benchmark(
        f"{count:,} commands that do nothing, in commands a second",
        {
            "taskdeck": lambda folder: taskdeck(folder, count),
            "xargs": lambda _: timed(["xargs", "-n1", "-P2", TRUE], count, numbers(count)),
            "tsp": lambda folder: tsp(folder, few),
            "parallel": lambda folder: timed(
                ["parallel", "-j2", "--joblog", str(folder / "log"), TRUE], few, numbers(few)
            ),
        },
        (
            Bar("of `xargs -P2`", ratio("taskdeck.rate", "xargs.rate"), least=0.5),
            Bar("against tsp", ratio("taskdeck.rate", "tsp.rate"), least=1.5),
            Bar("against GNU parallel --joblog", ratio("taskdeck.rate", "parallel.rate"), least=4),
        ),
    )


def taskdeck(folder: Path, count: int) -> Figures:
    """All queued, two workers; from the first start to the last recorded end."""
    with home(folder) as made:
        path = folder / "commands.jsonl"
        path.write_text(json.dumps({"command": [TRUE]}) + "\n")
        path.write_text(path.read_text() * count)
        made.taskdeck("add", "-f", path)
        made.start()
        until(lambda: made.count("SUCCESS") == count, "the last end", every=0.1)
        first, last = made.rows(
            "SELECT min(julianday(started_at)), max(julianday(ended_at)) FROM attempt WHERE outcome IS NOT NULL"
        )[0]
        return {"rate": count / ((last - first) * 86400)}


def numbers(count: int) -> str:
    """An argument for each."""
    return "".join(f"{number}\n" for number in range(count))


def timed(command: list[str], count: int, given: str, env: dict[str, str] | None = None) -> Figures:
    """One program that runs them all."""
    if shutil.which(command[0]) is None:
        raise Skipped(f"{command[0]} is not installed")
    began = perf_counter()
    subprocess.run(command, input=given, text=True, check=True, capture_output=True, env=env)
    return {"rate": count / (perf_counter() - began)}


def tsp(folder: Path, count: int) -> Figures:
    """Task-spooler: each command is queued by a process of its own, as it is meant to be used."""
    if shutil.which("tsp") is None:
        raise Skipped("tsp is not installed")
    env = {
        **os.environ,
        "TS_SOCKET": str(folder / "socket"),
        "TMPDIR": str(folder),
        "TS_MAXFINISHED": "1000000",
    }
    subprocess.run(["tsp", "-S2"], env=env, check=True, capture_output=True)
    try:
        script = f"for n in $(seq {count}); do tsp {TRUE} >/dev/null; done; tsp -w"
        return timed(["sh", "-c", script], count, "", env)
    finally:
        subprocess.run(["tsp", "-K"], env=env, check=False, capture_output=True)
