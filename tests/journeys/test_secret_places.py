"""Passwords of routes are in no place where they don't belong, after real work through proxies that want them."""

from __future__ import annotations

import asyncio
import base64
import os
import resource
import signal
import subprocess
import sys
from contextlib import closing, suppress
from pathlib import Path
from threading import Event, Thread
from urllib.parse import quote

from taskdeck.engine import cores
from taskdeck.engine.demo.fakes.faults import Behaviour, Fault
from taskdeck.engine.demo.fakes.http_proxy import HttpProxy
from taskdeck.engine.demo.fakes.socks_proxy import SocksProxy
from taskdeck.engine.edge.link import LinkLost, connect, socket_path
from taskdeck.engine.run import messages as m
from tests.edge.fakes.judge import FakeJudge
from tests.faults import fault
from tests.journeys.decks import CONFIG, Deck
from tests.run.engine_double import engine
from tests.secret_files import reference

HANDLERS = Path(__file__).with_name("proxy_jobs.py")
LOOK = "import os, sys, urllib.request as u; print(dict(os.environ)); print(u.urlopen(sys.argv[1], timeout=10).read())"

SECRETS = {
    "env": "Env1-hunter2/x",
    "file": "file2-Hunter2+y",
    "cmd": "cmd3-hunTer2=z",
    "cred": "cred4-huNter2:w",
}
WRONG = "wrong5-huntER2"


def forms(secret: str) -> set[bytes]:
    """As it may have been written: plain, in URLs, in hex, in base64 alone and as a login."""
    login = base64.b64encode(f"bob:{secret}".encode())
    plain = secret.encode()
    return {plain, quote(secret, safe="").encode(), plain.hex().encode(), base64.b64encode(plain), login}


ALL_FORMS = {form for secret in (*SECRETS.values(), WRONG) for form in forms(secret)}


def found_in(data: bytes) -> set[bytes]:
    return {form for form in ALL_FORMS if form in data}


class Watch:
    """Looks at every process again and again: command lines, and environments of all who have no business with it."""

    def __init__(self, deck: Deck) -> None:
        self.seen: set[str] = set()
        self.looks = 0
        self._deck = deck
        self._known: dict[str, bytes] = {}
        """The command line of each process that was looked at: while it is the same, so is its environment."""
        self._over = Event()
        self._thread = Thread(target=self._watch)

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._over.wait(0.01):
            self.looks += 1
            there = {name for name in os.listdir("/proc") if name.isdecimal()}
            for gone in self._known.keys() - there:
                del self._known[gone]
            for name in there:
                self._look(name)

    def _look(self, pid: str) -> None:
        with suppress(OSError):
            line = _read(f"/proc/{pid}/cmdline")
            if self._known.get(pid) == line:
                return
            environ = _read(f"/proc/{pid}/environ")
            if _read(f"/proc/{pid}/cmdline") != line:
                return  # became another program between the two: the next look sees both of it
            if environ:  # before that, it has only just been started
                self._known[pid] = line
            told = line.replace(b"\0", b" ").decode(errors="replace")
            if found_in(line):
                self.seen.add(f"ps: {told}")
            is_ours = self._deck.mark.encode() in environ and (
                b"taskdeck.engine" in line or b"taskdeck\0run" in line
            )
            is_handler = b"sync_handler" in line
            is_asked = line.startswith(
                b"cat\0"
            )  # what a `cmd:` names: it may need all that taskdeck was given
            if found_in(environ) and (is_handler or not (is_ours or is_asked)) and int(pid) != os.getpid():
                self.seen.add(f"environment: {told}")


def _read(path: str) -> bytes:
    with open(path, "rb", buffering=0) as file:
        return file.read()


