"""`@rollback`: the undo steps that a handler's module offers, found again by name by whichever worker runs them.

A step is a function at the top of its handler's module (or imported there), so that a fresh process can find it after a
crash: its name and JSON arguments are all that is kept. Must not run anything by itself.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from msgspec import Struct

from ..rules import payloads
from ..rules.failures import Failure, FailureClass
from .attempt_messages import Run
from .endings import InDoubt, Judged

ATTRIBUTE = "__taskdeck_rollback__"
LONGEST_NAME = 100

Function = TypeVar("Function", bound=Callable[..., Any])


class Step(Struct, frozen=True):
    """One undo step. `settles_doubt`: after a crash in its middle no person is needed."""

    name: str
    function: Callable[..., Any]
    verify: Callable[..., Any] | None
    repeatable: bool

    @property
    def settles_doubt(self) -> bool:
        return self.repeatable or self.verify is not None


def rollback(
    name: str, *, verify: Callable[..., Any] | None = None, repeatable: bool = False
) -> Callable[[Function], Function]:
    """Declare `def f(ctx, **arguments)` (an `async def` for async handlers) as an undo step for `ctx.on_rollback`.

    It must be right where its effect did not happen, too. After a crash in its middle `verify(ctx, **arguments)` is asked:
    it returns if the step has happened, or raises `NotDone`. A `repeatable` one is just run again; any other waits for a
    person.
    """

    def declare(function: Function) -> Function:
        setattr(function, ATTRIBUTE, Step(name, function, verify, repeatable))
        return function

    return declare


def steps_of(function: Callable[..., Any] | None, *, sync: bool) -> dict[str, Step]:
    """The steps of the same kind in the module of a handler, by name. Raises `ValueError` for what is wrong with one."""
    module = getattr(inspect.unwrap(function), "__globals__", {}) if function is not None else {}
    found: dict[str, Step] = {}
    for value in list(module.values()):
        step = getattr(value, ATTRIBUTE, None) if inspect.isfunction(value) else None
        if step is None or inspect.iscoroutinefunction(value) == sync:
            continue
        _check(step, found)
        found[step.name] = step
    return found


def _check(step: Step, known: Mapping[str, Step]) -> None:
    name = step.name
    if not isinstance(name, str) or not 0 < len(name) <= LONGEST_NAME or not name.isprintable():
        raise ValueError(
            f"bad name of a rollback step {name!r}: use 1 to {LONGEST_NAME} printable characters"
        )
    if name in known and known[name].function is not step.function:
        raise ValueError(f'two rollback steps are called "{name}"')
    same = inspect.iscoroutinefunction(step.verify) == inspect.iscoroutinefunction(step.function)
    if step.verify is not None and not same:
        raise ValueError(f'rollback step "{name}": its verify must be of the same kind as the step')


def chosen(steps: Mapping[str, Step], wanted: Any, arguments: Mapping[str, Any]) -> Step:
    """The step that a handler names, by itself or its function. Raises `ValueError`, or `TypeError` for its arguments."""
    name = wanted if isinstance(wanted, str) else getattr(getattr(wanted, ATTRIBUTE, None), "name", None)
    step = steps.get(name) if name is not None else None
    if step is None or not (isinstance(wanted, str) or step.function is wanted):
        known = ", ".join(sorted(steps)) or "none"
        raise ValueError(
            f"{wanted!r} is no rollback step of this handler's module; declare it there with @rollback (known: {known})"
        )
    try:
        inspect.signature(step.function).bind(None, **arguments)
    except TypeError as error:
        raise TypeError(f'rollback step "{step.name}": {error}') from None
    return step


def of_run(steps: Mapping[str, Step], run: Run) -> tuple[Step, dict[str, Any]]:
    """The step that an attempt shall run, and its arguments."""
    step = steps.get(run.step)
    if step is None:
        story = f'rollback step "{run.step}" is not declared any more'
        raise Judged(Failure(FailureClass.RETRYABLE, "handler_gone", story, "loading"))
    if run.doubt is not None and not step.settles_doubt:
        raise InDoubt(run.step)
    return step, payloads.decode(run.payload, where="arguments")
