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
    from .engine import Engine
    from .throwaway import Handlers

# ---- in an engine -----------------------------------------------------------------------------------------------------


def add(engine: Engine, calls: Sequence[tuple[dict[str, Any], str]]) -> Awaitable[list[Any]]:
    """What came at the same time is written by one unit. Gives for each call (arguments, actor) its answer or its error."""
    wishes: list[tuple[Any, str]] = []
    for args, actor in calls:
        try:
            prepared = submission.prepare(args.get("specs"), engine.redactor, engine.alike)
        except Exception as error:  # whatever it is: the other calls are not refused for it
            wishes.append((error, actor))
            continue
        wishes.append((prepared, actor))
    return _submit_wishes(engine, wishes)


def add_each(engine: Engine, calls: Sequence[tuple[dict[str, Any], str]]) -> Awaitable[list[Any]]:
    """The same for runs whose tasks stand each for itself: for each its new id, its answer or its error, as it is told."""
    read = [(_runs_or_refusal(args.get("runs")), actor) for args, actor in calls]
    if asked := _surely_fitting_runs(engine, read):
        return _submit_runs(engine, asked)
    wishes: list[tuple[Any, str]] = []
    counts: list[int | Exception] = []
    for runs, actor in read:
        if isinstance(runs, Exception):
            counts.append(runs)
            continue
        found = submission.prepare_each(submission.specs_of(runs), engine.redactor, engine.alike)
        counts.append(len(found))
        wishes += _each_alone(found, actor)
    return _answer_each(_submit_wishes(engine, wishes) if wishes else None, counts)


def _runs_or_refusal(told: Any) -> submission.Runs | UsageError:
    try:
        return submission.read_runs(told)
    except UsageError as error:  # the other calls are not refused for it
        return error


def _surely_fitting_runs(
    engine: Engine, read: Sequence[tuple[submission.Runs | UsageError, str]]
) -> list[tuple[list[Run], str]]:
    """The runs of each call, with its actor; empty where each task is to be looked at by itself."""
    found: list[tuple[list[Run], str]] = []
    for told, actor in read:
        if isinstance(told, UsageError):
            return []
        try:
            runs = submission.prepare_runs(told, engine.redactor, engine.alike)
        except TaskdeckError:  # it is told where each is looked at by itself
            return []
        if not runs or not all(
            surely_all_fit(engine.reception.shape_of(kind.type), payloads) for kind, payloads in runs
        ):
            return []
        found.append((runs, actor))
    return found


async def _submit_runs(engine: Engine, asked: list[tuple[list[Run], str]]) -> list[Any]:
    due = min(kind.scheduled_at for runs, _ in asked for kind, _ in runs)
    written = await _write(engine, due, submission.submit_runs, asked)
    return [each if isinstance(each[0], int) else _told_each(each, _refusal_by_engine) for each in written]


async def _answer_each(submitted: Awaitable[list[Any]] | None, counts: list[int | Exception]) -> list[Any]:
    """For each call the answers to so many wishes, in order, or the error that refuses it."""
    told = iter(_told_each(await submitted, _refusal_by_engine) if submitted else ())
    return [list(islice(told, count)) if isinstance(count, int) else count for count in counts]


def _each_alone(found: Sequence[NewTask | Exception], actor: str) -> list[tuple[Any, str]]:
    return [([each] if isinstance(each, NewTask) else each, actor) for each in found]


def _told_each(answers: Sequence[Any], refusal: Callable[[Exception], TaskdeckError]) -> list[dict[str, Any]]:
    """As it is told to others, for wishes of one task each, what they were answered (a list of one), or their errors."""
    return [answer[0] if isinstance(answer, list) else refusal(answer).as_told() for answer in answers]


def _refusal_by_engine(error: Exception) -> TaskdeckError:
    from .clients import refusal

    return refusal("submit_each", error)


def _refusal_here(error: Exception) -> TaskdeckError:
    if isinstance(error, TaskdeckError):
        return error
    return TaskdeckError(f"the task could not be added: {type(error).__name__}")


def _submit_wishes(engine: Engine, wishes: list[tuple[Any, str]]) -> Awaitable[list[Any]]:
    """For each wish (tasks, or the error that refuses them; actor) its answer or its error."""
    good = [(at, prepared) for at, (prepared, _) in enumerate(wishes) if isinstance(prepared, list)]
    doubts = _doubts(engine, [each for _, prepared in good for each in prepared])
    asked = [at for at, prepared in good if not doubts.isdisjoint(_shown(prepared))] if doubts else []
    if asked or len(good) < len(wishes):
        return _submit_what_fits(engine, wishes, asked)
    return _submit(engine, wishes)


