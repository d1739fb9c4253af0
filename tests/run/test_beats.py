"""Heartbeats are written together."""

from __future__ import annotations

from pathlib import Path

from taskdeck.engine.clock import ManualClock
from taskdeck.engine.rules.redaction import Redactor
from taskdeck.engine.rules.settings import EngineSettings
from taskdeck.engine.run.beats import Beats
from taskdeck.engine.run.messages import Beat
from taskdeck.engine.store.reading import Reader
from taskdeck.engine.store.writer import Writer
from tests.scratch import Scratch

WORKERS = 50


async def test_the_beats_of_many_workers_take_one_commit_a_second_and_a_lone_one_is_written_at_once(
    tmp_path: Path,
) -> None:
    scratch, clock = Scratch(tmp_path), ManualClock()
    workers = [scratch.worker(f"w{number}", 1000 + number) for number in range(WORKERS)]
    writer = Writer(
        scratch.database, scratch.path, clock=clock, boot_id="this-boot", redactor=Redactor((), ())
    )
    writer.start()
    beats = Beats(writer, clock, EngineSettings())
    try:
        await beats.heard(workers[0], Beat([], 0.0, 1))
        assert writer.commits == 1
        for second in (1, 2, 3):
            for rss, worker in enumerate(workers):
                await beats.heard(worker, Beat([], 0.0, second * 1000 + rss))
            assert writer.commits == second  # nothing of it is written yet
            assert beats.later is not None
            await beats.later
            assert writer.commits == 1 + second
        await beats.stop()
    finally:
        await writer.close()
    with Reader(scratch.path) as reader:
        assert [row["rss"] for row in reader.workers()] == [3000 + rss for rss in range(WORKERS)]
