from __future__ import annotations

import asyncio
import os
import shutil
import socket
import stat
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskdeck.engine.edge.frames import HEAD, MAX_BODY, Cutter, frame
from taskdeck.engine.edge.link import (
    AsyncLink,
    BadFrame,
    Link,
    LinkLost,
    Server,
    connect,
    open_link,
    serve,
    socket_path,
)
from taskdeck.engine.edge.paths import check_private_directory
from taskdeck.engine.edge.serving import MAX_UNREAD, MAX_UNSENT
from taskdeck.engine.errors import AlreadyRunning, NoEngine, NotPermitted, Refused, Unavailable
from tests.faults import fault


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "run" / "engine.sock"


@pytest.fixture
def pair() -> Iterator[tuple[Link, socket.socket]]:
    ours, theirs = socket.socketpair()
    with Link(ours) as link, theirs:
        yield link, theirs


@asynccontextmanager
async def listening(path: Path, handler: Callable, **options: int) -> AsyncIterator[Server]:
    server = await serve(path, handler, **options)
    try:
        yield server
    finally:
        await server.close()


async def echo(link: AsyncLink) -> None:
    while (body := await link.receive()) is not None:
        link.send(body)
        await link.drain()


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(5):
        for _ in iter(condition, True):
            await asyncio.sleep(0)


def there(path: Path) -> bool:
    return os.path.lexists(path)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


# The shape


