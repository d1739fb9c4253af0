"""Other queues, through the harness that has an adapter for each: they are asked in processes of their own Python.

Which harness and which Python is said by options; without them, or where a peer is not installed, it is left out with a line.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
from pathlib import Path
from typing import Any

from .frame import Skipped

NOT_DURABLE = "sync=OFF"
"""What the harness calls a configuration that never waits for the disk."""

LONGEST = 900.0
"""Seconds after which a peer is given up."""


def ask(options: argparse.Namespace, peer: str, test: str, count: int, folder: Path) -> dict[str, Any]:
    """What the harness says of one peer; the best of its configurations that are durable. Raises `Skipped`."""
    return ask_all(options, peer, test, count, folder)[0]


def ask_all(
    options: argparse.Namespace, peer: str, test: str, count: int, folder: Path
) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """As `ask`, and the best of those that are not: they would lose with the power what they said is done."""
    if options.peers is None or options.peer_python is None:
        raise Skipped("no --peers and --peer-python were given")
    command = [options.peer_python, "harness.py", peer, "--tests", test, "--rounds", "1", "--n", str(count)]
    # Its own BENCH_HOME stays, since the servers of some peers have their data there.
    env = {**os.environ, "BENCH_HOME": os.environ.get("BENCH_HOME", str(folder)), "BENCH_DATA": str(folder)}
    try:
        done = subprocess.run(
            [str(word) for word in command],
            cwd=options.peers,
            env=env,
            capture_output=True,
            text=True,
            timeout=LONGEST,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Skipped(str(error)) from None
    found = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    good = [each for each in found if "error" not in each]
    if not good:
        said = [str(each["error"]) for each in found] or done.stderr.strip().splitlines()[-1:]
        raise Skipped("; ".join(said)[:200] or f"it ended with {done.returncode}")
    durable = [each for each in good if NOT_DURABLE not in str(each.get("cfg", ""))]
    if not durable:
        raise Skipped("none of its configurations is durable")
    return _best(durable), _best([each for each in good if each not in durable])


def _best(found: list[dict[str, Any]]) -> Any:
    return max(found, key=lambda each: each.get("rate", 0), default=None)
