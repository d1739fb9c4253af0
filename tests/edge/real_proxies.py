"""Real proxies from the distribution, each a process of its own on a free port of loopback, leaving from its own address."""

from __future__ import annotations

import getpass
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from taskdeck.engine.edge.exits import Exit, Scheme
from tests.edge.fakes.certificates import authority

NAME, PASSWORD = "bob", "s3cret-Word.9"
SYSTEM_PLACES = "/usr/sbin:/usr/bin:/usr/local/sbin:/usr/local/bin"
LONGEST_START = 30.0
"""Seconds until a proxy listens, on a machine however busy."""


@dataclass(frozen=True)
class RealProxy:
    """One that listens; `tls_port` is where it speaks TLS, 0 = nowhere."""

    scheme: Scheme
    port: int
    leaves_from: str
    tls_port: int = 0

    def exit(
        self, name: str | None = None, password: str | None = None, scheme: Scheme | None = None
    ) -> Exit:
        """The way through it, with this login."""
        scheme = scheme or self.scheme
        port = self.tls_port if scheme is Scheme.HTTPS else self.port
        return Exit(scheme, "127.0.0.1", port, name, password)


def program(name: str) -> str:
    """Its path; skips the test where it isn't installed."""
    found = shutil.which(name, path=SYSTEM_PLACES)
    if found is None:
        pytest.skip(f"{name} is not installed (.ci/run installs it)")
    return found


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


@contextmanager
def running(command: list[str], *ports: int) -> Iterator[None]:
    """The process while the block runs, once it listens at these ports."""
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
        try:
            deadline = time.monotonic() + LONGEST_START
            while not all(map(_listens, ports)):
                if process.poll() is not None or time.monotonic() > deadline:
                    output.seek(0)
                    told = output.read().decode(errors="replace")
                    raise AssertionError(f"{command[0]} does not listen ({process.poll()}): {told}")
                time.sleep(0.01)
            yield
        finally:
            process.terminate()  # first in order: dante's mother has children of her own to end
            try:
                process.wait(LONGEST_START)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _listens(port: int) -> bool:
    with socket.socket() as one:
        return one.connect_ex(("127.0.0.1", port)) == 0


@contextmanager
def folder() -> Iterator[Path]:
    """A directory that daemons may read after they have given up root's rights."""
    with tempfile.TemporaryDirectory(prefix="taskdeck-proxy-") as name:
        path = Path(name)
        path.chmod(0o755)
        yield path


@contextmanager
def tinyproxy(leaves_from: str = "127.0.0.2", *more: str) -> Iterator[RealProxy]:
    """HTTP with a login; `more` are lines of its configuration."""
    port = free_port()
    lines = [f"Port {port}", "Listen 127.0.0.1", f"Bind {leaves_from}", f"BasicAuth {NAME} {PASSWORD}",
             "Timeout 60", "LogLevel Critical", *more]  # fmt: skip
    with folder() as path:
        (path / "tinyproxy.conf").write_text("\n".join(lines) + "\n")
        with running([program("tinyproxy"), "-d", "-c", str(path / "tinyproxy.conf")], port):
            yield RealProxy(Scheme.HTTP, port, leaves_from)


@contextmanager
def microsocks(leaves_from: str = "127.0.0.5") -> Iterator[RealProxy]:
    """SOCKS5 with a login."""
    port = free_port()
    login = ["-u", NAME, "-P", PASSWORD]
    with running(
        [program("microsocks"), "-i", "127.0.0.1", "-p", str(port), *login, "-b", leaves_from], port
    ):
        yield RealProxy(Scheme.SOCKS5, port, leaves_from)


DANTE = """
logoutput: /dev/null
internal: 127.0.0.1 port = {port}
external: {leaves_from}
clientmethod: none
socksmethod: none
user.privileged: {user}
user.unprivileged: {user}
client pass {{
    from: 127.0.0.0/8 to: 127.0.0.0/8
}}
socks block {{
    from: 127.0.0.0/8 to: 127.0.0.66/32
}}
socks pass {{
    from: 127.0.0.0/8 to: 127.0.0.0/8
    protocol: tcp
}}
"""


@contextmanager
def dante(leaves_from: str = "127.0.0.7") -> Iterator[RealProxy]:
    """SOCKS4 and SOCKS5 without a login; 127.0.0.66 is forbidden."""
    port = free_port()
    text = DANTE.format(port=port, leaves_from=leaves_from, user=getpass.getuser())
    with folder() as path:
        (path / "danted.conf").write_text(text)
        with running([program("danted"), "-f", str(path / "danted.conf"), "-p", str(path / "pid")], port):
            yield RealProxy(Scheme.SOCKS5, port, leaves_from)


SQUID = """
http_port 127.0.0.1:{port}
https_port 127.0.0.1:{tls_port} tls-cert={path}/cert.pem tls-key={path}/key.pem
tcp_outgoing_address {leaves_from}
acl ours src 127.0.0.0/8
http_access allow ours
visible_hostname localhost
pid_filename none
cache_log /dev/null
access_log none
cache deny all
cache_mem 1 MB
max_filedescriptors 1024
pinger_enable off
netdb_filename none
shutdown_lifetime 0 seconds
"""


@contextmanager
def squid(leaves_from: str = "127.0.0.9") -> Iterator[RealProxy]:
    """HTTP without a login, also behind TLS."""
    port, tls_port = free_port(), free_port()
    with folder() as path:
        leaf = authority("good").issue_cert("localhost", "127.0.0.1")
        leaf.cert_chain_pems[0].write_to_path(str(path / "cert.pem"))
        leaf.private_key_pem.write_to_path(str(path / "key.pem"))
        (path / "squid.conf").write_text(
            SQUID.format(port=port, tls_port=tls_port, path=path, leaves_from=leaves_from)
        )
        with running([program("squid"), "-N", "-f", str(path / "squid.conf")], port, tls_port):
            yield RealProxy(Scheme.HTTP, port, leaves_from, tls_port)
