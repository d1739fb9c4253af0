"""The worker process: `python -m taskdeck.engine.run.worker`, started by exec by the engine.

Owns its threads and its end: the main thread runs handlers in one loop; the lifeline's thread receives, and finds the next
engine when one has gone; a heartbeat thread beats, so that no handler can delay either. Never opens the database.
"""

from __future__ import annotations

import gc

if __name__ == "__main__":
    gc.disable()  # what is loaded stays: looking through it again and again is an eighth of a worker's start

import asyncio
import os
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from threading import Event, Thread

from msgspec import Struct

from .. import __version__, cores
from ..clock import Clock, system_clock
from ..edge import adoption, identity
from ..edge.cgroups import Group
from ..edge.link import Link, connect
from ..errors import TaskdeckError, UsageError
from ..garbage import begin_collecting
from ..leaving import leave
from . import channels, kin, later, summons
from .arguments import Arguments
from .executor import Executor
from .fingerprints import fingerprint
from .gateway import Gateway
from .handlers import Registry, load
from .journal import StartJournal
from .lifeline import Lifeline
from .messages import (
    PROTOCOL,
    Answer,
    Ask,
    Beat,
    Bye,
    Farewell,
    Hello,
    Manifest,
    Message,
    Run,
    Validate,
    Welcome,
)
from .spool import Spool
from .strays import Commands
from .uplink import Uplink

CONNECT_WITHIN = 10.0
FLUSH_WITHIN = 5.0
SLACK = 2.0
"""Seconds beyond what attempts are given to end, when there has been no engine for too long."""


class Options(Struct):
    """What a worker is told at its start."""

    socket: str
    incarnation: str
    journal: Path
    handlers_root: Path
    group: Group | None
    handlers: list[str]


