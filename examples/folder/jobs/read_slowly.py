#!/usr/bin/env python3
"""Reads all texts line by line, slowly. Kill it, stop the engine, start it again: it goes on where it was."""

import json
import os
import time
from pathlib import Path

taskdeck = os.fdopen(int(os.environ["TASKDECK_FD"]), "w", encoding="utf-8")
lines = [
    line for text in sorted(Path("texts").glob("*.txt")) for line in text.read_text("utf-8").splitlines()
]
done = json.loads(os.environ["TASKDECK_CHECKPOINT"]).get("done", 0)
for number, line in enumerate(lines[done:], done + 1):
    print(line, flush=True)
    print(json.dumps({"checkpoint": {"done": number}}), file=taskdeck, flush=True)
    print(json.dumps({"progress": [number, len(lines)], "note": line[:40]}), file=taskdeck, flush=True)
    time.sleep(float(os.environ.get("SECONDS_A_LINE", "0.2")))
