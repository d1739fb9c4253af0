"""`resource`: what only one attempt at a time may use, who holds it, and putting it out of service or back."""

from __future__ import annotations

from typing import Annotated

import typer

from taskdeck.engine import views

from .. import format as look
from .. import output, stock_words
from ..commandline import CommandLine
from . import named

resource = typer.Typer(
    add_completion=False,
    help="Look at resources, take them out of service and back.",
    rich_markup_mode=None,
    no_args_is_help=True,
)


@resource.callback()
def _resource() -> None:
    pass


@resource.command("list")
def list_resources(
    ctx: typer.Context,
    pool: Annotated[str | None, typer.Option("--pool", metavar="NAME", help="Only this pool.")] = None,
) -> int:
    """List the resources by pool: state, who holds them since when, until when they rest."""
    line: CommandLine = ctx.obj
    with views.open_view(line.config) as view:
        found = [each for each in view.resources() if pool in (None, each.pool)]
    if line.json:
        for each in found:
            output.json_line(each)
    elif found:
        for text in _table(found):
            output.line(text)
    else:
        output.note("there is no resource; declare [[resources]], and the engine takes them over")
    return 0


def _table(found: list[views.ResourceView]) -> list[str]:
    now = views.now()
    headers = ("ID", "POOL", "STATE", f"NOW ({look.zone(now)})", "USES", "LAST ERROR")
    rows = [
        (
            each.id,
            each.pool,
            look.state(each.state),
            named.slot_now(each, now) or stock_words.unready(each, now),
            str(each.uses),
            look.tidy(each.last_error or ""),
        )
        for each in found
    ]
    return look.table(headers, rows, width=output.width(), paints=named.paints())


@resource.command()
def show(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(metavar="ID", help="Its id; gpu/2 is one slot of several.")],
) -> int:
    """Show one resource, each of its slots."""
    line: CommandLine = ctx.obj
    with views.open_view(line.config) as view:
        found = view.resources(name)
    for number, each in enumerate(found):
        if line.json:
            output.json_line(each)
            continue
        for text in [*([""] if number else []), *_fields(each)]:
            output.line(text)
    return 0


def _fields(found: views.ResourceView) -> list[str]:
    state = look.state(found.state, colour=output.coloured())
    return look.fields(
        [
            ("resource", found.id),
            ("pool", found.pool),
            ("kind", found.kind if found.kind != "unit" else ""),
            ("state", state + (f" ({found.cooldown_reason})" if found.cooldown_reason else "")),
            ("held by", f"#{found.task} since {look.local(found.held_since)}" if found.task else ""),
            ("lease until", look.local(found.lease_until)),
            ("rests until", look.local(found.cooldown_until)),
            ("then", stock_words.then(found)),
            ("fence", str(found.fence) if found.fence else ""),
            ("uses", stock_words.uses(found)),
            ("last used", look.local(found.last_used_at)),
            ("rest after use", views.format_duration(found.min_reuse) if found.min_reuse else ""),
            ("kept for", views.format_duration(found.max_age) if found.max_age else ""),
            ("ready", stock_words.readiness(found)),
            ("goes out by", stock_words.bound(found)),
            ("labels", stock_words.labels(found.labels)),
            ("last error", look.tidy(found.last_error or "")),
            ("removed", look.local(found.removed_at)),
        ]
    )


@resource.command()
def enable(ctx: typer.Context, ids: named.Ids) -> int:
    """Put resources into service, or undo that they are drained."""
    return named.act(ctx.obj, "resource_enable", ids)


@resource.command()
def disable(ctx: typer.Context, ids: named.Ids) -> int:
    """Take resources out of service: idle ones at once, busy ones when their attempt ends."""
    return named.act(ctx.obj, "resource_disable", ids)


@resource.command()
def reset(ctx: typer.Context, ids: named.Ids) -> int:
    """End a rest, or make a faulty resource available: you have looked at it."""
    return named.act(ctx.obj, "resource_reset", ids)


@resource.command()
def drain(ctx: typer.Context, ids: named.Ids, wait: named.Wait = None) -> int:
    """Give resources to nobody else, and take them out of service when their attempts end."""
    return named.drain(ctx.obj, "resource", ids, wait)


@resource.command()
def rest(ctx: typer.Context, ids: named.Ids, how_long: named.For) -> int:
    """Give free resources to nobody for a while; they come back by themselves."""
    return named.rest(ctx.obj, "resource", ids, how_long)


@resource.command()
def kick(ctx: typer.Context, ids: named.Kicked, fence: named.Fence = None) -> int:
    """Take resources away from whoever holds them: the attempt is stopped, its task stays paused."""
    return named.kick(ctx.obj, "resource", ids, fence)
