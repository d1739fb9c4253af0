"""Checks of routes at full speed under an open deck: how many a second over real sockets, and how late the deck's loop is."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import sqlite3
import subprocess
import sys
from contextlib import AsyncExitStack, closing, suppress
from pathlib import Path
from statistics import quantiles
from time import perf_counter

import trustme

from taskdeck.engine.demo.fakes.http_proxy import HttpProxy
from taskdeck.engine.demo.fakes.socks_proxy import SocksProxy
from taskdeck.engine.edge.judge_server import JudgeServer, Listen, server_tls

from .deck.terminal import Terminal
from .frame import Bar, Benchmark, Figures, figure
from .home import Home, cpu, until, wait

ROUTES = 120
INTERVAL = 1.5
"""Seconds between two checks of a route: 80 a second are wanted."""
SECONDS = 15.0

SETTINGS = """
[routing]
probe_urls = ["{url}/nonce"]
ip_urls = ["{url}/ip"]
ca_file = "{ca}"
own_ips = ["192.0.2.1"]
ask_directly = false
interval_s = {interval}
concurrency = 8
starts_per_s = 1000
"""


def benchmark(options: argparse.Namespace) -> Benchmark:
    """What is measured."""
    seconds = SECONDS * options.scale
    return Benchmark(
        f"{ROUTES} routes (HTTP and SOCKS5, the judge with TLS) are checked under an open deck",
        {"taskdeck": lambda folder: measure(folder, seconds)},
        (
            Bar("checks a second", figure("taskdeck.checks_per_s"), "", least=50),
            Bar("the loop is late, p99", figure("taskdeck.late_p99_ms"), "ms", most=50),
        ),
    )


def measure(folder: Path, seconds: float) -> Figures:
    """The deck with its engine on a terminal of its own, judge and proxies in another process."""
    outside = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.probing", str(folder)], stdout=subprocess.PIPE
    )
    try:
        assert outside.stdout
        told = json.loads(outside.stdout.readline())
        settings = SETTINGS.format(url=told["url"], ca=told["ca"], interval=INTERVAL)
        routes = "".join(
            f'[[routes]]\nid = "r-{number}"\nurl = "{url}"\n' for number, url in enumerate(told["routes"])
        )
        return _measured(Home(folder, settings + routes), folder / "late.json", seconds)
    finally:
        outside.kill()
        outside.wait()


def _measured(home: Home, report: Path, seconds: float) -> Figures:
    command = [sys.executable, "-m", "benchmarks.loop", str(report), str(home.file)]
    terminal = Terminal(command, {**home.env, "PYTHONPATH": os.getcwd()})
    try:
        terminal.until("Overview")
        terminal.press("5")
        until(lambda: checks(home) > 2 * ROUTES, "full speed")
        before, spent, began = checks(home), cpu(home.engine_pid), perf_counter()
        wait(seconds)
        made, took = checks(home) - before, perf_counter() - began
        spent = cpu(home.engine_pid) - spent
        os.kill(home.engine_pid, signal.SIGTERM)
        until(report.exists, "its report")
    finally:
        terminal.close()
    late = json.loads(report.read_text())
    return {
        "checks_per_s": made / took,
        "cpu_ms_per_check": spent / made * 1000,
        "late_p50_ms": quantiles(late, n=2)[0] * 1000,
        "late_p99_ms": quantiles(late, n=100)[-1] * 1000,
        "late_max_ms": max(late) * 1000,
    }


def checks(home: Home) -> int:
    """Passed checks so far."""
    sql = "SELECT count(*) FROM event_log WHERE event_type = 'ROUTE_PROBED' AND reason = 'passed'"
    with (
        suppress(sqlite3.OperationalError),
        closing(sqlite3.connect(f"file:{home.db}?mode=ro", uri=True)) as connection,
    ):
        return connection.execute(sql).fetchone()[0]
    return 0  # the engine has not made its database yet


async def world(folder: Path) -> None:
    """Judge and proxies; tells where they are and serves until it is ended."""
    authority, files = trustme.CA(), [folder / name for name in ("ca.pem", "judge.pem", "judge.key")]
    leaf = authority.issue_cert("127.0.0.1")
    authority.cert_pem.write_to_path(str(files[0]))
    leaf.cert_chain_pems[0].write_to_path(str(files[1]))
    leaf.private_key_pem.write_to_path(str(files[2]))
    async with AsyncExitStack() as stack:
        tls = server_tls(str(files[1]), str(files[2]))
        judge = await stack.enter_async_context(JudgeServer([Listen("127.0.0.1", 0)], tls))
        urls = []
        for number in range(ROUTES):
            scheme, kind = [("http", HttpProxy), ("socks5", SocksProxy)][number % 2]
            proxy = await stack.enter_async_context(kind(leaves_from=f"127.0.1.{number + 1}"))
            urls.append(f"{scheme}://127.0.0.1:{proxy.port}")
        print(json.dumps({"url": judge.url(), "ca": str(files[0]), "routes": urls}), flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(world(Path(sys.argv[1])))
