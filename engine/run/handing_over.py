"""`taskdeck restart`: the engine ends in order, what runs goes on, and an engine of the code that is on the disk now follows.

Owns what is looked at before the old engine lets go, and the wait for the new one. The letting go itself is the engine's.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

from ..clock import Clock
from ..config import Config
from ..edge.identity import Identity, alive
from ..edge.locks import DatabaseLock
from ..errors import NoEngine, Refused, TaskdeckError, Unavailable
from ..rules.cleaning import clean
from . import announce, supervisors

CHECK_WITHIN = 60.0
"""Seconds in which new code must have shown that it can be loaded."""
COMES_WITHIN = 60.0
"""Seconds in which the new engine must work."""
_PAUSE = 0.05


def refuse_unfit_code(config: Config) -> None:
    """Load the code that is on the disk now, and the configuration, in a process of its own. Blocks.

    Raises `Refused` where that fails: the old engine then must not let go.
    """
    command = [sys.executable, "-m", "taskdeck.engine.main", "--check", "--db", str(config.db)]
    command += ["--config", str(config.file)] if config.file is not None else []
    remedy = "mend it and try again; the engine works on as it is"
    environment = {name: value for name, value in os.environ.items() if name != announce.VARIABLE}
    try:
        done = subprocess.run(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=CHECK_WITHIN,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise Refused(
            "the new engine can't be started", f"it did not load in {CHECK_WITHIN:g} s", remedy
        ) from None
    except OSError as error:
        raise Refused(
            "the new engine can't be started", f"{sys.executable}: {error.strerror}", remedy
        ) from None
    if done.returncode != 0:
        lines = done.stderr.decode(errors="replace").strip().splitlines() or [f"exit code {done.returncode}"]
        raise Refused("the new engine can't be started", clean(lines[-1], limit=500), remedy)


def wait_for_next(
    config: Config, old: Identity, ask: Callable[[], dict[str, Any]], clock: Clock
) -> dict[str, Any]:
    """Block until another engine than `old` answers `ask` with its description, which is returned.

    Raises `Unavailable` where none comes: the old one is still there, or nobody starts a new one.
    """
    deadline = clock.monotonic() + COMES_WITHIN
    while clock.monotonic() < deadline:
        holder = DatabaseLock.holder(config.db)
        if holder is not None and holder.role == "engine" and holder.identity != old:
            try:
                return ask()
            except (NoEngine, Unavailable):
                pass  # it only starts
        clock.sleep(_PAUSE)
    if alive(old):
        what = f"the engine (pid {old.pid}) did not let go"
    elif supervisors.living(config.db):
        what = "the new engine has not come up yet"
    else:
        raise _nobody_left()
    raise Unavailable(what, f"it was waited for {COMES_WITHIN:g} s; what ran goes on", "see: taskdeck status")


def _nobody_left() -> TaskdeckError:
    return Unavailable(
        "the old engine has gone and no new one came",
        "what ran goes on for engine.away_limit without one",
        "start one now: taskdeck run",
    )
