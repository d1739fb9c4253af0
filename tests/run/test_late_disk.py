"""The data disk comes later than the engine: it is waited for, with a limit and aloud, and nothing is made in its place."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import pytest

from taskdeck.engine import commands
from taskdeck.engine.clock import ManualClock
from taskdeck.engine.config import Config, load
from taskdeck.engine.edge import disks
from taskdeck.engine.errors import Unavailable
from taskdeck.engine.run.disk_fitness import wait_for_disk
from tests.faults import fault


@dataclass
class Boot:
    """A host that has just started: its disk is mounted `mounted_after` seconds later."""

    mounted_after: float
    clock: ManualClock = field(default_factory=ManualClock)
    told: list[str] = field(default_factory=list)
    beats: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.begun = self.clock.monotonic()

    def passed(self) -> float:
        return self.clock.monotonic() - self.begun

    async def beat(self) -> None:
        self.beats.append(self.passed())

    async def wait(self, config: Config) -> None:
        await wait_for_disk(config, self.clock, self.told.append, self.beat)


@pytest.fixture
def config(tmp_path: Path) -> Config:
    (tmp_path / "taskdeck.toml").write_text(f"[storage]\nmount = '{tmp_path}/data'\n")
    return load(
        path=tmp_path / "taskdeck.toml", db=tmp_path / "data" / "t.db", environ={"HOME": str(tmp_path)}
    )


def boot(monkeypatch: pytest.MonkeyPatch, mounted_after: float) -> Boot:
    host = Boot(mounted_after)
    monkeypatch.setattr(disks, "is_mounted", lambda path: host.passed() >= host.mounted_after)
    return host


@fault("TF131")
async def test_a_disk_that_is_mounted_late_is_waited_for_aloud(
    config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = boot(monkeypatch, 90.0)
    await host.wait(config)
    assert host.passed() == 90.0
    assert len(host.told) == 9
    assert host.told[0].endswith("data to be mounted, 120 s more at most")
    assert len(host.beats) == 90, "a supervisor must not take it for hung"


@fault("TF131")
async def test_a_disk_that_never_comes_ends_the_wait_with_its_name_and_makes_nothing(
    config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = boot(monkeypatch, float("inf"))
    with pytest.raises(Unavailable, match="data is not mounted"):
        await host.wait(config)
    assert host.passed() == 120.0
    assert Unavailable.exit_code == 75


@fault("TF131")
def test_a_command_makes_no_database_in_the_place_of_one_on_a_disk_that_is_not_there(config: Config) -> None:
    specs = [{"type": "shell", "command": {"argv": ["true"]}}]
    with pytest.raises(Unavailable, match="is not mounted"):
        commands.call(config, "submit", "cli:ann", specs=specs)
    assert not config.db.parent.exists()


async def test_without_such_a_setting_nothing_is_waited_for(tmp_path: Path) -> None:
    host = Boot(0.0)
    await host.wait(load(db=tmp_path / "t.db", environ={"HOME": str(tmp_path)}, cwd=tmp_path))
    assert (host.passed(), host.told) == (0.0, [])
