"""What an entry of `handlers` names. Light, since each worker asks."""

from __future__ import annotations


def is_file_handler(text: str) -> bool:
    """Whether an entry of `handlers` names a file, not a module."""
    return text.endswith(".py") or "/" in text
