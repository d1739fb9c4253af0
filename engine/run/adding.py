"""How tasks come into the queue, in an engine and without one: checked, shown to their handlers, written together.

What is called for together is written by one unit; what refuses one call refuses none of the others. What a task must be says
`submission`, how it is inserted the store. Light: every `add` passes through here.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import TYPE_CHECKING, Any

from ..clock import Clock
from ..config import Config
from ..errors import InvalidPayload, TaskdeckError, UsageError
from ..rules.fitting import doubtful, surely_all_fit
from ..rules.new_task import NewTask
from ..rules.selection import COMMAND_TYPE
from . import submission

if TYPE_CHECKING:
    import asyncio

    from ..store.tasks import Run
    from .hosts import Host
    from .throwaway import Handlers

# ---- where there is a writer ------------------------------------------------------------------------------------------


def add(host: Host, calls: Sequence[tuple[dict[str, Any], str]]) -> Awaitable[list[Any]]:
    """What came at the same time is written by one unit. Gives for each call (arguments, actor) its answer or its error."""
    wishes: list[tuple[Any, str]] = []
    for args, actor in calls:
        try:
            prepared = submission.prepare(args.get("specs"), host.redactor, host.alike)
        except Exception as error:  # whatever it is: the other calls are not refused for it
            wishes.append((error, actor))
            continue
        wishes.append((prepared, actor))
    return _submit_wishes(host, wishes)


def add_each(host: Host, calls: Sequence[tuple[dict[str, Any], str]]) -> Awaitable[list[Any]]:
    """The same for runs whose tasks stand each for itself: for each its new id, its answer or its error, as it is told."""
    read = [(_runs_or_refusal(args.get("runs")), actor) for args, actor in calls]
    if asked := _surely_fitting_runs(host, read):
        return _submit_runs(host, asked)
    wishes: list[tuple[Any, str]] = []
    counts: list[int | Exception] = []
    for runs, actor in read:
        if isinstance(runs, Exception):
            counts.append(runs)
            continue
        found = submission.prepare_each(submission.specs_of(runs), host.redactor, host.alike)
        counts.append(len(found))
        wishes += [([each] if isinstance(each, NewTask) else each, actor) for each in found]
    return _answer_each(host, wishes, counts)


def _runs_or_refusal(told: Any) -> submission.Runs | UsageError:
    try:
        return submission.read_runs(told)
    except UsageError as error:  # the other calls are not refused for it
        return error


def _surely_fitting_runs(
    host: Host, read: Sequence[tuple[submission.Runs | UsageError, str]]
) -> list[tuple[list[Run], str]]:
    """The runs of each call, with its actor; empty where each task is to be looked at by itself."""
    found: list[tuple[list[Run], str]] = []
    for told, actor in read:
        if isinstance(told, UsageError):
            return []
        try:
            runs = submission.prepare_runs(told, host.redactor, host.alike)
        except TaskdeckError:  # it is told where each is looked at by itself
            return []
        if not runs or not all(
            surely_all_fit(host.reception.shape_of(kind.type), payloads) for kind, payloads in runs
        ):
            return []
        found.append((runs, actor))
    return found


def _submit_runs(host: Host, asked: list[tuple[list[Run], str]]) -> Awaitable[list[Any]]:
    from .futures import then

    def told(written: list[list[Any]]) -> list[Any]:
        return [each if isinstance(each[0], int) else _told_each(host, each) for each in written]

    due = min(kind.scheduled_at for runs, _ in asked for kind, _ in runs)
    return then(_write(host, due, submission.submit_runs, asked), told)


def _answer_each(
    host: Host, wishes: list[tuple[Any, str]], counts: list[int | Exception]
) -> Awaitable[list[Any]]:
    """For each call the answers to so many wishes, in order, or the error that refuses it."""
    from .futures import then

    def told(answers: list[Any]) -> list[Any]:
        rest = iter(_told_each(host, answers))
        return [list(islice(rest, count)) if isinstance(count, int) else count for count in counts]

    return then(_submit_wishes(host, wishes), told)


def _told_each(host: Host, answers: Sequence[Any]) -> list[dict[str, Any]]:
    """As it is told to others, for wishes of one task each, what they were answered (a list of one), or their errors."""
    return [answer[0] if isinstance(answer, list) else host.refusal(answer).as_told() for answer in answers]


def _submit_wishes(host: Host, wishes: list[tuple[Any, str]]) -> Awaitable[list[Any]]:
    """For each wish (tasks, or the error that refuses them; actor) its answer or its error."""
    good = [(at, prepared) for at, (prepared, _) in enumerate(wishes) if isinstance(prepared, list)]
    doubts = _doubts(host, [each for _, prepared in good for each in prepared])
    asked = [at for at, prepared in good if not doubts.isdisjoint(_shown(prepared))] if doubts else []
    if asked or not good or len(good) < len(wishes):
        return _submit_what_fits(host, wishes, asked)
    return _submit(host, wishes)


def _submit(host: Host, wishes: list[tuple[list[NewTask], str]]) -> asyncio.Future[list[Any]]:
    due = min(spec.kind.scheduled_at for prepared, _ in wishes for spec in prepared)
    return _write(host, due, submission.submit_each, wishes)


def _write(host: Host, due: str, unit: Callable[..., list[Any]], asked: Any) -> asyncio.Future[list[Any]]:
    """Have a unit insert tasks, of which the first is due then (UTC text)."""
    written = host.writer.write(unit, asked)
    written.add_done_callback(lambda done: host.wake_for([due]))
    return written


async def _submit_what_fits(host: Host, wishes: Sequence[tuple[Any, str]], asked: Sequence[int]) -> list[Any]:
    """Of these (tasks, or the error that refuses them; actor) those at the places `asked` are shown to a worker first."""
    import asyncio

    answers: list[Any] = [prepared for prepared, _ in wishes]
    refusals = await asyncio.gather(*(_misfit(host, answers[at]) for at in asked))
    for at, refusal in zip(asked, refusals, strict=True):
        answers[at] = refusal or answers[at]
    good = [at for at, answer in enumerate(answers) if not isinstance(answer, Exception)]
    if good:
        written = await _submit(host, [wishes[at] for at in good])
        for at, answer in zip(good, written, strict=True):
            answers[at] = answer
    return answers


def _doubts(host: Host, prepared: Sequence[NewTask]) -> set[tuple[str, str]]:
    """Those of which a worker must be asked."""
    shown = _shown(prepared)
    shapes = {name: host.reception.shape_of(name) for name in {name for name, _ in shown}}
    return set(doubtful(shapes, shown))


def _shown(prepared: Sequence[NewTask]) -> list[tuple[str, str]]:
    """What a handler is shown of tasks before they are added: types and payloads."""
    return [(each.kind.type, each.payload) for each in prepared if each.kind.type != COMMAND_TYPE]


async def _misfit(host: Host, prepared: list[NewTask]) -> Exception | None:
    try:
        for type_name, payload in _shown(prepared):
            if problem := await host.reception.validate(type_name, payload):
                return InvalidPayload(f"{type_name}: the payload was refused", problem)
    except Exception as error:  # no worker came in time, for example
        return error
    return None


# ---- without one ------------------------------------------------------------------------------------------------------


def add_directly(config: Config, specs: Any, actor: str, redactor: Any, clock: Clock) -> list[dict[str, Any]]:
    """`submission.submit` where no engine works: the caller holds the database lock."""
    from ..store.direct import write_once

    prepared = _prepare_alone(config, specs, redactor, clock)
    return write_once(config.db, clock, redactor, submission.submit, prepared, actor)


def _prepare_alone(config: Config, specs: Any, redactor: Any, clock: Clock) -> list[NewTask]:
    """Check specs. Raises for the first bad one."""
    with _handlers_for(specs, config, clock) as handlers:
        prepared = submission.prepare(specs, redactor)
        if handlers:
            handlers.check(_shown(prepared))
    return prepared


@contextmanager
def _handlers_for(specs: Any, config: Config, clock: Clock) -> Iterator[Handlers | None]:
    """Who is asked of payloads of Python types, where there may be some: a throw-away process, since neither the engine nor
    this one imports handlers. It is started first, and loads while the rest is checked.
    """
    if not isinstance(specs, Sequence) or not any(map(submission.names_a_python_type, specs)):
        yield None
        return
    from . import throwaway

    with throwaway.Handlers.of(config, clock) as handlers:
        yield handlers
