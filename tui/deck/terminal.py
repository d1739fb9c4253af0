"""The deck's side of the terminal: its way to the launcher that holds it, and letting go of it.

Owns the socket to the launcher and the descriptors 0-2. What is drawn, and when, is decided by others.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import sys
from collections.abc import Callable, MutableMapping

VARIABLE = "TASKDECK_TERMINAL_FD"
ENTER_WITHIN = 2.0
"""Seconds in which a launcher that isn't stopped lets the deck draw."""


class Launcher:
    """The process that holds the terminal. `on_word` hears what it says; `gone` is set once nobody is there any more."""

    def __init__(self, link: socket.socket | None) -> None:
        self._link = link
        self._heard = b""
        self._may_draw = asyncio.Event()
        self.gone = asyncio.Event()
        self.on_word: Callable[[str], None] = lambda word: None
        if link is None:
            self.gone.set()
        else:
            link.setblocking(False)
            link.set_inheritable(False)
            asyncio.get_running_loop().add_reader(link, self._hear)

    @classmethod
    def from_environment(cls, environ: MutableMapping[str, str]) -> Launcher:
        """The launcher whose socket is named there. The name is taken away: no worker may think that it is meant."""
        fd = environ.pop(VARIABLE, "")
        try:
            return cls(socket.socket(fileno=int(fd)))
        except (ValueError, OSError):
            return cls(None)

    async def may_draw(self) -> bool:
        """Ask for the terminal. False when nobody holds it, or when it is stopped (Ctrl+Z) and somebody else has it."""
        self.tell("enter")
        going = asyncio.ensure_future(self.gone.wait())
        asked = asyncio.ensure_future(self._may_draw.wait())
        await asyncio.wait({going, asked}, timeout=ENTER_WITHIN, return_when="FIRST_COMPLETED")
        for waiting in (going, asked):
            waiting.cancel()
        return self._may_draw.is_set() and not self.gone.is_set()

    def tell(self, line: str) -> None:
        """Tell it one line; nobody there is fine."""
        if self._link is not None:
            with contextlib.suppress(OSError):
                self._link.send(f"{' '.join(line.split())}\n".encode())

    def close(self) -> None:
        """Nothing more is to be said."""
        self.gone.set()
        if self._link is not None:
            asyncio.get_running_loop().remove_reader(self._link)
            self._link.close()
            self._link = None

    def _hear(self) -> None:
        assert self._link is not None
        try:
            data = self._link.recv(4096)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self.close()
            self.on_word("leave")
            return
        *lines, self._heard = (self._heard + data).split(b"\n")
        for line in lines:
            self._obey(line.decode("utf-8", "replace"))

    def _obey(self, word: str) -> None:
        if word == "go":
            self._may_draw.set()
        else:
            self.on_word(word)


def let_go() -> None:
    """Point the descriptors 0-2 at /dev/null: the terminal belongs to others from now on."""
    sys.stdout, sys.stderr = sys.__stdout__, sys.__stderr__
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError, AttributeError):
            stream.flush()  # pyright: ignore[reportOptionalMemberAccess]
    nowhere = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(nowhere, fd)
    os.close(nowhere)
