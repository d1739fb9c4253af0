"""A program that submits one by one: with an engine, past the death of one, and without any."""

from __future__ import annotations

import asyncio
import os
import signal

from taskdeck.engine import Submitter
from taskdeck.engine.config import load
from taskdeck.engine.errors import InvalidPayload, Unavailable, UsageError
from taskdeck.engine.submitting import Added
from tests.journeys.decks import Deck

LATER = "2099-01-01T00:00:00.000000Z"
BOT = "api:bot"


async def test_many_callers_share_commits_and_each_is_told_of_its_own_task_with_and_without_an_engine(
    deck: Deck,
) -> None:
    async with Submitter(load(path=deck.config, environ=deck.env), actor=BOT) as submitter:
        without = await submitter.submit("note", {"file": "x"}, key="first", not_before=LATER)
        assert without == Added(1, True, "PENDING")
        deck.start()
        deck.until_ready()
        await many_callers_share_a_commit(deck, submitter)
        await what_is_bad_is_refused_alone(submitter)
        await an_engine_that_is_killed_leaves_an_unknown_fate_and_the_next_one_is_found(deck, submitter)
    deck.ok("cancel", "--all", "--yes")


async def many_callers_share_a_commit(deck: Deck, submitter: Submitter) -> None:
    await submitter.submit("note", {"file": "y"}, not_before=LATER)  # the link is open
    files = [f"{number}.txt" for number in range(64)]
    added = await asyncio.gather(
        *(submitter.submit("note", {"file": file}, not_before=LATER) for file in files)
    )
    assert len({each.id for each in added}) == 64
    for each, file in zip(added, files, strict=True):
        assert deck.show(each.id)["payload"] == {"file": file}
    rows = deck.events(None, "TASK_CREATED")[-64:]
    assert {row["task_id"] for row in rows} == {each.id for each in added}
    assert {row["actor"] for row in rows} == {BOT}
    assert len({row["created_at"] for row in rows}) == 1


async def what_is_bad_is_refused_alone(submitter: Submitter) -> None:
    good, extra, unknown, known, negative, command = await asyncio.gather(
        submitter.submit("note", {"file": "a"}, not_before=LATER),
        submitter.submit("note", {"file": "a", "more": 1}),
        submitter.submit("nobody", 1),
        submitter.submit("note", {"file": "x"}, key="first"),
        submitter.submit("note", {"file": "a"}, priority=-1),
        submitter.submit_command(["true"], not_before=LATER),
        return_exceptions=True,
    )
    assert isinstance(good, Added)
    assert isinstance(command, Added)
    assert known == Added(1, False, "PENDING")
    assert isinstance(extra, InvalidPayload)
    assert "more" in str(extra)
    assert isinstance(unknown, InvalidPayload)
    assert isinstance(negative, UsageError)


async def an_engine_that_is_killed_leaves_an_unknown_fate_and_the_next_one_is_found(
    deck: Deck, submitter: Submitter
) -> None:
    os.kill(deck.engine_pid, signal.SIGSTOP)
    callers = [
        asyncio.create_task(submitter.submit("note", {"file": "k"}, key=f"k{number}", not_before=LATER))
        for number in range(3)
    ]
    await asyncio.sleep(0.1)
    deck.kill_everything()
    for each in await asyncio.gather(*callers, return_exceptions=True):
        assert isinstance(each, Unavailable)
        assert "may or may not" in each.why
    deck.start()
    deck.until_ready()
    again = await asyncio.gather(
        *(
            submitter.submit("note", {"file": "k"}, key=f"k{number}", not_before=LATER)
            for number in (0, 0, 1, 2)
        )
    )
    assert again[0].id == again[1].id
    assert len({each.id for each in again}) == 3
