"""What every handler can see of its attempt, async or sync. Must not do anything."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from types import MappingProxyType

from .attempt_messages import Run
from .held import Held


class AttemptView(ABC):
    """The attempt's own figures, and what it holds."""

    def __init__(self, run: Run) -> None:
        self._run = run

    @property
    @abstractmethod
    def _held(self) -> Held:
        """What it holds."""

    @property
    def task_id(self) -> int:
        """The task's number, as in `#42`."""
        return self._run.task_id

    @property
    def attempt(self) -> int:
        """The number of this execution, from 1."""
        return self._run.attempt

    @property
    def retry_count(self) -> int:
        """Retries spent before this attempt."""
        return self._run.retry_count

    @property
    def max_retry(self) -> int:
        """Retries that the task may spend in all."""
        return self._run.max_retry

    @property
    def scheduled_at(self) -> str:
        """When the task was meant to run, UTC; the same in every attempt."""
        return self._run.scheduled_at

    @property
    def resources(self) -> Mapping[str, list[str]]:
        """The resources that this attempt holds: ids by pool."""
        return MappingProxyType(self._held.resources)

    @property
    def resource(self) -> str | None:
        """The resource that this attempt holds; of several the first, None where it holds none."""
        return self._held.resource

    @property
    def route(self) -> str | None:
        """The id of the route that this attempt holds, or None."""
        return self._held.route_id or None

    @property
    def proxy(self) -> str:
        """The route as a proxy's URL, login included, for libraries that do their own HTTP; empty = none."""
        return self._held.proxy
