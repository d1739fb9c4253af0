"""The handlers of the journeys."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import msgspec

from taskdeck.engine import Context, Fatal, rollback, task


class Note(msgspec.Struct):
    """Where to write a line."""

    file: str
    pause: float = 0.0


class Walk(msgspec.Struct):
    """How far to count, writing each number: to a number, or on and on until there is a file `gate`."""

    file: str
    to: int = 20
    pause: float = 0.05
    gate: str = ""


@task("note")
async def note(ctx: Context, wish: Note) -> int:
    """Write one line: which task, by which process."""
    append(wish.file, f"{ctx.task_id} {os.getpid()}")
    await asyncio.sleep(wish.pause)
    return os.getpid()


@task("walk")
async def walk(ctx: Context, way: Walk) -> dict[str, int]:
    """Count with a checkpoint after each number."""
    number = ctx.checkpoint.get("done", 0)
    while not is_there(way, number):
        number += 1
        append(way.file, f"{number} {os.getpid()} {ctx.attempt}")
        await ctx.save(done=number)
        await asyncio.sleep(way.pause)
    return {"done": number}


def is_there(way: Walk, number: int) -> bool:
    """Has it come to the end of its way?"""
    return Path(way.gate).exists() if way.gate else number >= way.to


@task("flees")
async def flees(ctx: Context, note: Note) -> None:
    """Leave a process that no mark, no session and no parent tells of, and wait."""
    script = f"echo $$ > {note.file}.new; mv {note.file}.new {note.file}; exec sleep 599"
    flee = ["setsid", "sh", "-c", '(exec sh -c "$0") </dev/null >/dev/null 2>&1 & exit', script]
    await asyncio.create_subprocess_exec(*flee, env={"PATH": os.environ["PATH"]})
    await asyncio.sleep(600)


@rollback("undo")
async def undo(ctx: Context, file: str, what: str) -> None:
    """Take one thing back."""
    append(file, f"undo {what}")


@task("saga")
async def saga(ctx: Context, note: Note) -> None:
    """Do three things, each with what undoes it, and fail for good."""
    for what in ("a", "b", "c"):
        async with ctx.once(what) as op:
            if not op.done:
                await ctx.on_rollback(undo, file=note.file, what=what)
                append(note.file, f"do {what}")
    raise Fatal("no such account")


def append(file: str, line: str) -> None:
    """One write, so that lines of many processes never mix."""
    with Path(file).open("a", encoding="utf-8") as out:
        out.write(line + "\n")
