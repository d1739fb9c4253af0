"""What a worker keeps while there is no engine: in order, each once, whatever dies in between."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskdeck.engine.run import spool
from taskdeck.engine.run.messages import Note, OperationBegin, Outcome, Save, encode_one, one_from_peer
from taskdeck.engine.run.spool import Spool


def keep(kept: Spool, message: Any) -> int:
    return kept.add(message, encode_one(message))


def waiting(kept: Spool) -> list[tuple[int, Any]]:
    return [(number, one_from_peer(bytes(raw))) for number, raw in kept.waiting()]


def test_a_checkpoint_in_the_file_is_answered_for_and_an_operation_that_begins_is_not(tmp_path: Path) -> None:
    kept = Spool(tmp_path / "w.spool")
    keep(kept, Save(5, 1, 7, '{"n":1}'))
    keep(kept, OperationBegin(6, 1, 7, "upload"))
    assert kept.write() == [5]
    found = spool.read(tmp_path / "w.spool")
    assert found == [(1, Save(0, 1, 7, '{"n":1}')), (2, OperationBegin(6, 1, 7, "upload"))]
    assert waiting(kept) == found  # and it is sent as one that nobody waits for


def test_a_file_that_takes_nothing_promises_nothing_and_loses_nothing(tmp_path: Path) -> None:
    kept = Spool(tmp_path / "gone" / "w.spool")
    keep(kept, Save(5, 1, 7, "{}"))
    assert kept.write() is None
    assert waiting(kept) == [(1, Save(5, 1, 7, "{}"))]
    (tmp_path / "gone").mkdir()
    assert kept.write() == [5]
    assert len(spool.read(tmp_path / "gone" / "w.spool")) == 1


def test_beyond_its_bound_the_file_drops_notes_and_promises_no_more(tmp_path: Path) -> None:
    kept = Spool(tmp_path / "w.spool", largest=120)
    keep(kept, Save(1, 1, 7, "{}"))
    keep(kept, Note(1, 7, "NOTE", "x" * 200))
    keep(kept, Save(2, 1, 7, f'{{"a":"{"y" * 200}"}}'))
    assert kept.write() == [1]
    assert kept.dropped == 1
    assert [number for number, _ in waiting(kept)] == [1, 3]
    kept.recorded(1)
    assert [number for number, _ in waiting(kept)] == [3]


def test_much_of_it_is_read_from_the_file_and_not_held_in_memory(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(spool, "IN_MEMORY", 1000)
    kept = Spool(tmp_path / "w.spool")
    saves = [Save(0, 1, 7, f'{{"n":{n},"x":"{"z" * 100}"}}') for n in range(100)]
    for save in saves:
        keep(kept, save)
        kept.write()
    assert kept._in_memory <= 1000
    assert waiting(kept) == list(enumerate(saves, 1))
    ended = Outcome(1, 7, "succeeded")
    keep(kept, ended)
    kept.write()
    assert (101, ended) in kept.recorded(101)
    assert spool.read(tmp_path / "w.spool") == []


def test_where_there_is_no_file_or_only_the_beginning_of_one_nothing_was_kept(tmp_path: Path) -> None:
    assert spool.read(tmp_path / "none") == []
    for torn in (b"", spool.HEADER[:9], bytes(100), spool.HEADER, spool.HEADER + bytes(100)):
        (tmp_path / "torn").write_bytes(torn)
        assert spool.read(tmp_path / "torn") == []


def test_a_file_that_is_there_and_cannot_be_read_is_never_taken_for_an_empty_one(tmp_path: Path) -> None:
    (tmp_path / "other").write_bytes(b"taskdeck spool, protocol 99\n" + b"x" * 100)
    (tmp_path / "folder").mkdir()
    for name in ("other", "folder"):
        with pytest.raises(spool.Unreadable):
            spool.read(tmp_path / name)


@given(st.data())
def test_one_bit_that_flipped_is_seen_and_what_stands_before_it_counts(data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "w.spool"
        kept = Spool(path)
        for number in range(3):
            keep(kept, Save(0, 1, 7, f'{{"n":{number}}}'))
        kept.write()
        whole, found = bytearray(path.read_bytes()), spool.read(path)
        last = len(whole) - len(encode_one(Save(0, 1, 7, '{"n":2}'))) - spool.RECORD.size
        # the length of the last one is left out: too long a one can't be told from a torn end
        byte = data.draw(st.integers(0, len(whole) - 1).filter(lambda byte: not last <= byte < last + 4))
        whole[byte] ^= 1 << data.draw(st.integers(0, 7))
        path.write_bytes(whole)
        with pytest.raises(spool.Unreadable) as damage:
            spool.read(path)
        assert damage.value.reports == found[: len(damage.value.reports)]
        assert len(damage.value.reports) < 3


@given(st.data())
def test_whatever_was_written_and_not_recorded_is_read_back_and_a_torn_end_is_a_shorter_story(
    data: st.DataObject,
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "w.spool"
        kept, said, written, recorded = Spool(path), 0, 0, 0
        for act in data.draw(st.lists(st.sampled_from(["say", "write", "record"]), max_size=25)):
            if act == "say":
                said = keep(kept, Save(0, 1, 7, f'{{"n":{said + 1}}}'))
            elif act == "write":
                assert kept.write() == []
                written = said
            else:
                recorded = data.draw(st.integers(recorded, said))
                kept.recorded(recorded)
        found = spool.read(path)
        numbers = [number for number, _ in found]
        assert numbers == sorted(set(numbers))
        assert set(range(recorded + 1, written + 1)) <= set(numbers)
        assert all(save.data == f'{{"n":{number}}}' for number, save in found)
        assert [number for number, _ in waiting(kept)] == list(range(recorded + 1, said + 1))
        if found:
            whole = path.read_bytes()
            path.write_bytes(whole[: data.draw(st.integers(0, len(whole)))])
            torn = spool.read(path)
            assert torn == found[: len(torn)]
