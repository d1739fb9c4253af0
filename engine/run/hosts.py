"""What `adding` needs of where tasks are added: of an engine, and of what stands in for one.

Types only: nothing imports this while it runs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any, Protocol, TypeVar

from ..errors import TaskdeckError
from ..rules.new_task import Kind
from ..rules.redaction import Redactor

T = TypeVar("T")


class Judge(Protocol):
    """Tells whether payloads fit their types."""

    def shape_of(self, type_name: str) -> str:
        """The shape of a type's payloads (`rules.fitting`); empty where that is not known."""
        ...

    async def validate(self, type_name: str, payload: str) -> str:
        """Why a payload does not fit, or "". Raises the error of one of which that can't be told."""
        ...


class Writes(Protocol):
    """Writes units of work."""

    def write(self, unit: Callable[..., T], *args: Any) -> asyncio.Future[T]:
        """Queue one; the future is done when it is durable."""
        ...


class Host(Protocol):
    """Where tasks are added: an engine, or what stands in for one."""

    @property
    def redactor(self) -> Redactor: ...

    @property
    def alike(self) -> dict[Any, Kind]:
        """Tasks as they were handed in, by what is looked at once for those that are alike in it."""
        ...

    @property
    def reception(self) -> Judge: ...

    @property
    def writer(self) -> Writes: ...

    def wake_for(self, due: Iterable[str]) -> None:
        """Tasks came that are due then (UTC text; "" = now)."""
        ...

    def refusal(self, error: Exception) -> TaskdeckError:
        """What is told of an error that kept one task out. One that nobody meant to raise is put on record."""
        ...
