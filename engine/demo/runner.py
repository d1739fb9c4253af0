"""Runs one demo: the world, the configuration, the tasks, the engine as anyone would start it, and then the check.

Everything it starts is ended again, whatever happens. Shows nothing itself: `tell` takes sentences, `progress` the state of
affairs a few times a second. Where `interrupted` says so, it ends with `KeyboardInterrupt`.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

from ..clock import Clock, SystemClock
from ..commands import call
from ..config import Config, load
from ..errors import Refused, TaskdeckError
from ..views import open_view
from . import checking, plan, stage
from .chaos import Chaos
from .checking import Findings

LONGEST = {False: 100.0, True: 150.0}
"""Seconds after which a run is given up, without and with chaos."""
LOOK = 0.1
ACTOR = "cli:demo"


@dataclass
class Options:
    """What a demo is run with. `program`: the words that start `taskdeck`; `folder`: all files but the database."""

    folder: Path
    database: Path
    program: Sequence[str]
    seed: int = 1
    chaos: bool = False
    folder_made: bool = False
    """Was the folder made for this run alone? Otherwise making it is how the run claims it."""


@dataclass
class Report:
    """How it went."""

    findings: Findings
    seconds: float
    exit_code: int


class Runner:
    """One run."""

    def __init__(
        self,
        options: Options,
        tell: Callable[[str], None],
        progress: Callable[[Mapping[str, int]], None],
        interrupted: Callable[[], bool] = lambda: False,
        clock: Clock | None = None,
    ) -> None:
        self._options = options
        self._clock = clock or SystemClock()
        self._tell = tell
        self._progress = progress
        self._interrupted = interrupted
        self._trouble: list[str] = []
        self._environment = stage.environment()

    def run(self) -> Report:
        """All of it; returns what the check found. Raises `TaskdeckError` where it can't even begin."""
        begun = self._clock.monotonic()
        prepare(self._options)
        options = self._options
        with stage.world(options.folder, options.seed, self._clock, self._rest) as made:
            world = made.places
            self._tell(f"a site and {len(world['proxies'])} proxies listen in process {made.pid}")
            config = self._configure(world)
            added = call(config, "submit", ACTOR, specs=self._specs(world))
            self._tell(f"{len(added)} tasks added in one transaction")
            chaos = self._chaos(config) if self._options.chaos else None
            code = self._work(config, chaos, begun)
        known = self._trouble
        if code not in plan.EXIT_CODES:
            known = [*known, f"the engine ended with exit code {code}, see {plan.ENGINE_LOG}"]
        findings = checking.examine(self._options.database, self._options.folder, *known)
        return Report(findings, self._clock.monotonic() - begun, code)

    # ---- the engine ----------------------------------------------------------------------------------------------

    def _configure(self, world: Mapping[str, Any]) -> Config:
        options = self._options
        path = options.folder / plan.CONFIG_FILE
        text = plan.configuration(world, options.database, options.folder, chaos=options.chaos)
        path.write_text(text, encoding="utf-8")
        self._note_run([])
        return load(path=path, environ=self._environment)

    def _specs(self, world: Mapping[str, Any]) -> list[dict[str, Any]]:
        options = self._options
        site, folder = str(world["site"]), str(options.folder)
        (options.folder / "tries").mkdir(exist_ok=True)
        now = self._clock.utc() + timedelta(seconds=2)  # what the engine takes to start
        planned = plan.tasks(options.seed, chaos=options.chaos, site=site, folder=folder, now=now)
        return [each.spec for each in planned]

    def _chaos(self, config: Config) -> Chaos:
        """With the report held back, so that the engine doesn't end before everyone was killed who shall be."""
        call(config, "hold", ACTOR, scope=plan.HELD_BACK)
        return Chaos(self._options.seed, self._options.folder, self._clock, self._tell)

    def _note_run(self, kills: list[dict[str, object]]) -> None:
        """What the check can't know from database and ledger: which plan was followed, and who was killed."""
        run = {"seed": self._options.seed, "chaos": self._options.chaos, "kills": kills}
        path = self._options.folder / plan.RUN_FILE
        part = path.with_suffix(
            ".part"
        )  # on a full disk the note that is there must not be lost for a new one
        part.write_text(json.dumps(run) + "\n", encoding="utf-8")
        part.replace(path)

    def _note_kills(self, kills: list[dict[str, object]]) -> None:
        try:
            self._note_run(kills)
        except OSError as error:
            self._trouble.append(f"the kills could not be noted in {plan.RUN_FILE}: {error.strerror}")

    def _work(self, config: Config, chaos: Chaos | None, begun: float) -> int:
        """The supervised engine until nothing is left to do; returns its exit code."""
        folder = self._options.folder
        longest = LONGEST[self._options.chaos]  # also where nobody is left to stop it
        command = [*self._options.program, "run", "--until-idle", "--max-wait", f"{longest:g}s"]
        command += ["--config", str(folder / plan.CONFIG_FILE)]
        environment = self._environment | (chaos.environment if chaos else {})
        with (folder / plan.ENGINE_LOG).open("ab") as output:
            engine = subprocess.Popen(
                command,
                env=environment,
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        try:
            self._watch(engine, config, chaos, begun + longest)
        finally:
            stage.end(engine, config.engine.stop_grace + 10.0)
            stage.end_engine(config, engine.pid)
            if chaos is not None:
                self._note_kills(chaos.kills)
        return engine.returncode

    def _watch(
        self, engine: subprocess.Popen[bytes], config: Config, chaos: Chaos | None, deadline: float
    ) -> None:
        held = chaos is not None
        with open_view(config) as view:
            while engine.poll() is None:
                if self._clock.monotonic() > deadline:
                    self._tell("it does not end: stopped")
                    return
                if chaos is not None:
                    chaos.tick(view)
                    if held and chaos.is_over:
                        call(config, "release", ACTOR, scope=plan.HELD_BACK)
                        held = False
                self._progress(view.counts())
                self._rest()
            self._progress(view.counts())

    def _rest(self) -> None:
        """Here, and nowhere between the start of a process and its safe keeping, an interruption is taken note of."""
        if self._interrupted():
            raise KeyboardInterrupt
        self._clock.sleep(LOOK)


def prepare(options: Options) -> None:
    """Make the folder: who makes it has it, and any other demo on the same database is refused.

    A database that is there already is left alone: the demo's engine would run whatever is in it.
    """
    if options.database.exists() or (options.folder / plan.RUN_FILE).exists():
        raise _refused(options.database, options.database)
    if options.folder_made:
        return
    try:
        if not options.folder.parent.is_dir():
            options.folder.parent.mkdir(parents=True, exist_ok=True)
        options.folder.mkdir(mode=0o700)
    except FileExistsError:
        if options.folder.exists():
            raise _refused(options.folder, options.database) from None
        raise TaskdeckError(f"{options.folder} can't be made", "it is there, but leads nowhere") from None
    except OSError as error:
        raise TaskdeckError(f"{options.folder} can't be made", error.strerror or str(error)) from None


def _refused(there: Path, database: Path) -> Refused:
    return Refused(
        f"{there} is there already",
        "the demo needs a database of its own",
        f"name a new one, or judge this one: taskdeck demo --check --db {database}",
    )
