"""A fleet of made-up routes under the real rules, on a clock of its own, beside the plain model of each.

Every result goes to the rules and to the model; every choice is made by the rules and its odds are worked out from the model.
No database and no sockets, so that days pass in minutes.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from statistics import median
from typing import Any

from msgspec import structs

from taskdeck.engine.rules.resource_states import AVAILABLE, COOLDOWN, RESTING, RUNNING, Kind
from taskdeck.engine.rules.resources import Change, Resource, release
from taskdeck.engine.rules.route_choice import choose
from taskdeck.engine.rules.route_cooldown import Group, Standing, judge, recheck
from taskdeck.engine.rules.route_errors import ErrorType
from taskdeck.engine.rules.route_filter import RouteCandidate, RouteWish
from taskdeck.engine.rules.route_health import RouteHealth, Sample, score
from taskdeck.engine.rules.route_settings import RouteSettings
from taskdeck.engine.rules.routes import first_probe_at, next_probe_at
from tests.rules.route_model import Model

SETTINGS = RouteSettings()
SETTINGS = structs.replace(SETTINGS, cooldown=structs.replace(SETTINGS.cooldown, jitter=0.0))
CHECK_S = 5.0
"""Seconds that a check takes which ends in a timeout."""

DETECTED_S = 66.0 + 2 * SETTINGS.fast_interval_s + 4 * CHECK_S
"""By then three timeouts in a row have been seen: one interval with its jitter, two fast ones, and the checks themselves."""


@dataclass
class Quality:
    """Routes of one quality: share of the fleet, milliseconds, share of chance failures, mean seconds up and down."""

    share: float
    ms: tuple[float, float]
    noise: float = 0.0
    up: float = 0.0
    down: float = 0.0
    error: ErrorType = ErrorType.PROBE_TIMEOUT


QUALITIES = {
    "good": Quality(0.60, (40, 300), noise=0.003),
    "slow": Quality(0.10, (900, 1600)),
    "flapping": Quality(0.10, (60, 250), up=2400, down=600),
    "failing": Quality(0.10, (60, 250), up=36000, down=14400, error=ErrorType.TCP_REFUSED),
    "dead": Quality(0.05, (60, 250), noise=1.0),
    "refusing": Quality(0.05, (60, 250), noise=1.0, error=ErrorType.PROXY_AUTH),
}


@dataclass
class Route:
    """What is true of one route, what the rules and the model make of it, and what came of it."""

    id: str
    kind: str
    ms: float
    standing: Standing = field(default_factory=Standing)
    health: RouteHealth = field(default_factory=RouteHealth)
    model: Model = field(default_factory=Model)
    busy: bool = False
    down_since: float | None = None
    up_again: float | None = None
    next_at: float = 0.0
    picks: int = 0
    expected: float = 0.0
    candidate: RouteCandidate = field(default_factory=lambda: RouteCandidate(""))


class Fleet:
    """So many routes and a stream of tasks; `run` lets the time pass, the figures are read afterwards."""

    def __init__(self, count: int, seed: int, task_every_s: float) -> None:
        self.rng = Random(seed)
        self.now = 0.0
        self.task_every_s = task_every_s
        self.routes = [route for kind in QUALITIES for route in self._made(kind, count)]
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._number = 0
        self.ejected = 0
        self.differs = 0
        self.checks = self.given = self.unserved = 0
        self.dead_given: list[float] = []
        self.dead_checked: dict[str, int] = defaultdict(int)
        self.recoveries: list[float] = []
        for route in self.routes:
            self._refresh(route)
            self._at(first_probe_at(route.id, 0.0, SETTINGS.interval_s), lambda route=route: self._due(route))
            if QUALITIES[route.kind].up:
                self._at(
                    self.rng.expovariate(1 / QUALITIES[route.kind].up), lambda route=route: self._break(route)
                )
        self._at(60.0, self._task)

    def _made(self, kind: str, count: int) -> list[Route]:
        return [
            Route(f"{kind}-{n}", kind, self.rng.uniform(*QUALITIES[kind].ms))
            for n in range(round(count * QUALITIES[kind].share))
        ]

    def run(self, seconds: float, tell: Callable[[float], None] = lambda _: None) -> None:
        while self._events and self._events[0][0] <= seconds:
            self.now, _, act = heapq.heappop(self._events)
            act()
            tell(self.now)

    def _at(self, at: float, act: Callable[[], None]) -> None:
        self._number += 1
        heapq.heappush(self._events, (at, self._number, act))

    # ---- what is true ------------------------------------------------------------------------------------------------

    def _break(self, route: Route) -> None:
        route.down_since, route.up_again = self.now, None
        self._at(self.now + self.rng.expovariate(1 / QUALITIES[route.kind].down), lambda: self._mend(route))

    def _mend(self, route: Route) -> None:
        route.down_since = None
        if route.standing.state is COOLDOWN:
            route.up_again = self.now
        self._at(self.now + self.rng.expovariate(1 / QUALITIES[route.kind].up), lambda: self._break(route))

    def _is_down(self, route: Route) -> bool:
        return route.down_since is not None or QUALITIES[route.kind].noise == 1.0

    def _outcome(self, route: Route) -> tuple[ErrorType | None, float]:
        kind = QUALITIES[route.kind]
        fails = self._is_down(route) or self.rng.random() < kind.noise
        return (kind.error if fails else None), route.ms * self.rng.uniform(0.9, 1.1)

    # ---- checks --------------------------------------------------------------------------------------------------------

    def _due(self, route: Route) -> None:
        if self.now < route.next_at:
            return  # a newer result has moved it
        if route.busy:
            self._check_at(route, self.now + SETTINGS.interval_s)
            return
        error, ms = self._outcome(route)
        took = CHECK_S if error is not None and error.timeout else ms / 1000
        route.next_at = self.now + took
        self._at(self.now + took, lambda: self._checked(route, error, ms))

    def _checked(self, route: Route, error: ErrorType | None, ms: float) -> None:
        self.checks += 1
        if change := recheck(route.standing, route.health, self.now, SETTINGS.cooldown):
            self._change(route, change)
        self._result(route, error, ms, of_task=False)

    def _check_at(self, route: Route, at: float) -> None:
        route.next_at = at
        self._at(at, lambda: self._due(route))

    def _result(self, route: Route, error: ErrorType | None, ms: float, *, of_task: bool) -> None:
        group = Group(len(self.routes), self.ejected - self._is_out(route))
        route.model.cap_refuses = 2 * (group.ejected + 1) > group.enabled
        stages = 3 if error is None else (1 if of_task else min(error.stages) - 1)
        sample = Sample(self.now, error, None if error else ms, stages, of_probe=not of_task)
        judged = judge(route.standing, route.health, sample, group, SETTINGS, self.rng.uniform)
        route.health = judged.health
        for change in judged.changes:
            self._change(route, change)
        route.model.probe(self.now, error.value if error else "", ms, of_task)
        self._compare(route)
        at = next_probe_at(route.standing, route.health, self.now, SETTINGS, self.rng.uniform)
        if at is not None:
            self._check_at(route, at)
        elif route.busy:
            self._check_at(route, self.now + SETTINGS.interval_s)
        self._refresh(route)

    def _is_out(self, route: Route) -> bool:
        return route.standing.state not in (AVAILABLE, RUNNING)

    def _change(self, route: Route, change: Change) -> None:
        was_out = self._is_out(route)
        if route.busy:
            route.standing = structs.replace(route.standing, pending=change)
            return
        route.standing = Standing(change.to, change.reason, change.until or 0.0)
        self.ejected += self._is_out(route) - was_out
        if change.to is AVAILABLE and route.up_again is not None:
            self.recoveries.append(self.now - route.up_again)
            route.up_again = None

    def _compare(self, route: Route) -> None:
        """The state, or for a busy route the one that it will have: the rules' and the model's."""
        pending = route.standing.pending
        state = pending.to if pending else AVAILABLE if route.busy else route.standing.state
        known = score(route.health, self.now, SETTINGS.score)
        same = state == route.model.state and (known.raw if known else None) == route.model.raw(self.now)
        self.differs += not same

    # ---- tasks ---------------------------------------------------------------------------------------------------------

    def _task(self) -> None:
        self._at(self.now + self.rng.expovariate(1 / self.task_every_s), self._task)
        choice = choose([each.candidate for each in self.routes], RouteWish(), self.now, self.rng, SETTINGS)
        self._expect()
        if not choice.order:
            self.unserved += 1
            return
        route = next(each for each in self.routes if each.id == choice.order[0])
        self.given += 1
        route.picks += 1
        if self._is_down(route):
            self.dead_given.append(self.now - (route.down_since or 0.0))
        route.busy = True
        route.standing = structs.replace(route.standing, state=RUNNING)
        self._refresh(route)
        error, ms = self._outcome(route)
        held = CHECK_S if error is not None and error.timeout else self.rng.uniform(1, 30)
        self._at(self.now + held, lambda: self._end(route, error, ms))

    def _end(self, route: Route, error: ErrorType | None, ms: float) -> None:
        self._result(route, error, ms, of_task=True)
        busy = Resource(route.id, Kind.ROUTE, RUNNING, pending=route.standing.pending)
        change = release(busy, self.now)
        route.busy = False
        route.standing = Standing(RUNNING)
        self._change(route, change)
        if route.model.state == "COOLDOWN":
            route.model.until = max(route.model.until, self.now)
        at = next_probe_at(route.standing, route.health, self.now, SETTINGS, self.rng.uniform)
        self._check_at(route, self.now if at is None else at)
        self._refresh(route)

    def _expect(self) -> None:
        """The odds of each route by the model: of two by lot the better one."""
        usable = [each for each in self.routes if each.model.state == "AVAILABLE" and not each.busy]
        verified = [each for each in usable if each.candidate.verified]
        ranked = sorted(verified, key=lambda each: (each.model.degraded, -self._worth(each)))
        lots = [each for each in ranked if not each.model.degraded] or ranked
        count = len(lots)
        for place, route in enumerate(lots, 1):
            route.expected += 2 * (count - place) / (count * (count - 1)) if count > 1 else 1.0

    def _worth(self, route: Route) -> float:
        raw = route.model.raw(self.now)
        known = 50.0 if raw is None else min(100.0, max(0.0, raw))
        since = route.model.since
        return known * (1.0 if since is None else max(0.1, min(1.0, (self.now - since) / 120)))

    def _refresh(self, route: Route) -> None:
        """The route as the choice sees it; it is proven where it has passed a check or served a task at all."""
        known = score(route.health, self.now, SETTINGS.score)
        standing = route.standing
        resting = standing.state is COOLDOWN and standing.reason in RESTING
        route.candidate = RouteCandidate(
            route.id,
            state=AVAILABLE if route.busy else standing.state,
            score=known.value if known else None,
            degraded=route.health.degraded,
            recovered_at=route.health.recovered_at,
            busy=int(route.busy),
            resting=int(resting),
            verified=route.health.last_ok_at is not None,
        )

    # ---- figures -------------------------------------------------------------------------------------------------------

    def figures(self) -> dict[str, Any]:
        """What came of it, for people and for assertions."""
        good = [each for each in self.routes if each.kind == "good"]
        return {
            "checks": self.checks,
            "given": self.given,
            "unserved": self.unserved,
            "differs": self.differs,
            "dead_given": len(self.dead_given),
            "dead_longest_s": max(self.dead_given, default=0.0),
            "mttr_s": median(self.recoveries) if self.recoveries else 0.0,
            "mttr_longest_s": max(self.recoveries, default=0.0),
            "recoveries": len(self.recoveries),
            "good_least": min(each.picks for each in good),
            "good_least_expected": min(each.expected for each in good),
            "picks": {
                kind: (
                    sum(each.picks for each in self.routes if each.kind == kind),
                    round(sum(each.expected for each in self.routes if each.kind == kind), 1),
                )
                for kind in QUALITIES
            },
        }
