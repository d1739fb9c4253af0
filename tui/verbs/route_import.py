"""`route import`: a list of proxies as people have it, shown line by line before any of it is written."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from taskdeck.engine.errors import UsageError

from .. import format as look
from .. import output, route_lists
from ..commandline import CommandLine

if TYPE_CHECKING:
    from taskdeck.engine.commands import Import

PAINTS = {"new": "32", "changed": "33", "duplicate": "2", "bad": "31"}


def import_routes(
    ctx: typer.Context,
    file: Annotated[str, typer.Argument(metavar="FILE|-", help="The list; - is standard input.")],
    group: Annotated[
        str, typer.Option("--group", metavar="NAME", help="The group of lines that name none.")
    ] = "",
    scheme: Annotated[
        str, typer.Option("--scheme", metavar="SCHEME", help="That of lines that name none.")
    ] = "http",
    dry_run: Annotated[bool, typer.Option("--dry-run", "-n", help="Only show what it would change.")] = False,
    skip_bad: Annotated[
        bool, typer.Option("--skip-bad", help="Leave bad lines out, import the others.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Don't ask.")] = False,
) -> int:
    """Import a list of routes: URLs, host:port:user:password and the like, CSV, JSON; see docs/routes.md.

    Shows what is new, changed, known already or bad, by line. With bad lines nothing is written unless they are skipped.
    On a terminal it asks first.
    """
    line: CommandLine = ctx.obj
    from taskdeck.engine import commands

    found = commands.look_at_list(line.config, _read(file), scheme=checked_scheme(scheme), group=group)
    _show(line, found)
    can_ask = file != "-" and sys.stdin is not None and sys.stdin.isatty()
    asks = can_ask and not (yes or line.json)
    if not dry_run and _is_wanted(found, asks=asks, leaves_out=skip_bad or yes):
        output.acting(as_json=line.json)
        commands.import_list(line.config, line.actor, found)
        return _end(line, found, written=True)
    code = _end(line, found, written=False)
    return 2 if found.count("bad") and not (skip_bad or yes) else code


def _read(file: str) -> bytes:
    """What stands in a file, or on standard input. Raises what `route_lists.read` does."""
    if file != "-":
        return route_lists.read(file)
    return sys.stdin.buffer.read(route_lists.LARGEST) if sys.stdin is not None else b""


def checked_scheme(scheme: str) -> str:
    """A scheme that lines without one may have."""
    known = ("http", "https", "socks4", "socks4a", "socks5", "socks5h")
    if scheme not in known:
        raise UsageError(f"--scheme {look.tidy(scheme)} is none", remedy=f"one of: {', '.join(known)}")
    return scheme


def _show(line: CommandLine, found: Import) -> None:
    if line.json:
        for each in found.lines:
            output.json_line(each)
        return
    rows = [
        (str(each.line or "-"), each.kind, each.id or "-", route_lists.told(each)) for each in found.lines
    ]
    if rows:
        paints = PAINTS if output.coloured() else {}
        for text in look.table(("LINE", "IS", "ID", "WHAT"), rows, width=output.width(), paints=paints):
            output.line(text)


def _is_wanted(found: Import, *, asks: bool, leaves_out: bool) -> bool:
    """Shall it be written? Where nobody can be asked bad lines must have been foreseen."""
    count = route_lists.to_write(found)
    if not count or not asks:
        return bool(count) and (leaves_out or not found.count("bad"))
    output.flush()
    if not typer.confirm(f"{route_lists.wish(found)}?", err=True):
        raise typer.Abort
    return True


def _end(line: CommandLine, found: Import, *, written: bool) -> int:
    """Say what was done."""
    if line.json:
        counts: dict[str, Any] = {kind: found.count(kind) for kind in route_lists.KINDS}
        output.json_line({"summary": {**counts, "written": written}})
        return 0
    output.flush()
    if written:
        output.note(f"imported: {route_lists.summary(found)}")
    elif found.count("bad") and route_lists.to_write(found):
        output.note(
            f"nothing was imported: {route_lists.summary(found)}; correct the bad lines, or add --skip-bad"
        )
    else:
        output.note(f"nothing was imported: {route_lists.summary(found)}")
    return 0
