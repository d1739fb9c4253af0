"""The peewee models: what the tables hold. The DDL stands in `migrations/`; a test holds both equal.

Models are never bound to a database: run `query.execute(tx.db)` or `query.execute(reader)`, since a bound context broke
writes of other threads in a trial.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from peewee import AutoField, CompositeKey, FloatField, IntegerField, Model, TextField

from ..rules.timing import parse_utc, utc_text


class UtcField(TextField):
    """A time: UTC text of one width, and nothing else. A CHECK of the database says the same, whoever writes."""

    def db_value(self, value: Any) -> Any:
        if isinstance(value, datetime):
            return utc_text(value)
        if isinstance(value, str):
            parse_utc(value)
        elif value is not None:
            raise ValueError(f"a time is stored as UTC text, not as {type(value).__name__}")
        return value


class Engine(Model):
    """One life of an engine process on this database."""

    id = AutoField()
    incarnation = TextField()
    pid = IntegerField()
    start_time = IntegerField()
    boot_id = TextField()
    host = TextField()
    code_version = TextField()
    supervisor_pid = IntegerField(null=True)
    started_at = UtcField()
    ended_at = UtcField(null=True)
    end_reason = TextField(null=True)


class Worker(Model):
    """One life of a worker process; known by pid, start time, boot id and incarnation."""

    id = AutoField()
    incarnation = TextField()
    engine_id = IntegerField()
    pid = IntegerField()
    start_time = IntegerField()
    boot_id = TextField()
    host = TextField()
    code_version = TextField()
    state = TextField()
    rss = IntegerField(null=True)
    started_at = UtcField()
    last_heartbeat = UtcField(null=True)
    ended_at = UtcField(null=True)
    end_reason = TextField(null=True)
    handlers = TextField()
    journal = TextField(null=True)
    recorded = IntegerField()
    tasks = IntegerField()
    evidence = TextField(null=True)


class TaskType(Model):
    """A handler type as the last worker published it; `settings` is the JSON of `messages.TypeInfo`."""

    name = TextField(primary_key=True)
    settings = TextField()
    published_at = UtcField()

    class Meta:
        table_name = "task_type"


class Task(Model):
    """One durable unit of work. Only `store.tasks.transition` writes `state`."""

    id = AutoField()
    type = TextField()
    state = TextField()
    reason = TextField()
    priority = IntegerField()
    effective_priority = IntegerField()
    scheduled_at = UtcField()
    next_run_at = UtcField()
    payload = TextField()
    idempotency_key = TextField(null=True)
    schedule = TextField(null=True)
    parent_id = IntegerField(null=True)
    tags = TextField()
    timeout = FloatField(null=True)
    max_retry = IntegerField(null=True)
    on_lost = TextField(null=True)
    retry_count = IntegerField()
    delays = IntegerField()
    losses = IntegerField()
    losses_total = IntegerField()
    waits = IntegerField()
    resource_faults = IntegerField()
    attempt = IntegerField()
    fence = IntegerField()
    worker_id = IntegerField(null=True)
    lease_until = UtcField(null=True)
    lease_until_boot = FloatField(null=True)
    boot_id = TextField(null=True)
    wanted = TextField(null=True)
    progress_done = FloatField(null=True)
    progress_total = FloatField(null=True)
    progress_note = TextField(null=True)
    result = TextField(null=True)
    error = TextField(null=True)
    created_at = UtcField()
    started_at = UtcField(null=True)
    finished_at = UtcField(null=True)
    updated_at = UtcField()
    needs = TextField(null=True)
    route = TextField(null=True)
    allow_direct = IntegerField(null=True)
    suspect = IntegerField()
    lane = TextField()
    ending = TextField(null=True)
    target = TextField()
    bandwidth = FloatField(null=True)


class Attempt(Model):
    """One execution of a task by one worker; closed once, then never rewritten."""

    id = AutoField()
    task_id = IntegerField()
    number = IntegerField()
    worker_id = IntegerField()
    fence = IntegerField()
    resumed_from = IntegerField()
    dispatched_at = UtcField()
    started_at = UtcField(null=True)
    ended_at = UtcField(null=True)
    command_pid = IntegerField(null=True)
    command_start_time = IntegerField(null=True)
    outcome = TextField(null=True)
    reason = TextField(null=True)
    exit_code = IntegerField(null=True)
    error = TextField(null=True)
    tail = TextField(null=True)
    log_path = TextField(null=True)


class Checkpoint(Model):
    """One saved checkpoint; the last few of each task are kept. `data` is JSON text, checked when it is read."""

    id = AutoField()
    task_id = IntegerField()
    attempt_id = IntegerField()
    fence = IntegerField()
    seq = IntegerField()
    version = IntegerField()
    stage = TextField()
    data = TextField()
    created_at = UtcField()
    again_from = IntegerField(null=True)


class Operation(Model):
    """One business effect, done at most once in its scope."""

    id = AutoField()
    scope = TextField()
    operation_key = TextField()
    task_id = IntegerField()
    attempt_id = IntegerField()
    fence = IntegerField()
    state = TextField()
    result = TextField(null=True)
    begun_at = UtcField()
    ended_at = UtcField(null=True)
    doubt_at = UtcField(null=True)
    doubt_boot = FloatField(null=True)
    doubt_boot_id = TextField(null=True)


class RollbackStep(Model):
    """One undo step of a task, run last-first where the task ends without success. Its runs are operations."""

    id = AutoField()
    task_id = IntegerField()
    attempt_id = IntegerField()
    number = IntegerField()
    name = TextField()
    arguments = TextField()
    repeatable = IntegerField()
    undoes = IntegerField(null=True)
    state = TextField()
    tried = IntegerField()
    tries = IntegerField()
    error = TextField(null=True)
    created_at = UtcField()
    ended_at = UtcField(null=True)

    class Meta:
        table_name = "rollback_step"


class Request(Model):
    """What a person asked for; applied not before `not_before`, closed with an outcome."""

    id = AutoField()
    verb = TextField()
    task_id = IntegerField(null=True)
    args = TextField()
    actor = TextField()
    created_at = UtcField()
    not_before = UtcField()
    done_at = UtcField(null=True)
    outcome = TextField(null=True)


class Hold(Model):
    """Everything, a type or a pool (`rules.holds`) is held back: nothing of it is dispatched."""

    scope = TextField(primary_key=True)
    actor = TextField()
    created_at = UtcField()


class HoldTask(Model):
    """A task that a hold has paused, and that goes on when it is released."""

    task_id = IntegerField(primary_key=True)
    scope = TextField()

    class Meta:
        table_name = "hold_task"


class Leftover(Model):
    """A process that an attempt or worker left behind and that could not be ended; shown until it is gone."""

    id = AutoField()
    pid = IntegerField()
    start_time = IntegerField()
    boot_id = TextField()
    name = TextField()
    task_id = IntegerField(null=True)
    worker_id = IntegerField(null=True)
    found_at = UtcField()
    gone_at = UtcField(null=True)


class Resource(Model):
    """Something that only one attempt a slot may use at a time; lives in a pool."""

    resource_id = TextField(primary_key=True)
    pool = TextField()
    kind = TextField()
    labels = TextField()
    capacity = IntegerField()
    min_reuse = FloatField()
    origin = TextField()
    config_rev = IntegerField()
    removed_at = UtcField(null=True)
    updated_at = UtcField()
    max_uses = IntegerField(null=True)
    max_age = FloatField(null=True)
    route_id = TextField(null=True)
    route_soft = IntegerField()


class _Slot(Model):
    """One lease's worth of a resource or route. Only `store.slots` writes its `state`."""

    id = AutoField()
    number = IntegerField()
    state = TextField()
    task_id = IntegerField(null=True)
    lease_owner = TextField(null=True)
    fence = IntegerField()
    lease_until = UtcField(null=True)
    lease_until_boot = FloatField(null=True)
    boot_id = TextField(null=True)
    cooldown_until = UtcField(null=True)
    cooldown_until_boot = FloatField(null=True)
    cooldown_reason = TextField(null=True)
    drain = IntegerField()
    pending = TextField(null=True)
    uses = IntegerField()
    last_used_at = UtcField(null=True)
    last_error = TextField(null=True)
    updated_at = UtcField()
    fresh_since = UtcField(null=True)
    recheck_boot = FloatField(null=True)
    rechecks = IntegerField()


