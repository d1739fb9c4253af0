"""How fast an attempt may receive: the buckets of its route and of itself, counted for every byte whichever way it came.

One bucket a route in this worker, shared by its attempts and threads. Must not wait: whoever receives does.
"""

from __future__ import annotations

from threading import Lock

from ..clock import Clock
from ..rules.bandwidth import Bucket, take
from .messages import Run


class Meter:
    """The limits of one attempt. Any thread may count."""

    def __init__(self, buckets: list[Bucket], clock: Clock, lock: Lock) -> None:
        self._buckets = buckets
        self._clock = clock
        self._lock = lock

    @property
    def limits(self) -> bool:
        """Is there any limit?"""
        return bool(self._buckets)

    def took(self, count: int) -> float:
        """So many bytes came; returns the seconds to wait before taking more."""
        if not self._buckets:
            return 0.0
        with self._lock:
            return take(self._buckets, count, self._clock.monotonic())


class Metering:
    """The buckets of one worker."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = Lock()
        self._routes: dict[str, Bucket] = {}

    def of(self, run: Run) -> Meter:
        """The meter of an attempt. Where a route's limit was changed, the new one holds for attempts from now on."""
        buckets, now = [], self._clock.monotonic()
        if run.route is not None and run.route.bandwidth:
            known = self._routes.get(run.route.route_id)
            if known is None or known.rate != run.route.bandwidth:
                known = self._routes[run.route.route_id] = Bucket(run.route.bandwidth, now)
            buckets.append(known)
        if run.bandwidth:
            buckets.append(Bucket(run.bandwidth, now))
        return Meter(buckets, self._clock, self._lock)
