from __future__ import annotations

import os
from pathlib import Path

from taskdeck.engine.edge import adoption, proc_files


def test_a_process_that_we_fork_has_children_of_its_own() -> None:
    before = set(adoption.adopted())
    pid = os.fork()
    if pid == 0:
        os._exit(len(adoption.adopted()))
    assert set(adoption.adopted()) - before == {pid}
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert pid not in adoption.adopted()


def test_a_list_that_stays_open_is_opened_anew_where_we_were_forked(tmp_path: Path) -> None:
    (tmp_path / "list").write_bytes(b"1 2")
    kept = proc_files.Kept(str(tmp_path / "list"))
    assert kept.read() == b"1 2"
    (tmp_path / "list").write_bytes(b"3")
    assert kept.read() == b"3"
    pid = os.fork()
    if pid == 0:
        os.closerange(3, 1000)
        stranger = os.open("/dev/null", os.O_RDONLY)
        fine = kept.read() == b"3"
        del kept
        os.fstat(stranger)
        os._exit(0 if fine else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
