from __future__ import annotations

import errno
import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskdeck.engine.clock import ManualClock
from taskdeck.engine.edge.logs import AttemptLog, follow_log, pieces, read_log, size
from tests.faults import fault
from tests.scarce import short_files

lines_of_output = st.binary(max_size=8).filter(lambda line: b"\n" not in line)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "logs" / "42.1.log"


def write(path: Path, *data: bytes, **bounds: int) -> AttemptLog:
    log = AttemptLog(path, **bounds)
    for piece in data:
        log.write(piece)
    log.close()
    return log


def whole(path: Path, **options: int) -> bytes:
    return b"".join(read_log(path, **options))


def test_output_is_kept_byte_for_byte_in_one_private_file(path: Path) -> None:
    old = os.umask(0)
    try:
        log = write(path, b"one\n", b"two", b"\n")
    finally:
        os.umask(old)
    assert whole(path) == path.read_bytes() == b"one\ntwo\n"
    assert (log.total, size(path), log.lost, log.incomplete) == (8, 8, 0, False)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_a_silent_attempt_makes_no_file(path: Path) -> None:
    write(path)
    assert not path.parent.exists()
    assert whole(path) == b""
    assert whole(path, tail=10) == b""
    assert size(path) == 0


@fault("TF146")
def test_bytes_that_are_no_text_are_kept_raw(path: Path) -> None:
    raw = b"caf\351\n\377\376\n\0\x1b[31m" + bytes(range(256))
    log = write(path, raw)
    assert whole(path) == raw
    assert log.tail(2)[-2:] == (raw.split(b"\n"))[-2:]


@fault("TF139")
def test_a_line_of_any_length_passes_and_what_follows_is_seen(path: Path) -> None:
    log = write(
        path, b"x" * 70_000 + b"\n", *[b"y" * 100_000] * 100, b"\nok\n", file_bytes=3_000_000, files=3
    )
    text = whole(path)
    assert text.startswith(b"x" * 70_000 + b"\n")
    assert text.endswith(b"y\nok\n")
    assert b"bytes were cut here]\n" in text
    assert log.tail(1) == [b"ok"]
    assert all(len(line) < 5000 for line in log.tail(10))