def _submit(engine: Engine, wishes: list[tuple[list[NewTask], str]]) -> asyncio.Future[list[Any]]:
    due = min(spec.kind.scheduled_at for prepared, _ in wishes for spec in prepared)
    return _write(engine, due, submission.submit_each, wishes)


def _write(engine: Engine, due: str, unit: Callable[..., list[Any]], asked: Any) -> asyncio.Future[list[Any]]:
    """Have a unit insert tasks, of which the first is due then (UTC text)."""
    written = engine.writer.write(unit, asked)
    written.add_done_callback(lambda done: engine.wake_for([due]))
    return written


async def _submit_what_fits(
    engine: Engine, wishes: Sequence[tuple[Any, str]], asked: Sequence[int]
) -> list[Any]:
    """Of these (tasks, or the error that refuses them; actor) those at the places `asked` are shown to a worker first."""
    import asyncio

    answers: list[Any] = [prepared for prepared, _ in wishes]
    refusals = await asyncio.gather(*(_misfit(engine, answers[at]) for at in asked))
    for at, refusal in zip(asked, refusals, strict=True):
        answers[at] = refusal or answers[at]
    good = [at for at, answer in enumerate(answers) if not isinstance(answer, Exception)]
    if good:
        written = await _submit(engine, [wishes[at] for at in good])
        for at, answer in zip(good, written, strict=True):
            answers[at] = answer
    return answers


def _doubts(engine: Engine, prepared: Sequence[NewTask]) -> set[tuple[str, str]]:
    """Those of which a worker must be asked."""
    shown = _shown(prepared)
    shapes = {name: engine.reception.shape_of(name) for name in {name for name, _ in shown}}
    return set(doubtful(shapes, shown))


def _shown(prepared: Sequence[NewTask]) -> list[tuple[str, str]]:
    """What a handler is shown of tasks before they are added: types and payloads."""
    return [(each.kind.type, each.payload) for each in prepared if each.kind.type != COMMAND_TYPE]


async def _misfit(engine: Engine, prepared: list[NewTask]) -> Exception | None:
    try:
        for type_name, payload in _shown(prepared):
            if problem := await engine.reception.validate(type_name, payload):
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


def add_each_directly(
    config: Config, runs: Any, actor: str, redactor: Any, clock: Clock
) -> list[dict[str, Any]]:
    """The same for runs whose tasks stand each for itself: for each its answer, or its error as it is told."""
    found = _prepare_each_alone(config, submission.specs_of(submission.read_runs(runs)), redactor, clock)
    return _submit_each_alone(config, _each_alone(found, actor), redactor, clock)


def _prepare_alone(config: Config, specs: Any, redactor: Any, clock: Clock) -> list[NewTask]:
    """Check specs. Raises for the first bad one."""
    with _handlers_for(specs, config, clock) as handlers:
        prepared = submission.prepare(specs, redactor)
        if handlers:
            handlers.check(_shown(prepared))
    return prepared


def _prepare_each_alone(config: Config, specs: Any, redactor: Any, clock: Clock) -> list[NewTask | Exception]:
    """Check specs each of which stands for itself: in the place of a bad one stands why it is refused."""
    with _handlers_for(specs, config, clock) as handlers:
        found = submission.prepare_each(specs, redactor)
        if handlers:
            places = [at for at, each in enumerate(found) if isinstance(each, NewTask) and _shown([each])]
            shown = _shown([each for each in found if isinstance(each, NewTask)])
            for at, refusal in zip(places, handlers.refusals(shown), strict=True):
                found[at] = refusal or found[at]
    return found


def _submit_each_alone(
    config: Config, wishes: list[tuple[Any, str]], redactor: Any, clock: Clock
) -> list[dict[str, Any]]:
    from ..store.direct import write_once

    good = [wish for wish in wishes if isinstance(wish[0], list)]
    answers = iter(write_once(config.db, clock, redactor, submission.submit_each, good) if good else ())
    told = [next(answers) if isinstance(prepared, list) else prepared for prepared, _ in wishes]
    return _told_each(told, _refusal_here)


@contextmanager
def _handlers_for(specs: Any, config: Config, clock: Clock) -> Iterator[Handlers | None]:
    """Who is asked of payloads of Python types, where there may be some: a throw-away process, since neither the engine nor
    this one imports handlers. It is started first, and loads while the rest is checked.
    """
    if not isinstance(specs, Sequence) or not any(map(submission.names_a_python_type, specs)):
        yield None
        return
    from . import throwaway

    with throwaway.Handlers(
        config.taskdeck.handlers, config.handlers_root, clock, config.engine.start_timeout
    ) as handlers:
        yield handlers
