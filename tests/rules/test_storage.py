from __future__ import annotations

import pytest

from taskdeck.engine.rules.filesystems import Fitness, fitness
from taskdeck.engine.rules.settings import StorageSettings
from taskdeck.engine.rules.storage import Fault, Figures, Trouble, alerts, pause, size_text

SETTINGS = StorageSettings(
    warn_free_bytes=1000, pause_free_bytes=100, wal_warn_bytes=2 << 20, wal_pause_bytes=4 << 20
)


def reasons(figures: Figures, *raised: str) -> dict[str, bool]:
    """Reason → does it pause."""
    return {name: each.pauses for name, each in alerts(figures, SETTINGS, raised).items()}


def room(database: int, logs: int = 10_000) -> Figures:
    return Figures({"database": database, "logs": logs})


def test_a_disk_is_told_of_before_it_is_full_and_nothing_new_starts_before_it_is() -> None:
    assert reasons(room(1000)) == {}
    assert reasons(room(999)) == {"low_disk_database": False}
    assert reasons(room(99)) == {"no_room_database": True}


def test_the_pause_of_a_full_disk_names_what_must_be_free_for_it_to_end() -> None:
    told = alerts(room(99), SETTINGS, ())
    assert pause(told.values()) == (
        "only 99 bytes are free for the database; nothing new starts"
        " (make room: it goes on by itself once 111 bytes are free ([storage] pause_free_bytes))"
    )
    assert pause(alerts(room(111), SETTINGS, told).values()) == ""
    assert pause(alerts(room(999), SETTINGS, ()).values()) == ""


def test_a_full_disk_of_the_logs_alone_stops_nothing() -> None:
    assert reasons(room(10_000, logs=0)) == {"low_disk_logs": False}


def test_a_figure_at_its_bound_raises_one_alert_and_not_a_hundred() -> None:
    assert reasons(room(1050), "low_disk_database") == {"low_disk_database": False}
    assert reasons(room(1101), "low_disk_database") == {}
    assert reasons(room(105), "no_room_database") == {"no_room_database": True}
    assert reasons(room(111), "no_room_database") == {"low_disk_database": False}


def test_a_log_that_a_reader_holds_back_is_told_of_and_bounded() -> None:
    def log(size: int, *, held_back: bool = True) -> Figures:
        return Figures({}, wal=size, held_back=held_back, readers=("sqlite3 (pid 7)",))

    assert reasons(log(1 << 20)) == {}
    assert reasons(log(3 << 20)) == {"long_reader": False}
    assert reasons(log(5 << 20)) == {"wal_full": True}
    assert reasons(log(5 << 20, held_back=False)) == {}
    assert "sqlite3 (pid 7) holds" in str(alerts(log(3 << 20), SETTINGS, ())["long_reader"])


def test_what_cannot_be_written_pauses_and_says_what_to_do() -> None:
    trouble = Trouble(Fault.FULL, "database or disk is full", "make room")
    (found,) = alerts(Figures({}, trouble=trouble), SETTINGS, ()).values()
    assert (found.reason, found.pauses, found.remedy) == (
        "disk_full",
        True,
        "make room: it then goes on by itself",
    )
    assert "nothing is lost" in found.message


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0 bytes"), (999, "999 bytes"), (1500, "1.5 kB"), (50_000_000, "50 MB"), (2 * 10**12, "2.0 TB")],
)
def test_sizes_are_short(size: int, text: str) -> None:
    assert size_text(size) == text


@pytest.mark.parametrize(
    ("kinds", "fit"),
    [
        ("ext4 xfs btrfs zfs tmpfs overlay f2fs fuseblk fuse.gocryptfs", Fitness.FIT),
        ("nfs nfs4 cifs smb3 9p ceph lustre fuse.sshfs fuse.rclone fuse.glusterfs NFS4", Fitness.NETWORK),
        ("fuse fuse.somebodys virtiofs", Fitness.UNKNOWN),
    ],
)
def test_a_network_filesystem_is_known_by_its_kind(kinds: str, fit: Fitness) -> None:
    assert {kind: fitness(kind) for kind in kinds.split()} == dict.fromkeys(kinds.split(), fit)
