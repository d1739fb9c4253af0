"""A terminal of 160x48 with a process in it: when which bytes came, and what the process used."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import threading
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from pathlib import Path
from time import perf_counter

SIZE = (160, 48)
_SEQUENCES = re.compile(rb"\x1b\[[0-9;:?<>=]*[ -/]*[@-~]")
TICK = os.sysconf("SC_CLK_TCK")
PATIENCE = 20.0


def wait(seconds: float) -> None:
    """Let time pass."""
    threading.Event().wait(seconds)


class Terminal:
    """Starts a command as the leader of a session on a terminal of its own, and reads whatever it writes."""

    def __init__(
        self, command: Sequence[str], env: Mapping[str, str] | None = None, size: tuple[int, int] = SIZE
    ) -> None:
        self._ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", size[1], size[0], 0, 0))
        self._times: list[float] = []
        self._chunks: list[bytes] = []
        self._ended = threading.Event()
        self._came = threading.Condition()
        self.began = perf_counter()
        self._process = subprocess.Popen(
            ["setsid", "--ctty", *command],
            env={**os.environ, "TERM": "xterm-256color", "COLORTERM": "truecolor", **(env or {})},
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
        )
        self.pid = self._process.pid
        os.close(theirs)
        threading.Thread(target=self._read, daemon=True).start()

    def press(self, keys: str) -> float:
        """Type; returns when (seconds)."""
        at = perf_counter()
        os.write(self._ours, keys.encode())
        return at

    def until(self, pattern: str, since: float = 0.0, patience: float = PATIENCE) -> float:
        """When the text of all that came from `since` on first matched (seconds); escape sequences count as nothing."""
        wanted = re.compile(pattern.encode())
        deadline = perf_counter() + patience
        with self._came:
            while True:
                if (found := self._match(wanted, since)) is not None:
                    return found
                if not self._came.wait(deadline - perf_counter()) and perf_counter() >= deadline:
                    raise TimeoutError(f"{pattern!r} never came; the last was {self.text(since)[-2000:]!r}")

    def text(self, since: float = 0.0) -> bytes:
        """What came from then on, without escape sequences."""
        return _SEQUENCES.sub(b"", b"".join(self._chunks[bisect_left(self._times, since) :]))

    def sent(self) -> bytes:
        """All that came."""
        return b"".join(self._chunks)

    def bytes_since(self, since: float) -> int:
        """How many bytes came from then on."""
        return sum(map(len, self._chunks[bisect_left(self._times, since) :]))

    def cpu(self, pid: int | None = None) -> float:
        """What the process has used (seconds of a core)."""
        fields = Path(f"/proc/{pid or self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICK

    def resident(self, pid: int | None = None) -> float:
        """Its memory (MB)."""
        found = re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{pid or self.pid}/status").read_text())
        return int(found[1]) / 1024 if found else 0.0

    def quiet(self, seconds: float = 0.3) -> None:
        """Wait until nothing has come for so long."""
        while self._times and perf_counter() - self._times[-1] < seconds:
            wait(seconds / 3)

    def close(self) -> int:
        """End it. Returns how it ended."""
        self._process.send_signal(signal.SIGTERM)
        try:
            return self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            return self._process.wait()
        finally:
            self._ended.set()

    def leave(self, keys: str) -> None:
        """End it by keys."""
        self.press(keys)
        self._process.wait(PATIENCE)
        self._ended.set()

    def _match(self, wanted: re.Pattern[bytes], since: float) -> float | None:
        text = b""
        first = bisect_left(self._times, since)
        for at, chunk in zip(self._times[first:], self._chunks[first:], strict=True):
            text += chunk
            if wanted.search(_SEQUENCES.sub(b"", text)):
                return at
        return None

    def _read(self) -> None:
        while not self._ended.is_set():
            if not select.select([self._ours], [], [], 0.1)[0]:
                continue
            try:
                data = os.read(self._ours, 1 << 16)
            except OSError:
                return
            with self._came:
                self._times.append(perf_counter())
                self._chunks.append(data)
                self._came.notify_all()
