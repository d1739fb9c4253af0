"""The engine's end of a worker's connection, over a real socket."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest_asyncio

from taskdeck.engine.clock import SystemClock
from taskdeck.engine.config import load
from taskdeck.engine.edge import identity
from taskdeck.engine.edge.link import open_link, serve
from taskdeck.engine.rules.redaction import Redactor
from taskdeck.engine.run.messages import Hello, Manifest, TypeInfo, Welcome, encode, from_peer, to_peer
from taskdeck.engine.run.outcomes import Outcomes
from taskdeck.engine.run.policies import Policies
from taskdeck.engine.run.reception import Reception
from taskdeck.engine.run.recording import Recorder
from taskdeck.engine.run.workforce import WorkerHandle, Workforce
from taskdeck.engine.store.writer import Writer
from tests.scratch import Scratch


@pytest_asyncio.fixture
async def workforce(scratch: Scratch, tmp_path: Path) -> AsyncIterator[Workforce]:
    worker_id = scratch.worker("w", os.getpid())
    me = identity.me()
    config, clock = load(db=scratch.path, environ={}, cwd=tmp_path), SystemClock()
    policies = Policies(config)
    writer = Writer(scratch.database, scratch.path, clock=clock, boot_id="b", redactor=Redactor())
    writer.start()
    force = Workforce()
    recorder = Recorder(config, policies, Outcomes(policies, lambda low, high: low))
    reception = Reception(config, clock, writer, recorder, policies, force, lambda: None)
    process: Any = None
    handle = WorkerHandle(
        worker_id, "w", me, process, -1, tmp_path / "j", 4, clock.monotonic(), clock.monotonic()
    )
    force.add(handle)
    reception.expect("w").set_result(handle)

    async def welcome(link: Any) -> None:
        hello, *rest = from_peer(await link.receive())
        assert isinstance(hello, Hello)
        await reception.serve(link, hello, rest)

    server = await serve(tmp_path / "r" / "s.sock", welcome)
    yield force
    await server.close()
    await writer.close()


async def test_what_comes_in_one_frame_with_the_hello_is_heard(workforce: Workforce, tmp_path: Path) -> None:
    link = await open_link(tmp_path / "r" / "s.sock")
    me = identity.me()
    hello = Hello("worker", "w", me.pid, me.start_time, me.boot_id, "0")
    link.send(encode([hello, Manifest([TypeInfo("fetch", "tasks.py:1")], [])]))
    body = await link.receive()
    assert body is not None
    assert isinstance(to_peer(body)[0], Welcome)
    await asyncio.wait_for(workforce.published.wait(), 5)
    assert workforce.types == {"fetch"}
    link.close()
