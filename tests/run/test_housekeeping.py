"""The engine's own duties: anchors outside the database, and backups when they are due."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest_asyncio

from taskdeck.engine.clock import ManualClock
from taskdeck.engine.config import Config
from taskdeck.engine.rules.redaction import Redactor
from taskdeck.engine.rules.settings import BackupSettings, RetentionSettings, TaskdeckSettings
from taskdeck.engine.run.housekeeping import Housekeeping
from taskdeck.engine.store import anchors, backup
from taskdeck.engine.store.database import open_for_writing
from taskdeck.engine.store.writer import Writer
from tests.scratch import Scratch

DAY = 86400.0


class Engine:
    """A writer and the duties around it, on a database on which an engine has started once."""

    def __init__(self, folder: Path) -> None:
        made = Scratch(folder)
        self.clock: ManualClock = made.clock
        self.path = made.path
        made.add()
        made.close()
        self.writer = Writer(
            open_for_writing(made.path, "2026-11-29T12:00:00.000000Z"),
            made.path,
            clock=made.clock,
            boot_id="b",
            redactor=Redactor(),
        )
        self.writer.start()
        self.config = Config(taskdeck=TaskdeckSettings(db=made.path, logs=folder / "logs"))
        self.duties = Housekeeping(self.config, made.clock, self.writer)

    def retain(self, settings: RetentionSettings) -> None:
        self.duties.config = msgspec.structs.replace(self.config, retention=settings)

    def set(self, settings: BackupSettings) -> None:
        self.duties.config = msgspec.structs.replace(self.config, backup=settings)

    async def events(self) -> list[tuple[str, str]]:
        """Type and reason of what is on record, the creation of the task left out."""
        rows = await self.writer.write(lambda tx: tx.rows("SELECT event_type, reason FROM event_log"))
        return [(row["event_type"], row["reason"]) for row in rows][1:]


@pytest_asyncio.fixture
async def engine(tmp_path: Path) -> AsyncIterator[Engine]:
    made = Engine(tmp_path)
    yield made
    await made.writer.close()


async def test_the_head_is_noted_outside_the_database_once(engine: Engine) -> None:
    await engine.duties.anchor()
    await engine.duties.anchor()
    assert [each.event_id for each in anchors.read(engine.path)] == [1]


async def test_a_young_database_needs_no_backup_and_an_old_one_gets_one_a_day(engine: Engine) -> None:
    await engine.duties.back_up_if_due()
    assert await engine.events() == []
    engine.clock.advance(DAY)
    await engine.duties.back_up_if_due()
    assert await engine.events() == [("BACKUP_WRITTEN", "backup")]
    (made,) = engine.config.backup_directory.iterdir()
    assert backup.check(made).rows["task"] == 1
    assert anchors.read(engine.path)[-1].event_id == 2
    await engine.duties.back_up_if_due()
    assert len(await engine.events()) == 1


async def test_backups_that_are_switched_off_are_not_made(engine: Engine) -> None:
    engine.set(BackupSettings(every=0.0))
    engine.clock.advance(9 * DAY)
    await engine.duties.back_up_if_due()
    assert await engine.events() == []


async def test_a_backup_that_fails_is_an_alert_and_tried_again_within_the_hour(engine: Engine) -> None:
    engine.clock.advance(DAY)
    engine.config.backup_directory.write_text("a file where the folder should be")
    await engine.duties.back_up_if_due()
    await engine.duties.back_up_if_due()
    assert await engine.events() == [("ALERT_RAISED", "backup_failed")]
    engine.config.backup_directory.unlink()
    engine.clock.advance(3600)
    await engine.duties.back_up_if_due()
    assert (await engine.events())[1:] == [("BACKUP_WRITTEN", "backup")]


async def test_what_the_configuration_lets_go_is_archived_beside_the_work(engine: Engine) -> None:
    engine.clock.advance(40 * DAY)
    await engine.duties.prune_if_due()
    assert await engine.events() == []
    engine.retain(RetentionSettings(events=30 * DAY))
    await engine.duties.prune_if_due()
    assert [kind for kind, _ in await engine.events()] == ["EVENTS_ARCHIVED"]
    assert len(list(engine.config.archive_directory.iterdir())) == 1
    engine.clock.advance(40 * DAY)
    await engine.duties.prune_if_due()
    assert anchors.read(engine.path)[-1].event_id == 3


async def test_a_prune_that_fails_is_an_alert_and_cuts_nothing(engine: Engine) -> None:
    engine.config.archive_directory.write_text("a file where the folder should be")
    engine.clock.advance(40 * DAY)
    engine.retain(RetentionSettings(events=30 * DAY))
    await engine.duties.prune_if_due()
    assert await engine.events() == [("ALERT_RAISED", "retention_failed")]