class Proxies:
    """A site and one proxy for each way of keeping a password, in a loop of their own thread."""

    def __init__(self) -> None:
        self.ports: dict[str, int] = {}
        self.site = ""
        self._ready = Event()
        self._thread = Thread(target=lambda: asyncio.run(self._serve()), daemon=True)

    def __enter__(self) -> Proxies:
        self._thread.start()
        assert self._ready.wait(20)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._end.set)
        self._thread.join()

    async def _serve(self) -> None:
        self._loop, self._end = asyncio.get_running_loop(), asyncio.Event()
        logins = {name: ("bob", secret) for name, secret in SECRETS.items()}
        async with (
            FakeJudge() as judge,
            HttpProxy(login=logins["env"]) as one,
            SocksProxy(login=logins["file"]) as two,
            HttpProxy(login=logins["cmd"]) as three,
            SocksProxy(login=logins["cred"]) as four,
            HttpProxy(login=("bob", "right")) as wrong,
            SocksProxy(login=logins["file"], behaviour=Behaviour(Fault.REFUSE)) as dead,
        ):
            self.site = judge.url("")
            served = {"env": one, "file": two, "cmd": three, "cred": four, "wrong": wrong, "dead": dead}
            self.ports = {name: proxy.port for name, proxy in served.items()}
            self._ready.set()
            await self._end.wait()


def configuration(home: Path, proxies: Proxies) -> str:
    """Routes whose passwords stand in every kind of place; each is a group of its own."""
    for name in ("file", "cmd", "wrong"):
        path = home / f"{name}.pw"
        path.write_text((SECRETS | {"wrong": WRONG})[name] + "\n")
        path.chmod(0o600)
    (home / "credentials").mkdir()
    (home / "credentials" / "eu").write_text(SECRETS["cred"])
    (home / "credentials" / "eu").chmod(0o400)
    where = {
        "env": "env:ROUTE_PW",
        "file": f"file:{home}/file.pw",
        "cmd": f"cmd:cat {home}/cmd.pw",
        "cred": "cred:eu",
        "wrong": f"file:{home}/wrong.pw",
        "dead": f"file:{home}/file.pw",
    }
    schemes = {"file": "socks5", "cred": "socks5h", "dead": "socks5"}
    text = CONFIG.format(handlers=f'"{HANDLERS}"')
    text += f'\n[routing]\nprobe_urls = ["{proxies.site}/nonce"]\ninterval_s = "1h"\n'
    for name, secret_ref in where.items():
        url = f"{schemes.get(name, 'http')}://bob@127.0.0.1:{proxies.ports[name]}"
        text += f'\n[[routes]]\nid = "{name}"\ngroup = "{name}"\nurl = "{url}"\npassword = "{secret_ref}"\ncapacity = 8\n'
    return text


def knock(deck: Deck) -> None:
    """Come to the engine's door with a secret in every word that is not understood there."""
    path = socket_path(deck.db, deck.env)
    frames = [
        m.encode([m.Hello("worker", WRONG, 1, 1, WRONG, WRONG)]),
        m.encode([m.Hello(WRONG)]),
        m.encode([m.Hello("client"), m.Call(1, WRONG, {WRONG: WRONG}, WRONG)]),
        f'{{"token": "{WRONG}"}}'.encode(),
    ]
    for frame in frames:
        with closing(connect(path, 5.0)) as link, suppress(LinkLost):
            link.send(frame)


