from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from taskdeck.engine.errors import NotFound, NotPermitted, SchemaMismatch, StoreError
from taskdeck.engine.rules.filters import EventFilter, Filter, parse, parse_arguments, parse_events
from taskdeck.engine.rules.timing import utc_text
from taskdeck.engine.store.reading import Reader
from taskdeck.engine.store.transaction import SCHEMA_VERSION
from tests.faults import fault
from tests.scratch import Scratch
from tests.seeded import Seed

NOW = "2026-11-29T12:00:00.000000Z"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "taskdeck.db"


@pytest.fixture
def seed(path: Path) -> Iterator[Seed]:
    made = Seed(path)
    yield made
    made.close()


def listed(path: Path, text: str, now: str = NOW) -> list[int]:
    with Reader(path) as reader:
        return reader.task_ids(parse(text), now=now)


def files(folder: Path) -> dict[str, tuple[int, int]]:
    return {entry.name: (entry.stat().st_size, entry.stat().st_mtime_ns) for entry in folder.iterdir()}


def test_a_missing_database_is_not_found_and_not_created(path: Path) -> None:
    with pytest.raises(NotFound) as caught:
        Reader(path)
    assert caught.value.remedy
    assert not list(path.parent.iterdir())


@fault("TF257")
def test_reading_a_closed_database_changes_and_creates_no_file(path: Path) -> None:
    seed = Seed(path)
    seed.task()
    seed.close()
    before = files(path.parent)
    with Reader(path) as reader:
        assert len(reader.tasks(Filter(), now=NOW)) == 1
        assert reader.counts() == {"PENDING": 1}
    assert files(path.parent) == before


def test_a_reader_sees_what_a_writer_commits_later(path: Path) -> None:
    seed = Seed(path)
    seed.task()
    seed.close()
    with Reader(path) as reader:
        assert reader.counts() == {"PENDING": 1}
        version = reader.version()
        writer = Seed(path)
        writer.task()
        assert reader.version() != version
        assert reader.counts() == {"PENDING": 2}
        version = reader.version()
        assert reader.version() == version
        writer.close()
        assert reader.counts() == {"PENDING": 2}


def test_a_reader_can_not_write(seed: Seed) -> None:
    with Reader(seed.path) as reader, pytest.raises(Exception, match=r"readonly|read-only"):
        reader.ask(lambda connection: connection.execute("DELETE FROM task"))


def test_another_schema_is_refused_with_both_versions(path: Path) -> None:
    seed = Seed(path)
    seed.sql("PRAGMA user_version = 99")
    seed.close()
    with pytest.raises(SchemaMismatch) as caught:
        Reader(path)
    assert "99" in caught.value.what
    assert f"schema {SCHEMA_VERSION}" in caught.value.what
    assert caught.value.remedy


