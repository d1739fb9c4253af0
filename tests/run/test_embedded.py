"""Where no engine works, who submits writes by itself: all of it, once, and in nobody's way."""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import pytest

from taskdeck.engine import Submitter, embedded, submitting
from taskdeck.engine.commands import call
from taskdeck.engine.config import Config, load
from taskdeck.engine.edge.locks import DatabaseLock, is_held
from taskdeck.engine.errors import InvalidPayload, StorageTrouble, Unavailable
from taskdeck.engine.run import messages as m
from taskdeck.engine.run import throwaway
from taskdeck.engine.store import database
from taskdeck.engine.submitting import TASKS_AT_ONCE, Added
from taskdeck.engine.views import open_view
from tests.eventually import eventually
from tests.run.test_submitting import Answering, configured, engine_at

BOT = "api:bot"
HANDLERS = """
import os
from typing import Annotated
import msgspec
from taskdeck.engine import task

with open({loads!r}, "a") as file:
    file.write("x")


@task("page")
async def page(ctx, number: int) -> None:
    pass


@task("odd")
async def odd(ctx, number: Annotated[int, msgspec.Meta(ge=0)]) -> None:
    pass
"""


def with_handlers(folder: Path) -> Config:
    (folder / "tasks.py").write_text(HANDLERS.format(loads=str(folder / "loads")))
    (folder / "config.toml").write_text('[taskdeck]\nhandlers = ["tasks.py"]\n')
    return load(path=folder / "config.toml", db=folder / "t.db", environ={"HOME": str(folder)}, cwd=folder)


def counting(monkeypatch: pytest.MonkeyPatch, where: Any, name: str) -> list[Any]:
    """The calls of this function from now on."""
    calls: list[Any] = []
    counted = getattr(where, name)
    monkeypatch.setattr(where, name, lambda *args, **options: calls.append(args) or counted(*args, **options))
    return calls


def ids_of(config: Config) -> list[int]:
    """All tasks of the database, of which the audit is whole and tells."""
    with open_view(config) as view:
        assert view.verify_audit().ok
    with closing(sqlite3.connect(f"file:{config.db}?mode=ro", uri=True)) as connection:
        ids = [each for (each,) in connection.execute("SELECT id FROM task ORDER BY id")]
        told = connection.execute(
            "SELECT task_id FROM event_log WHERE event_type = 'TASK_CREATED' ORDER BY 1"
        )
        assert ids == [each for (each,) in told]
    return ids


def added_by_command(config: Config, actor: str = BOT) -> int:
    """What `taskdeck add` does; the new id."""
    (added,) = call(config, "submit", actor, specs=[{"command": {"argv": ["true"], "cwd": "/"}}])
    return added["id"]


async def until_held(config: Config, held: bool = True) -> None:
    await asyncio.to_thread(eventually, lambda: is_held(config.db) is held)


async def several(deck: Submitter, rounds: int) -> list[int]:
    """One caller's tasks, one after the other."""
    return [(await deck.submit_command(["true"])).id for _ in range(rounds)]


async def test_many_callers_share_a_database_that_is_opened_once_and_let_go_when_nothing_comes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = configured(tmp_path)
    monkeypatch.setattr(embedded, "REST", 1.0)  # however busy the machine is
    monkeypatch.setattr(embedded, "LONGEST", float("inf"))
    opened = counting(monkeypatch, database, "open_for_writing")
    async with Submitter(config, BOT) as deck:
        told = await asyncio.gather(*(several(deck, 20) for _ in range(70)))
        assert sorted(each for some in told for each in some) == ids_of(config) == [*range(1, 1401)]
        assert len(opened) == 1
        await until_held(config, False)
        assert await several(deck, 1) == [1401]
        assert len(opened) == 2
    assert not is_held(config.db)


async def test_a_loop_that_stands_still_keeps_nobody_out(tmp_path: Path) -> None:
    config = configured(tmp_path)
    async with Submitter(config, BOT) as deck:
        for number in (1, 3, 5):
            assert await several(deck, 1) == [number]
            assert added_by_command(config) == number + 1  # here, in the loop's thread


