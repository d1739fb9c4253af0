"""`probe-server`: a judge of one's own for the checks of routes, on any host. It needs no database and no configuration."""

from __future__ import annotations

from typing import Annotated

import typer

from taskdeck.engine.errors import UsageError

from .. import output
from ..commandline import CommandLine


def probe_server(
    ctx: typer.Context,
    listen: Annotated[
        list[str] | None,
        typer.Option("--listen", metavar="HOST:PORT", help="Where to listen; more than one may be given."),
    ] = None,
    tls_cert: Annotated[
        str | None, typer.Option("--tls-cert", metavar="FILE", help="Certificate chain (PEM): serve HTTPS.")
    ] = None,
    tls_key: Annotated[
        str | None, typer.Option("--tls-key", metavar="FILE", help="The certificate's key (PEM).")
    ] = None,
) -> int:
    """Answer checks of routes: /nonce?n=X gives X back, /ip tells the caller's address, /204 is empty.

    Without --listen it is only seen from this host: 127.0.0.1:8900. HUP reads the certificate anew.
    """
    line: CommandLine = ctx.obj
    if line.paths:
        raise UsageError("probe-server keeps nothing", remedy=f"leave {sorted(line.paths)[0]} out")
    if bool(tls_cert) != bool(tls_key):
        raise UsageError("--tls-cert and --tls-key belong together", remedy="give both, or neither")

    from taskdeck.engine import main

    def told(url: str) -> None:
        if line.json:
            output.json_line({"url": url})
        else:
            output.line(f"serves {url}/nonce, {url}/ip and {url}/204")
        output.flush()

    certificate = (tls_cert, tls_key) if tls_cert and tls_key else None
    main.judge(listen or ["127.0.0.1:8900"], certificate, told, output.note)
    return 0
