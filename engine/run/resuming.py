"""Where a Python handler goes on: the newest kept checkpoint that fits its type and version, or can be made to.

Used by async and sync handlers alike. Must not save anything.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from ..errors import InvalidPayload
from ..rules import payloads
from ..rules.checkpoints import NOTHING_SAVED
from .attempt_messages import Run
from .endings import InDoubt, safe
from .handlers import Handler


class NoValidCheckpoint(InDoubt):
    """Checkpoints were kept and none can be resumed from: to start from nothing would repeat work that was done."""

    def __init__(self, faults: list[str]) -> None:
        BaseException.__init__(self, f"no kept checkpoint can be resumed from: {'; '.join(faults)}")
        self.key = ""


class Resumed(NamedTuple):
    """What to go on with. `as_kept`: it is the newest one, unchanged; else it must be saved whole before anything else."""

    data: dict[str, Any]
    as_kept: bool = True
    faults: tuple[str, ...] = ()
    """Why newer ones were passed over."""


def resume(run: Run, handler: Handler) -> Resumed:
    """Choose among the checkpoints that `run` brings. Raises `NoValidCheckpoint`."""
    if not run.checkpoint_seq:  # nothing was saved, or a person wants it from the beginning
        empty = run.checkpoint in NOTHING_SAVED
        return Resumed({} if empty else payloads.decode(run.checkpoint, where="checkpoint") or {})
    faults: list[str] = []
    kept = [(run.checkpoint_seq, run.checkpoint_version, run.checkpoint), *run.older]
    for number, version, text in kept:
        try:
            data = _present(text, version, handler)
        except Exception as error:  # `migrate` is the author's code
            why = error.why if isinstance(error, InvalidPayload) else f"{type(error).__name__}: {error}"
            faults.append(f"checkpoint {number}: {safe(why)}")
        else:
            as_kept = number == run.checkpoint_seq and version == handler.info.checkpoint_version
            return Resumed(data, as_kept, tuple(faults))
    raise NoValidCheckpoint(faults)


def _present(text: str, version: int, handler: Handler) -> dict[str, Any]:
    """The checkpoint as this version of the handler means it, checked."""
    data = payloads.decode(text, where="checkpoint")
    if version != handler.info.checkpoint_version and handler.migrate is not None:
        data = payloads.decode(payloads.encode(handler.migrate(data, version)), where="checkpoint")
    if not isinstance(data, dict):
        raise InvalidPayload("a checkpoint is a JSON object", f"this is {type(data).__name__}")
    handler.check_checkpoint(data)
    return data
