"""How each fault is done, and undone when its time is over. Decides nothing about who or when: that is drawn in `faults`.

What lasts is noted with its end; `heal` ends all of it at once, whatever happened.
"""

from __future__ import annotations

import resource
import signal
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from ..clock import Clock
from ..demo import stage
from ..edge import identity
from ..edge.identity import Identity
from ..errors import TaskdeckError
from ..views import View
from .disk import Disk
from .faults import Fault
from .keeper import Keeper

FAR = 90.0
"""Seconds by which the wall clock is off at most, either way."""
TINY = 1
"""Bytes beyond which no file may grow, while none may."""


class Inflictor:
    """Breaks things. `tell` takes each deed in words; `counts` is what was done, `missed` what found nobody to do it to."""

    def __init__(
        self,
        keeper: Keeper,
        world: stage.World,
        disk: Disk,
        clock: Clock,
        offset: Path,
        tell: Callable[[str], None],
    ) -> None:
        self._keeper = keeper
        self._world = world
        self._disk = disk
        self._clock = clock
        self._offset = offset
        self._tell = tell
        self._undo: list[tuple[float, Callable[[], None]]] = []
        self._proxies = [each["id"] for each in world.places["proxies"]]
        self.counts: Counter[str] = Counter()
        self.missed: Counter[str] = Counter()
        self.latest = 0.0
        """By how many seconds the wall clock was ahead at most."""

    def inflict(self, fault: Fault, view: View) -> None:
        """Do it, now."""
        try:
            done = getattr(self, f"_{fault.kind.replace(' ', '_')}")(fault, view)
        except TaskdeckError:
            done = False  # nobody can look who is there: another fault is at work on the disk
        if not done:
            self.missed[fault.kind] += 1
            return
        self.counts[fault.kind] += 1
        for_so_long = f" for {fault.lasts:.1f} s" if fault.lasts else ""
        self._tell(f"{fault.kind}{done if isinstance(done, str) else ''}{for_so_long}")

    def tick(self) -> None:
        """Undo what is over."""
        now = self._clock.monotonic()
        for due in [each for each in self._undo if each[0] <= now]:
            self._undo.remove(due)
            due[1]()

    def heal(self) -> None:
        """Undo everything; the wall clock goes to the latest it ever was, so that nothing waits for a time long ago."""
        for _, undo in self._undo:
            undo()
        self._undo.clear()
        self._set_clock(self.latest)

    def _later(self, fault: Fault, undo: Callable[[], None]) -> None:
        self._undo.append((self._clock.monotonic() + fault.lasts, undo))

    # ---- kills ---------------------------------------------------------------------------------------------------

    def _kill_worker(self, fault: Fault, view: View) -> str:
        return self._kill(fault.of(sorted(stage.busy(view) or stage.ready(view))))

    def _kill_command(self, fault: Fault, view: View) -> str:
        return self._kill(fault.of(_commands(view)))

    def _kill_engine(self, fault: Fault, view: View) -> str:
        return self._kill(self._keeper.engine)

    def _kill_supervisor(self, fault: Fault, view: View) -> str:
        return self._kill(fault.of([each.pid for each in self._keeper.supervisors]))

    def _kill_everything(self, fault: Fault, view: View) -> str:
        """As a power cut would, but for the disk: nobody may see another one die."""
        pids = [each.pid for each in self._keeper.supervisors]
        pids += [pid for pid in (self._keeper.engine,) if pid]
        pids += [each.pid for each in view.workers() if each.pid] + _commands(view)
        known = [who for pid in pids if (who := stage.strike(pid, signal.SIGSTOP))]
        return f" ({len([who for who in known if identity.kill(who, signal.SIGKILL)])} processes)"

    def _kill(self, pid: int | None) -> str:
        return f" {pid}" if pid and stage.strike(pid) else ""

    # ---- stops ---------------------------------------------------------------------------------------------------

    def _stop_worker(self, fault: Fault, view: View) -> str:
        return self._stop(fault, fault.of(sorted(stage.busy(view) or stage.ready(view))))

    _stop_worker_past_its_lease = _stop_worker

    def _stop_command(self, fault: Fault, view: View) -> str:
        return self._stop(fault, fault.of(_commands(view)))

    def _stop_engine(self, fault: Fault, view: View) -> str:
        return self._stop(fault, self._keeper.engine)

    def _stop_supervisor(self, fault: Fault, view: View) -> str:
        return self._stop(fault, fault.of([each.pid for each in self._keeper.supervisors]))

    def _stop(self, fault: Fault, pid: int | None) -> str:
        who = stage.strike(pid, signal.SIGSTOP) if pid else None
        if who is None:
            return ""
        self._later(fault, lambda: _go_on(who))
        return f" {pid}"

    def _start_a_second_engine(self, fault: Fault, view: View) -> bool:
        self._keeper.start()
        return True

    # ---- time ----------------------------------------------------------------------------------------------------

    def _step_clock(self, fault: Fault, view: View) -> str:
        seconds = round((2 * fault.pick - 1) * FAR, 1)
        self._set_clock(seconds)
        return f" to {seconds:+g} s"

    def _set_clock(self, seconds: float) -> None:
        self.latest = max(self.latest, seconds)
        with open(self._offset, "r+b", buffering=0) as file:
            file.write(b"%-20.1f" % seconds)

    # ---- network -------------------------------------------------------------------------------------------------

    def _cut_network(self, fault: Fault, view: View) -> bool:
        self._world.tell("cut")
        self._later(fault, lambda: self._world.tell("mend"))
        return True

    def _silence_network(self, fault: Fault, view: View) -> bool:
        """Connections are taken, by the kernel, and nobody ever answers."""
        return bool(self._stop(fault, self._world.pid))

    def _drop_proxy(self, fault: Fault, view: View) -> str:
        name = fault.of(self._proxies) or ""
        self._world.tell("drop", name)
        self._later(fault, lambda: self._world.tell("raise", name))
        return f" {name}"

    # ---- disk ----------------------------------------------------------------------------------------------------

    def _fill_disk(self, fault: Fault, view: View) -> bool:
        if not self._disk.small:
            return False
        self._disk.fill()
        self._later(fault, self._disk.clear)
        return True

    def _keep_files_from_growing(self, fault: Fault, view: View) -> str:
        """As a quota would: each write of the engine that makes a file longer fails."""
        pid = self._keeper.engine
        who = identity.of(pid) if pid else None
        if who is None or not _limit(who, TINY):
            return ""
        self._later(fault, lambda: self._let_files_grow(who, view))
        return f" (engine {pid})"

    def _let_files_grow(self, who: Identity, view: View) -> None:
        """Of the engine, and of workers that it has started meanwhile and that inherited its limit."""
        _limit(who, None)
        with suppress(TaskdeckError):
            for pid in stage.ready(view):
                if (each := identity.of(pid)) is not None:
                    _limit(each, None)


def _commands(view: View) -> list[int]:
    """The pids of the commands that run, of sync handlers too."""
    running = [int(name[1:].partition(".")[0]) for each in view.workers() for name in each.attempts]
    last = [attempt for number in running for attempt in (view.task(number).attempts or [])[-1:]]
    return sorted(each.command_pid for each in last if each.command_pid and not each.ended_at)


def _go_on(who: Identity) -> None:
    identity.kill(who, signal.SIGCONT)


def _limit(who: Identity, size: int | None) -> bool:
    """Set the soft limit of how long files may grow; None = as long as ever."""
    if not identity.alive(who):
        return False
    try:
        _, hard = resource.prlimit(who.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(who.pid, resource.RLIMIT_FSIZE, (hard if size is None else size, hard))
    except (OSError, ValueError):
        return False
    return True
