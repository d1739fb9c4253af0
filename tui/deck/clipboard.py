"""To the clipboard of whoever looks: through the terminal, through a multiplexer around it, and into a file in any case.

Owns the bytes of OSC 52 and the file. Whether a terminal obeys can't be known; so what is said names the file too.
"""

from __future__ import annotations

import base64
import contextlib
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

MOST = 55_000
"""Bytes that are handed to the terminal: some drop a sequence of more than 74 kB, which is what these become."""
PATIENCE = 2.0
"""Seconds for tmux."""


def sequence(text: str, environ: Mapping[str, str] = os.environ) -> str:
    """What tells the terminal to take `text`; nothing where that is too long."""
    data = text.encode("utf-8", "replace")
    if len(data) > MOST:
        return ""
    told = f"\x1b]52;c;{base64.b64encode(data).decode()}\x07"
    if environ.get("STY") and not environ.get("TMUX"):  # screen passes on what is wrapped
        return f"\x1bP{told}\x1b\\"
    return told


def keep(text: str, file: Path, environ: Mapping[str, str] = os.environ) -> str:
    """Write it down, readable by its owner alone, and tell tmux, which by default ignores the sequence. Returns where it is.

    Blocks; for a thread.
    """
    told: list[str] = []
    with contextlib.suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        fd = os.open(file, os.O_CREAT | os.O_WRONLY | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        with open(fd, "w", encoding="utf-8", errors="replace") as opened:
            opened.write(text)
        told.append(str(file))
    if environ.get("TMUX"):
        with contextlib.suppress(OSError, subprocess.SubprocessError):
            subprocess.run(
                ["tmux", "load-buffer", "-w", "-"],
                input=text.encode("utf-8", "replace"),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                timeout=PATIENCE,
                check=True,
            )
            told.insert(0, "tmux")
    return " and in ".join(told)
