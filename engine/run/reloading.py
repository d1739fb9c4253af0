"""Reloading the configuration of a running engine (SIGHUP): validated first, taken over whole or not at all.

A file with a mistake changes nothing: the old settings stay in force, and event log and `taskdeck status` say since when the
file is rejected and why (TF204, TF205). The log is opened anew, as whoever moves it away (logrotate) expects.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..config import Config
from ..errors import ConfigError
from ..rules.timing import utc_text
from ..store.tasks import ENGINE
from ..store.transaction import Transaction
from .inventory import take_inventory

if TYPE_CHECKING:
    from .engine import Engine

log = logging.getLogger("taskdeck.reload")

NEEDS_RESTART = (
    "taskdeck.db",
    "taskdeck.logs",
    "taskdeck.handlers",
    "storage.network",
    "engine.workers",
    "engine.slots",
    "secrets",
)
"""Settings that are read once, at the start."""


class Reloader:
    """Reads the configuration again on request. One for the life of an engine."""

    def __init__(
        self, engine: Engine, read: Callable[[], Config], log_anew: Callable[[Config], None]
    ) -> None:
        self._engine = engine
        self._read = read
        self._log_anew = log_anew
        self._running: asyncio.Task[None] | None = None
        self._loaded_at = utc_text(engine.clock.utc())
        self._version = 1
        self._rejected: dict[str, str] | None = None

    def request(self) -> None:
        """Reload soon; a request while one is under way is answered by that one."""
        if self._running is None or self._running.done():
            self._running = asyncio.get_running_loop().create_task(self._reload())

    def description(self) -> dict[str, Any]:
        """For `ping`: the file, which version of it runs since when, and the rejected one, if the last reload failed."""
        file = self._engine.config.file
        return {
            "file": str(file) if file else None,
            "version": self._version,
            "loaded_at": self._loaded_at,
            "rejected": self._rejected,
        }

    async def _reload(self) -> None:
        now = utc_text(self._engine.clock.utc())
        try:
            config = await asyncio.to_thread(self._read)
            self._log_anew(config)  # first, since a place that can't be written is a mistake too
        except ConfigError as error:
            self._rejected = {"at": now, "why": str(error)}
            log.error("the configuration is rejected, version %d stays in force:\n%s", self._version, error)
            await self._engine.writer.write(self._event, "CONFIG_REJECTED", "error", str(error))
            return
        waiting = changed_for_restart(self._engine.config, config)
        await self._engine.writer.write(take_inventory, config)
        self._engine.adopt(config)
        self._version += 1
        self._loaded_at, self._rejected = now, None
        message = f"version {self._version} is in force"
        if waiting:
            message += f"; these wait for a restart: {', '.join(waiting)}"
        log.warning("configuration reloaded: %s", message)
        await self._engine.writer.write(self._event, "CONFIG_RELOADED", "info", message)

    def _event(self, tx: Transaction, event_type: str, level: str, message: str) -> None:
        tx.event(event_type, actor=ENGINE, level=level, reason="reload", message=message)


def changed_for_restart(old: Config, new: Config) -> list[str]:
    """Which settings differ that are only read at the start."""
    before, after = ({key: value for key, value, _ in config.origins()} for config in (old, new))
    changed = [key for key in after if before.get(key) != after[key]]
    return [key for key in changed if key.startswith(NEEDS_RESTART)]