@pytest.mark.parametrize("says_so", [True, False])
async def test_others_have_their_turn_while_more_and_more_comes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, says_so: bool
) -> None:
    if says_so:
        monkeypatch.setattr(embedded, "LONGEST", float("inf"))
    else:
        monkeypatch.setattr(embedded, "LONGEST", 0.1)
        monkeypatch.setattr(DatabaseLock, "ask", lambda lock: None)
    config = configured(tmp_path)
    async with Submitter(config, BOT) as deck:
        await several(deck, 1)
        callers = [asyncio.ensure_future(several(deck, 10**9)) for _ in range(3)]
        for _ in range(3):
            await until_held(config)
            await asyncio.to_thread(added_by_command, config, "cli:ann")
        for each in callers:
            each.cancel()
        await asyncio.wait(callers)
    assert len(ids_of(config)) > 3


async def test_an_engine_that_has_come_is_handed_what_comes_then(tmp_path: Path) -> None:
    config, engine = configured(tmp_path), Answering()
    async with Submitter(config, BOT) as deck:
        assert await several(deck, 1) == [1]
        await until_held(config, False)
        async with engine_at(config, engine):
            callers = (deck.submit("page", number) for number in range(2 * TASKS_AT_ONCE))
            assert [each.id for each in await asyncio.gather(*callers)] == [*range(2 * TASKS_AT_ONCE)]
    assert [int(each["payload"]) for some in engine.heard for each in some] == [*range(2 * TASKS_AT_ONCE)]
    assert ids_of(config) == [1]


async def test_an_engine_that_waits_is_let_in_before_all_others(tmp_path: Path) -> None:
    config = configured(tmp_path)
    async with Submitter(config, BOT) as deck, Submitter(config, BOT) as other:
        callers = [asyncio.ensure_future(several(each, 10**9)) for each in (deck, other) for _ in range(3)]
        await until_held(config)
        with DatabaseLock(config.db, role="engine", socket=tmp_path / "e.sock") as lock:
            lock.ask()
            await until_held(config, False)
            await asyncio.sleep(0.1)
            assert not is_held(config.db)
            assert lock.acquire()
        for each in callers:
            each.cancel()
        await asyncio.wait(callers)


async def test_one_that_begins_and_does_not_listen_yet_is_waited_for_and_not_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = configured(tmp_path)
    nobody = tmp_path / "nobody.sock"
    with DatabaseLock(config.db, role="engine", socket=nobody) as lock:
        assert lock.acquire()
        async with Submitter(config, BOT) as deck:
            monkeypatch.setattr(submitting, "PATIENCE", 0.1)
            with pytest.raises(Unavailable, match="its holder does not answer"):
                await deck.submit_command(["true"])
            monkeypatch.setattr(submitting, "PATIENCE", 20)
            waits = [asyncio.ensure_future(deck.submit_command(["true"])) for _ in range(3)]
            await asyncio.sleep(0.1)
            assert not any(each.done() for each in waits)
            lock.release()
            assert [each.id for each in await asyncio.gather(*waits)] == [1, 2, 3]


async def test_another_command_that_keeps_the_database_is_waited_for_and_not_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = configured(tmp_path)
    with DatabaseLock(config.db, role="cli") as lock:
        assert lock.acquire()
        async with Submitter(config, BOT) as deck:
            monkeypatch.setattr(embedded, "PATIENCE", 0.1)
            with pytest.raises(Unavailable, match="its holder does not answer"):
                await deck.submit_command(["true"])
            monkeypatch.setattr(embedded, "PATIENCE", 20)
            waits = asyncio.ensure_future(deck.submit_command(["true"]))
            await asyncio.sleep(0.1)
            lock.release()
            assert await waits == Added(1, True, "PENDING")


