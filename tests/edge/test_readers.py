from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator

import pytest

from taskdeck.engine.edge import readers


@pytest.fixture
def pipes() -> Iterator[list[tuple[int, int]]]:
    made = [os.pipe() for _ in range(3)]
    yield made
    for end in (end for pair in made for end in pair):
        os.close(end)


async def passes(count: int = 3) -> None:
    """So many passes of the loop."""
    for _ in range(count):
        await asyncio.sleep(0)


async def test_who_can_be_read_is_called_until_the_watch_ends(pipes: list[tuple[int, int]]) -> None:
    (first, into), (other, _), _ = pipes
    called: list[int] = []
    watch = readers.of_loop()
    for fd in (first, other):
        watch.add(fd, lambda fd=fd: called.append(fd))
    await passes()
    assert called == []
    os.write(into, b"x")
    await passes()
    assert set(called) == {first}
    assert len(called) > 1
    for fd in (first, other):
        watch.remove(fd)
    called.clear()
    await passes()
    assert called == []


async def test_a_number_that_serves_again_is_not_called_for_what_its_last_owner_had(
    pipes: list[tuple[int, int]],
) -> None:
    called: list[str] = []
    watch = readers.of_loop()

    def begin_anew(own: int, other: int) -> None:
        """The watch of the other ends, and a pipe in which nothing is takes its number."""
        called.append("ready")
        for fd in (own, other):
            watch.remove(fd)
        os.dup2(pipes[2][0], other)
        watch.add(other, lambda: called.append("never"))

    (one, into_one), (two, into_two), _ = pipes
    watch.add(one, lambda: begin_anew(one, two))
    watch.add(two, lambda: begin_anew(two, one))
    for end in (into_one, into_two):
        os.write(end, b"x")
    await passes()
    assert called == ["ready"]


async def test_each_loop_has_its_own() -> None:
    assert readers.of_loop() is readers.of_loop()
    assert await asyncio.to_thread(lambda: asyncio.run(_theirs())) is not readers.of_loop()


async def _theirs() -> readers.Readers:
    return readers.of_loop()
