"""`taskdeck probe-server` as a person starts it: says what it serves, answers, ends on a signal; clear errors."""

from __future__ import annotations

import json
import signal
import subprocess
import urllib.request
from pathlib import Path

import pytest

from tests.tui.calls import PROGRAM, Calls


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_serves_until_a_signal_and_ends_in_order(tmp_path: Path, number: int) -> None:
    process = subprocess.Popen(
        [*PROGRAM, "probe-server", "--listen", "127.0.0.1:0", "--json"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        assert process.stdout
        url = json.loads(process.stdout.readline())["url"]
        with urllib.request.urlopen(f"{url}/nonce?n=abc") as answer:
            assert answer.read() == b"abc"
        process.send_signal(number)
        out, err = process.communicate(timeout=30)
        assert (process.returncode, out, err) == (0, b"", b"")
        assert list(tmp_path.iterdir()) == []
    finally:
        process.kill()
        process.wait()


def test_what_it_cannot_serve_is_told(taskdeck: Calls) -> None:
    assert "such as 0.0.0.0:8443" in taskdeck("probe-server", "--listen", "8443", code=2).err
    assert "belong together" in taskdeck("probe-server", "--tls-cert", "x.pem", code=2).err
    missing = taskdeck("probe-server", "--tls-cert", "x.pem", "--tls-key", "y.pem", code=2).err
    assert "x.pem or y.pem can't be read: No such file or directory" in missing
    assert "keeps nothing" in taskdeck("probe-server", "--db", "x.db", code=2).err
