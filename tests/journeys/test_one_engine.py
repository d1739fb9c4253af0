"""One engine per database; what it has not started waits for it, held or not."""

from __future__ import annotations

from typing import Any

from taskdeck.engine.edge.link import connect
from taskdeck.engine.edge.locks import DatabaseLock
from taskdeck.engine.run.messages import Call, Hello, encode, to_peer
from tests.faults import fault
from tests.journeys.decks import Deck


@fault("TF227", "TF001", "TF241", "TF037")
def test_one_engine_at_a_time_takes_what_is_added_and_what_was_paused_is_still_paused_after_a_restart(
    deck: Deck,
) -> None:
    out = deck.home / "out"
    paused, waiting, cancelled = (deck.add("--", "sh", "-c", f"echo {word} >> {out}") for word in "abc")
    deck.ok("pause", paused)
    deck.ok("cancel", cancelled)
    deck.ok("pause", "--all")
    run = deck.start()
    deck.until_ready()
    assert deck.states() == ["PAUSED", "PENDING", "CANCELLED"]
    assert "everything is held" in deck.ok("why", waiting)
    deck.ok("stop")
    assert deck.finish(run) == 0
    assert not out.exists()

    command = ("--key", "nightly", "--", "sleep", "600")
    first = deck.add(*command)
    assert deck.add(*command) == first
    deck.start()
    deck.ok("resume", "--all")
    assert deck.cli("wait", waiting, "--timeout", "20s").returncode == 0
    assert deck.state(paused) == "PAUSED"
    deck.ok("resume", paused)
    assert deck.cli("wait", paused, "--timeout", "20s").returncode == 0
    assert out.read_text() == "b\na\n"
    assert deck.moves(paused) == [
        "PAUSED (user_pause)",
        "PENDING (user_resume)",
        "RUNNING (dispatched)",
        "SUCCESS (done)",
    ]
    a_known_key_names_the_task_that_has_it_with_and_without_an_engine(deck, command, first)
    a_second_engine_says_who_holds_the_database_and_ends_with_4(deck)
    a_running_engine_takes_what_is_added(deck)
    calls_that_come_at_once_are_answered_each_in_order(deck)


def a_known_key_names_the_task_that_has_it_with_and_without_an_engine(
    deck: Deck, command: tuple[str, ...], first: int
) -> None:
    deck.until_command(first)
    assert deck.add(*command) == first
    deck.ok("cancel", first)
    deck.until_state(first, "CANCELLED")
    assert deck.add(*command) == first
    assert len(deck.states()) == first


def a_second_engine_says_who_holds_the_database_and_ends_with_4(deck: Deck) -> None:
    out, engines = deck.home / "once", deck.rows("SELECT * FROM engine")
    second = deck.cli("run")
    assert second.returncode == 4
    assert f"pid {deck.engine_pid}" in second.stderr
    assert str(deck.db) in second.stderr
    assert len(second.stderr.splitlines()) == 1
    task_id = deck.add("--", "sh", "-c", f"echo x >> {out}")
    assert deck.cli("wait", task_id, "--timeout", "20s").returncode == 0
    assert out.read_text() == "x\n"
    assert len(deck.rows("SELECT * FROM engine")) == len(engines)


def a_running_engine_takes_what_is_added(deck: Deck) -> None:
    before = deck.states()
    done = deck.cli("add", "--wait", "--", "true")
    assert done.returncode == 0
    assert deck.states() == [*before, "SUCCESS"]
    refused = deck.cli("add", "walk", '{"file": "x", "too": 3}')
    assert refused.returncode == 4
    assert "too" in refused.stderr
    unknown = deck.cli("add", "wlak", "{}")
    assert unknown.returncode == 4
    assert "walk" in unknown.stderr
    assert len(deck.states()) == len(before) + 1
    deck.until(lambda: not deck.commands(len(before) + 1), "the command is gone")


def calls_that_come_at_once_are_answered_each_in_order(deck: Deck) -> None:
    held = "2099-01-01T00:00:00.000000Z"
    good = {"command": {"argv": ["true"]}, "not_before": held}
    specs = [[good], [{"type": "nobody"}], [good, good], [{**good, "parent": 99_999}], [{"no": 1}], [good]]
    specs += [[{**good, "needs": 5}], [{1: 2, "no": 3}], [good]]
    calls = [Call(number, "submit", {"specs": each}, "cli:test") for number, each in enumerate(specs)]
    calls += [Call(9, "nonsense", {}, "cli:test"), Call(10, "ping", {}, "cli:test")]
    holder = DatabaseLock.holder(deck.db)
    assert holder is not None
    with connect(holder.socket, 5.0) as link:
        link.send(encode([Hello("client"), *calls[:3]]))
        for call in calls[3:]:
            link.send(encode([call]))
        replies: list[Any] = []
        while len(replies) < len(calls):
            body = link.receive(20.0)
            assert body is not None
            replies += to_peer(body)
    assert [reply.req for reply in replies] == list(range(11))
    told: list[Any] = [reply.error["what"] if reply.error else len(reply.value) for reply in replies[:9]]
    first, unknown, two, orphan, wrong, good_again, needs, numbered, last = told
    assert (first, two, good_again, last) == (1, 2, 1, 1)
    assert "nobody: the payload was refused" in unknown
    assert orphan == "there is no task #99999"
    assert "unknown field 'no'" in wrong
    assert "what the task needs can't be read" in needs
    assert "unknown field 1" in numbered
    assert "nonsense" in replies[9].error["what"]
    assert replies[10].value["pid"] == deck.engine_pid
