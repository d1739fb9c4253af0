"""What can be seen, as data: immutable read models with the stable JSON names, and what is told about a state.

Names here are promises to scripts: fields may be added, none is renamed. Nothing is read here; `taskdeck.engine.views` fills
them in.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from .tasks import TaskState


class Progress(msgspec.Struct, frozen=True):
    """How far a task says it is."""

    done: float | None
    total: float | None
    note: str | None


class AttemptView(msgspec.Struct, frozen=True, kw_only=True):
    """One execution of a task."""

    attempt: int
    worker: int
    fence: int
    dispatched_at: str
    started_at: str | None
    ended_at: str | None
    outcome: str | None
    reason: str | None
    exit_code: int | None
    error: Any
    tail: str | None
    log_path: str | None
    command_pid: int | None
    resumed_from: int
    resources: list[str] = []
    route: str | None = None


class CheckpointView(msgspec.Struct, frozen=True, kw_only=True):
    """One kept checkpoint. `again_from` is the one that a person chose to go on from by this one, 0 = the beginning.

    `undone`: the task was rolled back since, and can't go on from it.
    """

    number: int
    attempt: int | None
    version: int
    stage: str
    saved_at: str
    bytes: int
    summary: str
    again_from: int | None = None
    undone: bool = False


class OperationView(msgspec.Struct, frozen=True, kw_only=True):
    """One business effect: BEGUN, DONE, IN_DOUBT (since `doubt_at`) or NOT_DONE."""

    key: str
    scope: str
    state: str
    attempt: int | None
    begun_at: str
    ended_at: str | None
    doubt_at: str | None
    result: Any = None


class StepView(msgspec.Struct, frozen=True, kw_only=True):
    """One undo step: REGISTERED, DONE, FAILED, IN_DOUBT, or DROPPED (not needed, or given up)."""

    number: int
    name: str
    arguments: Any
    state: str
    tries: int
    error: Any
    registered_at: str
    ended_at: str | None


class LeftoverView(msgspec.Struct, frozen=True):
    """A process that an attempt or worker left behind, that could not be ended and is still there."""

    pid: int
    name: str
    task: int | None
    worker: int | None
    found_at: str


class TaskView(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=False):
    """A task as the stable JSON names it.

    `needs`, `wants_route` and `allow_direct` are what an attempt must hold; `resources` and `route` are what it holds now.
    `started_at` is its first start; `attempt_started_at` that of the attempt that runs now, None where none does.
    `summary` is what it does in a line; `payload`, `attempts`, `checkpoints` (newest first), `operations` and
    `rollback` are only set where one task is shown. `ending` is the state that it will have once it is rolled back.
    """

    id: int
    type: str
    state: str
    reason: str
    priority: int
    next_run_at: str
    retry_count: int
    max_retry: int
    attempt: int
    worker: int | None
    progress: Progress | None
    key: str | None
    schedule: str | None
    tags: list[str]
    scheduled_at: str
    created_at: str
    started_at: str | None
    attempt_started_at: str | None
    finished_at: str | None
    updated_at: str
    waits: list[str]
    summary: str
    error: Any
    wanted: str | None
    parent: int | None
    losses: int
    timeout: float | None
    on_lost: str | None
    bandwidth: float | None
    needs: list[str] = []
    wants_route: str | None = None
    allow_direct: bool = False
    resources: list[str] = []
    route: str | None = None
    ending: str | None = None
    checkpoint: Any = None
    result: Any = None
    payload: Any = msgspec.UNSET
    attempts: list[AttemptView] | msgspec.UnsetType = msgspec.UNSET
    left: list[LeftoverView] | msgspec.UnsetType = msgspec.UNSET
    checkpoints: list[CheckpointView] | msgspec.UnsetType = msgspec.UNSET
    operations: list[OperationView] | msgspec.UnsetType = msgspec.UNSET
    rollback: list[StepView] | msgspec.UnsetType = msgspec.UNSET


class WorkerView(msgspec.Struct, frozen=True, kw_only=True):
    """A worker process; `attempts` are what it runs, as `#task.attempt`."""

    id: int
    incarnation: str
    pid: int
    host: str
    code_version: str
    state: str
    started_at: str
    last_heartbeat: str | None
    attempts: list[str]
    rss: int | None
    ended_at: str | None
    end_reason: str | None
    handlers: str
    """Fingerprint of the handler files it was started with."""
    tasks: int
    """How many attempts it has begun."""
    evidence: str | None
    """Why it is suspect, or away."""
    alive: bool
    """Does its process exist, on this host?"""


class EventView(msgspec.Struct, frozen=True):
    """One row of the audit, column for column."""

    event_id: int
    task_id: int | None
    resource_id: str | None
    route_id: str | None
    worker_id: int | None
    event_type: str
    level: str
    reason: str | None
    actor: str
    message: str
    payload_json: str | None
    created_at: str
    hash: str

    @property
    def payload(self) -> dict[str, Any]:
        """What `payload_json` says; empty where it holds no object."""
        try:
            found = msgspec.json.decode(self.payload_json or "{}")
        except msgspec.DecodeError:
            return {}
        return found if isinstance(found, dict) else {}


class EngineView(msgspec.Struct, frozen=True, kw_only=True):
    """The engine that runs on this database, or (`running` false) the last that did."""

    running: bool
    pid: int | None = None
    since: str | None = None
    version: str | None = None
    host: str | None = None
    supervisor: int | None = None
    incarnation: str | None = None
    socket: str | None = None
    ended_at: str | None = None
    end_reason: str | None = None


class HoldView(msgspec.Struct, frozen=True):
    """A type, a pool or everything (`all`) that is held back."""

    scope: str
    actor: str
    created_at: str


class AlertView(msgspec.Struct, frozen=True):
    """What is wrong with routes as a whole and is not over; `subject`: a group or target, empty for everything."""

    reason: str
    subject: str
    message: str
    since: str


class AnchorView(msgspec.Struct, frozen=True):
    """The head of the audit chain as it was noted outside the database; `restored`: a backup took its place there."""

    event_id: int
    count: int
    hash: str
    at: str
    restored: bool = False


class LogView(msgspec.Struct, frozen=True):
    """Where the output of one attempt is kept, and whether more may come."""

    task_id: int
    attempt: int
    path: Path
    ended: bool


class AuditReport(msgspec.Struct, frozen=True, kw_only=True):
    """Whether the audit is as it was written; if not, the first event that is not and what gives it away."""

    ok: bool
    events: int
    event_id: int | None
    problem: str
    anchored_to: int | None
    anchored_at: str | None
    archives: int = 0
    """Archives of events that were read."""
    archived_to: int = 0
    """The last event that is in an archive."""


Counts = dict[str, int]
"""Number of tasks by state; every state is named."""

STANDING = {
    TaskState.PAUSED: "it is paused ({reason}); go on with: taskdeck resume {id}",
    TaskState.LOST: "its worker was lost; it is taken over as soon as that is certain",
    TaskState.NEEDS_REVIEW: "it waits for a person ({reason}): taskdeck retry {id}, or taskdeck discard {id}",
}
"""Why a task in such a state does not go on, and what to do; filled in with its id and reason."""

ROLLED_BACK = "it is being rolled back, then it is {state}"
NOT_ROLLED_BACK = (
    "it could not be rolled back ({reason}); try on: taskdeck retry {id}; done by hand: taskdeck operation done {id} STEP"
    " --retry; give the rest up: taskdeck cancel --no-rollback {id}"
)
"""Of a task whose end waits for its undo steps."""

IN_DOUBT = (
    "operation {key} is in doubt since {since}: it was begun, and nobody knows whether it happened. Find out, then:"
    " taskdeck operation done {id} {word}, or: taskdeck operation redo {id} {word}"
)
"""Of an operation that a crash cut off between intent and done."""

SETTLED = "what was in doubt is settled; let it go on: taskdeck retry {id}, or: taskdeck discard {id}"
"""Of a task that waits for a person, though its operations wait for nobody any more."""

PAUSED_BY_HOLD = "it is paused with {what}, which is held (taskdeck resume {target})"
"""Why a task is paused that a hold asked to."""

STRANDED = "no engine runs and its worker is gone; start one: taskdeck run (it goes on from {point})"
"""Why a task that is RUNNING in the database does not run: whoever ran it ended without a word."""
OR_LATER = ", or a later one that its worker kept without an engine"
"""Behind the point, where the worker left reports that no engine has recorded."""
