"""What the demo does and what must come of it: the shortened times, the tasks, their ends. Data, nothing is run here.

The engine knows no demo: everything that is quicker than usual stands in `SETTINGS`, which is printed and written to the
demo's `config.toml`. Standard library only, since the check reads it too.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from .catalogue import lists, orders

CONFIG_FILE = "config.toml"
RUN_FILE = "run.json"
WORLD_FILE = "world.json"
ENGINE_LOG = "engine.out"
SECRETS = "secrets"

NEVER_LEASED = {
    "dead": "it refuses every connection",
    "http-connect": "it carries no plain HTTP, and the site speaks no other",
    "socks-fast": "it leaves from another address than it says",
}
"""Routes that no task may ever be given, since a route is handed out only after it passed a check."""

BROWSER = "browser"
BROWSERS = 3
ROUTE_SLOTS = 4
"""The pool of resources, how many there are, one slot each; and how many slots each route has."""
HANDLERS_NEED = {"demo_upload": ("resource",), "demo_browser": ("resource",)} | {
    type_: ("route",) for type_ in ("demo_fetch", "demo_limited", "demo_flaky", "demo_slow")
}
"""What the handlers in `jobs` ask for beside what a task asks for itself."""

FAULT_POINT = "fault point"
LEAST_KILLS = {"worker": 5, "engine": 3}

SETTINGS = """\
[engine]
workers = 2
heartbeat = "250ms"
suspect_after = "5s"
lease = "15s"
stop_grace = "2s"
cancel_grace = "1s"
output_drain = "200ms"
max_losses = {max_losses}

[retry]
base = "100ms"
max_delay = "1s"
max_retry = 5

[shell]
concurrency = 4

[routing]
interval_s = "1s"
fast_interval_s = "300ms"
tcp_timeout_s = "1s"
connect_timeout_s = "2s"
read_timeout_s = "2s"
budget_s = "4s"
control_retry_s = "1s"
starts_per_s = 20  # its judge is its own

[routing.cooldown]
base_s = "500ms"
max_s = "2s"
slow_start_s = "1s"
fault_recheck_s = "2s"
"""
"""What is set, and set shorter than usual. `max_losses`: chaos takes workers from the innocent too."""
MAX_LOSSES = {False: 3, True: sum(LEAST_KILLS.values()) + 2}
"""Without and with chaos: how many lost workers in a row send a task to review.

One task may be hit by every kill of chaos, and once by the task that kills its worker (which runs alone from then on). One
more than that, and no innocent task can ever need a review.
"""

EXIT_CODES = (1,)
"""How `run --until-idle` ends here: something failed, as planned."""


def configuration(world: Mapping[str, Any], database: Path, folder: Path, *, chaos: bool) -> str:
    """The demo's `config.toml`."""
    handlers = ["taskdeck.engine.demo.jobs"]
    return assembled(world, database, folder / "logs", handlers, settings(chaos=chaos))


def assembled(
    world: Mapping[str, Any], database: Path, logs: Path, handlers: Sequence[str], settings: str
) -> str:
    """A `config.toml`: where things are, `settings` as they stand, three browsers, seven routes."""
    head = {"handlers": list(handlers), "db": str(database), "logs": str(logs)}
    lines = ["[taskdeck]", *(f"{name} = {_toml(value)}" for name, value in head.items()), "", settings]
    probes = f"[routing]\nprobe_urls = {_toml([world['nonce_url']])}\nip_urls = {_toml([world['ip_url']])}\n"
    text = "\n".join(lines).replace("[routing]\n", probes, 1)
    text += f'\n[[resources]]\nid = "{BROWSER}"\npool = "{BROWSER}"\ncount = {BROWSERS}\n'
    return text + "".join(_route(each) for each in world["proxies"])


def settings(*, chaos: bool) -> str:
    """The shortened times, as they stand in the configuration."""
    return SETTINGS.format(max_losses=MAX_LOSSES[chaos])


