"""Where a database may lie: asked before it is opened, by the engine and by commands alike. Light, for `taskdeck add`."""

from __future__ import annotations

from pathlib import Path

from ..config import Config
from ..edge import disks
from ..errors import Refused
from ..rules.filesystems import Fitness, fitness


def refuse_unfit_disk(config: Config, mounts: Path = disks.MOUNTS) -> str:
    """Raise `Refused` for a database on a network filesystem, where `[storage] network` does not allow it.

    Returns a warning for one whose locks nobody can vouch for, empty for all others.
    """
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
