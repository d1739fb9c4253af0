"""Where the log of an attempt lies: the one place for the rule, so that engine, worker and screens agree."""

from __future__ import annotations


def log_path(logs: str, task_id: int, attempt: int) -> str:
    """The log file of one attempt; a thousand tasks share a folder, so that no folder grows without end."""
    return f"{logs}/tasks/{task_id // 1000:04d}/{task_id}.{attempt}.log"
