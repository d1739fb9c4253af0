"""Where a database may lie: asked before it is opened, by the engine and by commands alike. Light, for `taskdeck add`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

from ..clock import Clock
from ..config import Config
from ..edge import disks
from ..errors import Refused, Unavailable
from ..rules.filesystems import Fitness, fitness
from ..store.transaction import refuse_what_is_no_database, refuse_what_is_read_only

TOLD_EVERY = 10.0
"""Seconds between two words on what is waited for."""


async def wait_for_disk(
    config: Config, clock: Clock, tell: Callable[[str], None], beat: Callable[[], Awaitable[None]]
) -> None:
    """Wait until the data disk is mounted, saying so by `tell`. `beat` is called each second: who waits is not hung.

    Raises `Unavailable` after `storage.mount_timeout`.
    """
    begun = told_at = clock.monotonic()
    while missing := _missing_disk(config):
        now = clock.monotonic()
        if now - begun >= config.storage.mount_timeout:
            raise missing
        if now == begun or now - told_at >= TOLD_EVERY:
            told_at = now
            left = config.storage.mount_timeout - (now - begun)
            tell(f"waiting for {config.storage.mount} to be mounted, {left:.0f} s more at most")
        await beat()
        await clock.pause(1.0)


def _missing_disk(config: Config) -> Unavailable | None:
    """Without it a new, empty database would be made in its place."""
    disk = config.storage.mount
    if disk is None or disks.is_mounted(disk):
        return None
    return Unavailable(
        f"{disk} is not mounted",
        "the data lies on that disk ([storage] mount), and nothing is made in its place",
        f"mount it; see: findmnt {disk}",
    )


def refuse_what_cant_be_written(config: Config) -> str:
    """Raise for a database that is none, is read-only or lies where none may be written: what the three that are asked raise.

    Returns the warning of `refuse_unfit_disk`.
    """
    warning = refuse_unfit_disk(config)
    refuse_what_is_no_database(config.db)
    refuse_what_is_read_only(config.db)
    return warning


def refuse_unfit_disk(config: Config, mounts: Path = disks.MOUNTS) -> str:
    """Raise `Refused` for a database on a network filesystem, where `[storage] network` does not allow it, and
    `Unavailable` where its disk is not mounted.

    Returns a warning for one whose locks nobody can vouch for, empty for all others.
    """
    if missing := _missing_disk(config):
        raise missing
    found = disks.filesystem_of(config.db.parent, mounts)
    fit = fitness(found.kind) if found else Fitness.FIT
    if found is None or fit is Fitness.FIT:
        return ""
    what = f"{config.db} lies on {found.kind} (mounted at {found.mounted_at})"
    if fit is Fitness.NETWORK and config.storage.network == "refuse":
        raise Refused(
            what,
            "on a network filesystem locks and shared memory do not hold, and the database may be damaged silently",
            'name a local one with --db, or take the risk: [storage] network = "warn"',
        )
    return f"{what}: locks may not hold there; let no other host open it, and keep backups"
