"""Where the log of an attempt lies: one file an attempt, under the folder of logs."""

from __future__ import annotations

import os


def log_path(logs: str, task_id: int, attempt: int) -> str:
    """The log file of one attempt."""
    return os.path.join(logs, f"{task_id}.{attempt}.log")