@fault("TF172", "TF173", "TF175", "TF176")
def test_after_real_work_by_proxies_that_want_logins_no_password_is_in_any_place(tmp_path: Path) -> None:
    deck = Deck(tmp_path)
    with Proxies() as proxies:
        deck.configure(configuration(tmp_path, proxies))
        environ = {"ROUTE_PW": SECRETS["env"], "CREDENTIALS_DIRECTORY": str(tmp_path / "credentials")}
        environ["TASKDECK_ENGINE__WORKERS"] = "2"
        url = f'{{"url": "{proxies.site}/ip"}}'
        look = ("--", sys.executable, "-c", LOOK, f"{proxies.site}/ip")
        try:
            with Watch(deck) as watch:
                engine = deck.start(workers=2, **environ)
                deck.until_ready()
                asked = [(name, how) for name in SECRETS for how in (("tell_async", url), look)]
                asked += [("cmd", ("tell_sync", url)), ("cred", ("tell_sync", url)), ("env", ("http", url))]
                tasks = [deck.add("--route", name, *how) for name, how in asked]
                kinds = ("tell_async", "tell_sync")
                failing = [
                    deck.add("--route", name, kind, url) for name in ("wrong", "dead") for kind in kinds
                ]
                for task_id in tasks:
                    assert deck.until_state(task_id, "SUCCESS", "NEEDS_REVIEW", "FAILED", "DEAD") == "SUCCESS"
                deck.until(
                    lambda: deck.rows("SELECT 1 FROM route_sample WHERE error_type = 'PROXY_AUTH'"),
                    "a refusal",
                )
                knock(deck)
                deck.ok("backup")
                for name in proxies.ports:
                    deck.cli("route", "probe", name)
                told = [
                    deck.ok("show", each, "--json") + deck.ok("why", each) for each in (*tasks[:4], *failing)
                ]
                told += [deck.ok("log", each) for each in tasks]
            deck.cli("stop")
            deck.finish(engine)
            told += [deck.ok(*words, **environ) for words in (
                ("events", "--json"), ("events",), ("route", "list"), ("route", "list", "--json"), ("list", "--json"),
                *(("route", "show", name, "--json") for name in proxies.ports), ("config", "show"), ("status",),
                ("worker", "list", "--json"), ("audit", "verify"),
            )]  # fmt: skip
        finally:
            deck.clean_up()
    assert watch.looks > 5
    assert watch.seen == set()
    assert not found_in("\n".join(told).encode())
    kept = {tmp_path / f"{name}.pw" for name in ("file", "cmd", "wrong")} | {tmp_path / "credentials" / "eu"}
    files = [path for path in tmp_path.rglob("*") if path.is_file() and path not in kept]
    assert any(path.name == "taskdeck.db" for path in files)
    assert any(path.suffix == ".log" for path in files)
    assert {path: found_in(path.read_bytes()) for path in files if found_in(path.read_bytes())} == {}


async def test_a_worker_that_is_aborted_leaves_no_core_that_tells_a_password(tmp_path: Path) -> None:
    def act() -> None:
        soft, hard = resource.getrlimit(resource.RLIMIT_CORE)
        resource.setrlimit(resource.RLIMIT_CORE, (hard, hard))
        environ = {cores.VARIABLE: str(0x33)}  # as an engine says it, whatever this process has
        try:
            with engine(tmp_path, str(HANDLERS), environ=environ, fresh=True) as double:
                route = m.LeasedRoute(
                    "eu-1", "http", "127.0.0.1", proxy.port, "bob", reference(SECRETS["file"])
                )
                assert double.result(double.run("tell_async", {"url": judge.url("/ip")}, route=route)) == 200
                wait = "until grep -q 00000033 /proc/self/coredump_filter; do :; done; ulimit -c"
                fence = double.shell("sh", "-c", wait)  # a command may dump as it could anywhere
                assert double.outcome(fence).kind == "succeeded"
                os.kill(double.worker.pid, signal.SIGABRT)
                assert double.ended() == -signal.SIGABRT
        finally:
            resource.setrlimit(resource.RLIMIT_CORE, (soft, hard))

    async with FakeJudge() as judge, HttpProxy(login=("bob", SECRETS["file"])) as proxy:
        await asyncio.to_thread(act)
    _check_cores(tmp_path)


def _check_cores(folder: Path) -> None:
    """Where the kernel writes files it has written one, without a word of the worker's memory."""
    found = [path for path in folder.rglob("core*") if path.is_file()]
    assert all(not found_in(path.read_bytes()) for path in found)
    writes_files = not Path("/proc/sys/kernel/core_pattern").read_text().startswith(("|", "/", "@"))
    assert found or not writes_files or resource.getrlimit(resource.RLIMIT_CORE)[1] == 0


def test_who_looks_a_secret_up_dumps_no_memory_from_then_on() -> None:
    script = (
        "from taskdeck.engine.credentials import look_up; look_up('env:PW', {'PW': 'x'})\n"
        "print(open('/proc/self/coredump_filter').read())"
    )
    told = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    assert told.strip() == "00000010"
