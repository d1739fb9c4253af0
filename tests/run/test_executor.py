"""What an attempt leaves behind in its worker: nothing that only a search for cycles would find, and no timer."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from taskdeck.engine.clock import ManualClock, SystemClock
from taskdeck.engine.run.attempt_messages import Run, TypeInfo
from taskdeck.engine.run.executor import Executor
from taskdeck.engine.run.gateway import Gateway
from taskdeck.engine.run.handlers import Handler, Registry
from taskdeck.engine.run.journal import StartJournal
from taskdeck.engine.run.messages import Welcome
from taskdeck.engine.run.strays import Commands
from taskdeck.engine.run.uplink import Uplink

WELCOME = Welcome(1, 30.0, 5.0, 2.0, 1 << 20, 3, [], "", "")


def _executor(folder: Path, function: Callable[..., Any]) -> Executor:
    clock, registry = SystemClock(), Registry({"work": Handler(TypeInfo("work", "here"), function)})
    uplink = Uplink(lambda _: None, asyncio.get_running_loop())
    journal = StartJournal(folder / "journal")
    return Executor(registry, uplink, journal, Commands(clock), clock, WELCOME, Gateway(clock))


async def _returns(ctx: Any) -> str:
    return "done"


async def _raises(ctx: Any) -> None:
    raise ValueError("no")


async def _says_all(ctx: Any) -> None:
    ctx.log("a line")
    ctx.progress(1, 2, "half")
    ctx.event("SEEN")
    await ctx.step("one")
    await asyncio.sleep(0)
    ctx.check()


@pytest.mark.parametrize("function", [_returns, _raises, _says_all])
async def test_an_attempt_that_has_ended_is_freed_at_once(
    tmp_path: Path, function: Callable[..., Any]
) -> None:
    seen: list[weakref.ref[Any]] = []

    async def handler(ctx: Any) -> Any:
        seen.append(weakref.ref(ctx))
        seen.append(weakref.ref(ctx._attempt))
        seen.append(weakref.ref(asyncio.current_task()))
        return await function(ctx)

    executor = _executor(tmp_path, handler)
    gc.disable()
    try:
        executor.start(Run(1, 1, 1, 7, "work", "{}", "{}", 0, 1, 60.0, str(tmp_path / "log"), {}))
        executor.close(now=False)
        await executor.idle.wait()
        for _ in range(3):
            await asyncio.sleep(0)  # the loop lets go of what it has just run
        assert [each() for each in seen] == [None, None, None]
    finally:
        gc.enable()
        executor.uplink.close(5)
        executor.journal.close()


@pytest.mark.parametrize("clock", [SystemClock(), ManualClock()])
async def test_what_a_clock_shall_call_later_is_called_unless_it_is_cancelled(
    clock: SystemClock | ManualClock,
) -> None:
    called: list[str] = []
    over = asyncio.Event()
    clock.call_after(0.0, lambda: called.append("kept"))
    clock.call_after(0.0, lambda: called.append("cancelled")).cancel()
    clock.call_after(0.0, over.set)
    assert called == []
    await asyncio.wait_for(over.wait(), 5)
    assert called == ["kept"]
