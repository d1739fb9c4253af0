"""The composition root: puts the engine together and starts it, with supervisor and launcher around it where they belong.

usage: python -m taskdeck.engine.main --db PATH [--config PATH] [--until-idle] [--max-wait SECONDS] [--since UTC]
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from pathlib import Path

from . import __version__
from .clock import SystemClock
from .commands import ENGINE_VERBS, make_redactor
from .config import Config, load, read_secrets
from .edge.locks import DatabaseLock
from .errors import TaskdeckError
from .rules.timing import utc_text


def run(config: Config, *, until_idle: bool = False, max_wait: float | None = None) -> int:
    """What `taskdeck run` does: start a supervised engine with no screen and wait for it. Returns its exit code.

    With a terminal this process stays as its launcher; without one it becomes the supervisor. Raises `AlreadyRunning` when
    another engine holds the database.
    """
    from .run import launcher
    from .run.engine import already_running

    holder = DatabaseLock.holder(config.db)
    if holder is not None and holder.role == "engine":
        raise already_running(config)
    command = engine_command(config, until_idle=until_idle, max_wait=max_wait)
    if sys.stdin is not None and sys.stdin.isatty():
        return launcher.launch(command)
    launcher.replace_by_supervisor(command)
    raise AssertionError("exec does not return")


def engine_command(config: Config, *, until_idle: bool = False, max_wait: float | None = None) -> list[str]:
    """The command line of an engine with this configuration. `--since` stays the same over its restarts."""
    command = [sys.executable, "-m", "taskdeck.engine.main", "--db", str(config.db)]
    command += ["--since", utc_text(SystemClock().utc())]
    if config.file is not None:
        command += ["--config", str(config.file)]
    if until_idle:
        command.append("--until-idle")
    if max_wait is not None:
        command += ["--max-wait", str(max_wait)]
    return command


def serve(arguments: list[str]) -> int:
    """One engine in this process, until it ends. Returns its exit code; what goes wrong is said in one line."""
    from .run.announce import Announcer

    announcer = Announcer.from_environment(os.environ)
    try:
        code = _serve(_parse(arguments), announcer)
    except TaskdeckError as error:
        print(f"taskdeck: {error}", file=sys.stderr)
        code = error.exit_code
    announcer.end(code)
    return code


def _serve(options: argparse.Namespace, announcer: object) -> int:
    from .edge import applog
    from .run.announce import Announcer
    from .run.engine import Engine, RunOptions

    assert isinstance(announcer, Announcer)
    config = load(path=options.config, db=options.db)
    clock = SystemClock()
    redactor = make_redactor(config)
    applog.configure(config.log_directory / "engine.log", config.logs.level, redactor)
    for problem in read_secrets(config)[1]:
        print(f"taskdeck: {problem}", file=sys.stderr)

    async def main() -> int:
        engine = Engine(
            config,
            clock,
            verbs=ENGINE_VERBS,
            redactor=redactor,
            code_version=__version__,
            options=RunOptions(options.until_idle, options.max_wait, options.since or utc_text(clock.utc())),
            announcer=announcer,
            read_config=lambda: load(path=options.config, db=options.db),
        )
        return await engine.run()

    return asyncio.run(main())


def _parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="taskdeck.engine.main")
    parser.add_argument("--db", type=Path, required=True)
    parser.add_argument("--config", type=Path)
    parser.add_argument("--until-idle", action="store_true")
    parser.add_argument("--max-wait", type=float)
    parser.add_argument("--since", default="")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(serve(sys.argv[1:]))
