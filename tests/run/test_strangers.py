"""Whoever may reach the socket and says what is none of our language: he is cut off, and his words are told to nobody."""

from __future__ import annotations

import logging
from pathlib import Path

import msgspec
import pytest

from taskdeck.engine.clock import ManualClock
from taskdeck.engine.config import load
from taskdeck.engine.edge.link import open_link, serve
from taskdeck.engine.rules.redaction import Redactor
from taskdeck.engine.run import messages as m
from taskdeck.engine.run.engine import Engine
from tests.faults import fault

TOKEN = "wrong-tok3n-hunter2"
SAID = {
    "a text": TOKEN.encode(),
    "a line": f"AUTH {TOKEN}\n".encode(),
    "nothing": msgspec.msgpack.encode([]),
    "an unknown message": msgspec.msgpack.encode([[TOKEN, 1]]),
    "a message of other types": msgspec.msgpack.encode([["Hello", {"role": TOKEN}]]),
    "a hello of a stranger": m.encode([m.Hello(TOKEN), m.Call(1, TOKEN, {}, TOKEN)]),
    "a call before a hello": m.encode([m.Call(1, "stop", {}, TOKEN)]),
    "a call of an unknown verb": m.encode([m.Hello("client"), m.Call(1, TOKEN, {"token": TOKEN}, "cli:ann")]),
}


@fault("TF176")
@pytest.mark.parametrize("body", SAID.values(), ids=SAID)
async def test_a_wrong_token_at_the_control_socket_is_in_no_log(
    body: bytes, tmp_path: Path, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG)
    config = load(db=tmp_path / "t.db", environ={"HOME": str(tmp_path)}, cwd=tmp_path)
    engine = Engine(config, ManualClock(), verbs={}, together={}, redactor=Redactor(), code_version="0")
    server = await serve(tmp_path / "r" / "s.sock", engine._serve)
    try:
        link = await open_link(server.path)
        link.send(body)
        answer = await link.receive()
        assert answer is None or b"knows no verb" in answer
        link.close()
        await link.wait_closed()
    finally:
        await server.close()
    told = caplog.text + "".join(capfd.readouterr())
    assert "hunter2" not in told