@pytest.mark.parametrize(
    "content", [b"", b"not a database, but long enough to be read as a header, surely" * 20]
)
def test_a_file_that_is_no_database_is_refused_in_a_sentence(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    with pytest.raises(StoreError):
        Reader(path)


@fault("TF265")
def test_a_pipe_is_no_database_and_is_not_waited_for(path: Path) -> None:
    os.mkfifo(path)
    with pytest.raises(StoreError, match="no regular file"):
        Reader(path)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_database_of_someone_else_is_not_permitted(seed: Seed) -> None:
    seed.path.chmod(0)
    with pytest.raises(NotPermitted):
        Reader(seed.path)


def test_filters_choose_by_state_type_tag_key_reason_and_id(seed: Seed) -> None:
    first = seed.task(key="a/b", tags=["nightly", "任务"])
    second = seed.task("fetch", {"url": "x"}, state="FAILED", reason="fatal_error")
    third = seed.task("fetch", {"url": "y"}, tags=["night"])
    assert listed(seed.path, "") == [first, second, third]
    assert listed(seed.path, "state:failed,dead") == [second]
    assert listed(seed.path, "type:fetch") == [second, third]
    assert listed(seed.path, "tag:nightly") == [first]
    assert listed(seed.path, "tag:night,任务") == [first, third]
    assert listed(seed.path, 'key:"a/b"') == [first]
    assert listed(seed.path, "reason:fatal_error") == [second]
    assert listed(seed.path, f"{second}-{third}") == [second, third]
    assert listed(seed.path, "type:fetch state:pending") == [third]


def test_text_is_found_in_payload_type_key_and_error_in_any_case(seed: Seed) -> None:
    first = seed.task(payload={"argv": ["./Backup.sh", "100%"]})
    second = seed.task("fetch", {}, error='{"message": "Connection reset"}', key="Ärger")
    assert listed(seed.path, "backup") == [first]
    assert listed(seed.path, '"100%"') == [first]
    assert listed(seed.path, '"connection RESET"') == [second]
    assert listed(seed.path, "FETCH") == [second]
    assert listed(seed.path, "Ärger") == [second]
    assert listed(seed.path, "reset backup") == []


def test_age_is_counted_from_creation(seed: Seed) -> None:
    old = seed.task()
    seed.clock.advance(7200)
    new = seed.task()
    assert listed(seed.path, "age>1h", "2026-11-29T14:00:01.000000Z") == [old]
    assert listed(seed.path, "age<1h", "2026-11-29T14:00:01.000000Z") == [new]


@fault("TF274")
@pytest.mark.parametrize("name", ["a/b", "a b", "-x", "任务", "x" * 300, "a'b", 'a"b', "%", "a,b"])
def test_a_task_with_any_key_is_found_by_it(seed: Seed, name: str) -> None:
    task_id = seed.task(key=name)
    seed.task(key="other")
    with Reader(seed.path) as reader:
        assert reader.task_ids(Filter(keys=(name,)), now=NOW) == [task_id]
        if '"' not in name:
            assert reader.task_ids(parse_arguments([f"key:{name}"]), now=NOW) == [task_id]


def test_a_list_comes_in_windows_newest_first(seed: Seed) -> None:
    made = [seed.task() for _ in range(7)]
    with Reader(seed.path) as reader:
        first = [row["id"] for row in reader.tasks(Filter(), now=NOW, limit=3)]
        rest = [row["id"] for row in reader.tasks(Filter(), now=NOW, before=first[-1])]
    assert first + rest == made[::-1]


def test_a_list_reads_no_whole_payload(seed: Seed) -> None:
    seed.task("fetch", {"text": "x" * 100_000})
    with Reader(seed.path) as reader:
        row = reader.tasks(Filter(), now=NOW)[0]
        assert "payload" not in row
        assert len(row["summary"]) == 1000
        assert len(reader.tasks(Filter(), now=NOW, whole=True)[0]["payload"]) > 100_000


def test_events_come_oldest_first_and_can_be_followed(seed: Seed) -> None:
    first, second = seed.task(), seed.task("fetch", {})
    with Reader(seed.path) as reader:
        rows = reader.events(EventFilter(), now=NOW)
        assert [row["task_id"] for row in rows] == [first, second]
        assert reader.events(EventFilter(), now=NOW, limit=1) == rows[-1:]
        assert reader.events(EventFilter(), now=NOW, after=rows[0]["event_id"]) == rows[1:]
        assert (
            reader.events(parse_events([f"#{second}", "type:task_created", "level:info", "fetch"]), now=NOW)
            == rows[1:]
        )
        assert reader.events(parse_events(["level:error"]), now=NOW) == []


def test_due_tasks_ahead_are_counted_by_priority_time_and_id(seed: Seed) -> None:
    seed.task(effective_priority=1)
    seed.task(effective_priority=1, next_run_at="2027-01-01T00:00:00.000000Z")
    seed.task()
    task = seed.task()
    seed.task()
    with Reader(seed.path) as reader:
        row = reader.tasks(parse(str(task)), now=NOW)[0]
        assert reader.ahead(row, now=NOW) == 2


def test_a_database_that_a_killed_writer_left_behind_is_read_whole(path: Path, tmp_path: Path) -> None:
    seed = Seed(path)
    task = seed.task()
    copy = tmp_path / "copy"
    copy.mkdir()
    for name in ("", "-wal"):  # as the disk looks after kill -9: nothing was moved out of the log
        (copy / f"taskdeck.db{name}").write_bytes(Path(f"{path}{name}").read_bytes())
    seed.close()
    assert listed(copy / "taskdeck.db", "") == [task]


def test_damage_inside_is_a_store_error(path: Path) -> None:
    seed = Seed(path)
    for _ in range(50):
        seed.task("fetch", {"text": "x" * 3000})
    seed.sql("PRAGMA wal_checkpoint(TRUNCATE)")
    seed.close()
    data = bytearray(path.read_bytes())
    for page in range(2, len(data) // 4096):
        data[page * 4096 : page * 4096 + 200] = b"\xff" * 200
    path.write_bytes(data)
    with pytest.raises(StoreError), Reader(path) as reader:
        reader.tasks(Filter(), now=NOW, whole=True)


def test_no_reader_holds_an_old_state_between_two_questions(scratch: Scratch) -> None:
    """Else the write-ahead log could never be taken over while a deck is open."""
    for _ in range(3):
        scratch.running()
    with Reader(scratch.path) as reader:
        now = utc_text(scratch.clock.utc())
        chain = reader.chain(10**9)
        next(chain)
        reader.tasks(Filter(), now=now)
        reader.upcoming(now=now, limit=1)
        reader.task_ids(Filter(), now=now)
        reader.attempts(1)
        reader.counts()
        reader.events(EventFilter(), now=now, limit=1)
        reader.engine()
        reader.head()
        scratch.running()
        busy, frames, copied = scratch.query("PRAGMA wal_checkpoint(TRUNCATE)")[0]
        assert (busy, frames, copied) == (0, 0, 0)


def test_a_reader_follows_the_name_to_the_file_that_has_it_now(tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    there.mkdir()
    writer, other = Scratch(here), Scratch(there)  # an open one, so that a log lies beside it
    for made, count in ((writer, 2), (other, 3)):
        for _ in range(count):
            made.add()
    other.close()
    path = here / "taskdeck.db"
    with Reader(path) as reader:
        before = reader.version()
        assert reader.counts() == {"PENDING": 2}
        path.rename(tmp_path / "away.db")
        assert reader.version() == before
        assert reader.counts() == {"PENDING": 2}
        writer.close()
        for end in ("-wal", "-shm"):
            Path(f"{path}{end}").unlink(missing_ok=True)
        (there / "taskdeck.db").rename(path)
        assert reader.version() != before
        assert reader.counts() == {"PENDING": 3}
