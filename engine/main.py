"""The composition root: puts the engine together and starts it, with supervisor and launcher around it where they belong.

A deck that draws in the engine's loop takes `build`; `show` puts launcher and supervisor around it.

usage: python -m taskdeck.engine.main --db PATH [--config PATH] [--until-idle] [--max-wait SECONDS] [--since UTC] [--check]
"""

from __future__ import annotations

import gc
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from . import __version__
from .clock import system_clock
from .config import Config, load, read_secrets
from .edge.locks import DatabaseLock, is_held
from .edge.paths import gave_up_file
from .errors import AlreadyRunning, TaskdeckError, Unavailable, UsageError
from .garbage import begin_collecting
from .leaving import leave
from .rules.timing import utc_text

# What only an engine needs is imported where one is made: a launcher passes here on the way to the first paint.
if TYPE_CHECKING:
    from collections.abc import Callable

    from .run.announce import Announcer
    from .run.births import Ahead
    from .run.engine import Engine
    from .run.idleness import RunOptions


def run(config: Config, *, until_idle: bool = False, max_wait: float | None = None) -> int:
    """What `taskdeck run` does: start a supervised engine with no screen and wait for it. Returns its exit code.

    With a terminal this process stays as its launcher; without one it becomes the supervisor. Raises `AlreadyRunning` when
    another engine holds the database.
    """
    from .run import launcher

    _refuse_a_second(config)
    command = engine_command(config, until_idle=until_idle, max_wait=max_wait)
    if sys.stdin is not None and sys.stdin.isatty():
        return launcher.launch(command, gave_up_file(config.db))
    launcher.replace_by_supervisor(command, gave_up_file(config.db))
    raise AssertionError("exec does not return")


def _refuse_a_second(config: Config) -> None:
    """Raises `AlreadyRunning` where an engine works on the database. Only then is the engine's code loaded here."""
    holder = DatabaseLock.holder(config.db)
    if holder is not None and holder.role == "engine":
        from .run.engine import already_running

        raise already_running(config)


def show(config: Config, screen: list[str]) -> int:
    """What `taskdeck` on a terminal does: run `screen`, the command of a deck, and hold the terminal for it.

    While no engine works on the database, that process is to be one (see `build`), supervised; else it only looks, also where
    another came first while this one started. Returns its exit code, 0 as soon as it works on without the terminal.
    """
    from .run import foreground, launcher

    def came_second(code: int) -> bool:
        return code == AlreadyRunning.exit_code and is_held(config.db)

    holder = DatabaseLock.holder(config.db)
    if holder is None or holder.role != "engine":
        since = utc_text(system_clock().utc())
        engine = launcher.supervised([*screen, "--since", since], gave_up_file(config.db))
        if not came_second(code := foreground.launch(engine, silent=came_second)):
            return code
    return look_on(screen)


def look_on(screen: list[str], before_return: Callable[[], None] = lambda: None) -> int:
    """Run `screen`, the command of a deck, on this terminal beside an engine that others started. Returns its exit code.

    `before_return` is called before the terminal is given back.
    """
    from .run import foreground

    return foreground.launch([*screen, "--attach"], before_return=before_return)


def start(config: Config) -> None:
    """Start a supervised engine without a screen, in a session of its own. Raises `AlreadyRunning` where one works."""
    import subprocess
    import threading

    from .run import launcher

    _refuse_a_second(config)
    nowhere = subprocess.DEVNULL
    child = subprocess.Popen(
        launcher.supervised(engine_command(config), gave_up_file(config.db)),
        stdin=nowhere,
        stdout=nowhere,
        stderr=nowhere,
        start_new_session=True,
    )
    threading.Thread(target=child.wait, name="engine-end", daemon=True).start()  # no zombie of it stays


def judge(
    listens: list[str],
    certificate: tuple[str, str] | None,
    told: Callable[[str], None],
    warned: Callable[[str], None],
) -> None:
    """What `taskdeck probe-server` does: see `run.judge.serve`."""
    from .run.judge import serve

    serve(listens, certificate, told, warned)


def announcer() -> Announcer:
    """The way to the supervisor above this process, if there is one."""
    from .run.announce import Announcer

    return Announcer.from_environment(os.environ)


