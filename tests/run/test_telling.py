from __future__ import annotations

from taskdeck.engine.run.telling import counted, summary


def test_one_is_not_many() -> None:
    assert counted(1, "task waits", "tasks wait") == "1 task waits"
    assert counted(2, "task waits", "tasks wait") == "2 tasks wait"


def test_a_summary_names_where_to_look_at_what_did_not_succeed() -> None:
    assert summary({}) == "no task ended in this run"
    assert summary({"SUCCESS": 3}) == "3 SUCCESS"
    found = summary({"FAILED": 1, "NEEDS_REVIEW": 2, "SUCCESS": 3})
    assert found == "1 FAILED, 2 NEEDS REVIEW, 3 SUCCESS (see: taskdeck list state:needs_review,failed)"