@given(st.lists(st.binary(min_size=1, max_size=300)), st.data())
def test_messages_survive_any_cutting_of_the_stream(bodies: list[bytes], data: st.DataObject) -> None:
    stream = b"".join(frame(body) for body in bodies)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)))))
    cutter = Cutter()
    pieces = [stream[a:b] for a, b in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
    assert [body for piece in pieces for body in cutter.feed(piece)] == bodies


@pytest.mark.parametrize("size", [0, MAX_BODY + 1, 2**32 - 1])
def test_a_wrong_length_is_an_error_after_the_good_messages(size: int) -> None:
    got: list[bytes] = []
    with pytest.raises(BadFrame, match="malformed"):
        got.extend(Cutter().feed(frame(b"good") + size.to_bytes(HEAD, "little")))
    assert got == [b"good"]


# The blocking end


def test_the_greatest_message_passes_and_a_greater_one_is_not_sent(
    pair: tuple[Link, socket.socket],
) -> None:
    link, theirs = pair
    other = Link(theirs)
    body = os.urandom(64) * (MAX_BODY // 64)
    sender = threading.Thread(target=link.send, args=(body,))
    sender.start()
    assert other.receive(5) == body
    sender.join()
    with pytest.raises(BadFrame):
        link.send(body + b"x")
    link.send(b"still good")
    assert other.receive(5) == b"still good"


def test_the_peers_end_is_none_even_in_the_middle_of_a_message(pair: tuple[Link, socket.socket]) -> None:
    link, theirs = pair
    theirs.send(frame(b"one") + frame(b"two")[:-1])
    assert link.receive(5) == b"one"
    theirs.close()
    assert link.receive(5) is None
    with pytest.raises(LinkLost):
        link.send(b"x")


def test_rubbish_closes_the_link_with_a_clear_error(pair: tuple[Link, socket.socket]) -> None:
    link, theirs = pair
    theirs.send(b"GET / HTTP/1.1\r\n\r\n")
    with pytest.raises(BadFrame, match="allowed are 1 to"):
        link.receive(5)
    assert theirs.recv(1) == b""
    assert link.receive(5) is None


def test_a_silent_peer_times_out_and_the_link_stays_good(pair: tuple[Link, socket.socket]) -> None:
    link, theirs = pair
    late = frame(b"late")
    theirs.send(late[:5])
    with pytest.raises(Unavailable, match="silent"):
        link.receive(0.01)
    theirs.send(late[5:])
    assert link.receive(5) == b"late"


def test_a_peer_that_takes_nothing_loses_the_link(pair: tuple[Link, socket.socket]) -> None:
    link, _ = pair
    with pytest.raises(LinkLost, match="took nothing"):
        link.send(b"x" * MAX_BODY, timeout=0.01)
    assert link.fileno() == -1


def test_closing_wakes_a_thread_that_waits(pair: tuple[Link, socket.socket]) -> None:
    link, _ = pair
    got: list[bytes | None] = []
    thread = threading.Thread(target=lambda: got.append(link.receive()))
    thread.start()
    link.close()
    thread.join(5)
    assert got == [None]


def test_messages_of_many_threads_never_mix(pair: tuple[Link, socket.socket]) -> None:
    link, theirs = pair
    bodies = [bytes([number]) * 50_000 for number in range(1, 9)]
    threads = [threading.Thread(target=link.send, args=(body,)) for body in bodies]
    for thread in threads:
        thread.start()
    other = Link(theirs)
    assert sorted(other.receive(5) or b"" for _ in bodies) == bodies
    for thread in threads:
        thread.join()


# The listening end


async def test_thread_and_loop_talk_both_ways_and_know_each_other(path: Path) -> None:
    seen = []

    async def handler(link: AsyncLink) -> None:
        seen.append(link.peer())
        await echo(link)

    def talk() -> list[bytes | None]:
        with connect(path, 5) as link:
            assert link.peer().pid == os.getpid()
            for number in range(100):
                link.send(b"%d" % number)
            return [link.receive(5) for _ in range(100)]

    async with listening(path, handler):
        assert await asyncio.to_thread(talk) == [b"%d" % number for number in range(100)]
    assert (seen[0].pid, seen[0].uid) == (os.getpid(), os.getuid())


async def test_great_messages_pass_between_two_loops_ends(path: Path) -> None:
    bodies = [os.urandom(16) * (2**20 // 16) * size for size in (1, 15, 3)]
    async with listening(path, echo):
        link = await open_link(path)
        for body in bodies:
            link.send(body)
        assert [await link.receive() for _ in bodies] == bodies
        link.close()
        await link.wait_closed()
        assert await link.receive() is None


async def test_sends_of_one_pass_leave_together_and_in_order(path: Path) -> None:
    async def handler(link: AsyncLink) -> None:
        for number in range(1000):
            link.send(b"%d" % number)

    async with listening(path, handler):
        link = await open_link(path)
        got = [await link.receive() for _ in range(1001)]
    assert got == [*(b"%d" % number for number in range(1000)), None]


async def test_what_is_queued_at_the_close_still_arrives(path: Path) -> None:
    async with listening(path, echo):
        link = await open_link(path)
        link.send(b"x" * 5_000_000)
        assert len(await link.receive() or b"") == 5_000_000

    def say_bye(link: AsyncLink) -> None:
        link.send(b"bye")
        link.close()

    async with listening(path, say_bye):
        link = await open_link(path)
        assert await link.receive() == b"bye"
        assert await link.receive() is None
        with pytest.raises(LinkLost):
            link.send(b"x")


async def test_rubbish_ends_its_own_link_only(path: Path) -> None:
    errors: list[BadFrame] = []

    async def handler(link: AsyncLink) -> None:
        try:
            await echo(link)
        except BadFrame as error:
            errors.append(error)
            raise

    async with listening(path, handler):
        good = await open_link(path)
        with socket.socket(socket.AF_UNIX) as raw:
            raw.connect(str(path))
            raw.sendall(frame(b"fine") + b"\xff" * 100)
            await asyncio.to_thread(lambda: [*iter(lambda: raw.recv(100), b"")])
        good.send(b"hello")
        assert await good.receive() == b"hello"
    assert len(errors) == 1


async def test_an_error_of_a_handler_is_reported_and_the_server_goes_on(path: Path) -> None:
    reports: list[dict] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, report: reports.append(report))

    async def handler(link: AsyncLink) -> None:
        if await link.receive() == b"bad":
            raise ValueError("mine")
        link.send(b"good")

    async with listening(path, handler) as server:
        link = await open_link(path)
        link.send(b"bad")
        assert await link.receive() is None
        link = await open_link(path)
        link.send(b"x")
        assert await link.receive() == b"good"
        assert await link.receive() is None
    assert [str(report["exception"]) for report in reports] == ["mine"]
    assert not server.links


async def test_a_deaf_peer_is_cut_before_it_fills_the_memory(path: Path) -> None:
    accepted: asyncio.Queue[AsyncLink] = asyncio.Queue()
    async with listening(path, accepted.put_nowait):
        with connect(path, 5):
            link = await accepted.get()
            while link.unsent < MAX_UNSENT - 2**20:
                link.send(b"x" * 2**20)
            with pytest.raises(LinkLost, match="untaken"):
                link.send(b"x" * 2**21)
            await link.wait_closed()


async def test_drain_waits_for_the_peer(path: Path) -> None:
    accepted: asyncio.Queue[AsyncLink] = asyncio.Queue()
    async with listening(path, accepted.put_nowait):
        reader = await open_link(path)
        writer = await accepted.get()
        writer.send(b"x" * 10_000_000)
        waiting = asyncio.ensure_future(writer.drain())
        assert len(await reader.receive() or b"") == 10_000_000
        await asyncio.wait_for(waiting, 5)
        assert writer.unsent == 0


async def test_reading_stops_while_nobody_receives_and_goes_on_after(path: Path) -> None:
    accepted: asyncio.Queue[AsyncLink] = asyncio.Queue()
    body, count = b"x" * 2**20, MAX_UNREAD // 2**20 + 20
    async with listening(path, accepted.put_nowait):
        writer = await open_link(path)
        reader = await accepted.get()
        for _ in range(count):
            writer.send(body)
        await until(lambda: reader._unread > MAX_UNREAD)
        assert writer.unsent > 0
        assert reader._unread < MAX_UNREAD + 3 * 2**20
        assert all([await reader.receive() == body for _ in range(count)])


# Who may, and where


async def test_the_socket_is_private_and_goes_with_the_server(path: Path) -> None:
    old = os.umask(0)
    try:
        async with listening(path, echo):
            assert (mode(path), mode(path.parent)) == (0o600, 0o700)
    finally:
        os.umask(old)
    with pytest.raises(FileNotFoundError):
        mode(path)


@fault("TF182")
async def test_another_user_is_refused_by_the_kernels_word(path: Path) -> None:
    served: list[AsyncLink] = []
    async with listening(path, served.append, uid=os.getuid() + 1):
        with connect(path, 5) as link:
            assert await asyncio.to_thread(link.receive, 5) is None
    assert not served


@fault("TF182")
@pytest.mark.skipif(os.getuid() != 0, reason="only root can be another user")
async def test_another_user_cannot_even_reach_the_socket() -> None:
    path = Path(f"/tmp/taskdeck-test-{os.getpid()}") / "x.sock"  # every directory above lets anyone in
    try:
        async with listening(path, echo):
            os.seteuid(65534)
            try:
                with socket.socket(socket.AF_UNIX) as raw, pytest.raises(PermissionError):
                    raw.connect(str(path))
            finally:
                os.seteuid(0)
    finally:
        os.rmdir(path.parent)


async def test_a_stale_socket_is_replaced_and_an_answered_one_is_not(path: Path) -> None:
    path.parent.mkdir(mode=0o700)
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
    async with listening(path, echo):
        with pytest.raises(AlreadyRunning):
            await serve(path, echo)
        link = await open_link(path)
        link.send(b"still here")
        assert await link.receive() == b"still here"


async def test_a_file_that_is_no_socket_is_left_alone(path: Path) -> None:
    path.parent.mkdir(mode=0o700)
    os.mkfifo(path)
    with pytest.raises(Refused, match="not a socket"):
        await serve(path, echo)
    os.unlink(path)


async def test_a_successors_socket_survives_our_close(path: Path) -> None:
    server = await serve(path, echo)
    os.unlink(path)
    async with listening(path, echo):
        await server.close()
        assert mode(path) == 0o600


async def test_a_removed_socket_is_listened_at_anew_and_standing_links_go_on(
    path: Path, tmp_path: Path
) -> None:
    async with listening(path, echo) as server:
        link = await open_link(path)
        assert server.intact()
        shutil.rmtree(path.parent)
        assert not server.intact()
        blocked = tmp_path / "file" / "engine.sock"
        blocked.parent.touch()
        with pytest.raises(FileExistsError):
            await server.move(blocked)
        assert not server.intact()
        for place in (path, tmp_path / "elsewhere" / "engine.sock"):
            await server.move(place)
            assert server.intact()
            assert mode(place) == 0o600
            for each in (link, await open_link(place)):
                each.send(b"heard")
                assert await each.receive() == b"heard"
        assert not there(path)
    assert not there(place)


def test_nobody_there_says_how_to_start(path: Path) -> None:
    with pytest.raises(NoEngine, match="taskdeck run"):
        connect(path, 1)
    path.parent.mkdir()
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
    with pytest.raises(NoEngine):
        connect(path, 1)


def test_an_overrun_engine_is_unavailable_after_the_time(path: Path) -> None:
    path.parent.mkdir()
    with socket.socket(socket.AF_UNIX) as busy, socket.socket(socket.AF_UNIX) as first:
        busy.bind(str(path))
        busy.listen(0)
        first.connect(str(path))
        with pytest.raises(Unavailable, match="no connection now"):
            connect(path, 0.02)


def test_a_directory_others_may_enter_is_refused(tmp_path: Path) -> None:
    open_to_all = tmp_path / "open"
    open_to_all.mkdir()
    open_to_all.chmod(0o755)
    link = tmp_path / "link"
    link.symlink_to(tmp_path)
    for directory, why in ((open_to_all, "others may enter"), (link, "not a directory")):
        with pytest.raises(NotPermitted, match=why):
            check_private_directory(directory)
    check_private_directory(tmp_path)


def test_the_path_is_short_the_same_by_any_name_and_made_by_nobody(tmp_path: Path) -> None:
    db = tmp_path / ("long" * 50) / "taskdeck.db"
    with TemporaryDirectory(dir="/tmp") as directory:  # as short as a runtime directory is
        runtime = {"XDG_RUNTIME_DIR": directory}
        path = socket_path(db, runtime)
        assert path.parent == Path(directory) / "taskdeck"
        assert len(os.fsencode(path)) < 108
        assert not path.parent.exists()
        link = tmp_path / "link.db"
        link.symlink_to(db)
        assert socket_path(link, runtime) == path
        assert socket_path(tmp_path / "other.db", runtime) != path


@pytest.mark.parametrize("value", [None, "", "relative/dir", "/no/such/dir", "/tmp/" + "x" * 90])
def test_a_useless_runtime_directory_falls_back_to_tmp(tmp_path: Path, value: str | None) -> None:
    environ = {} if value is None else {"XDG_RUNTIME_DIR": value}
    assert socket_path(tmp_path / "a.db", environ).parent == Path(f"/tmp/taskdeck-{os.getuid()}")


def test_a_path_over_the_kernels_limit_is_refused_in_words(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="longer than 107"):
        connect(tmp_path / ("x" * 120), 1)
