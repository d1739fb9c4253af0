"""The process of one sync handler: `python -m taskdeck.engine.run.sync_handler`, started by a worker for one attempt.

It is given the attempt over an inherited socket, loads the one file that declares the type, and says how the handler ended.
A process that the handler forks is none of it: where it comes back as if it were the handler, it ends. Must not run
anything else.
"""

from __future__ import annotations

import gc

if __name__ == "__main__":
    gc.disable()  # what is loaded stays, and most such processes end before there is anything to collect

import os
import socket
import sys
from pathlib import Path
from typing import Any

import msgspec

from .. import StopRequested
from ..clock import Clock, SystemClock
from ..garbage import begin_collecting
from ..leaving import leave
from ..rules import payloads
from ..rules.failures import Failure, FailureClass
from .attempt_messages import Run
from .endings import InDoubt, Judged, told
from .handlers import Handler, load_type
from .held import Held
from .resuming import resume
from .sync_context import SyncContext
from .sync_link import Stops, WorkerLink


def main() -> int:
    """Run one attempt to its end."""
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    clock = SystemClock()
    stops = Stops(clock)  # nobody is stopped but while the handler runs
    sock = socket.socket(fileno=int(os.environ.pop("TASKDECK_FD")))
    sock.set_inheritable(False)
    link = WorkerLink(sock, stops)
    try:
        given = link.receive()
        run = msgspec.convert(given["run"], Run)
        stops.listen()
        said = _ended(given, run, link, stops, clock)
        if not link.is_ours:  # the handler forked this process: the attempt hears nothing of its end
            leave(0)
        link.ask(**said)
    except StopRequested:  # the worker is gone: nobody is there to be told
        return 1
    finally:
        stops.forget()
    return 0


def _ended(given: dict[str, Any], run: Run, link: WorkerLink, stops: Stops, clock: Clock) -> dict[str, Any]:
    """How the handler ended, in the words of `handler_protocol`."""
    held = Held(run, lambda: os.environ.get("TASKDECK_PROXY", ""))
    try:
        with stops.let_in():
            handler = _load(given["source"], Path(given["root"]), run.type)
        begin_collecting()
        if not link.is_ours:  # the file forked while it was loaded
            leave(0)
        context = SyncContext(run, held, handler, link, stops, clock)
        context.begin(resume(run, handler))
        result = context.roll_back() if run.step else _call(handler, context, stops, run.payload)
        if not link.is_ours:
            leave(0)
        return {"returned": "" if result is None else payloads.encode(result)}
    except InDoubt as error:
        return {"in_doubt": str(error)}
    except BaseException as error:  # this process's border: whatever is raised becomes an outcome
        if isinstance(error, StopRequested) and stops.asked:
            return {"stopped": True}
        if isinstance(error, SystemExit) and isinstance(error.code, int | None) and not link.is_ours:
            leave(error.code or 0)
        sys.stdout.flush()
        sys.stderr.write(held.redactor.text(told(error)).rstrip() + "\n")
        if not link.is_ours:
            leave(1)
        return {"failed": msgspec.to_builtins(held.failure(error, clock.utc()))}


def _load(source: str, root: Path, name: str) -> Handler:
    registry = load_type(name, source, root)
    handler = registry.get(name)
    if handler is None or not handler.info.sync:
        why = "; ".join(registry.problems) or "its file declares it no more"
        story = f'type "{name}" can\'t be loaded: {why}'
        raise Judged(Failure(FailureClass.RETRYABLE, "handler_gone", story, "loading"))
    return handler


def _call(handler: Handler, context: SyncContext, stops: Stops, payload: str) -> Any:
    """The handler's result; one that is there counts, even if a stop arrived in that moment."""
    assert handler.function is not None
    results: list[Any] = []
    try:
        with stops.let_in():
            results.append(handler.function(context, *handler.arguments(payload)))
    except StopRequested:
        if not results:
            raise
    finally:
        context.settle(succeeded=bool(results))
    return results[0]


if __name__ == "__main__":
    sys.exit(main())
