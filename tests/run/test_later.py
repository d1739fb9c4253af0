"""What a process of ours loads at its start, and what only later."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from taskdeck.engine.clock import ManualClock
from taskdeck.engine.run import later

JOBS = "from taskdeck.engine import task\n@task('job')\ndef job(ctx): ...\n"
RARE = {
    "argparse": "options of our own processes are read by `run.arguments`",
    "bz2": "comes with shutil",
    "csv": "lists of routes alone are read by it",
    "dataclasses": "to make one class of them takes a millisecond; a Struct takes a twentieth",
    "gzip": "archives alone need it",
    "html": "two thousand names of characters",
    "importlib.metadata": "entry points are looked for by `run.handlers` without it",
    "lzma": "comes with shutil",
    "shutil": "brings four compressors",
    "tempfile": "comes with importlib.metadata",
    "tomllib": "where there is a configuration it is read by it, and not before",
    "aiohttp": "0.3 s; whoever makes a request loads it",
    "pydantic": "nobody needs it",
    "rich": "the screen alone",
    "textual": "the screen alone",
    "typer": "the command line alone",
    "taskdeck.tui": "the engine must not see it",
}
"""Modules that none of our processes may load at its start, and why."""
NO_DATABASE = {
    "peewee": "workers never see the database",
    "sqlite3": "the same",
    "taskdeck.engine.store": "the same",
}
NO_LOOP = {"asyncio": "60 ms", "ssl": "comes with asyncio", "logging": "comes with asyncio"}
OF_OTHERS = dict.fromkeys((*later.OF_AN_ENGINE, *later.OF_A_WORKER), "loaded in a quiet moment (`run.later`)")
NO_COMMANDS = {
    "ctypes": "comes with what starts commands",
    "subprocess": "the same",
    "taskdeck.engine.edge.spawn": "no command is started by it",
    "taskdeck.engine.run.messages": "it speaks in lines; `attempt_messages` are all that it knows",
}

STARTS = {
    "engine": ("main", "asyncio.run(built(m))", RARE | OF_OTHERS),
    "worker": (
        "run.worker",
        "m._options(TOLD), m.load(['jobs.py'], Path('.'))",
        RARE | OF_OTHERS | NO_DATABASE,
    ),
    "sync handler": (
        "run.sync_handler",
        "m.load_type('job', 'jobs.py', Path('.'))",
        RARE | OF_OTHERS | NO_DATABASE | NO_LOOP | NO_COMMANDS,
    ),
    "validation": (
        "run.validation",
        "m.main(['--handler', 'jobs.py'])",
        RARE | OF_OTHERS | NO_DATABASE | NO_LOOP,
    ),
    "supervisor": (
        "run.supervisor",
        "m.main(['--', 'sh', '-c', 'echo exit 0 >&$TASKDECK_SUPERVISOR_FD'])",
        RARE | OF_OTHERS | NO_DATABASE | NO_LOOP | {"msgspec": "it needs no more than Python"},
    ),
}
"""What a process of ours is, what it does until it is ready, and what it must not have loaded by then."""
READY = """\
import sys
import taskdeck.engine.{module} as m
TOLD = "--socket s --incarnation i --logs l --journal j --handler jobs.py".split()
async def built(main):
    main.build(main.load(path=None, db=Path("t.db")))
if "asyncio." in {ready!r}:
    import asyncio
from pathlib import Path
{ready}
print(*sys.modules, file=sys.stderr)
"""


@pytest.mark.parametrize("process", STARTS)
def test_a_process_that_is_ready_has_loaded_nothing_that_it_rarely_needs(
    process: str, tmp_path: Path
) -> None:
    module, ready, rare = STARTS[process]
    (tmp_path / "jobs.py").write_text(JOBS)
    done = subprocess.run(
        [sys.executable, "-c", READY.format(module=module, ready=ready)],
        cwd=tmp_path, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=True,
    )  # fmt: skip
    loaded = done.stderr.splitlines()[-1].split()
    assert {name: why for name, why in rare.items() if name in loaded} == {}


async def test_what_is_rarely_needed_is_loaded_in_a_quiet_moment_and_what_is_missing_keeps_nothing_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    loaded: list[str] = []

    def load(name: str) -> None:
        loaded.append(name)
        if name == "one":
            raise ModuleNotFoundError(name)

    monkeypatch.setattr(later, "import_module", load)
    clock = ManualClock()
    began = clock.monotonic()
    await later.begin(("one", "two"), clock)
    assert loaded == ["one", "two"]
    assert clock.monotonic() >= began + later.QUIET_AFTER


def test_what_is_loaded_later_is_there() -> None:
    for name in (*later.OF_AN_ENGINE, *later.OF_A_WORKER):
        assert find_spec(name), name
