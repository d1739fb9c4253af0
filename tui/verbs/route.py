"""`route`: network exits, how well they work and why, checking them, adding one, taking them out and back."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from taskdeck.engine import views
from taskdeck.engine.errors import Refused, UsageError

from .. import format as look
from .. import output
from ..commandline import CommandLine
from . import named, route_import, route_page

route = typer.Typer(
    add_completion=False,
    help="Look at routes, check them, take them out of service and back.",
    rich_markup_mode=None,
    no_args_is_help=True,
)


@route.callback()
def _route() -> None:
    pass


route.command("import")(route_import.import_routes)


@route.command("list")
def list_routes(
    ctx: typer.Context,
    group: Annotated[str | None, typer.Option("--group", metavar="NAME", help="Only this group.")] = None,
) -> int:
    """List the routes by group: state, score, latency, failures, exit address, who holds them."""
    line: CommandLine = ctx.obj
    with views.open_view(line.config) as view:
        found = [each for each in view.routes() if group in (None, each.group)]
    _print(line, found)
    return 0


def _print(line: CommandLine, found: list[views.RouteView]) -> None:
    if line.json:
        for each in found:
            output.json_line(each)
    elif found:
        for text in route_page.table(found):
            output.line(text)
    else:
        output.note("there is no route; declare [[routes]], or: taskdeck route add URL")


@route.command()
def show(ctx: typer.Context, name: Annotated[str, typer.Argument(metavar="ID", help="Its id.")]) -> int:
    """Show one route: what its score is made of, the stages of its last check, why it is not chosen."""
    line: CommandLine = ctx.obj
    with views.open_view(line.config) as view:
        found = view.route(name)
    if line.json:
        output.json_line(found)
        return 0
    for text in route_page.page(found):
        output.line(text)
    return 0


@route.command()
def check(
    ctx: typer.Context,
    ids: Annotated[list[str] | None, typer.Argument(metavar="[ID]...", help="All by default.")] = None,
) -> int:
    """Let the engine check routes now, and show how they are; exit 1 where one of them fails its check."""
    line: CommandLine = ctx.obj
    if not line.config.routing.probe_urls:
        raise Refused("routes can't be checked", "routing.probe_urls is empty", "name a judge there")
    from taskdeck.engine import commands

    with views.open_view(line.config) as view:
        known = [each.id for each in view.routes()]
        chosen = [view.route(name, 0).id for name in dict.fromkeys(ids or known)]
        commands.call(line.config, "route_check", line.actor, ids=chosen)
        found = [each for each in view.routes() if each.id in chosen]
    _print(line, found)
    return 1 if any(each.last_error for each in found) else 0


@route.command()
def add(
    ctx: typer.Context,
    url: Annotated[str, typer.Argument(metavar="URL", help="http://user@host:port, socks5://…, direct://")],
    name: Annotated[str | None, typer.Option("--id", metavar="ID", help="host-port by default.")] = None,
    group: Annotated[str | None, typer.Option("--group", help="The group that tasks ask for.")] = None,
    password: Annotated[
        str | None,
        typer.Option("--password", metavar="env:NAME|file:/PATH", help="Where its password stands."),
    ] = None,
    capacity: Annotated[int | None, typer.Option("--capacity", min=1, help="Attempts at once; 1.")] = None,
    min_reuse: Annotated[
        str | None, typer.Option("--min-reuse", metavar="DURATION", help="Rest after each use.")
    ] = None,
    expected_ip: Annotated[
        str | None, typer.Option("--expected-ip", metavar="IP|NETWORK", help="What the world must see.")
    ] = None,
    region: Annotated[
        list[str] | None, typer.Option("--region", metavar="CODE", help="A region that it may be in.")
    ] = None,
    label: Annotated[list[str] | None, typer.Option("--label", metavar="NAME=VALUE")] = None,
) -> int:
    """Add a route besides those of the configuration; prints its id."""
    line: CommandLine = ctx.obj
    given: dict[str, Any] = {
        "id": name,
        "url": url,
        "group": group,
        "password": password,
        "capacity": capacity,
        "min_reuse": min_reuse,
        "expected_ip": expected_ip,
        "expected_regions": region,
        "labels": dict(_label(text) for text in label) if label else None,
    }
    from taskdeck.engine import commands

    output.acting(as_json=line.json)
    made = commands.call(
        line.config,
        "route_add",
        line.actor,
        **{key: value for key, value in given.items() if value is not None},
    )
    if line.json:
        output.json_line(made)
    else:
        output.line(made["id"])
    return 0


def _label(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise UsageError(f"--label {look.tidy(text)} names no value", remedy="write --label NAME=VALUE")
    return name, value


@route.command()
def remove(ctx: typer.Context, ids: named.Ids) -> int:
    """Take out routes that were added or imported; what holds one keeps it to its end."""
    return named.act(ctx.obj, "route_remove", ids)


@route.command()
def enable(ctx: typer.Context, ids: named.Ids) -> int:
    """Put routes into service: each is used once it has passed a check."""
    return named.act(ctx.obj, "route_enable", ids)


@route.command()
def disable(ctx: typer.Context, ids: named.Ids) -> int:
    """Take routes out of service: idle ones at once, busy ones when their attempt ends."""
    return named.act(ctx.obj, "route_disable", ids)


@route.command()
def reset(ctx: typer.Context, ids: named.Ids) -> int:
    """Let routes that rest or are in fault be checked now."""
    return named.act(ctx.obj, "route_reset", ids)


@route.command()
def drain(ctx: typer.Context, ids: named.Ids, wait: named.Wait = None) -> int:
    """Give routes to nobody else, and take them out of service when their attempts end."""
    return named.drain(ctx.obj, "route", ids, wait)


@route.command()
def rest(ctx: typer.Context, ids: named.Ids, how_long: named.For) -> int:
    """Give free routes to nobody for a while; they come back by themselves."""
    return named.rest(ctx.obj, "route", ids, how_long)


@route.command()
def kick(ctx: typer.Context, ids: named.Kicked, fence: named.Fence = None) -> int:
    """Take routes away from whoever holds them: the attempt is stopped, its task stays paused."""
    return named.kick(ctx.obj, "route", ids, fence)


route.command("probe", help="The same as `check`.")(check)