def build(
    config: Config,
    options: RunOptions | None = None,
    *,
    since: str = "",
    told: Announcer | None = None,
    aloud: bool = True,
    ahead: Ahead | None = None,
) -> Engine:
    """An engine that `await engine.run()` starts in the running loop; `aloud`: its log goes to standard error too.

    `ahead`: workers that were started before it, and wait for it.

    Imports all that an engine needs, which takes a while: a screen calls it in a thread, after its first paint.
    """
    from .edge import applog, sqlite_memory

    sqlite_memory.count_no_memory()  # before anything loads SQLite

    from .commands import ENGINE_VERBS, TOGETHER, make_redactor
    from .run.engine import Engine
    from .run.idleness import RunOptions

    if config.routes:
        import aiohttp  # noqa: F401 - 0.3 s that the loop would stand still at the first probe

    clock = system_clock()
    redactor = make_redactor(config)
    log = applog.ApplicationLog(config.log_file, config.logging, redactor, aloud=aloud)
    return Engine(
        config,
        clock,
        verbs=ENGINE_VERBS,
        together=TOGETHER,
        redactor=redactor,
        code_version=__version__,
        options=options or RunOptions(since=since or utc_text(clock.utc())),
        announcer=told,
        read_config=lambda: load(path=config.file, db=config.db),
        log_anew=lambda config: log.reconfigure(config.log_file, config.logging),
        ahead=ahead,
    )


def engine_command(config: Config, *, until_idle: bool = False, max_wait: float | None = None) -> list[str]:
    """The command line of an engine with this configuration. `--since` stays the same over its restarts."""
    command = [sys.executable, "-m", "taskdeck.engine.main", "--db", str(config.db)]
    command += ["--since", utc_text(system_clock().utc())]
    if config.file is not None:
        command += ["--config", str(config.file)]
    if until_idle:
        command.append("--until-idle")
    if max_wait is not None:
        command += ["--max-wait", str(max_wait)]
    return command


def serve(arguments: list[str]) -> int:
    """One engine in this process, until it ends. Returns its exit code; what goes wrong is said in one line."""
    supervisor = announcer()
    try:
        options = _parse(arguments)
    except UsageError as error:
        print(f"taskdeck: {error}", file=sys.stderr)
        return error.exit_code
    try:
        code = _check(options) if options.check else _serve(options, supervisor)
    except TaskdeckError as error:
        print(f"taskdeck: {error}", file=sys.stderr)
        code = error.exit_code
    except OSError as error:  # no room or no right for a file that it can't do without: its socket, a journal
        where = f"{error.filename}: " if error.filename else ""
        print(f"taskdeck: the engine can't go on: {where}{error.strerror or error}", file=sys.stderr)
        code = Unavailable.exit_code
    if supervisor.again and supervisor.supervisor is None:
        _start_next(options, arguments)
    supervisor.end(code)
    return code


def _check(options: Options) -> int:
    """Is all there that an engine needs to start? Raises where it is not."""
    from .commands import ENGINE_VERBS
    from .run import engine, supervisor, worker

    load(path=options.config, db=options.db)
    return 0 if ENGINE_VERBS and engine and supervisor and worker else 1


def _start_next(options: Options, arguments: list[str]) -> None:
    """Nobody is left above this engine who could start the one that shall follow: it has a supervisor again."""
    import subprocess

    from .run import announce, foreground, launcher

    command = [sys.executable, "-m", "taskdeck.engine.main", *arguments]
    passed_down = (announce.VARIABLE, foreground.VARIABLE)
    subprocess.Popen(
        launcher.supervised(command, gave_up_file(options.db)),
        env={name: value for name, value in os.environ.items() if name not in passed_down},
        stdin=subprocess.DEVNULL,
        start_new_session=True,
    )


def _serve(options: Options, supervisor: Announcer) -> int:
    from .run.births import Ahead

    config = load(path=options.config, db=options.db)
    ahead = Ahead(config)
    try:
        ahead.begin()
        return _serve_with(config, options, supervisor, ahead)
    finally:
        ahead.end()


def _serve_with(config: Config, options: Options, supervisor: Announcer, ahead: Ahead) -> int:
    import asyncio

    from .run.idleness import RunOptions

    since = options.since or utc_text(system_clock().utc())
    ends = RunOptions(options.until_idle, options.max_wait, since)

    async def main() -> int:
        engine = build(config, ends, told=supervisor, ahead=ahead)
        ahead.go_on()
        begin_collecting()
        for problem in read_secrets(config)[1]:
            print(f"taskdeck: {problem}", file=sys.stderr)
        return await engine.run()

    return asyncio.run(main())


class Options(Struct):
    """What an engine is told at its start. `max_wait` in seconds, `since` as UTC text."""

    db: Path
    config: Path | None
    until_idle: bool
    max_wait: float | None
    since: str
    check: bool


def _parse(arguments: list[str]) -> Options:
    from .run.arguments import Arguments

    given = Arguments(arguments, "db config max-wait since", "until-idle check")
    config, most = given.get("config"), given.get("max-wait")
    return Options(
        db=Path(given.one("db")),
        config=Path(config) if config else None,
        until_idle="until-idle" in given,
        max_wait=float(most) if most else None,
        since=given.get("since") or "",
        check="check" in given,
    )


if __name__ == "__main__":
    # Blocked in whoever became our supervisor meanwhile, and inherited from it.
    signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGTERM, signal.SIGINT, signal.SIGHUP))
    gc.disable()  # until all is loaded: what is loaded stays, and looking through it takes an eighth of a start
    leave(serve(sys.argv[1:]))
