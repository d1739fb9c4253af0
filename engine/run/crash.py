"""Where fault points were; see `engine.crash`."""

from ..crash import crash_at, suppressed

__all__ = ["crash_at", "suppressed"]
