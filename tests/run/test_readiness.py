"""A resource is handed out only when it is ready: asked when a task wants it, told where the task waits, a fault at last."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from taskdeck.engine.clock import SystemClock
from taskdeck.engine.demo.fakes.server import FakeServer, Reader, Writer, until_gone
from taskdeck.engine.edge.ready_checks import run_check
from taskdeck.engine.rules.declarations import ResourceDeclaration
from taskdeck.engine.rules.readiness import ReadySettings, judge, parse_check
from taskdeck.engine.rules.settings import TaskdeckSettings
from taskdeck.engine.run.readiness import Readiness
from tests.edge.fakes.judge import FakeJudge
from tests.eventually import eventually
from tests.run.engine_double import running
from tests.run.ticking import Engine
from tests.scratch import Scratch


class Desk:
    """An engine's scheduler and its checks over one scratch database, moved by hand."""

    def __init__(self, scratch: Scratch, *resources: ResourceDeclaration) -> None:
        self.scratch = scratch
        scratch.config = structs.replace(scratch.config, taskdeck=TaskdeckSettings(db=scratch.path))
        scratch.declare(*resources)
        self.engine = Engine(scratch)
        self.changes = 0
        self.readiness = Readiness(scratch.config, SystemClock(), self, self._changed)  # type: ignore[arg-type]
        self.engine.leasing.want = self.readiness.want

    async def write(self, unit: Any, *args: Any) -> Any:
        return self.scratch.do(unit, *args)

    def _changed(self) -> None:
        self.changes += 1

    async def tick(self) -> list[Any]:
        """What starts, once all that is asked is answered."""
        started = self.engine.tick()
        await asyncio.sleep(0)  # what was wanted in another thread's way arrives
        await self.readiness.tick()
        while self.readiness._running:
            await asyncio.wait(set(self.readiness._running.values()))
        return started or self.engine.tick()

    def waits(self, pool: str = "gpu") -> str:
        """Why nothing of the pool can be had."""
        from taskdeck.engine.store import readiness, rooms

        def words(tx: Any) -> str:
            pools = rooms.of_pools(tx.connection, tx.now)
            return readiness.without_unready(tx.connection, pools, tx.now)[pool].words

        return self.scratch.do(words)


@pytest.fixture
def scratch(tmp_path: Path) -> Iterator[Scratch]:
    scratch = Scratch(tmp_path, secrets=("hunter2-pass",))
    yield scratch
    scratch.close()


def gpu(ready: str, **fields: Any) -> ResourceDeclaration:
    return ResourceDeclaration("gpu-1", "gpu", ready=ready, **fields)


async def test_it_is_asked_when_a_task_wants_it_and_a_no_is_a_reason_to_wait(
    scratch: Scratch, tmp_path: Path
) -> None:
    script = f"test -e {tmp_path}/free || {{ echo 'only 300 MiB; hunter2-pass'; exit 1; }}"
    desk = Desk(scratch, gpu(f"""cmd:sh -c "{script}" """.strip()))
    await desk.readiness.tick()
    assert scratch.one("SELECT state FROM resource_ready") is None  # nobody wanted it
    task = scratch.add(needs='["gpu"]')
    assert await desk.tick() == []
    assert desk.changes == 1
    assert desk.waits().startswith(
        "gpu-1 is not ready: its check ended with 1: only 300 MiB; *** (asked again at "
    )
    assert (scratch.row(task)["retry_count"], scratch.row(task)["attempt"], scratch.state(task)) == (
        0,
        0,
        "PENDING",
    )
    (tmp_path / "free").touch()
    assert await desk.tick() == []  # it is not asked again before its time
    scratch.clock.advance(10.0)
    [run] = await desk.tick()
    assert (run.task_id, run.resources) == (task, {"gpu": ["gpu-1"]})
    kinds = [
        kind
        for (kind,) in scratch.query(
            "SELECT event_type FROM event_log WHERE resource_id = 'gpu-1' ORDER BY event_id"
        )
    ]
    assert [kind for kind in kinds if "READY" in kind] == ["RESOURCE_NOT_READY", "RESOURCE_READY"]
    await desk.readiness.stop()


