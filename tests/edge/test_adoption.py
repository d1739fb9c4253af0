from __future__ import annotations

import os

from taskdeck.engine.edge import adoption


def test_a_process_that_we_fork_has_children_of_its_own() -> None:
    before = set(adoption.adopted())
    pid = os.fork()
    if pid == 0:
        os._exit(len(adoption.adopted()))
    assert set(adoption.adopted()) - before == {pid}
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert pid not in adoption.adopted()