def _route(proxy: Mapping[str, Any]) -> str:
    login = f"{proxy['username']}@" if proxy.get("username") else ""
    values = {
        "id": proxy["id"],
        "url": f"{proxy['scheme']}://{login}{proxy['host']}:{proxy['port']}",
        "group": proxy.get("group", "demo"),
        "capacity": ROUTE_SLOTS,
        "expected_ip": proxy.get("exit_ip"),
        "password": f"file:{proxy['password_file']}" if proxy.get("password_file") else None,
    }
    lines = [f"{name} = {_toml(value)}" for name, value in values.items() if value is not None]
    return "\n[[routes]]\n" + "\n".join(lines) + "\n"


def _toml(value: object) -> str:
    """A text, number or list of texts; JSON's spelling is TOML's too."""
    return json.dumps(value, ensure_ascii=False)


# ---- tasks ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Planned:
    """One task and what must come of it: its state at the end, and the reason and least attempts where they matter."""

    kind: str
    key: str
    spec: dict[str, Any]
    end: str = "SUCCESS"
    reason: str = ""
    least_attempts: int = 1

    @property
    def payload(self) -> dict[str, Any]:
        """What its handler is given; a command has none."""
        return json.loads(self.spec.get("payload", "{}"))

    @property
    def leases(self) -> set[str]:
        """What it must have held whenever it ran: `resource` = a browser, `route` = one of the routes."""
        own = {"resource"} if self.spec.get("needs") else set()
        own |= {"route"} if self.spec.get("route") else set()
        return own | set(HANDLERS_NEED.get(self.spec.get("type", ""), ()))


UPLOADS = 6
PACE = {False: 1.0, True: 2.5}
"""Seconds between the starts of dated tasks, without and with chaos: so that there is work until the last kill."""
HELD_BACK = "type:demo_report"
"""What is held back until chaos is over."""
DATED = 8
NO_TIME = datetime(2000, 1, 1, tzinfo=UTC)


def tasks(
    seed: int, *, chaos: bool, site: str = "", folder: str = "", now: datetime = NO_TIME
) -> list[Planned]:
    """All tasks, in an order drawn from the seed. Their keys and ends depend on nothing else.

    Chaos changes no end: whatever is killed, each task must come to the same state for the same reason.
    """
    planned = in_order(chaos=chaos, site=site, folder=folder, now=now)
    random.Random(f"plan {seed}").shuffle(planned)
    return planned


def in_order(*, chaos: bool, site: str = "", folder: str = "", now: datetime = NO_TIME) -> list[Planned]:
    """All tasks as they stand here, kind by kind: the order of the summary."""
    pace = PACE[chaos]
    return [
        *_visits(site, folder),
        *_uploads(site, now, pace),
        *_commands(folder),
        *_dated(now, pace),
        *_troubles(folder),
    ]


def _visits(site: str, folder: str) -> Iterator[Planned]:
    """Through the routes."""
    for name in lists():
        payload = {"site": site, "folder": folder, "list": name}
        yield _typed("fetch lists", f"fetch-{name}", "demo_fetch", payload)
    yield _typed("report", "report", "demo_report", {"folder": folder, "lists": len(lists())})
    for n in range(1, 5):
        yield _typed("slow", f"slow-{n}", "demo_slow", {"site": site})
    for n in range(1, 5):
        yield _typed("limited (429)", f"limited-{n}", "demo_limited", {"site": site}, least_attempts=2)
    for n in range(1, 5):
        yield _typed("flaky (500)", f"flaky-{n}", "demo_flaky", {"site": site}, least_attempts=3)
    for n in range(1, 4):
        yield _typed("http", f"http-{n}", "http", {"url": f"{site}/whoami"}, route="demo")


