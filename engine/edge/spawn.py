"""Starting commands and workers: each in a session of its own, away from our terminal, our signals and our
files.

Owns the way from an argument list to a running child, and back to its exit status. Must not decide when a
child ends: signals are sent by identity (`identity.kill`) or to all it left behind (`trees`).
"""

from __future__ import annotations

import errno
import os
import signal
import stat
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Literal

from .. import cores
from ..errors import TaskdeckError
from . import posix_spawn
from .identity import Identity, boot_id, start_time, wait_readable

Kind = Literal[
    "empty",
    "not_found",
    "not_executable",
    "is_directory",
    "no_directory",
    "malformed",
    "too_long",
    "no_resources",
    "failed",
]

EXIT_CODES: Mapping[Kind, int] = {
    "empty": 127,
    "not_found": 127,
    "not_executable": 126,
    "is_directory": 126,
    "no_directory": 126,
    "malformed": 126,
    "too_long": 126,
    "no_resources": 75,
    "failed": 126,
}
"""What a shell would have returned; 75 where this host is short of something, which may pass."""

_SHORT_OF = {errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.ETXTBSY}


class CannotStart(TaskdeckError):
    """The command never ran. `equivalent` is the exit code to classify by. It shows the program only."""

    code = "cannot_start"

    def __init__(self, kind: Kind, why: str, remedy: str = "") -> None:
        super().__init__("the command can't be started", why, remedy)
        self.kind = kind
        self.equivalent = EXIT_CODES[kind]


class StatusLost(TaskdeckError):
    """Something else collected the child's exit status: how it ended can't be known."""

    code = "status_lost"


class Child:
    """A running child of ours. `pidfd` reads once it has ended; `stdout` (non-blocking) carries output and errors."""

    def __init__(self, pid: int, pidfd: int, stdout: int | None) -> None:
        self._code: int | None = None
        self.pid = pid
        self.identity = Identity(pid, start_time(pid) or 0, boot_id())
        self.pidfd = pidfd
        self.stdout = stdout

    def reap(self) -> int | None:
        """The exit code, minus the number of the signal that killed it, or None while it runs. Never waits.

        Until then its pid, which is also its session's number, can't be given to another process.
        `StatusLost`.
        """
        if self._code is None:
            try:
                ended = os.waitid(os.P_PIDFD, self.pidfd, os.WEXITED | os.WNOHANG)
            except ChildProcessError:
                self._code = 255  # so that nobody waits for it again
                raise StatusLost(f"the exit status of process {self.pid} is lost") from None
            if ended:
                exited = ended.si_code == os.CLD_EXITED
                self._code = ended.si_status if exited else -ended.si_status
        return self._code

    def wait(self, seconds: float | None = None) -> int | None:
        """Block until it ends, at most `seconds` (None = ever); then as `reap`."""
        if self._code is None:
            wait_readable(self.pidfd, seconds)
        return self.reap()

    def close_output(self) -> None:
        """Read no more; what still writes there meets a broken pipe. Harmless when done before."""
        if self.stdout is not None:
            os.close(self.stdout)
            self.stdout = None

    def close(self) -> None:
        """Give back the descriptors; the child itself isn't touched. Reap it first."""
        self.close_output()
        if self.pidfd >= 0:
            os.close(self.pidfd)
            self.pidfd = -1


def start(
    argv: Sequence[str],
    *,
    env: Mapping[str, str],
    cwd: str | os.PathLike[str] | None = None,
    log_fd: int | None = None,
    pass_fds: Sequence[int] = (),
) -> Child:
    """Start a command in its own session, stdin from /dev/null, output and errors to one pipe (or to
    `log_fd`).

    The program is looked for in the PATH of `env`. Only `pass_fds` are inherited besides. Returns once the
    new program is in place; raises `CannotStart` where that can't be.
    """
    argv = list(argv)
    _check_form(argv, env)
    try:
        stdout, output = (None, log_fd) if log_fd is not None else os.pipe()
    except OSError as error:
        raise _explain(error, argv[0], cwd, env) from None
    try:
        pid = _quick(argv, env, cwd, output, pass_fds)
        if pid is None:
            pid = _exact(argv, env, cwd, output, pass_fds)
    except BaseException:
        if stdout is not None:
            os.close(stdout)
        raise
    finally:
        if stdout is not None:
            os.close(output)
    cores.give_back(pid)
    return _adopt(pid, stdout)


def _quick(
    argv: list[str],
    env: Mapping[str, str],
    cwd: str | os.PathLike[str] | None,
    output: int,
    pass_fds: Sequence[int],
) -> int | None:
    """None = it was not started: the other way starts it after all, or tells exactly why it can't be."""
    numbers = sorted(pass_fds)
    if numbers != list(range(3, 3 + len(numbers))):
        return None
    return posix_spawn.spawn(argv, env, cwd, output, 3 + len(numbers))


def _exact(
    argv: list[str],
    env: Mapping[str, str],
    cwd: str | os.PathLike[str] | None,
    output: int,
    pass_fds: Sequence[int],
) -> int:
    _check_directory(cwd)
    try:
        process = subprocess.Popen(
            argv,
            cwd=cwd,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            close_fds=True,
            pass_fds=pass_fds,
            restore_signals=True,
            start_new_session=True,
        )
    except OSError as error:
        raise _explain(error, argv[0], cwd, env) from None
    except (ValueError, subprocess.SubprocessError) as error:
        raise CannotStart("malformed", str(error)) from None
    process.returncode = 0  # so that nobody waits for it but `Child`
    return process.pid


