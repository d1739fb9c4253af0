"""Does a payload fit its type? For the worker, and as a throw-away process for `add` where no engine runs.

`python -m taskdeck.engine.run.validation --handlers-root DIR --handler X …` says in a line `{"begins"}` which file it imports
now, before each, then what loads, as `{"types": {name: shape}, "problems", "barren"}`, and answers each JSON line
`{"type", "payload"}` with a line `{"problem"}`. Handlers are imported here so that neither CLI nor engine has to, once for
however many questions.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from ..errors import InvalidPayload, UsageError
from ..rules import payloads
from . import params
from .arguments import Arguments
from .handlers import Handler, Registry, load


def validate(handler: Handler, payload: str) -> str:
    """Why this payload (JSON text) does not fit; empty = it does."""
    try:
        params.convert(handler.params, payloads.decode(payload, where="payload"))
    except InvalidPayload as error:
        return error.why or error.what
    return ""


def survey(registry: Registry) -> dict[str, Any]:
    """What loads: the types with their shapes (`rules.fitting`), what is wrong, and what loads in vain."""
    shapes = {name: registry.handlers[name].info.shape for name in sorted(registry.handlers)}
    return {"types": shapes, "problems": registry.problems, "barren": registry.barren}


def answer(registry: Registry, question: dict[str, Any]) -> dict[str, Any]:
    """The answer to one question about one type and payload."""
    handler = registry.get(str(question.get("type", "")))
    if handler is None:
        return {"problem": "no such type here"}
    return {"problem": validate(handler, str(question.get("payload", "")))}


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve the questions that stand on stdin."""
    try:
        given = Arguments(sys.argv[1:] if arguments is None else arguments, "handlers-root handler")
    except UsageError as error:
        print(f"taskdeck: {error}", file=sys.stderr)
        return error.exit_code
    root = Path(given.get("handlers-root") or Path.cwd()).resolve()
    replies = os.dup(1)
    os.dup2(2, 1)  # whatever handler files print while they load must not stand among the answer
    with open(replies, "wb") as out:

        def begins(which: str) -> None:
            out.write(msgspec.json.encode({"begins": which}) + b"\n")
            out.flush()

        registry = load(given.all("handler"), root, begins=begins)
        out.write(msgspec.json.encode(survey(registry)) + b"\n")
        out.flush()
        for line in sys.stdin.buffer:
            question = msgspec.json.decode(line, type=dict[str, Any])
            out.write(msgspec.json.encode(answer(registry, question)) + b"\n")
    return 0


if __name__ == "__main__":
    os._exit(main())  # a thread that a handler file started must not hold `add` back