def _uploads(site: str, now: datetime, pace: float) -> Iterator[Planned]:
    """The batch in parts, each row of it once."""
    size = -(-len(orders()) // UPLOADS)
    for n in range(UPLOADS):
        payload = {"site": site, "first": n * size + 1, "last": (n + 1) * size}
        yield _typed("upload orders", f"upload-{n + 1}", "demo_upload", payload, **_at(now, n * pace))


def _troubles(folder: str) -> Iterator[Planned]:
    """What goes wrong, and must end well or with a person."""
    yield _typed("crashing browser", "browser", "demo_browser", {"folder": folder}, least_attempts=2)
    payload = {"first": 9, "last": 1}
    bad = _typed("bad parameters", "bad-parameters", "demo_bad_parameters", payload)
    yield _ending(bad, "FAILED", "fatal_error")
    yield _ending(
        _typed("always fails", "always-fails", "demo_always_fails", {}), "NEEDS_REVIEW", "retries_exhausted"
    )
    killer = _typed("kills its worker", "killer", "demo_kills_its_worker", {}, priority=90)
    yield _ending(killer, "NEEDS_REVIEW", "worker_lost")


def _commands(folder: str) -> Iterator[Planned]:
    """Programs of the system, as anyone has them."""
    for n in range(1, 4):
        yield _command("command", f"command-{n}", ["sh", "-c", f"seq {n}000 | cksum; sleep 0.{n}"], folder)
    yield _command("command", "command-left-behind", ["sh", "-c", "sleep 300 & echo done"], folder)
    for n in range(1, 3):
        script = "echo this is $TASKDECK_RESOURCE_BROWSER; sleep 0.2"
        yield _command("with a browser", f"browsing-{n}", ["sh", "-c", script], folder, needs=[BROWSER])
    script = "echo leaves through $TASKDECK_ROUTE"
    yield _command("with a route", "routed", ["sh", "-c", script], folder, route="demo")
    for n in range(1, 3):
        script = f"mkdir tries/{n} && exit 75 || exit 0"
        yield _command("comes again (75)", f"again-{n}", ["sh", "-c", script], folder, least_attempts=2)
    failing = [
        ("exit 64", "exit-64", ["sh", "-c", "echo no such option >&2; exit 64"], {}, "FAILED", "fatal_error"),
        ("no such program", "missing", ["no-such-program"], {}, "FAILED", "fatal_error"),
        ("timed out", "too-slow", ["sleep", "30"], {"timeout": 0.3, "max_retry": 1}, "NEEDS_REVIEW", "retries_exhausted"),
    ]  # fmt: skip
    for kind, key, argv, more, end, reason in failing:
        yield _ending(_command(kind, key, argv, folder, **more), end, reason)


def _dated(now: datetime, pace: float) -> Iterator[Planned]:
    for n in range(1, DATED + 1):
        argv = ["sleep", f"{pace / 2:g}"]
        yield _command("dated", f"dated-{n}", argv, "/", **_at(now, n * pace))


def _typed(
    kind: str, key: str, type_: str, payload: Mapping[str, Any], *, least_attempts: int = 1, **more: Any
) -> Planned:
    spec = {"type": type_, "payload": json.dumps(payload), "key": f"demo-{key}", "tags": ["demo"], **more}
    return Planned(kind, f"demo-{key}", spec, least_attempts=least_attempts)


def _command(
    kind: str, key: str, argv: Sequence[str], cwd: str, *, least_attempts: int = 1, **more: Any
) -> Planned:
    spec = {"command": {"argv": list(argv), "cwd": cwd}, "key": f"demo-{key}", "tags": ["demo"], **more}
    return Planned(kind, f"demo-{key}", spec, least_attempts=least_attempts)


def _ending(planned: Planned, end: str, reason: str) -> Planned:
    return Planned(planned.kind, planned.key, planned.spec, end, reason, planned.least_attempts)


def _at(now: datetime, seconds: float) -> dict[str, Any]:
    return {"not_before": f"{now + timedelta(seconds=seconds):%Y-%m-%dT%H:%M:%S.%fZ}"} if seconds else {}
