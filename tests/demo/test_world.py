"""The demo's world tells where it is, behaves as it says, keeps what it accepts, and ends when it should."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import stat
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from taskdeck.engine.clock import ManualClock
from taskdeck.engine.demo import catalogue
from taskdeck.engine.demo.proxies import FLAPPING, OFFERS, build, flap
from taskdeck.engine.demo.site import Ledger
from taskdeck.engine.edge.judging import Judge, Outside
from taskdeck.engine.edge.probing import ProbeResult, probe
from taskdeck.engine.rules.route_errors import ErrorType
from tests.demo.worlds import PATIENCE, World, start, world
from tests.eventually import eventually


async def checked(world: World, id: str) -> ProbeResult:
    told = world.told
    outside = Outside((told["ip_url"],), expected_ip=world.proxy(id)["exit_ip"])
    return await probe(world.exit(id), [Judge(told["nonce_url"])], outside)


# ---- what it tells ------------------------------------------------------------------------------------------------


def test_seven_proxies_are_told_each_with_an_address_of_its_own(demo_world: World) -> None:
    proxies = demo_world.told["proxies"]
    assert len(proxies) == 7
    for name in ("id", "port", "exit_ip", "leaves_from", "nature"):
        assert len({each[name] for each in proxies}) == 7, name
    assert {each["group"] for each in proxies} == {"demo"}
    assert {each["scheme"] for each in proxies} == {"http", "socks5"}
    assert demo_world.told["pid"] == demo_world.process.pid


def test_passwords_stand_in_files_for_their_owner_alone(demo_world: World) -> None:
    files = [Path(each["password_file"]) for each in demo_world.told["proxies"] if each["password_file"]]
    assert len(files) == 2
    for file in files:
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
        assert len(file.read_text()) >= 20
        assert file.read_text() not in (demo_world.folder / "world.json").read_text()


# ---- the proxies --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("id", ["http-fast", "http-login", "socks-slow"])
async def test_a_good_proxy_passes_all_stages_from_its_address(demo_world: World, id: str) -> None:
    result = await checked(demo_world, id)
    assert result.error_type is None, result
    assert result.exit_ip == demo_world.proxy(id)["exit_ip"]


@pytest.mark.parametrize(
    ("id", "error"),
    [
        ("http-connect", ErrorType.PROBE_STATUS),
        ("socks-fast", ErrorType.EXIT_IP_MISMATCH),
        ("dead", ErrorType.TCP_REFUSED),
    ],
)
async def test_a_bad_proxy_is_found_out(demo_world: World, id: str, error: ErrorType) -> None:
    assert (await checked(demo_world, id)).error_type is error


async def test_the_slow_proxy_is_slow(demo_world: World) -> None:
    stages = (await checked(demo_world, "socks-slow")).stages
    assert max(stage.ms for stage in stages) >= 150


@pytest.mark.parametrize("id", ["http-login", "socks-slow"])
async def test_a_login_is_asked_for(demo_world: World, id: str) -> None:
    exit = demo_world.exit(id)
    stranger = type(exit)(exit.scheme, exit.host, exit.port, "eve", "guess")
    result = await probe(stranger, [Judge(demo_world.told["nonce_url"])])
    assert result.error_type is ErrorType.PROXY_AUTH


def test_the_connect_proxy_does_open_tunnels(demo_world: World) -> None:
    place = demo_world.told["site"].removeprefix("http://")
    with socket.create_connection(("127.0.0.1", demo_world.proxy("http-connect")["port"]), PATIENCE) as end:
        end.sendall(f"CONNECT {place} HTTP/1.1\r\nHost: {place}\r\n\r\n".encode())
        assert end.recv(4096).startswith(b"HTTP/1.1 200 ")
        end.sendall(f"GET /ip HTTP/1.1\r\nHost: {place}\r\nConnection: close\r\n\r\n".encode())
        with end.makefile("rb") as answer:
            assert answer.read().endswith(b"127.0.0.13")


class Gate(ManualClock):
    """A clock whose pauses end one by one, when told."""

    def __init__(self) -> None:
        super().__init__()
        self.pauses: asyncio.Queue[asyncio.Event] = asyncio.Queue()

    async def pause(self, seconds: float) -> None:
        await self.pauses.put(end := asyncio.Event())
        await end.wait()


async def test_the_flapping_proxy_works_is_away_and_works_again() -> None:
    clock = Gate()
    offer = next(each for each in OFFERS if each.id == FLAPPING)
    async with build(offer, None) as proxy:
        flapping = asyncio.create_task(flap(proxy, clock))
        works = await clock.pauses.get()
        reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
        works.set()
        away = await clock.pauses.get()
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("127.0.0.1", proxy.port)
        with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):  # who was connected is cut off
            await reader.readexactly(1)
        away.set()
        await clock.pauses.get()
        _, again = await asyncio.open_connection("127.0.0.1", proxy.port)
        again.close()
        writer.close()
        flapping.cancel()


async def test_nobody_gets_the_port_of_a_proxy_that_is_away() -> None:
    dead = next(each for each in OFFERS if each.id == "dead")
    async with build(dead, None) as proxy:
        with socket.socket() as other, pytest.raises(OSError, match="in use"):
            other.bind(("127.0.0.1", proxy.port))


# ---- the site -----------------------------------------------------------------------------------------------------


def test_following_cursors_gives_every_item_once(demo_world: World) -> None:
    for name, items in list(catalogue.lists().items())[:2]:
        page, found = demo_world.data("/pages", list=name), []
        while page["next"]:
            found += page["items"]
            page = demo_world.data("/pages", cursor=page["next"])
        assert found + page["items"] == list(items)
        assert page["total"] == len(items)


def test_the_data_are_120_items_and_60_orders() -> None:
    assert sum(map(len, catalogue.lists().values())) == 120
    assert len({each["order_id"] for each in catalogue.orders()}) == 60


@pytest.mark.parametrize(
    ("query", "status"),
    [({"cursor": "books-x"}, 400), ({"cursor": "nothing-3"}, 404), ({"list": "nothing"}, 404)],
)
def test_a_place_that_is_none_is_refused(demo_world: World, query: dict[str, str], status: int) -> None:
    assert demo_world.ask("/pages", **query)[0] == status


def test_the_limited_page_asks_each_key_once_to_come_again(demo_world: World) -> None:
    for key in ("limited-1", "limited-2"):
        status, headers, _ = demo_world.ask("/limited", key=key)
        assert (status, headers["Retry-After"]) == (429, "1")
        assert demo_world.ask("/limited", key=key)[0] == 200


def test_the_flaky_page_fails_twice_for_each_key(demo_world: World) -> None:
    for key in ("flaky-1", "flaky-2"):
        assert [demo_world.ask("/flaky", key=key)[0] for _ in range(4)] == [500, 500, 200, 200]


def test_the_site_says_who_asks_and_echoes(demo_world: World) -> None:
    assert demo_world.data("/whoami")["address"] == "127.0.0.1"
    assert demo_world.ask("/ip")[2] == "127.0.0.1"
    assert demo_world.ask("/nonce", n="ab12")[2] == "ab12"


def test_the_site_counts(demo_world: World) -> None:
    before = demo_world.data("/stats")["paths"]["/stats"]
    stats = demo_world.data("/stats")
    assert stats["paths"]["/stats"] == before + 1
    assert stats["callers"]["127.0.0.1"] >= 2


# ---- the ledger ---------------------------------------------------------------------------------------------------


def test_an_upload_stands_in_the_ledger_before_it_is_answered(demo_world: World) -> None:
    body = {"name": "Zoë", "note": "two\nlines"}
    assert demo_world.data("/upload", {"row": "u/1", "body": body}) == {"row": "u/1", "times": 1}
    last = demo_world.ledger()[-1]
    assert (last["row"], last["body"], last["from"]) == ("u/1", body, "127.0.0.1")
    assert last["at"].endswith("+00:00")
    assert demo_world.data("/upload/u%2F1") == {"row": "u/1", "times": 1}


def test_a_row_that_comes_twice_stands_there_twice(demo_world: World) -> None:
    for times in (1, 2):
        assert demo_world.data("/upload", {"row": "u-2", "body": 0})["times"] == times
    assert Counter(line["row"] for line in demo_world.ledger())["u-2"] == 2


def test_a_row_that_never_came_is_not_there(demo_world: World) -> None:
    assert demo_world.ask("/upload/u-3")[0] == 404


@pytest.mark.parametrize("sent", [[1], {"row": "u-4"}, {"row": 4, "body": 0}, {"row": "", "body": 0}, "text"])
def test_what_is_no_upload_is_refused_and_not_noted(demo_world: World, sent: object) -> None:
    before = len(demo_world.ledger())
    assert demo_world.ask("/upload", sent)[0] == 400
    assert len(demo_world.ledger()) == before


async def test_who_asks_while_a_row_is_written_waits_and_hears_of_it(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger", ManualClock())
    writing = [asyncio.create_task(ledger.accept(f"r-{n}", n, "")) for n in range(20)]
    await asyncio.sleep(0)
    assert await ledger.times("r-19") == 1
    assert len((tmp_path / "ledger").read_text().splitlines()) == 20
    await asyncio.gather(*writing)


async def test_a_ledger_goes_on_behind_its_last_whole_line(tmp_path: Path) -> None:
    path = tmp_path / "ledger"
    path.write_text(json.dumps({"row": "a"}) + "\n" + '{"row": "b')
    ledger = Ledger(path, ManualClock())
    assert (await ledger.times("a"), await ledger.times("b")) == (1, 0)
    await ledger.accept("b", None, "")
    assert [json.loads(line)["row"] for line in path.read_text().splitlines()] == ["a", "b"]


async def test_a_row_that_cannot_be_written_was_not_accepted(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger", ManualClock())
    (tmp_path / "ledger").unlink()
    (tmp_path / "ledger").mkdir()
    with pytest.raises(OSError, match="directory"):
        await ledger.accept("a", None, "")
    assert await ledger.times("a") == 0


# ---- its end ------------------------------------------------------------------------------------------------------


def test_it_ends_when_told_and_a_second_one_keeps_passwords_and_ledger(tmp_path: Path) -> None:
    with world(tmp_path) as first:
        first.data("/upload", {"row": "kept", "body": 1})
        password = first.password("http-login")
        first.process.send_signal(signal.SIGTERM)
        assert first.process.wait(PATIENCE) == 0
    with world(tmp_path) as second:
        assert second.password("http-login") == password
        assert second.data("/upload/kept")["times"] == 1


def test_it_ends_with_whoever_holds_the_other_end_of_the_pipe(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    with world(tmp_path, pass_fds=[reading], environ={"TASKDECK_DEMO_FD": str(reading)}) as made:
        os.close(reading)
        assert made.process.poll() is None
        os.close(writing)
        assert made.process.wait(PATIENCE) == 0


def test_it_cuts_and_mends_the_network_and_drops_a_proxy_as_it_is_told(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    with world(tmp_path, pass_fds=[reading], environ={"TASKDECK_DEMO_FD": str(reading)}) as made:
        os.close(reading)
        site = int(made.told["site"].rpartition(":")[2])
        ports = {"site": site, "http-fast": made.proxy("http-fast")["port"]}

        def order(text: str, *expected: str) -> None:
            os.write(writing, f"{text}\n".encode())
            eventually(lambda: {name for name in ports if _listens(ports[name])} == set(expected), text)

        order("what is this", "site", "http-fast")
        order("cut")
        order("mend", "site", "http-fast")
        order("drop http-fast", "site")
        order("raise http-fast", "site", "http-fast")
        assert made.ask("/ip")[2] == "127.0.0.1"
        os.close(writing)


def _listens(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


@pytest.mark.parametrize("given", ["x", "999"])
def test_a_pipe_that_is_none_is_told_in_one_line(tmp_path: Path, given: str) -> None:
    process = start(tmp_path, environ={"TASKDECK_DEMO_FD": given}, stderr=subprocess.PIPE)
    _, told = process.communicate(timeout=PATIENCE)
    assert (process.returncode, told.decode()) == (
        2,
        "TASKDECK_DEMO_FD is not the number of an open pipe\n",
    )