def command_environment(
    base: Mapping[str, str], allow: Iterable[str], extra: Mapping[str, str]
) -> dict[str, str]:
    """What a command may see: the allowed names that `base` has, then `extra` over them."""
    found = {name: value for name in allow if (value := base.get(name)) is not None}
    return found | dict(extra)


def _adopt(pid: int, stdout: int | None) -> Child:
    pidfd = -1
    try:
        # Ours and not yet reaped, so the pid can't mean another process.
        pidfd = os.pidfd_open(pid)
        if stdout is not None:
            os.set_blocking(stdout, False)
        return Child(pid, pidfd, stdout)
    except OSError as error:  # no descriptor is left to know it by
        with suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        for fd in (pidfd, -1 if stdout is None else stdout):
            if fd >= 0:
                os.close(fd)
        raise CannotStart("no_resources", error.strerror or str(error)) from None


def _check_form(argv: Sequence[str], env: Mapping[str, str]) -> None:
    if not argv or not argv[0].strip():
        raise CannotStart("empty", "it is empty")
    if (
        all(map(_can_pass, map("".join, (argv, env, env.values()))))
        and "" not in env
        and "=" not in "".join(env)
    ):
        return  # which one can't be is looked for only where one can't
    for place, text in enumerate(argv):
        _check_text(text, f"argument {place}")
    for name, value in env.items():
        if not name or "=" in name:
            raise CannotStart("malformed", f"{name!r} can't be the name of a variable")
        _check_text(name + value, f"the variable {name!r}")


def _check_text(text: str, where: str) -> None:
    if "\0" in text:
        raise CannotStart("malformed", f"{where} holds a NUL byte")
    try:
        os.fsencode(text)
    except UnicodeEncodeError:
        raise CannotStart("malformed", f"{where} can't be written in this system's encoding") from None


def _can_pass(text: str) -> bool:
    """Is it for certain that it can be passed on? Plain ASCII is told without a try."""
    return text.isascii() and "\0" not in text


def _check_directory(cwd: str | os.PathLike[str] | None) -> None:
    if cwd is None:
        return
    try:
        found = os.stat(cwd)
    except (OSError, ValueError) as error:
        why = (error.strerror if isinstance(error, OSError) else None) or str(error)
        raise _no_directory(cwd, why) from None
    if not stat.S_ISDIR(found.st_mode):
        raise _no_directory(cwd, "Not a directory")
    if not os.access(cwd, os.X_OK):
        raise _no_directory(cwd, "Permission denied")


def _no_directory(cwd: str | os.PathLike[str], why: str) -> CannotStart:
    return CannotStart("no_directory", f"working directory {os.fspath(cwd)!r}: {why}")


def _explain(
    error: OSError, program: str, cwd: str | os.PathLike[str] | None, env: Mapping[str, str]
) -> CannotStart:
    name, why = f"{program[:200]!r}", error.strerror or str(error)
    if error.errno in _SHORT_OF:
        return CannotStart("no_resources", f"{name}: {why}")
    if error.errno == errno.E2BIG:
        return CannotStart(
            "too_long", f"{name}: its arguments are longer than the system allows", "pass them in a file"
        )
    if cwd is not None and error.filename == cwd:
        return _no_directory(cwd, why)
    path = _locate(program, cwd, env)
    if path is None:
        return CannotStart("not_found", f"{name}: command not found {_looked_in(program, cwd, env)}")
    if os.path.isdir(path):
        return CannotStart("is_directory", f"{name} is a directory")
    return _explain_file(error, name, why)


def _explain_file(error: OSError, name: str, why: str) -> CannotStart:
    match error.errno:
        case errno.ENOENT:
            return CannotStart("not_found", f"{name}: the interpreter its first line names is missing")
        case errno.ENOEXEC:
            why = f"{name} is neither a program for this machine nor a script with a #! line"
            return CannotStart("not_executable", why, "begin it with a #! line, or name its interpreter")
        case errno.EACCES | errno.EPERM:
            return CannotStart("not_executable", f"{name}: {why}", "check its mode: chmod +x")
    return CannotStart("failed", f"{name}: {why}")


def _looked_in(program: str, cwd: str | os.PathLike[str] | None, env: Mapping[str, str]) -> str:
    """Where the search went: the directory of the command, or the PATH."""
    if "/" not in program:
        return f"in PATH ({os.pathsep.join(os.get_exec_path(env))})"
    return "there" if os.path.isabs(program) else f"in {os.fspath(cwd or os.getcwd())}"


def _locate(program: str, cwd: str | os.PathLike[str] | None, env: Mapping[str, str]) -> str | None:
    """The file that was meant, executable or not, as the kernel's search saw it."""
    folders = [""] if "/" in program else os.get_exec_path(env)
    paths = (os.path.join(cwd or "", folder, program) for folder in folders)
    return next((path for path in paths if os.path.exists(path)), None)
