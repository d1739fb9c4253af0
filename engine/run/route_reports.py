"""What a task saw of its route, charged to whom it belongs: the route, the target, the task, or nobody.

Who is to blame is decided in `rules.route_targets`; here the verdict is written: health and samples of the route, blocks of
the target, the circuit of (type, target).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ..config import Config
from ..rules import route_targets as rules
from ..rules.circuits import Cause
from ..rules.hosts import bare_host
from ..rules.route_errors import ErrorType
from ..rules.route_health import Sample
from ..rules.route_targets import Blame
from ..store import circuits, route_targets, routes
from ..store.transaction import Transaction
from .messages import RouteResult

Task = Mapping[str, Any]
Uniform = Callable[[float, float], float]


def note(tx: Transaction, task: Task, result: RouteResult, config: Config, uniform: Uniform) -> None:
    """Take over one report of the attempt that holds `task` and the route."""
    target = tx.redactor.text(bare_host(result.target))
    if not target and not result.error_type:
        return  # it says nothing of any target, and names no fault of the route
    if not result.error_type:
        _answered(tx, task, result, target, config, uniform)
    elif target and result.error_type == ErrorType.PROBE_TARGET_DOWN:  # connected, and then the target failed
        route_targets.reached(tx, result.route_id, target)
        route_targets.failed(tx, result.route_id, target)
    elif result.error_type in frozenset(ErrorType):
        failed(tx, task, result.route_id, ErrorType(result.error_type), target, config, uniform)


def failed(
    tx: Transaction,
    task: Task,
    route_id: str,
    error: ErrorType,
    target: str,
    config: Config,
    uniform: Uniform,
) -> Blame:
    """The route let the task down with this error, if it was the route. Who tells the same twice is heard once."""
    if error.neutral:
        return Blame.NOBODY
    source = _source(task)
    target = target or routes.last_target(tx, route_id, source) or task["target"]
    blame = Blame.ROUTE
    if error is ErrorType.TUNNEL_FAILED:
        blame = rules.blame_tunnel(
            route_targets.witnessed_at(tx, target, route_id) if target else tx.boot,
            tx.boot,
            config.routing.blocked,
        )
    if routes.is_told(tx, route_id, source, error):
        return blame
    sample = Sample(tx.boot, error, stages=1, of_probe=False)
    if blame is Blame.TARGET:
        route_targets.failed(tx, route_id, target)
        routes.keep_sample(tx, route_id, sample, source, target, config.routing.samples_kept)
    else:
        _record(tx, route_id, sample, source, target, config, uniform)
    return blame


def _answered(
    tx: Transaction, task: Task, result: RouteResult, target: str, config: Config, uniform: Uniform
) -> None:
    route_id, source = result.route_id, _source(task)
    if not target:  # something came back, and TLS hid what
        return _record(tx, route_id, Sample(tx.boot, None, of_probe=False), source, "", config, uniform)
    blame = rules.blame_status(result.status, config.routing.blocked)
    if result.secure:  # a status that a proxy may have made up is no witness
        route_targets.reached(tx, route_id, target)
    if blame is Blame.BLOCKED:
        return _refused(tx, task, result, target, config, uniform)
    if target == task["target"] and blame is not Blame.TARGET:
        circuits.succeeded(tx, task, Cause.REFUSALS)
    if blame is Blame.TARGET:
        route_targets.failed(tx, route_id, target)
    elif blame is Blame.NOBODY:
        route_targets.succeeded(tx, route_id, target)
        sample = Sample(tx.boot, None, result.ms, of_probe=False)
        _record(tx, route_id, sample, source, target, config, uniform)


def _refused(
    tx: Transaction, task: Task, result: RouteResult, target: str, config: Config, uniform: Uniform
) -> None:
    """Two in a row block the route for the target. Many routes: the target's affair. Many targets: the route rests."""
    settings, is_its_target = config.routing.blocked, target == task["target"]
    rest = min(result.retry_after or settings.base_s, settings.max_s)
    if circuits.refuses_all(tx, target):  # its own affair already: routes are punished no more
        if is_its_target:
            circuits.refused(tx, task, rest, config.circuit)
        return
    since = routes.recovered_at(tx, result.route_id)
    refusal = route_targets.refused(
        tx, result.route_id, target, settings, retry_after=result.retry_after, since=since
    )
    if refusal.circuit and is_its_target:
        circuits.refused(tx, task, rest, config.circuit)
    elif refusal.route:
        routes.rest_from_refusals(tx, result.route_id, config.routing, uniform)


def _source(task: Task) -> str:
    """Whose word a sample is."""
    return f"task:{task['id']}/{task['attempt']}"


def _record(
    tx: Transaction,
    route_id: str,
    sample: Sample,
    source: str,
    target: str,
    config: Config,
    uniform: Uniform,
) -> None:
    routes.record(
        tx, route_id, sample, source=source, settings=config.routing, uniform=uniform, target=target or None
    )
