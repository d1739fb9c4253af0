"""What an attempt can be asked that ends it. Light: engine and worker share it."""

from __future__ import annotations

STOPS = {"drain": 1, "pause": 2, "stop": 3, "cancel": 4, "kill": 5}
"""A stronger one replaces a weaker one, never the other way round."""

OUTCOMES = {
    "drain": "drained",
    "pause": "paused",
    "stop": "drained",
    "cancel": "cancelled",
    "kill": "cancelled",
}
"""How an attempt ends that grants it."""
