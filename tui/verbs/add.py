"""`add` as typer knows it: options and help. What it does stands in `adding`."""

from __future__ import annotations

from typing import Annotated

import typer

from .. import adding

Type = Annotated[
    str | None, typer.Argument(metavar="[TYPE]", help="A task type; leave it out before `-- COMMAND`.")
]
Payload = Annotated[
    str | None, typer.Argument(metavar="[JSON]", help="Its payload; `-` reads standard input.")
]
File = Annotated[
    str | None,
    typer.Option("--file", "-f", metavar="FILE.jsonl", help="One task a line, all or none; `-` = stdin."),
]
Param = Annotated[
    list[str] | None, typer.Option("--param", "-p", metavar="NAME=VALUE", help="One field of the payload.")
]
Priority = Annotated[
    int | None, typer.Option("--priority", metavar="N", help="Smaller starts first; 100 by default.")
]
Key = Annotated[
    str | None,
    typer.Option("--key", metavar="KEY", help="Its name; a known one adds nothing, prints its task."),
]
At = Annotated[
    str | None, typer.Option("--at", metavar="TIME", help="17:00, '2026-12-24 17:00' (local), or UTC with Z.")
]
In = Annotated[
    str | None, typer.Option("--in", metavar="DURATION", help="Not before 30s, 5m, 1h30m from now.")
]
Retries = Annotated[
    int | None, typer.Option("--retries", min=0, metavar="N", help="Retries before a person must look.")
]
Timeout = Annotated[
    str | None, typer.Option("--timeout", metavar="DURATION", help="End an attempt after so long.")
]
OnLost = Annotated[
    str | None, typer.Option("--on-lost", metavar="rerun|review", help="When its worker was lost.")
]
Env = Annotated[
    list[str] | None,
    typer.Option(
        "--env",
        metavar="NAME[=VALUE]",
        help="A variable of the worker's environment, or VALUE (text, env:NAME, file:/PATH).",
    ),
]
Cwd = Annotated[
    str | None, typer.Option("--cwd", metavar="DIR", help="Working directory; this one by default.")
]
Pause = Annotated[
    str | None, typer.Option("--pause", metavar="stop|checkpoint", help="How the command is paused.")
]
Tag = Annotated[list[str] | None, typer.Option("--tag", metavar="TAG", help="A tag; may be repeated.")]
Needs = Annotated[
    list[str] | None,
    typer.Option(
        "--needs", metavar="POOL[:N]", help="Resources that it holds while it runs; may be repeated."
    ),
]
Route = Annotated[
    str | None, typer.Option("--route", metavar="GROUP|ID", help="The group of routes that it holds one of.")
]
Direct = Annotated[bool, typer.Option("--allow-direct", help="Go without a route where none can be used.")]
Target = Annotated[
    str | None,
    typer.Option("--target", metavar="HOST", help="The host that it works on, if it has no `url`."),
]
Bandwidth = Annotated[
    str | None,
    typer.Option("--bandwidth", metavar="RATE", help="What an attempt receives at most, such as 2MB/s."),
]
Wait = Annotated[bool, typer.Option("--wait", help="Wait until it has ended; exit as `wait` does.")]


def add(
    ctx: typer.Context,
    type_: Type = None,
    payload: Payload = None,
    file: File = None,
    param: Param = None,
    priority: Priority = None,
    key: Key = None,
    at: At = None,
    in_: In = None,
    retries: Retries = None,
    timeout: Timeout = None,
    on_lost: OnLost = None,
    env: Env = None,
    cwd: Cwd = None,
    pause: Pause = None,
    tag: Tag = None,
    needs: Needs = None,
    route: Route = None,
    allow_direct: Direct = False,
    target: Target = None,
    bandwidth: Bandwidth = None,
    wait: Wait = False,
) -> int:
    """Add a command (add [OPTIONS] -- COMMAND...), a task of a type (add TYPE [JSON]) or a file of tasks (add -f FILE)."""
    options = adding.Options(
        type=type_,
        payload=payload,
        file=file,
        param=param,
        priority=priority,
        key=key,
        at=at,
        in_=in_,
        retries=retries,
        timeout=timeout,
        on_lost=on_lost,
        env=env,
        cwd=cwd,
        pause=pause,
        tag=tag,
        needs=needs,
        route=route,
        allow_direct=allow_direct or None,
        target=target,
        bandwidth=bandwidth,
        wait=wait,
    )
    return adding.add(ctx.obj, options)
