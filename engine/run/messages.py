"""What engine, workers and clients say to each other: one tagged struct a message, a frame is a list of messages.

Frames travel over `edge.link` as msgpack. A worker says hello, publishes its types, then reports on attempts; every report
carries the attempt's fence and is refused when the task has moved on. Reports are numbered, kept by the worker until the
engine says that they are recorded, and sent again to the next engine; each is applied once. Nothing here acts.

Versions: fields are only ever added at the end, with a default. `Hello` and `Farewell` never change otherwise, so that any
engine can tell any worker to go; everything else may change with `PROTOCOL`.
"""

from __future__ import annotations

import struct
from typing import Any

import msgspec

from .attempt_messages import LeasedRoute, Left, Message, Outcome, Run, TypeInfo  # noqa: F401 - here are all

PROTOCOL = 1
"""Raised when a message changes its meaning."""


# ---- from workers and clients to the engine ---------------------------------------------------------------------


class Hello(Message, frozen=True):
    """The first message of a connection. `role` is `worker` or `client`; a client gives only its actor name."""

    role: str
    incarnation: str = ""
    pid: int = 0
    start_time: int = 0
    boot_id: str = ""
    code_version: str = ""
    schema: str = ""
    protocol: int = 1
    handlers: str = ""
    """Fingerprint of the handler files that the worker has loaded."""
    fences: list[int] = msgspec.field(default_factory=list)
    """The attempts that it was sent and whose end is not known to be recorded."""
    closing: bool = False
    """It takes no more and ends when its attempts have."""


def stored(info: TypeInfo) -> str:
    """A declaration as the store keeps it: a JSON object by field names, so that versions can differ."""
    return msgspec.json.encode(msgspec.structs.asdict(info)).decode()


def from_stored(text: str) -> TypeInfo:
    """The declaration of `stored`; fields that this version does not know are passed over."""
    known = TypeInfo.__struct_fields__
    return TypeInfo(**{key: value for key, value in msgspec.json.decode(text).items() if key in known})


class Manifest(Message, frozen=True):
    """The types that this worker can run and the handler files that failed to load (`where: why`)."""

    types: list[TypeInfo]
    problems: list[str]


class Beat(Message, frozen=True):
    """A heartbeat from the worker's own thread; `running` are the fences of live attempts."""

    running: list[int]
    cpu: float
    rss: int
    closing: bool = False
    """It takes no more and ends when its attempts have."""


class Numbered(Message, frozen=True):
    """The reports that follow in this frame have the numbers `first`, `first` + 1 … of this worker's life."""

    first: int


class Bye(Message, frozen=True):
    """The worker's last report: it ends in order, having nothing left to do. `reason`: why."""

    reason: str


class Started(Message, frozen=True):
    """The attempt's handler is about to be entered (already journalled by the worker)."""

    task_id: int
    fence: int
    pid: int = 0
    """Process id of the command, 0 for a Python handler."""
    start_time: int = 0
    """Of that process, in clock ticks since boot: with the worker's boot id, its identity."""


class Save(Message, frozen=True):
    """A checkpoint. `data` is JSON text; with `merge` it is a merge patch on the last one. Answered when `req` > 0."""

    req: int
    task_id: int
    fence: int
    data: str
    merge: bool = True
    version: int = 1
    stage: str = ""


class Progress(Message, frozen=True):
    """How far the attempt is; not durable by itself, never answered."""

    task_id: int
    fence: int
    done: float | None = None
    total: float | None = None
    note: str = ""


class Note(Message, frozen=True):
    """An event that the handler or command asks for (STEP_SUCCEEDED, HTTP_REQUEST …); never changes the task."""

    task_id: int
    fence: int
    event_type: str
    message: str = ""
    payload: str = ""


class OperationBegin(Message, frozen=True):
    """Record the intent of an operation; answered with `Answer(value=OperationState)`."""

    req: int
    task_id: int
    fence: int
    key: str
    scope: str = ""


class OperationEnd(Message, frozen=True):
    """Settle an operation: `state` is DONE, NOT_DONE or IN_DOUBT; `result` is JSON text. Answered when `req` > 0."""

    req: int
    task_id: int
    fence: int
    key: str
    state: str
    scope: str = ""
    result: str = ""


class Together(Message, frozen=True):
    """Several reports that are written in one transaction, or none of them; their own `req` is 0. Answered."""

    req: int
    task_id: int
    fence: int
    parts: list[Save | Progress | Note | OperationEnd]


class OnRollback(Message, frozen=True):
    """Register an undo step, before its effect counts; answered with its number.

    `arguments` is a JSON object; `repeatable`: a doubt about it needs no person; `undoes`: the key of the operation (in
    `scope`) which has not happened any more once the step is done.
    """

    req: int
    task_id: int
    fence: int
    name: str
    arguments: str
    repeatable: bool = False
    undoes: str = ""
    scope: str = ""


