"""The messages that every process of an attempt knows: the attempt itself, its end, and the type that its handler declares.

Apart from the other `messages`, since the process of a sync handler loads these alone. Nothing here acts.
"""

from __future__ import annotations

import msgspec


class Message(msgspec.Struct, array_like=True, tag=True, tag_field="is", frozen=True):
    """Base of all messages; the class name is the tag."""


class TypeInfo(Message, frozen=True):
    """One handler type as its code declares it; None means "as configured". Durations in seconds."""

    name: str
    origin: str
    doc: str = ""
    timeout: float | None = None
    max_retry: int | None = None
    base: float | None = None
    max_delay: float | None = None
    concurrency: int | None = None
    on_lost: str | None = None
    on_exhausted: str | None = None
    checkpoint_version: int = 1
    schema: str = ""
    """JSON Schema of the payload, or empty."""
    needs: list[str] = msgspec.field(default_factory=list)
    """Pools that an attempt leases from, `pool` or `pool:count`."""
    route: str = ""
    """The group (or id) of routes that an attempt leases one of; empty = none."""
    allow_direct: bool = False
    sync: bool = False
    typed_checkpoint: bool = False
    """The handler says what a checkpoint looks like, so that only its worker can tell whether one is valid."""
    migrates: bool = False
    """The handler can take over checkpoints of its older versions."""
    verifies: bool = False
    """The handler can find out whether an operation in doubt has happened."""
    bandwidth: float | None = None
    """Bytes a second that an attempt may receive."""
    shape: str = ""
    """What fits for sure (`rules.fitting`), or empty: only its worker can tell."""


class LeasedRoute(msgspec.Struct, frozen=True, array_like=True):
    """The network exit that an attempt holds. Who goes out by it looks its password up: here is only the reference."""

    route_id: str
    scheme: str
    host: str = ""
    port: int = 0
    username: str = ""
    secret_ref: str = ""
    bandwidth: float = 0.0
    """Bytes a second that this worker may receive by it; 0 = as many as come."""


class Run(Message, frozen=True):
    """Start an attempt. For type `shell` the payload is the command (`argv`, `cwd`, `env`, `pause`)."""

    task_id: int
    attempt_id: int
    attempt: int
    fence: int
    type: str
    payload: str
    checkpoint: str
    """JSON text of the latest valid checkpoint, or `{}`."""
    checkpoint_seq: int
    checkpoint_version: int
    """The version of the handler that saved it."""
    timeout: float | None
    log_path: str
    exit_codes: dict[str, str]
    scheduled_at: str = ""
    retry_count: int = 0
    max_retry: int = 0
    resources: dict[str, list[str]] = msgspec.field(default_factory=dict)
    """The resources that this attempt holds, by pool."""
    route: LeasedRoute | None = None
    older: list[tuple[int, int, str]] = msgspec.field(default_factory=list)
    """Further checkpoints (number, version, JSON text), newest first, where only the handler can tell which is valid."""
    step: str = ""
    """The name of the rollback step that this attempt runs, with the payload as its arguments; empty = the handler itself."""
    doubt: float | None = None
    """Seconds for which it has been in doubt whether that step has happened already; None = it certainly has not."""
    bandwidth: float = 0.0
    """Bytes a second that the attempt may receive; 0 = as many as come."""


class Left(msgspec.Struct, frozen=True, array_like=True):
    """A process of an attempt that could not be ended."""

    pid: int
    start_time: int
    name: str
    task_id: int | None = None

    def __str__(self) -> str:
        return f"process {self.pid} ({self.name}) could not be ended"


class Outcome(Message, frozen=True):
    """How an attempt ended; exactly one for each `Run`. Always an outcome, never an exception.

    `kind`: succeeded | failed | cancelled | paused | drained | stopped (SIGSTOP: the attempt lives on, suspended) |
    resumed (SIGCONT after `stopped`) | never_started | in_doubt. For `failed` and `in_doubt`, `failure` is the JSON of
    `rules.failures.Failure`.
    """

    task_id: int
    fence: int
    kind: str
    result: str = ""
    failure: str = ""
    exit_code: int | None = None
    tail: str = ""
    """Last lines of a command's output, cleaned, for the screen."""
    left: list[Left] = msgspec.field(default_factory=list)
    """What of it could not be ended."""