async def test_who_waited_long_for_a_command_is_not_refused_when_an_engine_comes_then(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config, engine = configured(tmp_path), Answering()
    monkeypatch.setattr(submitting, "PATIENCE", 0.3)
    with DatabaseLock(config.db, role="cli") as lock:
        assert lock.acquire()
        async with Submitter(config, BOT) as deck:
            waits = asyncio.ensure_future(deck.submit_command(["true"]))
            await asyncio.sleep(0.4)
            engine.says = lambda message: m.Reply(message.req, [7])
            lock.release()
            async with engine_at(config, engine):
                assert (await waits).id in (1, 7)


async def test_who_closes_waits_for_nothing_that_nobody_awaits(tmp_path: Path) -> None:
    config = configured(tmp_path)
    with DatabaseLock(config.db, role="cli") as lock:
        assert lock.acquire()
        deck = Submitter(config, BOT)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(deck.submit_command(["true"]), 0.1)
        await asyncio.wait_for(deck.close(), 5)
    assert not config.db.exists()


async def test_a_database_that_was_removed_is_not_begun_anew(tmp_path: Path) -> None:
    config = configured(tmp_path)
    async with Submitter(config, BOT) as deck:
        assert await several(deck, 1) == [1]
        await until_held(config, False)
        config.db.rename(tmp_path / "kept.db")
        with pytest.raises(StorageTrouble, match=r"t\.db was deleted or moved"):
            await deck.submit_command(["true"])
        assert not config.db.exists()
        (tmp_path / "kept.db").rename(config.db)
        assert await several(deck, 1) == [2]


async def test_what_can_be_written_down_and_not_be_read_is_refused_to_its_own_caller(tmp_path: Path) -> None:
    nested: list[Any] = []
    for _ in range(990):
        nested = [nested]
    async with Submitter(configured(tmp_path), BOT) as deck:
        told = await asyncio.gather(
            *(deck.submit_command(["true"], tags=nested) for _ in range(6)), return_exceptions=True
        )
        assert all(isinstance(each, Exception) for each in told)
        assert await several(deck, 1) == [1]


async def test_handlers_are_loaded_once_for_many_and_each_payload_is_judged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = with_handlers(tmp_path)
    async with Submitter(config, BOT) as deck:

        async def caller(first: int) -> list[int]:
            return [(await deck.submit("page", number)).id for number in range(first, first + 20)]

        await asyncio.gather(*(caller(first) for first in range(40)))
        assert (tmp_path / "loads").read_text() == "x"
        wrong, below, unknown, odd, good = await asyncio.gather(
            deck.submit("page", "x"), deck.submit("odd", -1), deck.submit("nobody", 1), deck.submit("odd", 3),
            deck.submit("page", 1), return_exceptions=True,
        )  # fmt: skip
        assert all(isinstance(each, InvalidPayload) for each in (wrong, below, unknown))
        assert isinstance(odd, Added)
        assert isinstance(good, Added)
        assert (tmp_path / "loads").read_text() == "xx"
        monkeypatch.setattr(embedded, "SURVEY_HOLDS", 0.0)
        (tmp_path / "tasks.py").write_text("")
        assert isinstance(
            (await asyncio.gather(deck.submit("odd", 3), return_exceptions=True))[0], InvalidPayload
        )
        with pytest.raises(InvalidPayload, match="no handler for type 'page'"):
            await deck.submit("page", 1)
    assert len(ids_of(config)) == 802


class Slow:
    """Handlers that are not loaded before they may."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.asked, self.may_answer = threading.Event(), threading.Event()
        survey = throwaway.Handlers.survey

        def slowly(handlers: throwaway.Handlers) -> throwaway.Survey:
            self.asked.set()
            assert self.may_answer.wait(20)
            return survey(handlers)

        monkeypatch.setattr(throwaway.Handlers, "survey", slowly)


@asynccontextmanager
async def asking(config: Config, handlers: Slow) -> AsyncIterator[tuple[Submitter, asyncio.Future[Added]]]:
    """A Submitter, and a caller whose payload handlers are asked of by now."""
    async with Submitter(config, BOT) as deck:
        caller = asyncio.ensure_future(deck.submit("page", 1))
        await asyncio.to_thread(handlers.asked.wait, 20)
        yield deck, caller


async def test_who_waits_for_handlers_holds_no_database(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config, handlers = with_handlers(tmp_path), Slow(monkeypatch)
    async with asking(config, handlers) as (deck, waits):
        assert await several(deck, 1) == [1]
        await until_held(config, False)
        handlers.may_answer.set()
        assert await waits == Added(2, True, "PENDING")


async def test_whoever_waits_for_handlers_keeps_no_command_waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config, handlers = with_handlers(tmp_path), Slow(monkeypatch)
    async with Submitter(config, BOT) as deck:
        waits = []
        for number in range(9):
            waits.append(asyncio.ensure_future(deck.submit("page", number)))
            await asyncio.sleep(0.01)
        await asyncio.to_thread(handlers.asked.wait, 20)
        assert await several(deck, 3) == [1, 2, 3]
        assert await asyncio.to_thread(added_by_command, config) == 4
        handlers.may_answer.set()
        assert {each.id for each in await asyncio.gather(*waits)} == {*range(5, 14)}
    assert len((tmp_path / "loads").read_text()) <= 2


async def test_handlers_that_could_not_be_loaded_in_time_are_not_tried_again_at_once(tmp_path: Path) -> None:
    config = with_handlers(tmp_path)
    tried = tmp_path / "loads"
    (tmp_path / "tasks.py").write_text(f"open({str(tried)!r}, 'a').write('x'); import os; os._exit(3)")
    async with Submitter(config, BOT) as deck:
        for number in range(3):
            with pytest.raises(Unavailable, match="could not be asked"):
                await deck.submit("page", number)
        assert tried.read_text() == "x"


async def test_who_asks_handlers_may_be_cancelled_and_no_caller_waits_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    handlers = Slow(monkeypatch)
    async with asking(with_handlers(tmp_path), handlers) as (deck, caller):
        for each in asyncio.all_tasks() - {asyncio.current_task(), caller}:
            each.cancel()
        (answer,) = await asyncio.gather(caller, return_exceptions=True)
        assert isinstance(answer, Unavailable)
        handlers.may_answer.set()
        assert await deck.submit("page", 2) == Added(1, True, "PENDING")


@pytest.mark.parametrize("passes", range(1, 8))
async def test_who_begins_to_ask_handlers_may_be_cancelled_too(tmp_path: Path, passes: int) -> None:
    config = with_handlers(tmp_path)
    async with Submitter(config, BOT) as deck:
        assert await several(deck, 1) == [1]
        callers = [asyncio.ensure_future(each) for each in (several(deck, 1), deck.submit("page", 1))]
        for _ in range(passes):
            await asyncio.sleep(0)
        for each in asyncio.all_tasks() - {asyncio.current_task(), *callers}:
            each.cancel()
        for answer in await asyncio.gather(*callers, return_exceptions=True):
            assert isinstance(answer, Added | Unavailable | list)
        assert (await deck.submit("page", 2)).created


async def test_trouble_of_the_disk_is_told_to_each_and_is_over_when_it_is_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = configured(tmp_path)
    async with Submitter(config, BOT) as deck:
        assert await several(deck, 1) == [1]
        await until_held(config, False)
        with monkeypatch.context() as patch:

            def full(*_: Any) -> Any:
                raise StorageTrouble("the disk is full")

            patch.setattr(database, "open_for_writing", full)
            told = await asyncio.gather(*(several(deck, 1) for _ in range(3)), return_exceptions=True)
            assert [str(each) for each in told] == ["the disk is full"] * 3
        assert await several(deck, 1) == [2]


PROGRAM = """
import asyncio, os, sys
from pathlib import Path
from taskdeck.engine import Submitter
from taskdeck.engine.config import load

async def main():
    deck = Submitter(load(db=Path(sys.argv[1]), environ=dict(os.environ)), "api:bot")
    async def caller():
        while True:
            added = await deck.submit_command(["true"], cwd="/")
            os.write(1, b"%d\\n" % added.id)
            if sys.argv[2] == "once":
                return
    await asyncio.gather(*(caller() for _ in range(20)))

asyncio.run(main())
"""


def started(config: Config, how: str) -> subprocess.Popen[bytes]:
    program = [sys.executable, "-c", PROGRAM, str(config.db), how]
    pipe, home = subprocess.PIPE, str(config.db.parent)
    return subprocess.Popen(program, stdout=pipe, stderr=pipe, env={**os.environ, "HOME": home})


def test_who_never_closes_it_ends_all_the_same(tmp_path: Path) -> None:
    config = configured(tmp_path)
    with started(config, "once") as process:
        told, complaints = process.communicate(timeout=20)
    assert (process.returncode, complaints) == (0, b"")
    assert sorted(map(int, told.split())) == ids_of(config)


def test_what_was_told_stays_when_who_submits_is_killed(tmp_path: Path) -> None:
    config = configured(tmp_path)
    with started(config, "on and on") as process:
        assert process.stdout
        told = [process.stdout.readline() for _ in range(500)]
        process.send_signal(signal.SIGKILL)
        told += process.stdout.readlines()
    added_by_command(config)  # nothing is held any more
    assert {int(each) for each in told if each.endswith(b"\n")} < {*ids_of(config)}
