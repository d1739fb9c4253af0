"""The health of one route written down a second time, as plainly as can be: what the rules are held against.

Shares no code with the rules. Jitter is off; the group has room for every ejection unless `cap_refuses`.
"""

from __future__ import annotations

from statistics import median

TIMEOUTS = {"TCP_TIMEOUT", "TUNNEL_TIMEOUT", "PROBE_TIMEOUT", "BUDGET_EXCEEDED"}
FATAL = {"PROXY_TLS", "PROXY_PROTO", "PROXY_AUTH", "TLS_INTERCEPT", "EXIT_IP_LEAK", "REGION_MISMATCH"}
NEUTRAL = {"PROBE_TARGET_DOWN", "LOCAL_NET_DOWN", "GEO_UNAVAILABLE", "CANCELLED", "INTERNAL"}
MISPLACED = {"REGION_MISMATCH", "REGION_UNKNOWN"}


class Model:
    """One route. `probe(now, error, ms)` is a full check; the state is read afterwards."""

    def __init__(self, cap_refuses: bool = False) -> None:
        self.state, self.reason, self.until = "AVAILABLE", "", 0.0
        self.cap_refuses = cap_refuses
        self.degraded = False
        self.latencies: list[float] = []
        self.latency = 0.0
        """The median of the last five."""
        self.timeouts: list[float] = []
        self.failures = 0
        self.seen = 0
        self.last_error = ""
        self.level = 0
        self.since: float | None = None
        self.faulted: float | None = None
        self.rechecks = 0

    def raw(self, now: float) -> float | None:
        if not self.seen:
            return None
        recent = sum(now - 600 < at <= now for at in self.timeouts) if self.timeouts else 0
        return 100 - self.latency / 20 - 15 * self.failures - 10 * recent

    def due(self, now: float) -> bool:
        """May a check change the state at this moment?"""
        if self.state == "FAULT":
            return now >= (self.faulted or 0.0) + 1800
        return self.state == "AVAILABLE" or (self.state == "COOLDOWN" and now >= self.until)

    def probe(self, now: float, error: str, ms: float, of_task: bool = False) -> None:
        if error in NEUTRAL or self.state == "DISABLED":
            return
        if of_task and self.state != "AVAILABLE":
            return self._count(now, error, ms)
        if self.state == "FAULT" and self.due(now):
            self.state, self.reason, self.until = "COOLDOWN", "PROBE", now
        before = self.last_error
        self._count(now, error, ms)
        if self.state == "AVAILABLE":
            self._serving(now, error, before)
        elif self.state == "COOLDOWN" and now >= self.until:
            self._half_open(now, error, before, ms)

    def _count(self, now: float, error: str, ms: float) -> None:
        self.last_error = error
        if not error:
            self.seen += 1
            self.failures = 0
            self.latencies.append(ms)
            self.latency = median(self.latencies[-5:])
        elif error not in MISPLACED:
            self.seen += 1
            self.failures += 1
            if error in TIMEOUTS:
                self.timeouts.append(now)

    def _serving(self, now: float, error: str, before: str) -> None:
        if error in FATAL and before == error:
            self._fault(now)
        elif error in FATAL:
            self._rest(now, "REGION" if error in MISPLACED else "HEALTH", wait=60.0)
        elif error in MISPLACED:
            self._rest(now, "REGION")
        elif (raw := self.raw(now)) is not None and raw < 40:
            if error:
                self._rest(now, "HEALTH")
            elif self.cap_refuses:
                self.degraded = True
            else:
                self._rest(now, "SLOW")
        elif raw is not None and raw >= 60:
            self.degraded = False

    def _half_open(self, now: float, error: str, before: str, ms: float) -> None:
        if error:
            if self.faulted is not None:
                self.rechecks += 1
                self._fault(now)
                if self.rechecks >= 3:
                    self.state = "DISABLED"
            elif error in FATAL and before == error:
                self._fault(now)
            elif error in FATAL:
                self._rest(now, "REGION" if error in MISPLACED else "HEALTH", wait=60.0)
            else:
                self._rest(now, "REGION" if error in MISPLACED else "HEALTH")
        elif 100 - ms / 20 < 60:
            self.faulted, self.rechecks = None, 0
            self._rest(now, "SLOW")
        else:
            self.state, self.reason = "AVAILABLE", ""
            self.failures, self.timeouts, self.latencies, self.latency = 0, [], [ms], ms
            self.since, self.faulted, self.rechecks = now, None, 0

    def _rest(self, now: float, reason: str, wait: float | None = None) -> None:
        if self.since is not None:
            self.level = max(0, self.level - int((now - self.since) // 1800))
            self.since = None
        self.until = now + (wait if wait is not None else min(3600.0, 60.0 * 2**self.level))
        self.level += 1
        self.state, self.reason, self.degraded = "COOLDOWN", reason, False

    def _fault(self, now: float) -> None:
        self.state, self.reason, self.faulted, self.degraded = "FAULT", "", now, False
        self.since = None
