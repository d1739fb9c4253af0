"""The worker process: `python -m taskdeck.engine.run.worker`, started by exec by the engine.

Owns its threads and its end: the main thread runs handlers in one loop; a link thread receives; a heartbeat thread beats,
so that no handler can delay either. Without its engine it ends all commands and exits. Never opens the database.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from threading import Event, Thread

from .. import __version__
from ..clock import Clock, system_clock
from ..edge import adoption, identity
from ..edge.link import Link, connect
from ..errors import TaskdeckError
from . import channels, messages
from .executor import Executor
from .handlers import Registry, load
from .journal import StartJournal
from .messages import Answer, Ask, Beat, Farewell, Hello, Manifest, Message, Run, Validate, Welcome
from .strays import Commands
from .uplink import Uplink

CONNECT_WITHIN = 10.0
FLUSH_WITHIN = 5.0


class Worker:
    """One worker and its link to the engine."""

    def __init__(self, link: Link, journal: StartJournal, clock: Clock) -> None:
        self.link = link
        self.journal = journal
        self.clock = clock
        self.commands = Commands(clock)
        self.registry = Registry()
        self.loop = asyncio.new_event_loop()
        self.uplink = Uplink(link.send, self.loop)
        self.executor: Executor | None = None
        self._ended = Event()
        self._finished = asyncio.Event()
        self._finishing: asyncio.Task[None] | None = None

    def introduce(self, incarnation: str) -> None:
        """Say hello; from now on a lost engine ends this process."""
        me = identity.me()
        self.uplink.post(Hello("worker", incarnation, me.pid, me.start_time, me.boot_id, __version__))
        Thread(target=self._listen, name="link", daemon=True).start()

    def serve(self, registry: Registry) -> None:
        """Publish the types and run what the engine sends, until it says farewell or SIGTERM comes."""
        self.registry = registry
        self.uplink.post(Manifest(registry.infos(), registry.problems))
        asyncio.set_event_loop(self.loop)
        self.loop.add_signal_handler(signal.SIGTERM, self._farewell, True)
        self.loop.run_until_complete(self._finished.wait())
        self.uplink.close(FLUSH_WITHIN)

    def _listen(self) -> None:
        """The link thread: hand on what arrives, and end everything when the engine is gone."""
        with suppress(TaskdeckError, ValueError):
            while (body := self.link.receive()) is not None:
                arrived = messages.to_peer(body)
                for message in arrived:
                    if isinstance(message, Welcome):
                        Thread(
                            target=self._beat, args=(message.heartbeat,), name="heartbeat", daemon=True
                        ).start()
                self.loop.call_soon_threadsafe(self._take, arrived)
        sys.setswitchinterval(0.0001)  # a handler that holds the interpreter must not hold this up
        self.commands.end_all()
        os._exit(0)

    def _beat(self, every: float) -> None:
        """The heartbeat thread."""
        own = os.getpid()
        while True:
            fences = self.executor.running() if self.executor else []
            self.uplink.post(Beat(fences, identity.cpu_seconds(own) or 0.0, identity.rss_bytes(own) or 0))
            if self._ended.wait(every):
                return

    def _take(self, arrived: Sequence[Message]) -> None:
        for message in arrived:
            self._take_one(message)

    def _take_one(self, message: Message) -> None:
        match message:
            case Welcome():
                self._begin(message)
            case Answer():
                self.uplink.answered(message)
            case Farewell():
                self._farewell(message.now)
        if self.executor is None:
            return
        match message:
            case Run():
                self.executor.start(message)
            case Ask():
                self.executor.ask(message)
            case Validate():
                self.executor.validate(message)

    def _begin(self, welcome: Welcome) -> None:
        self.executor = Executor(self.registry, self.uplink, self.journal, self.commands, self.clock, welcome)

    def _farewell(self, now: bool) -> None:
        if self.executor is None:
            self._finished.set()
            return
        self.executor.close(now=now)
        if self.executor.idle.is_set():
            self._finished.set()
        else:
            self._finishing = self.loop.create_task(self._finish(self.executor))

    async def _finish(self, executor: Executor) -> None:
        await executor.idle.wait()
        self._finished.set()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one worker to its end."""
    channels.keep_free()
    adoption.adopt_orphans()  # without it only those are found that carry a mark, or stay in their session
    options = _options(arguments)
    # Ctrl+C in the terminal is the engine's to judge. A handler and not SIG_IGN, which commands would inherit.
    signal.signal(signal.SIGINT, lambda *_: None)
    try:
        journal = StartJournal(options.journal)
        link = connect(options.socket, CONNECT_WITHIN)
    except (TaskdeckError, OSError) as error:
        print(f"taskdeck worker: {error}", file=sys.stderr)
        return getattr(error, "exit_code", 1)
    worker = Worker(link, journal, system_clock())
    worker.introduce(options.incarnation)
    worker.serve(load(options.handler, options.handlers_root.resolve()))
    return 0


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m taskdeck.engine.run.worker")
    parser.add_argument("--socket", required=True)
    parser.add_argument("--incarnation", required=True)
    parser.add_argument("--logs", type=Path, required=True)
    parser.add_argument("--journal", type=Path, required=True)
    parser.add_argument("--handlers-root", type=Path, default=Path.cwd())
    parser.add_argument("--handler", action="append", default=[])
    return parser.parse_args(arguments)


if __name__ == "__main__":
    code = main()
    with suppress(OSError, ValueError):
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(code)  # a thread that a handler left behind must not keep the process
