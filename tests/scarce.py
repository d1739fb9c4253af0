"""Little room for files, for real: limits of the kernel and small filesystems of a test's own."""

from __future__ import annotations

import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import pytest


@contextmanager
def short_files(most: int) -> Iterator[None]:
    """No file may grow past `most` bytes: writes then fail in the middle, as on a full disk.

    No fixture: between a test's body and its end pytest itself may write to a file.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, handler)


NAMESPACE = ("unshare", "--user", "--map-root-user", "--mount", "--propagation", "private")


@cache
def _can_mount() -> bool:
    command = [*NAMESPACE, "mount", "-t", "tmpfs", "none", "/mnt"]
    try:
        return subprocess.run(command, capture_output=True, check=False).returncode == 0
    except OSError:
        return False


def on_a_small_disk(folder: Path, size: str, *command: object) -> subprocess.CompletedProcess[str]:
    """Run a Python program in a mount namespace of its own, where `folder` is a filesystem of this size.

    Needs no rights beyond user namespaces; skips the test where there are none.
    """
    if not _can_mount():
        pytest.skip("no user namespaces here, so no small filesystem")
    mount = f'mount -t tmpfs -o size={size} none "$0" && exec "$@"'
    return subprocess.run(
        [*NAMESPACE, "sh", "-c", mount, str(folder), sys.executable, *map(str, command)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