class Worker:
    """One worker and its link to the engine."""

    def __init__(self, options: Options, link: Link, journal: StartJournal, clock: Clock) -> None:
        self.journal = journal
        self.clock = clock
        self.commands = Commands(clock, options.group, options.journal.with_suffix(kin.SUFFIX))
        self.registry: Registry | None = None
        self.loop = asyncio.new_event_loop()
        self.spool = Spool(options.journal.with_suffix(".spool"))
        self.uplink = Uplink(None, self.loop, self.spool)
        self.gateway = Gateway(clock)
        self.executor: Executor | None = None
        self._incarnation = options.incarnation
        self._handlers = fingerprint(options.handlers, options.handlers_root)
        self._lifeline = Lifeline(options.socket, link, self.uplink, self, clock)
        self._heartbeat = 0.0
        self._ended = Event()
        self._finished = asyncio.Event()
        self._finishing: asyncio.Task[None] | None = None
        self._later: asyncio.Task[None] | None = None
        self._why = ""

    def introduce(self) -> None:
        """Say hello, to this engine and to each that follows it."""
        self._lifeline.start()

    def serve(self, registry: Registry) -> None:
        """Publish the types and run what engines send, until one says farewell, SIGTERM comes, or there is none for long."""
        asyncio.set_event_loop(self.loop)
        self.loop.add_signal_handler(signal.SIGTERM, self._farewell, True, "terminated")
        self.loop.call_soon(self._publish, registry)
        self.loop.run_until_complete(self._finished.wait())
        self.uplink.post(Bye(self._why))
        self.uplink.close(FLUSH_WITHIN)

    # ---- what the lifeline asks, in its thread -------------------------------------------------------------------

    def hello(self) -> Hello:
        me = identity.me()
        return Hello(
            "worker",
            self._incarnation,
            me.pid,
            me.start_time,
            me.boot_id,
            __version__,
            protocol=PROTOCOL,
            handlers=self._handlers,
            fences=sorted(self.uplink.fences),
            closing=self.executor is not None and self.executor.closing,
        )

    def arrived(self, messages: Sequence[Message]) -> None:
        for message in messages:
            if isinstance(message, Welcome):
                self._keep_beating(message.heartbeat)
        self.loop.call_soon_threadsafe(self._take, messages)

    def is_idle(self) -> bool:
        return self.executor is not None and not self.executor.running() and not self.uplink.fences

    def gave_up(self) -> float:
        grace = self.executor.settings.cancel_grace if self.executor is not None else 0.0
        self.loop.call_soon_threadsafe(self._farewell, True, "no engine came back")
        return grace + SLACK

    def end_now(self) -> None:
        self.commands.end_all()

    # ---- the heart -----------------------------------------------------------------------------------------------

    def _keep_beating(self, every: float) -> None:
        first = not self._heartbeat
        self._heartbeat = every
        if first:
            Thread(target=self._beat, name="heartbeat", daemon=True).start()

    def _beat(self) -> None:
        """The heartbeat thread. It beats also while no descriptor is left to see by what memory we have."""
        own, rss = os.getpid(), 0
        while True:
            executor = self.executor
            fences = executor.running() if executor else []
            with suppress(OSError):
                rss = identity.rss_bytes(own) or 0
            used = os.times()
            cpu = used.user + used.system
            self.uplink.post(Beat(fences, cpu, rss, executor is not None and executor.closing))
            if self._ended.wait(self._heartbeat):
                return

    # ---- the loop ------------------------------------------------------------------------------------------------

    def _publish(self, registry: Registry) -> None:
        self.registry = registry
        if self.executor is not None:
            self.executor.registry = registry
            self._post_manifest()

    def _post_manifest(self) -> None:
        if self.registry is not None:
            self.uplink.post(Manifest(self.registry.infos(), self.registry.problems))

    def _take(self, arrived: Sequence[Message]) -> None:
        for message in arrived:
            if isinstance(message, Run):  # most are
                if self.executor is not None:
                    self.executor.start(message)
            elif isinstance(message, Welcome):
                self._begin(message)
            elif isinstance(message, Farewell):
                self._farewell(message.now, "dismissed by the engine")
            elif self.executor is not None:
                self._pass_on(message, self.executor)

    def _pass_on(self, message: Message, executor: Executor) -> None:
        match message:
            case Answer():
                self.uplink.answered(message)
            case Ask():
                executor.ask(message)
            case Validate():
                executor.validate(message)

    def _begin(self, welcome: Welcome) -> None:
        """Work for this engine: the first, or one that goes on where another was."""
        if self.executor is None:
            registry = self.registry or Registry()
            self.executor = Executor(
                registry, self.uplink, self.journal, self.commands, self.clock, welcome, self.gateway
            )
            self._later = later.begin(later.OF_A_WORKER, self.clock)
        else:
            self.executor.settings = welcome
            self.executor.disown_others(welcome.fences)
        self._post_manifest()

    def _farewell(self, now: bool, why: str) -> None:
        self._why = self._why or why
        if self.executor is None:
            self._finished.set()
            return
        self.executor.close(now=now)
        if self.executor.idle.is_set():
            self._finished.set()
        elif self._finishing is None:
            self._finishing = self.loop.create_task(self._finish(self.executor))

    async def _finish(self, executor: Executor) -> None:
        await executor.idle.wait()
        self._finished.set()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one worker to its end."""
    cores.leave_out_secrets()  # its environment may hold some
    channels.keep_free()
    adoption.adopt_orphans()  # without it only those are found that carry a mark, or stay in their session
    arguments = sys.argv[1:] if arguments is None else arguments
    waits = list(arguments) == [summons.WAIT]
    try:
        options = _options(summons.told() if waits else arguments)
    except UsageError as error:
        print(f"taskdeck worker: {error}", file=sys.stderr)
        return error.exit_code
    if options.group is not None and not options.group.take(0):  # before anything of ours starts anything
        options.group = None
    if waits:
        summons.print_beside(options.journal)
    # Ctrl+C in the terminal is the engine's to judge. A handler and not SIG_IGN, which commands would inherit.
    signal.signal(signal.SIGINT, lambda *_: None)
    os.register_at_fork(after_in_child=_be_no_worker)
    try:
        journal = StartJournal(options.journal)
        link = connect(options.socket, CONNECT_WITHIN)
    except (TaskdeckError, OSError) as error:
        print(f"taskdeck worker: {error}", file=sys.stderr)
        return getattr(error, "exit_code", 1)
    worker = Worker(options, link, journal, system_clock())
    worker.introduce()
    worker.serve(load(options.handlers, options.handlers_root))
    return 0


def _be_no_worker() -> None:
    """A process that a handler forked: what it is sent is meant for it alone, not for the worker's loop (TF145)."""
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_DFL)


def _options(arguments: Sequence[str]) -> Options:
    given = Arguments(arguments, "socket incarnation logs journal handlers-root group handler")
    group = given.get("group")
    return Options(
        socket=given.one("socket"),
        incarnation=given.one("incarnation"),
        journal=Path(given.one("journal")),
        handlers_root=Path(given.get("handlers-root") or Path.cwd()).resolve(),
        group=Group(Path(group)) if group else None,
        handlers=given.all("handler"),
    )


if __name__ == "__main__":
    begin_collecting()
    leave(main())  # a thread that a handler left behind must not keep the process
