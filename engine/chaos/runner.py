"""Runs one storm: the world, an engine that is kept running, people at work, the faults in their time; then peace, and the
judgement.

Everything it starts is ended again, whatever happens. Shows nothing itself: `tell` takes the second and a sentence. Where
`interrupted` says so, it ends with `KeyboardInterrupt`.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..clock import OFFSET_VARIABLE, Clock, SystemClock
from ..config import Config, load
from ..demo import plan as demo_plan
from ..demo import stage
from ..demo.invariants import AT_REST, Outside, Verdicts
from ..edge import identity, trees
from ..edge.paths import database_hash
from ..errors import TaskdeckError, UsageError
from ..views import open_view
from . import faults, judging, plan
from .disk import Disk
from .inflicting import Inflictor
from .keeper import Keeper
from .people import People

LOOK = 0.05
BEGINS_WITHIN = 30.0
"""Seconds in which the first engine must work."""
SETTLES_WITHIN = 90.0
"""Seconds after the storm in which every task must have come to rest."""


@dataclass
class Options:
    """What a storm is run with. `program`: the words that start `taskdeck`; `folder`: an empty one for everything."""

    folder: Path
    program: Sequence[str]
    seed: int
    seconds: float


@dataclass
class Report:
    """How it went. Counts by name."""

    verdicts: Verdicts
    faults: Mapping[str, int]
    missed: Mapping[str, int]
    acts: Mapping[str, int]
    unanswered: int
    restarts: int
    """How often a supervisor had to be started again from outside."""
    seconds: float
    disk: str
    """Why no small disk could be filled; empty = it could."""


class Runner:
    """One storm."""

    def __init__(
        self,
        options: Options,
        tell: Callable[[float, str], None],
        interrupted: Callable[[], bool] = lambda: False,
        clock: Clock | None = None,
    ) -> None:
        self._options = options
        self._folder = options.folder
        self._tell = tell
        self._interrupted = interrupted
        self._clock = clock or SystemClock()
        self._begun = self._clock.monotonic()
        self._told_at = 0.0
        self._restarts = 0
        self._seen: list[tuple[int, str]] = []

    def run(self) -> Report:
        """All of it. Raises `TaskdeckError` where it can't even begin."""
        options = self._options
        (self._folder / judging.jobs.LOCKS).mkdir()
        (self._folder / demo_plan.RUN_FILE).write_text('{"chaos": true, "kills": []}\n')
        offset = self._folder / "clock-offset"
        offset.write_text("0\n")
        with self._disk() as disk, stage.world(self._folder, options.seed, self._clock, self._rest) as world:
            config = self._configure(world.places, disk)
            environment = {**stage.environment(), OFFSET_VARIABLE: str(offset)}
            keeper = Keeper(
                config, options.program, environment, self._folder / demo_plan.ENGINE_LOG, self._clock
            )
            people = People(
                config,
                options.seed,
                plan.tasks(options.seed, world.places["site"], self._folder),
                self._clock,
            )
            inflictor = Inflictor(keeper, world, disk, self._clock, offset, self._said)
            why_not = disk.why_not
            try:
                self._work(config, keeper, people, inflictor)
            finally:
                inflictor.heal()
                keeper.end(config.engine.stop_grace + 15.0)
                self._look_for_leftovers(config)
                database = self._keep(disk)
        self._said("judging")
        outside = Outside(people.acknowledged, told=[*self._seen, *people.problems])
        verdicts = judging.examine(database, self._folder, outside)
        seconds = self._clock.monotonic() - self._begun
        return Report(
            verdicts,
            dict(inflictor.counts),
            dict(inflictor.missed),
            dict(people.acts),
            people.unanswered,
            self._restarts,
            seconds,
            why_not,
        )

    # ---- before and after ----------------------------------------------------------------------------------------

    @contextmanager
    def _disk(self) -> Iterator[Disk]:
        disk = Disk(self._folder / "disk")
        if not disk.small:
            self._said(
                f"no small disk can be mounted here ({disk.why_not}): it is not filled, files are kept from growing"
            )
        try:
            yield disk
        finally:
            disk.drop()

    def _configure(self, world: Mapping[str, Any], disk: Disk) -> Config:
        path = self._folder / demo_plan.CONFIG_FILE
        path.write_text(
            plan.configuration(world, disk.path / "taskdeck.db", disk.path / "logs"), encoding="utf-8"
        )
        return load(path=path, environ=stage.environment())

    def _keep(self, disk: Disk) -> Path:
        kept = self._folder / "kept"
        disk.give_up(kept)
        return kept / "taskdeck.db"

    def _look_for_leftovers(self, config: Config) -> None:
        """Nothing that the engines started lives on."""
        deadline = self._clock.monotonic() + 5.0
        while (left := trees.find(f"{database_hash(config.db)}:")) and self._clock.monotonic() < deadline:
            self._clock.sleep(LOOK)
        for each in left:
            self._seen.append((4, f"process {each.pid} was left behind when everything had ended"))
        trees.end_tree(f"{database_hash(config.db)}:", grace=0.0, clock=self._clock)

    # ---- the storm -----------------------------------------------------------------------------------------------

    def _work(self, config: Config, keeper: Keeper, people: People, inflictor: Inflictor) -> None:
        drawn = faults.draw(self._options.seed, self._options.seconds)
        keeper.tick()
        self._until_it_works(config, keeper)
        with ExitStack() as self._opened:
            self._view = self._opened.enter_context(open_view(config))
            people.begin()
            start = self._clock.monotonic()
            self._said(f"the storm begins: {len(drawn)} faults in {self._options.seconds:g} s")
            waiting = deque(drawn)
            while self._clock.monotonic() < start + self._options.seconds:
                self._tick(config, keeper, people, inflictor)
                if waiting and self._clock.monotonic() >= start + waiting[0].at:
                    inflictor.inflict(waiting.popleft(), self._view)
            self._said("peace: everything is mended, and has to come to rest")
            inflictor.heal()
            self._settle(config, keeper, people, inflictor)

    def _tick(self, config: Config, keeper: Keeper, people: People, inflictor: Inflictor) -> int:
        """One look at everything. Returns how many tasks are not at rest."""
        if keeper.tick():
            self._restarts += 1
            self._said("nobody supervises an engine: started again")
        inflictor.tick()
        try:
            counts = self._view.counts()
        except TaskdeckError as error:  # on a full disk nobody may be able to read, either
            self._said(f"it can't be looked at: {error}")
            self._clock.sleep(LOOK * 10)
            with suppress(TaskdeckError):
                self._view = self._opened.enter_context(open_view(config))
            return people.open
        people.open = sum(count for state, count in counts.items() if state not in AT_REST)
        if self._clock.monotonic() >= self._told_at + 1.0:
            self._told_at = self._clock.monotonic()
            self._said(
                "  ".join(f"{count} {state}" for state, count in counts.items() if count) or "no task yet"
            )
            self._count_engines(config)
        self._rest()
        return people.open

    def _settle(self, config: Config, keeper: Keeper, people: People, inflictor: Inflictor) -> None:
        deadline = self._clock.monotonic() + SETTLES_WITHIN
        asked, ask_at = False, 0.0
        while self._clock.monotonic() < deadline:
            left = self._tick(config, keeper, people, inflictor)
            if not asked and people.go_home(0.0) and self._clock.monotonic() >= ask_at:
                asked, ask_at = self._ask(people), self._clock.monotonic() + 1.0
            elif asked and left == 0:
                return
        self._said(f"not everything has come to rest within {SETTLES_WITHIN:g} s")

    def _ask(self, people: People) -> bool:
        try:
            people.last_orders()
        except UsageError:
            raise
        except TaskdeckError as error:
            self._said(f"no answer yet: {error}")
            return False
        return True

    def _until_it_works(self, config: Config, keeper: Keeper) -> None:
        deadline = self._clock.monotonic() + BEGINS_WITHIN
        while not (config.db.exists() and keeper.engine and _works(config)):
            keeper.tick()
            if self._clock.monotonic() > deadline:
                raise TaskdeckError("no engine came up", f"see {self._folder / demo_plan.ENGINE_LOG}")
            self._rest()

    def _count_engines(self, config: Config) -> None:
        if len(found := writers(config.db)) > 1:
            self._seen.append(
                (9, f"processes {', '.join(map(str, found))} have the database open for writing at once")
            )

    # ---- telling -------------------------------------------------------------------------------------------------

    def _said(self, text: str) -> None:
        self._tell(self._clock.monotonic() - self._begun, text)

    def _rest(self) -> None:
        if self._interrupted():
            raise KeyboardInterrupt
        self._clock.sleep(LOOK)


def _works(config: Config) -> bool:
    try:
        with open_view(config) as view:
            return bool(stage.ready(view))
    except TaskdeckError:
        return False


def writers(database: Path) -> list[int]:
    """The engines that have the database open for writing, by pid.

    A child of one is none: it is about to become another program, and has its parent's files until then.
    """
    found = [
        int(entry.name)
        for entry in Path("/proc").iterdir()
        if entry.name.isdecimal() and _is_engine(entry) and _writes(entry, str(database))
    ]
    children = [pid for pid in found if (who := identity.read(pid)) is None or who.parent in found]
    return sorted(set(found) - set(children))


def _is_engine(process: Path) -> bool:
    try:
        return b"taskdeck.engine.main" in (process / "cmdline").read_bytes().split(b"\0")
    except OSError:
        return False


def _writes(process: Path, file: str) -> bool:
    try:
        for fd in (process / "fd").iterdir():
            if os.readlink(fd) == file:
                words = (process / "fdinfo" / fd.name).read_text().split()
                if int(words[words.index("flags:") + 1], 8) & os.O_ACCMODE != os.O_RDONLY:
                    return True
    except (OSError, ValueError):
        pass  # it has ended meanwhile
    return False