class ResourceSlot(_Slot):
    """A slot of a resource."""

    resource_id = TextField()

    class Meta:
        table_name = "resource_slot"


class Route(Model):
    """A network exit: where it is and who may use it; its password is only referred to."""

    route_id = TextField(primary_key=True)
    scheme = TextField()
    host = TextField()
    port = IntegerField()
    username = TextField()
    secret_ref = TextField(null=True)
    group = TextField()
    labels = TextField()
    capacity = IntegerField()
    min_reuse = FloatField()
    origin = TextField()
    expected_ip = TextField(null=True)
    expected_regions = TextField()
    config_rev = IntegerField()
    removed_at = UtcField(null=True)
    updated_at = UtcField()
    max_uses = IntegerField(null=True)
    max_age = FloatField(null=True)
    ip_policy = TextField()
    bandwidth = FloatField()


class RouteSlot(_Slot):
    """A slot of a route."""

    route_id = TextField()

    class Meta:
        table_name = "route_slot"


class RouteHealth(Model):
    """What is known of a route's health: `model` is the JSON of `rules.route_health.RouteHealth`, the rest is for show."""

    route_id = TextField(primary_key=True)
    model = TextField()
    score = FloatField(null=True)
    latency_ms = FloatField(null=True)
    tcp_ms = FloatField(null=True)
    probe_ms = FloatField(null=True)
    exit_ms = FloatField(null=True)
    consecutive_successes = IntegerField()
    consecutive_failures = IntegerField()
    recent_timeouts = IntegerField()
    cooldown_level = IntegerField()
    degraded = IntegerField()
    last_stage = IntegerField(null=True)
    last_error_type = TextField(null=True)
    last_error_detail = TextField(null=True)
    exit_ip = TextField(null=True)
    exit_region = TextField(null=True)
    checks = IntegerField()
    exit_seen_at = UtcField(null=True)
    last_check_at = UtcField(null=True)
    last_ok_at = UtcField(null=True)
    next_check_at = UtcField(null=True)
    next_check_boot = FloatField(null=True)
    boot_id = TextField(null=True)
    probe_token = TextField(null=True)
    probe_until_boot = FloatField(null=True)
    updated_at = UtcField()
    probe_rev = IntegerField(null=True)
    region_source = TextField(null=True)
    verified = IntegerField(null=True)
    probe_bytes = IntegerField()

    class Meta:
        table_name = "route_health"


