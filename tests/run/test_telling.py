from __future__ import annotations

from taskdeck.engine.run.telling import counted, short_error, summary


def test_one_is_not_many() -> None:
    assert counted(1, "task waits", "tasks wait") == "1 task waits"
    assert counted(2, "task waits", "tasks wait") == "2 tasks wait"


def test_a_summary_names_where_to_look_at_what_did_not_succeed() -> None:
    assert summary({}) == "no task ended in this run"
    assert summary({"SUCCESS": 3}) == "3 SUCCESS"
    found = summary({"FAILED": 1, "NEEDS_REVIEW": 2, "SUCCESS": 3})
    assert found == "1 FAILED, 2 NEEDS REVIEW, 3 SUCCESS (see: taskdeck list state:needs_review,failed)"
    waits = "1 from before waits for a person (see: taskdeck list state:needs_review)"
    assert summary({}, reviews=1) == f"no task ended in this run, {waits}"
    assert summary({"NEEDS_REVIEW": 2}, reviews=2) == summary({"NEEDS_REVIEW": 2})
    found = summary({"FAILED": 1, "NEEDS_REVIEW": 1}, reviews=3)
    assert found.endswith(", 2 from before wait for a person (see: taskdeck list state:needs_review,failed)")


def test_an_error_is_told_in_one_short_harmless_line() -> None:
    assert short_error(None) == ""
    assert short_error('{"kind": "bug", "message": "KeyError: \'name\'"}') == "KeyError: 'name'"
    assert short_error('{"kind": "timeout"}') == "timeout"
    assert short_error('{"message": "one\\n\\u001b[2Jtwo"}') == "one two"
    assert short_error('{"message": "it is s3cret"}', lambda text: text.replace("s3cret", "…")) == "it is …"
    assert len(short_error('{"message": "%s"}' % ("x" * 999))) == 120
