"""Futures where a coroutine would need a task, which costs two passes of the loop: for what is done once a commit."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

S = TypeVar("S")
T = TypeVar("T")


def begun(begin: Callable[[], Awaitable[T]]) -> asyncio.Future[T]:
    """The future of what this begins; of what can't even be begun one with its error."""
    try:
        return asyncio.ensure_future(begin())
    except Exception as error:
        failed: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        failed.set_exception(error)
        return failed


def then(first: Awaitable[S], told: Callable[[S], T]) -> asyncio.Future[T]:
    """What is told of the first, once that is there."""
    future = asyncio.ensure_future(first)
    answered: asyncio.Future[T] = future.get_loop().create_future()

    def answer(_: object) -> None:
        if future.cancelled():
            answered.cancel()
            return
        try:
            found = told(future.result())
        except Exception as error:
            if not answered.done():  # it is where nobody waits any more
                answered.set_exception(error)
        else:
            if not answered.done():
                answered.set_result(found)

    future.add_done_callback(answer)
    return answered
