"""What chaos runs on: shortened times, three browsers, seven routes, and tasks without end, drawn from the seed. Data."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ..demo import plan as demo
from ..demo.catalogue import lists

RUNS = "runs.log"
"""Where commands note that they began: `KEY TASK ATTEMPT`."""
KEY = "chaos-{}"

SETTINGS = demo.SETTINGS.replace('suspect_after = "5s"', 'suspect_after = "2s"').replace(
    'lease = "15s"', 'lease = "6s"'
)
MAX_LOSSES = 10
"""Losses without a checkpoint in between that send a task to review: chaos takes workers from the innocent, often."""


def configuration(world: Mapping[str, Any], database: Path, logs: Path) -> str:
    """The `config.toml` of a run."""
    handlers = ["taskdeck.engine.chaos.jobs", "taskdeck.engine.demo.jobs"]
    return demo.assembled(world, database, logs, handlers, SETTINGS.format(max_losses=MAX_LOSSES))


def tasks(seed: int, site: str, folder: Path) -> Iterator[dict[str, Any]]:
    """One task after the other, without end, each with a key of its own."""
    rng = random.Random(f"chaos tasks {seed}")
    number = 0
    while True:
        number += 1
        make = rng.choice(MAKERS)
        yield {
            "key": KEY.format(number),
            "tags": ["chaos"],
            **make(KEY.format(number), site, str(folder), rng),
        }


def _post(key: str, site: str, folder: str, rng: random.Random) -> dict[str, Any]:
    return _typed("chaos_post", {"site": site, "name": key, "rows": rng.randint(1, 4)})


def _walk(key: str, site: str, folder: str, rng: random.Random) -> dict[str, Any]:
    return _typed("chaos_walk", {"name": key, "steps": rng.randint(4, 40), "folder": folder})


def _book(key: str, site: str, folder: str, rng: random.Random) -> dict[str, Any]:
    return _typed("chaos_book", {"name": key, "steps": rng.randint(1, 4), "folder": folder})


def _use(key: str, site: str, folder: str, rng: random.Random) -> dict[str, Any]:
    type_ = rng.choice(["chaos_use", "chaos_use_sync"])
    return _typed(type_, {"seconds": round(rng.uniform(0.1, 0.8), 3), "folder": folder})


def _fail(key: str, site: str, folder: str, rng: random.Random) -> dict[str, Any]:
    return _typed("chaos_fail", {"how": rng.choice(["fatal", "retry", "delay", "delay"])})


def _visit(key: str, site: str, folder: str, rng: random.Random) -> dict[str, Any]:
    type_ = rng.choice(["demo_fetch", "demo_limited", "demo_flaky", "demo_slow", "http"])
    if type_ == "http":
        return {**_typed("http", {"url": f"{site}/whoami"}), "route": "demo"}
    payload = {"site": site}
    if type_ == "demo_fetch":
        payload |= {"list": rng.choice(list(lists())), "folder": folder}
    return _typed(type_, payload)


def _command(key: str, site: str, folder: str, rng: random.Random) -> dict[str, Any]:
    """One that may run again, or (`review`) never unasked; each notes that it began."""
    script = f'echo "{key} $TASKDECK_TASK_ID $TASKDECK_ATTEMPT" >> {RUNS}; sleep {rng.uniform(0.1, 2.0):.2f}'
    script += rng.choice(["", "", "; exit 75" if rng.random() < 0.3 else "", " & sleep 0.2"])
    spec = {"command": {"argv": ["sh", "-c", script], "cwd": folder}, "max_retry": 3}
    return {**spec, "on_lost": rng.choice(["rerun", "review"])}


MAKERS = (
    _post,
    _post,
    _walk,
    _walk,
    _book,
    _book,
    _use,
    _use,
    _visit,
    _visit,
    _command,
    _command,
    _command,
    _fail,
)


def _typed(type_: str, payload: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": type_, "payload": json.dumps(payload)}