@fault("TF113")
def test_a_chatty_attempt_is_bounded_in_memory_and_on_disk(path: Path) -> None:
    code = (
        "import sys, resource\n"
        "from taskdeck.engine.edge.logs import AttemptLog\n"
        "log = AttemptLog(sys.argv[1], file_bytes=1_000_000, files=4)\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "data = (b'y\\n' * 131072)\n"
        "for _ in range(800): log.write(data)\n"
        "log.close()\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before, log.total, log.lost)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, path], capture_output=True, text=True, check=True)
    grown, total, lost = map(int, done.stdout.split())
    assert grown < 10_000  # KiB
    assert (total, lost) == (800 * 262144, 0)
    kept = sum(piece.size for piece in pieces(path))
    assert 2_500_000 < kept <= 4_000_000
    assert f"[taskdeck: {total - kept} bytes were cut here]\n".encode() in whole(path)


def test_the_first_and_the_newest_are_kept(path: Path) -> None:
    lines = [b"line %06d\n" % number for number in range(1000)]
    write(path, *lines, head_bytes=24, file_bytes=240, files=3)
    text = whole(path)
    assert text.startswith(b"line 000000\nline 000001\n[taskdeck: ")
    assert text.endswith(b"line 000999\n")
    cut = int(text.split(b"[taskdeck: ")[1].split()[0])
    kept = text.replace(b"[taskdeck: %d bytes were cut here]\n" % cut, b"")
    assert cut + len(kept) == 12_000
    assert 24 + 240 < len(kept) <= 24 + 480


@given(
    st.lists(st.binary(max_size=60), max_size=30), st.integers(1, 40), st.integers(1, 40), st.integers(1, 5)
)
def test_what_is_read_is_what_was_written_but_for_the_counted_cut(
    tmp_path_factory: pytest.TempPathFactory, data: list[bytes], head: int, most: int, files: int
) -> None:
    path = tmp_path_factory.mktemp("log") / "a.log"
    log = write(path, *data, head_bytes=head, file_bytes=most, files=files)
    output = b"".join(data)
    kept = pieces(path)
    assert log.total == size(path) == len(output)
    assert log.lost == 0
    assert sum(piece.size for piece in kept) <= head + most * (max(files, 2) - 1)
    for piece in kept:
        assert piece.path.read_bytes() == output[piece.offset : piece.end]
    if len(output) <= head + most * (max(files, 2) - 1) - most:
        assert whole(path) == output


@given(st.lists(lines_of_output, max_size=40), st.integers(0, 50), st.integers(1, 30))
def test_the_tail_is_what_tail_would_say(
    tmp_path_factory: pytest.TempPathFactory, parts: list[bytes], lines: int, most: int
) -> None:
    path = tmp_path_factory.mktemp("log") / "a.log"
    output = b"\n".join(parts)
    log = write(path, output, file_bytes=most, files=1000)
    every = [line + b"\n" for line in parts[:-1]] + [line for line in parts[-1:] if line]
    last = every[max(0, len(every) - lines) :]
    assert whole(path, tail=lines) == b"".join(last)
    assert log.tail(lines) == [line.removesuffix(b"\n") for line in last]


def test_the_tail_of_a_huge_line_needs_no_memory(path: Path) -> None:
    write(path, b"start\n", b"x" * 300_000, b"\nlast\n")
    assert whole(path, tail=1) == b"last\n"
    assert len(whole(path, tail=2)) == 300_006
    assert whole(path, tail=3).startswith(b"start\n")
    assert whole(path, tail=0) == b""


def test_reading_goes_on_from_any_byte(path: Path) -> None:
    write(path, b"0123456789" * 10, file_bytes=30, files=10)
    assert whole(path, start=55) == (b"0123456789" * 10)[55:]
    assert whole(path, start=100) == b""


@fault("TF129")
def test_a_removed_directory_is_made_again_and_the_gap_is_shown(path: Path) -> None:
    log = AttemptLog(path)
    log.write(b"before\n")
    shutil.rmtree(path.parent)
    log.write(b"after\n")
    log.write(b"more\n")
    log.close()
    assert whole(path) == b"[taskdeck: 7 bytes were cut here]\nafter\nmore\n"
    assert log.incomplete
    assert "removed" in log.trouble
    assert log.lost == 7


@fault("TF129")
def test_a_directory_removed_after_the_last_word_still_shows_the_loss(path: Path) -> None:
    log = AttemptLog(path)
    log.write(b"all of it\n")
    shutil.rmtree(path.parent)
    log.close()
    assert whole(path) == b"[taskdeck: 10 bytes were cut here]\n"
    assert (log.lost, log.incomplete) == (10, True)
    log.close()


@fault("TF129")
def test_a_directory_that_cannot_be_made_never_hurts_the_command(tmp_path: Path) -> None:
    (tmp_path / "logs").write_text("a file stands where the directory should")
    log = write(tmp_path / "logs" / "a.log", b"one\n", b"two\n")
    assert (log.total, log.lost) == (8, 8)
    assert log.trouble
    assert log.tail(2) == [b"one", b"two"]
    assert whole(tmp_path / "logs" / "a.log") == b""


def test_a_disk_that_takes_no_more_costs_bytes_and_nothing_else(path: Path) -> None:
    with short_files(100):
        log = write(path, b"a" * 150, b"b" * 50, b"c" * 120)
    assert log.trouble == os.strerror(errno.EFBIG)
    assert (log.total, log.lost) == (320, 120)
    gap = b"\n[taskdeck: %d bytes were cut here]\n"
    assert whole(path) == b"a" * 100 + gap % 50 + b"b" * 50 + b"c" * 50 + gap % 70


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full here")
def test_a_full_disk_leaves_no_heap_of_empty_files(path: Path) -> None:
    path.parent.mkdir()
    log = AttemptLog(path)
    log.write(b"kept\n")
    assert log._fd is not None
    full = os.open("/dev/full", os.O_WRONLY)
    os.dup2(full, log._fd)
    os.close(full)
    log.write(b"lost\n")
    log.write(b"kept again\n")
    log.close()
    assert log.trouble == os.strerror(errno.ENOSPC)
    assert log.lost == 5
    assert whole(path) == b"kept\n[taskdeck: 5 bytes were cut here]\nkept again\n"
    assert len(list(path.parent.iterdir())) == 2


def test_a_link_in_the_logs_place_is_not_followed(path: Path, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    path.parent.mkdir()
    path.symlink_to(victim)
    log = write(path, b"lost\n", b"kept\n")
    assert victim.read_text() == "precious"
    assert whole(path) == b"[taskdeck: 5 bytes were cut here]\nkept\n"
    assert (log.incomplete, log.lost) == (True, 5)


def test_an_attempt_that_goes_on_with_its_log_adds_to_it(path: Path) -> None:
    write(path, b"one\n" * 10, file_bytes=15, files=4)
    write(path, b"two\n" * 2, file_bytes=15, files=4)
    assert whole(path).endswith(b"one\ntwo\ntwo\n")
    assert size(path) == 48


def test_the_log_of_another_attempt_is_not_touched(path: Path) -> None:
    write(path, b"x" * 50, file_bytes=10, files=5)
    other = path.with_name("42.1.log.old")
    other.write_text("mine")
    write(path.with_name("2.1.log"), b"y" * 5)
    assert whole(path) == b"x" * 50
    assert all(piece.path.name.startswith("42.1.log") and piece.path != other for piece in pieces(path))


def test_a_follower_sees_all_that_is_added_until_the_end(path: Path) -> None:
    log = AttemptLog(path, file_bytes=10, files=4)
    log.write(b"old line\nnew ")
    steps = iter([lambda: log.write(b"line\n"), lambda: None, lambda: log.write(b"z" * 100 + b"end\n"), None])

    def ended() -> bool:
        step = next(steps)
        if step is None:
            return True
        step()
        return False

    text = b"".join(follow_log(path, ended, ManualClock(), tail=1))
    assert text.startswith(b"new line\n")
    assert b"bytes were cut here]\n" in text
    assert text.endswith(b"zend\n")
    log.close()
