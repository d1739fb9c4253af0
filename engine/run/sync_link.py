"""The sync handler's end of its socket to the worker: one line out, one line back; and the wish to stop that SIGTERM brings.

Only the process that was started may speak, none that the handler forks.
Any thread may ask; only the main thread is ever stopped, and never in the middle of an exchange or an operation.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from .. import StopRequested
from ..clock import Clock
from ..errors import Refused, rebuild

RING_EVERY = 0.05
"""Seconds."""


class Stops:
    """Turns SIGTERM into `StopRequested`, at once or where what must not be torn apart is whole."""

    def __init__(self, clock: Clock) -> None:
        self.asked = False
        self._clock = clock
        self._over = False
        self._holds = 1
        """Nobody is stopped while it is above 0: at first, until `let_in`."""

    def listen(self) -> None:
        """Main thread only. Processes that the handler forks die of SIGTERM as others do."""
        signal.signal(signal.SIGTERM, self._take)
        heard, rings = socket.socketpair()
        rings.setblocking(False)
        signal.set_wakeup_fd(rings.detach(), warn_on_full_buffer=False)
        threading.Thread(target=self._insist, args=(heard,), name="stops", daemon=True).start()
        os.register_at_fork(after_in_child=self.forget)

    def forget(self) -> None:
        """From now on SIGTERM ends the process."""
        self._over = True
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.set_wakeup_fd(-1)

    def hold(self) -> None:
        """From here on nobody is stopped, until `release`; they nest. `check` afterwards."""
        self._holds += _is_main()

    def release(self) -> None:
        """Undo one `hold`."""
        self._holds -= _is_main()

    @contextmanager
    def held_off(self) -> Iterator[None]:
        """Nobody is stopped in here."""
        self.hold()
        try:
            yield
        finally:
            self.release()

    @contextmanager
    def let_in(self) -> Iterator[None]:
        """In here the main thread may be stopped, where one `hold` stands around."""
        self.release()
        try:
            self.check()
            yield
        finally:
            self.hold()

    def check(self) -> None:
        """Raise `StopRequested` where the task shall pause or stop."""
        if self.asked and not (self._holds and _is_main()):
            raise StopRequested("the task shall pause or stop")

    def _insist(self, heard: socket.socket) -> None:
        """A signal in the moment before a call that blocks is noted by Python but doesn't end the call: ring again."""
        main = threading.main_thread().ident
        assert main is not None
        while heard.recv(1) != bytes([signal.SIGTERM]):
            pass
        while not (self.asked or self._over):
            signal.pthread_kill(main, signal.SIGTERM)
            self._clock.sleep(RING_EVERY)

    def _take(self, *_: object) -> None:
        if not self.asked:
            self.asked = True
            self.check()


class WorkerLink:
    """Asks the worker and waits for its answer."""

    def __init__(self, sock: socket.socket, stops: Stops) -> None:
        self._sock = sock
        self._lines = sock.makefile("rb")
        self._stops = stops
        self._asking = threading.Lock()
        self._pid = os.getpid()

    @property
    def is_ours(self) -> bool:
        """Is this the process that was started, and not one that the handler forked?"""
        return os.getpid() == self._pid

    def receive(self) -> dict[str, Any]:
        """The next line. Raises `StopRequested` where the worker is gone."""
        line = self._lines.readline()
        if not line.endswith(b"\n"):
            raise StopRequested("the worker is gone")
        return json.loads(line)

    def ask(self, **said: Any) -> dict[str, Any]:
        """Say it and wait for the answer. Raises what the worker refused it with, or `StopRequested` after the exchange.

        `Refused` in a process that the handler forked.
        """
        if not self.is_ours:
            raise Refused(
                "a forked child can't speak for the task", remedy="let the handler's own process say it"
            )
        line = json.dumps(said, ensure_ascii=False).encode("utf-8", "surrogatepass") + b"\n"
        with self._stops.held_off(), self._asking:
            try:
                self._sock.sendall(line)
            except OSError:
                raise StopRequested("the worker is gone") from None
            answer = self.receive()
        self._stops.check()  # a stop that came meanwhile was put off, and nobody else may look for long
        if "error" in answer:
            raise rebuild(answer["error"])
        return answer


def _is_main() -> bool:
    return threading.current_thread() is threading.main_thread()
