"""What one `@task` said, checked: limits, needs, route, verify, and the shape of the function itself.

Owns the sentences about what is wrong with a declaration. Pure; must not load or run anything.
"""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Iterable
from typing import Any

from ..rules.bandwidth import parse_rate
from ..rules.needs import needs_text, parse_group, parse_needs
from ..rules.timing import parse_duration
from . import params


def is_sync(function: Callable[..., Any], name: str) -> bool:
    """A plain `def`, which runs in a process of its own? Raises `ValueError` for what is no function of either kind."""
    if inspect.iscoroutinefunction(function):
        return False
    if not inspect.isfunction(function):
        raise ValueError(f'type "{name}": write a `def` or an `async def`, not {called(function)}')
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise ValueError(f'type "{name}": `{called(function)}` must return its result, not yield it')
    return True


def check_verify(verify: Any, name: str, *, sync: bool) -> None:
    """Raise `ValueError` where `verify` is not a function of the same kind as its handler."""
    if verify is None:
        return
    if sync and (not callable(verify) or inspect.iscoroutinefunction(verify)):
        raise ValueError(f'type "{name}": verify must be a plain `def`, as its handler is')
    if not sync and not inspect.iscoroutinefunction(verify):
        raise ValueError(f'type "{name}": verify must be an `async def`')


def check_checkpoint(kind: Any, migrate: Any, name: str) -> None:
    """Raise `ValueError` where a checkpoint can't have this type, or `migrate` can't be asked."""
    if kind is not None and (refusal := params.refusal(kind)):
        raise ValueError(f'type "{name}": checkpoint: {refusal}')
    if migrate is not None and (not callable(migrate) or inspect.iscoroutinefunction(migrate)):
        raise ValueError(f'type "{name}": migrate must be a plain `def` that takes (data, version)')


def limits(options: dict[str, Any]) -> dict[str, Any]:
    """Timeout, retries and the like as `TypeInfo` has them; None = as configured."""
    limits: dict[str, Any] = {}
    for key in ("timeout", "base", "max_delay"):
        limits[key] = None if options[key] is None else parse_duration(options[key])
        if limits[key] is not None and limits[key] <= 0:
            raise ValueError(f"{key} must be more than 0 seconds; leave it out for none")
    for key, least in (("max_retry", 0), ("concurrency", 1), ("checkpoint_version", 1)):
        limits[key] = _whole_number(key, options[key], least)
    for key, words in (("on_lost", ("rerun", "review")), ("on_exhausted", ("review", "dead"))):
        limits[key] = options[key]
        if options[key] not in (None, *words):
            raise ValueError(f'{key} must be "{words[0]}" or "{words[1]}", not {options[key]!r}')
    return limits


def held(options: dict[str, Any]) -> dict[str, Any]:
    """What an attempt leases: `needs`, `route`, `allow_direct`, and the `bandwidth` it has, as `TypeInfo` has them."""
    if not isinstance(options["allow_direct"], bool):
        raise ValueError(f"allow_direct must be True or False, not {options['allow_direct']!r}")
    needs = options["needs"]
    if not isinstance(needs, Iterable):
        raise ValueError(f'needs must be a list such as ["browser:2"], not {needs!r}')
    bandwidth = options["bandwidth"]
    return {
        "bandwidth": None if bandwidth is None else parse_rate(bandwidth),
        "needs": needs_text(parse_needs(needs)),
        "route": parse_group(options["route"]) if options["route"] is not None else "",
        "allow_direct": options["allow_direct"],
    }


def _whole_number(key: str, value: Any, least: int) -> int | None:
    if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < least):
        raise ValueError(f"{key} must be a whole number of at least {least}, not {value!r}")
    return value


def payload_kind(function: Callable[..., Any]) -> Any:
    """The annotation of the second parameter; no annotation is any JSON, no parameter is `params.NOTHING`."""
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    parameters = list(inspect.signature(function).parameters.values())
    taken = [one for one in parameters if one.kind in positional]
    required = [one for one in parameters if one.default is one.empty and one.kind not in (2, 4)]
    if not taken or len(required) > 2 or any(one not in taken[:2] for one in required):
        raise ValueError(f"`{called(function)}` must take (ctx) or (ctx, params)")
    if len(taken) == 1:
        return params.NOTHING
    hints = typing.get_type_hints(function, include_extras=True)
    return hints.get(taken[1].name, Any)


def called(function: Callable[..., Any]) -> str:
    """A function's name, for people."""
    return getattr(function, "__name__", repr(function))