class RouteSample(Model):
    """One result of a probe or a task; the last fifty of each route are kept."""

    id = AutoField()
    route_id = TextField()
    at = UtcField()
    source = TextField()
    stage = IntegerField()
    error_type = TextField(null=True)
    ms = FloatField(null=True)
    target = TextField(null=True)

    class Meta:
        table_name = "route_sample"


class RouteTarget(Model):
    """What one target does to one route."""

    route_id = TextField()
    target = TextField()
    ok = IntegerField()
    fail = IntegerField()
    blocked = IntegerField()
    consecutive_blocked = IntegerField()
    blocked_until = UtcField(null=True)
    level = IntegerField()
    blocked_until_boot = FloatField(null=True)
    blocked_boot = FloatField(null=True)
    reached_boot = FloatField(null=True)
    boot_id = TextField(null=True)
    last_blocked_at = UtcField(null=True)
    last_reached_at = UtcField(null=True)

    class Meta:
        table_name = "route_target"
        primary_key = CompositeKey("route_id", "target")


class Circuit(Model):
    """What the tasks of one type have met at one target; open where `until` is set."""

    type = TextField()
    target = TextField()
    failures = IntegerField()
    level = IntegerField()
    cause = TextField(null=True)
    opened_fence = IntegerField(null=True)
    opened_at = UtcField(null=True)
    until = UtcField(null=True)
    until_boot = FloatField(null=True)
    last_boot = FloatField(null=True)
    boot_id = TextField(null=True)
    updated_at = UtcField()

    class Meta:
        primary_key = CompositeKey("type", "target")


class RouteAffinity(Model):
    """The route that a key stays with until it expires."""

    key = TextField(primary_key=True)
    route_id = TextField()
    hard = IntegerField()
    expires_at = UtcField()
    updated_at = UtcField()

    class Meta:
        table_name = "affinity"


class GroupState(Model):
    """What is remembered of a group of routes: a freeze of its verdicts, and whose turn it was last."""

    name = TextField(primary_key=True)
    frozen_at = UtcField(null=True)
    frozen_reason = TextField(null=True)
    last_route = TextField(null=True)
    updated_at = UtcField()

    class Meta:
        table_name = "group_state"


class ProbeUrl(Model):
    """How well one probe URL answers."""

    url = TextField(primary_key=True)
    ok = IntegerField()
    fail = IntegerField()
    consecutive_failures = IntegerField()
    last_ok_at = UtcField(null=True)
    last_error = TextField(null=True)
    updated_at = UtcField()

    class Meta:
        table_name = "probe_url"


class StandingAlert(Model):
    """An alert that was raised and is not over."""

    reason = TextField()
    subject = TextField()
    message = TextField()
    since = UtcField()

    class Meta:
        table_name = "standing_alert"
        primary_key = CompositeKey("reason", "subject")


class Sequence(Model):
    """Database-wide counters; `fence` is the only one so far."""

    name = TextField(primary_key=True)
    value = IntegerField()


class Event(Model):
    """One row of the audit. Append-only; `hash` covers the row and the one before."""

    event_id = IntegerField(primary_key=True)
    task_id = IntegerField(null=True)
    resource_id = TextField(null=True)
    route_id = TextField(null=True)
    worker_id = IntegerField(null=True)
    event_type = TextField()
    level = TextField()
    reason = TextField(null=True)
    actor = TextField()
    message = TextField()
    payload_json = TextField(null=True)
    created_at = UtcField()
    hash = TextField()

    class Meta:
        table_name = "event_log"


class EventHead(Model):
    """The one row that says how far the chain goes, so that a cut tail is noticed."""

    id = IntegerField(primary_key=True)
    event_id = IntegerField()
    count = IntegerField()
    hash = TextField()

    class Meta:
        table_name = "event_head"


TABLES: tuple[type[Model], ...] = (
    Engine,
    Worker,
    TaskType,
    Task,
    Attempt,
    Checkpoint,
    Operation,
    RollbackStep,
    Request,
    Hold,
    HoldTask,
    Leftover,
    Resource,
    ResourceSlot,
    Route,
    RouteSlot,
    RouteHealth,
    RouteSample,
    RouteTarget,
    Circuit,
    RouteAffinity,
    GroupState,
    ProbeUrl,
    StandingAlert,
    Sequence,
    Event,
    EventHead,
)
