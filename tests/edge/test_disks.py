from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path

from taskdeck.engine.edge.disks import filesystem_of, free_bytes, readers_of
from taskdeck.engine.rules.filesystems import Filesystem

MOUNTS = """\
21 1 254:0 / / rw,relatime - ext4 /dev/vda rw
22 21 0:21 / {home}/nas rw,relatime shared:1 - nfs4 server:/x rw
23 21 0:22 / {home}/nas/fast rw - xfs /dev/sdb rw
24 21 0:23 / {home}/my\\040share rw - cifs //server/x rw
25 21 0:24 / {home}/ssh rw - fuse.sshfs me@host:/ rw
26 21 0:25 / {home}/over rw - ext4 /dev/vdb rw
27 21 0:26 / {home}/over rw - nfs server:/y rw
nonsense
"""


def test_the_filesystem_of_a_path_is_that_of_the_nearest_mount_over_it(tmp_path: Path) -> None:
    mounts = tmp_path / "mountinfo"
    mounts.write_text(MOUNTS.format(home=tmp_path))
    for name in ("nas/fast/deep", "nas-but-not", "my share", "ssh", "over"):
        (tmp_path / name).mkdir(parents=True)
    kinds = {
        "nas": "nfs4",
        "nas/new/folder": "nfs4",
        "nas/fast/deep": "xfs",
        "nas-but-not": "ext4",
        "my share": "cifs",
        "ssh": "fuse.sshfs",
        "over": "nfs",
    }
    found = {name: filesystem_of(tmp_path / name, mounts) for name in kinds}
    assert {name: each and each.kind for name, each in found.items()} == kinds
    (tmp_path / "link").symlink_to(tmp_path / "nas")
    assert filesystem_of(tmp_path / "link", mounts) == Filesystem("nfs4", str(tmp_path / "nas"))


def test_here_it_is_told_by_the_kernel_and_elsewhere_by_nobody(tmp_path: Path) -> None:
    assert filesystem_of(tmp_path) is not None
    assert filesystem_of(tmp_path, tmp_path / "none") is None


def test_the_room_is_that_of_the_nearest_folder_that_exists(tmp_path: Path) -> None:
    assert abs(free_bytes(tmp_path / "not" / "made" / "yet") - free_bytes(tmp_path)) < 100_000_000


def test_a_reader_of_an_old_state_is_named(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    with (
        closing(sqlite3.connect(path, isolation_level=None)) as writer,
        closing(sqlite3.connect(path, isolation_level=None)) as reader,
    ):
        writer.execute("PRAGMA journal_mode = wal")
        writer.execute("CREATE TABLE t (x)")
        assert readers_of(path) == ()
        reader.execute("BEGIN")
        reader.execute("SELECT * FROM t").fetchall()
        (found,) = readers_of(path)
        assert found.endswith(f"(pid {os.getpid()})")
        reader.execute("COMMIT")
        assert readers_of(path) == ()
    assert readers_of(tmp_path / "none.db") == ()
