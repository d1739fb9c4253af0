"""What an attempt holds, resources and a route: how its code is told of them, and which failures are theirs.

Owns the blame: a failure of the route itself, or a `ResourceFault`, is told with the id of what is at fault. Pure. Must
not open connections.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from functools import cached_property
from typing import Any

from msgspec import structs

from ..edge import probe_errors
from ..rules.failures import Failure, FailureClass
from ..rules.redaction import Redactor
from .attempt_messages import LeasedRoute, Run
from .endings import SECRETS, failure_of, safe
from .route_words import is_of_proxy, told_by_forwarder
from .ways_out import BLAMED, place_of

PROXY_VARIABLES = ("http_proxy", "https_proxy", "all_proxy")
NO_PROXY = "no_proxy"


class Held:
    """What one attempt holds; `lend` makes a forwarder for the route and tells its URL.

    Raises `BadExit` where its route can't be used.
    """

    def __init__(self, run: Run, lend: Callable[[], str]) -> None:
        self.resources: Mapping[str, list[str]] = run.resources
        self.route: LeasedRoute | None = run.route
        self.exit = place_of(run.route)
        """The way out without its login."""
        self.limited = bool(run.bandwidth or (run.route and run.route.bandwidth))
        """Is there a limit of bandwidth, which a local proxy keeps?"""
        self._lend = lend

    @property
    def route_id(self) -> str:
        """The id of the route, or empty."""
        return self.route.route_id if self.route else ""

    @property
    def resource(self) -> str | None:
        """The first resource, or None."""
        return next((one for ids in self.resources.values() for one in ids), None)

    @cached_property
    def proxy(self) -> str:
        """The URL of a local proxy, without a login, that leads out by the route, for libraries. Empty = no proxy."""
        return self._lend() if self.exit.is_proxy or self.limited else ""

    @property
    def redactor(self) -> Redactor:
        """Masks every secret that this process has looked up, besides what is masked anyway."""
        return SECRETS

    def variables(self) -> dict[str, str]:
        """The environment of a process that works for this attempt."""
        given = {f"TASKDECK_RESOURCE_{_spelled(pool)}": " ".join(ids) for pool, ids in self.resources.items()}
        if self.route:
            given["TASKDECK_ROUTE"] = self.route_id
        if proxy := self.proxy:
            given["TASKDECK_PROXY"] = proxy
            given |= dict.fromkeys((*PROXY_VARIABLES, *map(str.upper, PROXY_VARIABLES)), proxy)
            given |= {NO_PROXY: "", NO_PROXY.upper(): ""}
        return given

    def hides(self, name: str) -> bool:
        """Must this variable not be inherited? With a route, what else is known of proxies would lead past it."""
        return self.route is not None and name.lower() in (*PROXY_VARIABLES, NO_PROXY)

    def failure(self, error: BaseException, now: datetime) -> Failure:
        """What the rules make of an exception, with the blame where it belongs."""
        failure = failure_of(error, now, self.redactor)
        if failure.rule.startswith("raised ") and failure.class_ is not FailureClass.RESOURCE_FAULT:
            return failure  # the author has judged
        if self.exit.is_proxy and (found := self._route_failure(error)):
            return found
        return self.blamed(failure) if failure.class_ is FailureClass.RESOURCE_FAULT else failure

    def blamed(self, failure: Failure) -> Failure:
        """The resource fault with the ids of what is at fault as its detail, several with blanks between them."""
        if failure.rule.startswith("HTTP status"):  # 407
            kind = "proxy_auth" if self.route else failure.kind
            return structs.replace(failure, kind=kind, detail=self.route_id)
        named = failure.detail
        if not named:
            return structs.replace(failure, detail=self._first_pool() or self.route_id)
        if named in self.resources:
            return structs.replace(failure, detail=" ".join(self.resources[named]))
        if self.holds(named):
            return failure
        story = safe(f'{failure.message} (it named "{named}", which the attempt does not hold)')
        return structs.replace(failure, message=story, detail="")

    def holds(self, name: str) -> bool:
        """Is it the id of a resource or the route of this attempt?"""
        return bool(name) and (name == self.route_id or any(name in ids for ids in self.resources.values()))

    def _first_pool(self) -> str:
        return next((" ".join(ids) for ids in self.resources.values() if ids), "")

    def _route_failure(self, error: BaseException) -> Failure | None:
        for one in _causes(error):
            if verdict := getattr(one, BLAMED, None):
                return self.route_fault(verdict)
            if verdict := told_by_forwarder(one):
                return self.route_fault(verdict)
            if is_of_proxy(one):
                when = probe_errors.Circumstances(self.exit, "probe")
                return self.route_fault(probe_errors.classify(one, when), str(one))
        return None

    def route_fault(self, verdict: probe_errors.Verdict, told: str = "") -> Failure:
        """The failure of an attempt whose route failed; `told` stands for a verdict that knows no better."""
        known = verdict.error_type is not probe_errors.ErrorType.INTERNAL
        kind = verdict.error_type.lower() if known else "proxy"
        story = verdict.detail if known else told
        message = safe(f"route {self.route_id}: {story}", self.redactor)
        return Failure(
            FailureClass.RESOURCE_FAULT, kind, message, "failure of the route", detail=self.route_id
        )


def _spelled(pool: str) -> str:
    """A pool's name as part of a variable's."""
    return re.sub(r"[^A-Z0-9]", "_", pool.upper())


def _causes(error: BaseException) -> Iterator[BaseException]:
    """The error, what it was raised from, and the members of a group; not what merely happened before."""
    waiting, seen = [error], set()
    while waiting:
        one = waiting.pop(0)
        if id(one) in seen:
            continue
        seen.add(id(one))
        yield one
        waiting += one.exceptions if isinstance(one, BaseExceptionGroup) else ()
        inner: list[Any] = [one.__cause__, getattr(one, "reason", None), *one.args[:1]]
        waiting += [each for each in inner if isinstance(each, BaseException)]
