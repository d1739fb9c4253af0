"""What a check of an exit found. Plain data: it is stored and shown, and holds no secret."""

from __future__ import annotations

from msgspec import Struct

from ..rules.route_errors import EXIT, PROBE, TCP, ErrorType

NUMBERS = {"tcp": TCP, "probe": PROBE, "exit": EXIT}
"""The stages by name, as the rules count them."""


class Stage(Struct, frozen=True):
    """One stage that was run, by its name in `NUMBERS`, and the milliseconds until it passed or failed."""

    name: str
    ok: bool
    ms: float
    error_type: ErrorType | None = None
    detail: str = ""


class Asked(Struct, frozen=True):
    """A judge that was asked in stage 2, and what went wrong with it; None = it answered rightly."""

    url: str
    error_type: ErrorType | None


class ProbeResult(Struct, frozen=True):
    """The outcome of a check. `error_type` and `detail` are those of the stage that failed; None = all passed.

    `latency_ms` runs from the probe's start to its answer's headers, all handshakes included; None unless all passed and the
    loop kept up (`lag_ms`). `verified` = no proxy could have answered in the judge's place. `asked` = the judges, in order.
    `bytes` = what went over its sockets in both directions, handshakes included.
    """

    ok: bool
    stages: tuple[Stage, ...]
    error_type: ErrorType | None
    detail: str
    latency_ms: float | None
    exit_ip: str | None
    exit_region: str | None
    verified: bool
    lag_ms: float
    asked: tuple[Asked, ...] = ()
    bytes: int = 0

    @property
    def passed(self) -> int:
        """The number of the last stage that passed, 0 = none."""
        return max((NUMBERS[stage.name] for stage in self.stages if stage.ok), default=0)
