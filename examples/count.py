#!/usr/bin/env python3
"""Counts to 20 and can be killed anywhere: `taskdeck add -- python3 examples/count.py numbers.txt`.

After each number it writes a checkpoint and waits until that is durable, so that at most the last number before a kill is
written twice. Needs nothing but the standard library; any language can do the same.

usage: count.py FILE [LAST [SECONDS BETWEEN TWO NUMBERS]]
"""

import json
import os
import socket
import sys
import time


def main() -> None:
    file, last, pause = sys.argv[1:] + ["20", "0.1"][len(sys.argv) - 2 :]
    taskdeck = socket.socket(fileno=int(os.environ["TASKDECK_FD"])).makefile("rw", encoding="utf-8")
    done = json.loads(os.environ.get("TASKDECK_CHECKPOINT", "{}")).get("done", 0)
    for number in range(done + 1, int(last) + 1):
        with open(file, "a", encoding="utf-8") as out:
            out.write(f"{number} {os.getpid()} {os.environ['TASKDECK_ATTEMPT']}\n")
        say(taskdeck, {"checkpoint": {"done": number}, "reply": True})
        answer = json.loads(taskdeck.readline())
        if answer != {"checkpoint": "saved"}:
            sys.exit(f"the checkpoint was refused: {answer}")
        say(taskdeck, {"progress": [number, int(last)]})
        time.sleep(float(pause))


def say(taskdeck, line: dict) -> None:
    taskdeck.write(json.dumps(line) + "\n")
    taskdeck.flush()


main()
