"""What a fake proxy can do wrong, one fault a connection."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Fault(StrEnum):
    """A way of failing. "Tunnel" means what follows a granted CONNECT or SOCKS request."""

    NONE = "none"
    REFUSE = "refuse"
    """Nobody listens on the port."""
    SILENT = "silent"
    """Accepts and never says a word."""
    SILENT_TUNNEL = "silent tunnel"
    """Grants, then never passes a byte on."""
    DRIP = "drip"
    """An answer without end, byte by byte."""
    DRIP_TUNNEL = "drip tunnel"
    """Grants, then drips bytes that could be the beginning of TLS."""
    RESET = "reset"
    """Resets the connection on the first byte."""
    RESET_TUNNEL = "reset tunnel"
    """Grants, then resets."""
    CLOSE = "close"
    """Ends the connection on the first byte, in good order."""
    GARBAGE = "garbage"
    """Answers in no known protocol."""
    STATUS = "status"
    """Answers with `Behaviour.status` (HTTP) or refuses with `Behaviour.code` (SOCKS)."""
    REDIRECT = "redirect"
    """Sends everybody to a login page."""
    OWN_PAGE = "own page"
    """Answers 200 with a page of its own, whatever was asked."""
    TAMPER = "tamper"
    """Passes plain HTTP on, with a script put into the answer."""
    SPLIT_HEADER = "split header"
    """Sends the answer to CONNECT in two packets; this is no fault, and must work."""


@dataclass(frozen=True)
class Behaviour:
    """How a fake proxy behaves until told otherwise.

    `delay` seconds pass before each answer. `pattern` is a row of faults for one connection each, over and over; where it
    is empty, `fault` holds for all.
    """

    fault: Fault = Fault.NONE
    status: int = 503
    code: int = 1
    delay: float = 0.0
    pattern: tuple[Fault, ...] = ()

    def at(self, connection: int) -> Fault:
        """The fault of the connection with this number, counted from 0."""
        return self.pattern[connection % len(self.pattern)] if self.pattern else self.fault