class RouteResult(Message, frozen=True):
    """What a task saw of its route. `target` is the host; empty = it says nothing of any target.

    `error_type` is an `ErrorType` or empty. `ms` runs from the request to its answer's headers, and is there only where a
    connection was made for it and the worker's loop kept up.
    """

    task_id: int
    fence: int
    route_id: str
    target: str
    error_type: str = ""
    status: int = 0
    ms: float | None = None
    secure: bool = False
    """The status came over TLS with the target (or by the word of the handler), so no proxy can have made it up."""
    retry_after: float | None = None
    """Seconds for which the target asks to be left alone."""
    detail: str = ""
    """In words, without secrets."""


class Validated(Message, frozen=True):
    """Answer to `Validate`: empty `problem` = the payload fits the type."""

    req: int
    problem: str = ""


class Call(Message, frozen=True):
    """A client asks for a verb (`commands.VERBS`) with JSON-able arguments; answered by `Reply` with the same `req`."""

    req: int
    verb: str
    args: dict[str, Any]
    actor: str = ""


FromPeer = (
    Hello
    | Manifest
    | Beat
    | Numbered
    | Bye
    | Started
    | Save
    | Progress
    | Note
    | OperationBegin
    | OperationEnd
    | OnRollback
    | Together
    | Outcome
    | RouteResult
    | Validated
    | Call
)

_PASSING = frozenset((Hello, Manifest, Beat, Numbered, Progress, Validated, Call))


def is_report(message: Message) -> bool:
    """Is it numbered and kept until it is recorded? What is not is worth nothing later, or said anew."""
    return type(message) not in _PASSING


# ---- from the engine to workers and clients ---------------------------------------------------------------------


class Welcome(Message, frozen=True):
    """Answer to a worker's hello: its row id, the settings it needs (seconds, bytes), and what is known of its past."""

    worker_id: int
    heartbeat: float
    cancel_grace: float
    output_drain: float
    attempt_bytes: int
    attempt_files: int
    environment: list[str]
    database: str
    logs: str
    away_limit: float = 600.0
    """How long it goes on without an engine."""
    recorded: int = 0
    """The number of its last report that is recorded."""
    fences: list[int] = msgspec.field(default_factory=list)
    """The attempts that are still its own; of any other nothing counts any more."""
    withheld: list[str] = msgspec.field(default_factory=list)
    """Variables that hold passwords of routes: no process of an attempt inherits them."""


class Recorded(Message, frozen=True):
    """The reports up to this number are recorded, and need not be kept any more."""

    upto: int


class Ask(Message, frozen=True):
    """Ask a running attempt to `cancel`, `pause`, `resume` or `drain`; `grace` seconds until it is ended by force."""

    task_id: int
    fence: int
    what: str
    grace: float


class Answer(Message, frozen=True):
    """Answer to a request of the worker. `error` is "" or `stale` (the attempt must stop) or a refusal text."""

    req: int
    value: dict[str, Any]
    error: str = ""


class OperationState(msgspec.Struct, frozen=True):
    """State of an operation as its `begin` found it: new | done | in_doubt; `age` = seconds since it is in doubt.

    `owner`: the other task, of the same scope, whose doubt this is and stays; 0 = the doubt is the asking task's own.
    """

    state: str
    result: str = ""
    age: float = 0.0
    owner: int = 0


class Validate(Message, frozen=True):
    """Does this payload fit this type? Answered by `Validated`."""

    req: int
    type: str
    payload: str


class Farewell(Message, frozen=True):
    """The worker shall end when its attempts have (`now` = end them first)."""

    now: bool


class Reply(Message, frozen=True):
    """Answer to `Call`: `value` on success, else `error` as of `TaskdeckError.as_told`."""

    req: int
    value: Any = None
    error: dict[str, Any] | None = None


ToPeer = Welcome | Recorded | Run | Ask | Answer | Validate | Farewell | Reply

_HEAD_OF_LIST = struct.Struct(">BI")
"""Of msgpack's longest kind of list: its mark, and how many follow."""
_encoder = msgspec.msgpack.Encoder()
_from_peer = msgspec.msgpack.Decoder(list[FromPeer])
_one_from_peer = msgspec.msgpack.Decoder(FromPeer)
_to_peer = msgspec.msgpack.Decoder(list[ToPeer])


def encode(messages: list[Any]) -> bytes:
    """One frame body. The messages are of one direction."""
    return _encoder.encode(messages)


def encode_one(message: Message) -> bytes:
    """One message, to be put into a frame (by `joined`) later, as often as needed. Raises what can't be encoded."""
    return _encoder.encode(message)


def joined(encoded: list[bytes]) -> bytes:
    """One frame body of messages by `encode_one`."""
    return _HEAD_OF_LIST.pack(0xDD, len(encoded)) + b"".join(encoded)


def from_peer(body: bytes) -> list[FromPeer]:
    """Decode a frame that a worker or client sent. Raises `msgspec.DecodeError` on anything else."""
    return _from_peer.decode(body)


def one_from_peer(body: bytes) -> FromPeer:
    """Decode one message that was kept. Raises `msgspec.DecodeError` on anything else."""
    return _one_from_peer.decode(body)


def to_peer(body: bytes) -> list[ToPeer]:
    """Decode a frame that the engine sent. Raises `msgspec.DecodeError` on anything else."""
    return _to_peer.decode(body)