async def test_a_yes_stands_for_a_short_time_only(scratch: Scratch, tmp_path: Path) -> None:
    desk = Desk(scratch, gpu(f"cmd:sh -c 'echo x >> {tmp_path}/asked'", capacity=2, ready_for=5.0))
    asked = tmp_path / "asked"
    scratch.add(needs='["gpu"]')
    assert len(await desk.tick()) == 1
    scratch.add(needs='["gpu"]')
    assert len(await desk.tick()) == 1
    assert asked.read_text() == "x\n"
    for run in (1, 2):
        scratch.do(
            lambda tx, run=run: tx.connection.execute(
                "UPDATE resource_slot SET state = 'AVAILABLE', task_id = NULL"
            )
        )
    scratch.clock.advance(5.0)
    scratch.add(needs='["gpu"]')
    assert len(await desk.tick()) == 1
    assert asked.read_text() == "x\nx\n"
    await desk.readiness.stop()


async def test_one_that_fails_again_and_again_is_a_fault_with_an_alert(scratch: Scratch) -> None:
    desk = Desk(scratch, gpu("file:/no/such/file", ready_failures=3))
    scratch.add(needs='["gpu"]')
    for _ in range(3):
        assert await desk.tick() == []
        scratch.clock.advance(60.0)
    assert scratch.slots() == {"gpu-1": "FAULT"}
    told = dict(scratch.query("SELECT reason, message FROM event_log WHERE event_type = 'ALERT_RAISED'"))
    assert set(told) == {"resource_fault", "no_resource"}
    assert "3 checks in a row failed: /no/such/file is not there" in told["resource_fault"]
    await desk.readiness.stop()


def test_one_whose_check_is_taken_back_is_handed_out_unasked(scratch: Scratch) -> None:
    scratch.declare(gpu("tcp:127.0.0.1:1"))
    scratch.declare(gpu(""))
    task = scratch.add(needs='["gpu"]')
    assert [run.task_id for run in Engine(scratch).tick()] == [task]


async def test_it_is_never_asked_twice_at_a_time_and_nothing_of_a_check_is_left_at_the_end(
    scratch: Scratch, tmp_path: Path
) -> None:
    pids = tmp_path / "pids"
    desk = Desk(scratch, gpu(f"cmd:sh -c 'echo $$ >> {pids}; sleep 60 & echo $! >> {pids}; wait'"))
    scratch.add(needs='["gpu"]')
    for _ in range(3):
        assert desk.engine.tick() == []
        await asyncio.sleep(0)
        await desk.readiness.tick()
    assert desk.waits() == "gpu-1 is being checked"
    await asyncio.to_thread(eventually, lambda: pids.exists() and len(pids.read_text().split()) == 2)
    await desk.readiness.stop()
    assert len(pids.read_text().split()) == 2
    assert not any(running(int(pid)) for pid in pids.read_text().split())


async def test_ports_pages_and_files_are_asked_within_their_time() -> None:
    class Silent(FakeServer):
        async def serve(self, reader: Reader, writer: Writer) -> None:
            await until_gone(reader)

    async def asked(text: str, within: float = 5.0) -> tuple[bool, str]:
        return await run_check(
            parse_check(text), within=within, env={}, mark="", stop=-1, clock=SystemClock()
        )

    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
        async with FakeJudge() as judge, Silent() as silent:
            assert await asked(f"tcp:127.0.0.1:{judge.port}") == (True, "")
            assert await asked(f"tcp:127.0.0.1:{port}") == (False, "connection refused")
            assert await asked(judge.url("/204")) == (True, "it answered 204")
            assert await asked(judge.url("/503")) == (False, "it answered 503")
            assert await asked(judge.url("/redirect")) == (False, "it answered 302")
            assert (await asked(judge.url("/garbage")))[0] is False
            assert await asked(silent_url := f"http://127.0.0.1:{silent.port}/", 0.1) == (
                False,
                "no answer within 0.1 s",
            )
            assert silent_url
            assert await asked("file:/etc") == (True, "")


def test_rests_between_failures_grow_to_a_minute_and_the_first_yes_ends_them() -> None:
    settings, failures, rests, fault = ReadySettings(every=10.0, failures=6), 0, [], False
    for _ in range(6):
        found = judge(False, failures, 100.0, settings)
        failures, fault = found.failures, found.fault
        rests.append(found.until - 100.0)
    assert rests == [10.0, 20.0, 40.0, 60.0, 60.0, 60.0]
    assert fault
    assert judge(True, failures, 100.0, settings) == ("ready", 105.0, 0, False)


@pytest.mark.parametrize(
    "text",
    ["", "cmd:", "cmd:'x", "file:relative", "tcp:host", "tcp:h:0", "http:///x", "http://u:p@h/", "ftp://h/"],
)
def test_what_is_no_check_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"expected|quotes"):
        parse_check(text)


def test_the_id_of_a_resource_stands_for_itself_in_its_check() -> None:
    assert parse_check("cmd:check {id} --free 8GB", "gpu-2").argv == ("check", "gpu-2", "--free", "8GB")
