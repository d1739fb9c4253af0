from __future__ import annotations

import asyncio
from typing import Any

from taskdeck.engine.run import messages
from taskdeck.engine.run.messages import Note, OperationBegin, Outcome, Progress
from taskdeck.engine.run.uplink import Uplink
from tests.faults import fault


class Engine:
    """Hears what an uplink sends."""

    def __init__(self) -> None:
        self.heard: list[Any] = []

    def __call__(self, body: bytes) -> None:
        self.heard += messages.from_peer(body)


@fault("TF148")
@fault("TF179")
async def test_a_value_that_no_frame_can_carry_is_refused_alone() -> None:
    engine = Engine()
    uplink = Uplink(engine, asyncio.get_running_loop())
    uplink.post(Progress(1, 7, 1.0, 2.0, "before"))
    uplink.post(Progress(1, 7, 1.0, 2.0, "\ud800"))
    asked = uplink.ask(lambda req: OperationBegin(req, 1, 7, "\ud800\ud800"))
    uplink.post(Outcome(2, 8, "succeeded", tail="\udfff"))
    uplink.post(Progress(1, 7, 1.0, 2.0, "after"))
    answer = await asyncio.wait_for(asked, 5)
    uplink.close(5)
    assert "can't be sent" in answer.error
    assert [each.note for each in engine.heard if isinstance(each, Progress)] == ["before", "after"]
    assert [each.kind for each in engine.heard if isinstance(each, Outcome)] == ["failed"]
    assert [each.message for each in engine.heard if isinstance(each, Note)] == [
        "Progress can't be sent: UnicodeEncodeError"
    ]


async def test_a_number_past_64_bits_costs_only_itself() -> None:
    engine = Engine()
    uplink = Uplink(engine, asyncio.get_running_loop())
    uplink.post(Progress(1, 7, 10**40, 1))
    uplink.post(Progress(1, 7, 1, 1))
    uplink.close(5)
    assert [type(each) for each in engine.heard] == [Note, Progress]
