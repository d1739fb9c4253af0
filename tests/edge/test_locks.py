from __future__ import annotations

import fcntl
import json
import os
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest

from taskdeck.engine.edge import identity, locks
from taskdeck.engine.edge.locks import DatabaseLock, is_held, lock_file
from tests.faults import fault

HOLD = """
import sys
from taskdeck.engine.edge.locks import DatabaseLock
lock = DatabaseLock(sys.argv[1], role="engine", incarnation="first", socket="/run/x.sock")
print("held" if lock.acquire() else "refused", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def db(tmp_path: Path) -> Path:
    return tmp_path / "state" / "taskdeck.db"


@contextmanager
def another_process(db: Path) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-c", HOLD, str(db)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        try:
            yield child
        finally:
            child.kill()


def answer(child: subprocess.Popen[str]) -> str:
    assert child.stdout
    return child.stdout.readline().strip()


def snapshot(folder: Path) -> dict[str, tuple[bytes, int, int]]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path): (path.read_bytes(), path.stat().st_mtime_ns, path.stat().st_mode) for path in files}


@fault("TF001")
def test_a_second_process_is_refused_and_told_who_holds_it(db: Path) -> None:
    with another_process(db) as child:
        assert answer(child) == "held"
        lock = DatabaseLock(db)
        assert not lock.acquire()
        assert not lock.held
        holder = DatabaseLock.holder(db)
    assert holder
    assert (holder.pid, holder.role, holder.incarnation) == (child.pid, "engine", "first")
    assert holder.socket == "/run/x.sock"


def test_kill_minus_nine_of_the_holder_frees_the_lock(db: Path) -> None:
    with another_process(db) as child:
        assert answer(child) == "held"
        child.kill()
        child.wait()
        assert not is_held(db)
        assert DatabaseLock.holder(db) is None
        with DatabaseLock(db, role="cli") as lock:
            assert lock.acquire()
            holder = DatabaseLock.holder(db)
            assert holder
            assert holder.identity == identity.me()
            assert holder.role == "cli"


@fault("TF254", "TF256")
def test_a_stale_file_with_the_pid_of_a_living_stranger_does_not_block(db: Path) -> None:
    db.parent.mkdir()
    stale = {"pid": 1, "start_time": 1, "boot_id": "x", "role": "engine"}
    lock_file(db).write_text(json.dumps(stale))
    assert not is_held(db)
    assert DatabaseLock.holder(db) is None
    assert DatabaseLock(db).acquire()


def test_the_words_of_an_earlier_longer_signature_are_gone(db: Path) -> None:
    db.parent.mkdir()
    lock_file(db).write_bytes(b"x" * 100_000)
    lock = DatabaseLock(db)
    assert lock.acquire()
    holder = DatabaseLock.holder(db)
    assert holder
    assert holder.pid == os.getpid()
    lock.release()
    assert lock_file(db).read_bytes() == b""


@fault("TF257")
def test_asking_creates_and_changes_nothing(db: Path) -> None:
    assert not is_held(db)
    assert DatabaseLock.holder(db) is None
    assert not db.parent.exists()

    lock = DatabaseLock(db)
    lock.acquire()
    lock.release()
    lock_file(db).write_text("not ours")
    before = snapshot(db.parent)
    assert not is_held(db)
    assert DatabaseLock.holder(db) is None
    assert snapshot(db.parent) == before


def test_a_question_never_stands_in_the_way_of_a_start(db: Path) -> None:
    lock = DatabaseLock(db)
    lock.acquire()
    lock.release()
    with open(lock_file(db), "rb") as reader:
        assert not locks._is_locked(reader.fileno())
        assert lock.acquire()


@pytest.mark.parametrize("words", [b"", b"{", b"[]", b'{"pid": "one"}', b"\xff\xfe", b"null"])
def test_a_damaged_signature_still_means_held(db: Path, words: bytes) -> None:
    lock = DatabaseLock(db)
    assert lock.acquire()
    lock_file(db).write_bytes(words)
    assert is_held(db)
    assert DatabaseLock.holder(db) is None


def test_the_words_of_a_dead_engine_are_not_those_of_who_took_its_lock(db: Path) -> None:
    dead = subprocess.Popen(["true"])
    gone = identity.of(dead.pid)
    assert gone is not None
    dead.wait()
    lock = DatabaseLock(db, role="cli")
    assert lock.acquire()
    words = locks.Holder(gone.pid, gone.start_time, gone.boot_id, "engine", "its", "/run/its.sock")
    lock_file(db).write_bytes(msgspec.json.encode(words))
    assert is_held(db)
    assert DatabaseLock.holder(db) is None


def test_a_plain_flock_of_a_stranger_keeps_us_out(db: Path) -> None:
    db.parent.mkdir()
    with open(lock_file(db), "wb") as stranger:
        fcntl.flock(stranger, fcntl.LOCK_EX)
        assert not DatabaseLock(db).acquire()
    assert DatabaseLock(db).acquire()


def test_one_process_holds_it_once_and_may_ask_again(db: Path) -> None:
    lock = DatabaseLock(db)
    assert lock.acquire()
    assert lock.acquire()
    assert not DatabaseLock(db).acquire()
    lock.release()
    lock.release()
    assert DatabaseLock(db).acquire()


def test_a_link_to_the_database_meets_the_same_lock(db: Path, tmp_path: Path) -> None:
    link = tmp_path / "link.db"
    link.symlink_to(db)
    lock = DatabaseLock(db)
    assert lock.acquire()
    assert is_held(link)
    assert not DatabaseLock(link).acquire()


def test_files_are_0600_and_new_directories_0700(db: Path) -> None:
    old = os.umask(0)
    try:
        assert DatabaseLock(db).acquire()
    finally:
        os.umask(old)
    assert stat.S_IMODE(lock_file(db).stat().st_mode) == 0o600
    assert stat.S_IMODE(db.parent.stat().st_mode) == 0o700


def test_no_child_inherits_the_lock(db: Path) -> None:
    lock = DatabaseLock(db)
    assert lock.acquire()
    child = subprocess.Popen(["sleep", "60"], close_fds=False)
    ready, tell = os.pipe()
    forked = os.fork()
    if forked == 0:
        os.write(tell, b"held" if lock.held else b"free")
        signal.pause()
    try:
        assert os.read(ready, 4) == b"free"
        lock._forget()  # as a death would: closed, not unlocked
        assert not is_held(db)
        assert os.waitpid(forked, os.WNOHANG) == (0, 0)
    finally:
        child.kill()
        child.wait()
        os.kill(forked, signal.SIGKILL)
        os.waitpid(forked, 0)
        os.close(ready)
        os.close(tell)


def test_a_removed_lock_file_is_noticed(db: Path) -> None:
    lock = DatabaseLock(db)
    assert not lock.intact()
    lock.acquire()
    assert lock.intact()
    lock_file(db).unlink()
    assert not lock.intact()
    lock_file(db).touch()
    assert not lock.intact()


WAIT = """
import sys
from taskdeck.engine.edge.locks import DatabaseLock
lock = DatabaseLock(sys.argv[1], role=sys.argv[2])
assert not lock.acquire()
lock.ask()
print("waits", flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("role", ["engine", "cli"])
def test_a_holder_is_told_that_somebody_waits_as_long_as_he_does(db: Path, role: str) -> None:
    lock = DatabaseLock(db, role="cli")
    assert lock.acquire()
    assert not lock.is_wanted()
    command = [sys.executable, "-c", WAIT, str(db), role]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        assert answer(child) == "waits"
        assert lock.is_wanted()
        assert lock.is_wanted(by_engine=True) is locks.wanted_by_engine(db) is (role == "engine")
        child.kill()
    assert not lock.is_wanted()
    lock.release()


def test_many_may_wait_and_whoever_has_it_waits_no_more(db: Path) -> None:
    held, first, second = (DatabaseLock(db, role="cli") for _ in range(3))
    assert held.acquire()
    for each in (first, second, first):
        assert not each.acquire()
        each.ask()
    assert held.is_wanted()
    first.release()
    assert held.is_wanted()
    held.release()
    assert second.acquire()
    assert not second.is_wanted()
    second.ask()
    assert not second.is_wanted()
    assert not first.is_wanted()
    assert not locks.wanted_by_engine(db.with_name("other.db"))
    second.release()
