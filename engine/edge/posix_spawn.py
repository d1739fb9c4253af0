"""The quick way to a new process: `posix_spawn` of the C library, which does in C what else takes Python half a millisecond.

Owns the calls. What can't be started like this, for whatever reason, is left to whoever can tell the reason (`spawn`). The
C library must be able to change the directory and to close whatever is not handed on (glibc 2.34); else there is no such way.
"""

from __future__ import annotations

import ctypes
import os
import signal
from collections.abc import Mapping, Sequence
from functools import lru_cache
from weakref import finalize

_SETSIGDEF, _SETSID = 0x04, 0x80  # spawn.h
_ROOM = 1024
"""Bytes for a struct of the C library's, which needs 80 to 336."""
_IGNORED_BY_PYTHON = (signal.SIGPIPE, signal.SIGXFSZ)
_FUNCTIONS = (
    "posix_spawn",
    "posix_spawn_file_actions_init",
    "posix_spawn_file_actions_addopen",
    "posix_spawn_file_actions_adddup2",
    "posix_spawn_file_actions_addchdir_np",
    "posix_spawn_file_actions_addclosefrom_np",
    "posix_spawn_file_actions_destroy",
)

_libc = ctypes.CDLL(None)
AVAILABLE = all(hasattr(_libc, name) for name in _FUNCTIONS)


def _attributes() -> ctypes.Array[ctypes.c_char]:
    """A session of its own, and the signals that Python ignores as the system has them."""
    signals = ctypes.create_string_buffer(_ROOM)
    _libc.sigemptyset(signals)
    for number in _IGNORED_BY_PYTHON:
        _libc.sigaddset(signals, int(number))
    made = ctypes.create_string_buffer(_ROOM)
    _libc.posix_spawnattr_init(made)
    _libc.posix_spawnattr_setsigdefault(made, signals)
    _libc.posix_spawnattr_setflags(made, ctypes.c_short(_SETSIGDEF | _SETSID))
    return made


_session = _attributes() if AVAILABLE else None


class _Steps:
    """What the child does before the program is in place, as the C library takes it. Raises `OSError` where it does not."""

    def __init__(self, output: int, handed_on: int, cwd: str | os.PathLike[str] | None) -> None:
        self.actions = ctypes.create_string_buffer(_ROOM)
        if _libc.posix_spawn_file_actions_init(self.actions):
            raise OSError("the C library is short of memory")
        finalize(self, _libc.posix_spawn_file_actions_destroy, self.actions)
        steps = [
            _libc.posix_spawn_file_actions_addopen(self.actions, 0, b"/dev/null", os.O_RDWR, 0),
            _libc.posix_spawn_file_actions_adddup2(self.actions, output, 1),
            _libc.posix_spawn_file_actions_adddup2(self.actions, output, 2),
            # To itself: that it is handed on is all that changes.
            *(_libc.posix_spawn_file_actions_adddup2(self.actions, fd, fd) for fd in range(3, handed_on)),
        ]
        if cwd is not None:
            steps.append(_libc.posix_spawn_file_actions_addchdir_np(self.actions, os.fsencode(cwd)))
        steps.append(_libc.posix_spawn_file_actions_addclosefrom_np(self.actions, max(3, handed_on)))
        if any(steps):
            raise OSError("the C library does not take a descriptor")


_steps = lru_cache(maxsize=64)(_Steps)
"""Descriptors and directories come again and again, and to put the steps together takes as long as to take them."""


def spawn(
    argv: Sequence[str],
    env: Mapping[str, str],
    cwd: str | os.PathLike[str] | None,
    output: int,
    handed_on: int,
) -> int | None:
    """Start a program in a session of its own; its pid, once the program is in place. None = it was not started.

    Nothing is on its standard input; output and errors go to the descriptor `output`. It has the descriptors below
    `handed_on` besides, as they are numbered, and no other. No text may hold a NUL. Any thread; the interpreter goes on.
    """
    program = _program(argv[0], env) if AVAILABLE else None
    if program is None or output < 3:
        return None
    try:
        steps = _steps(output, handed_on, cwd)
    except OSError:
        return None
    pid = ctypes.c_int()
    words, variables = _strings(argv), _strings([f"{name}={value}" for name, value in env.items()])
    failed = _libc.posix_spawn(
        ctypes.byref(pid), os.fsencode(program), steps.actions, _session, words, variables
    )
    return None if failed else pid.value


def _strings(texts: Sequence[str]) -> ctypes.Array[ctypes.c_char_p]:
    encoded = os.fsencode("\0".join(texts)).split(b"\0") if texts else []
    return (ctypes.c_char_p * (len(encoded) + 1))(*encoded, None)


def _program(name: str, env: Mapping[str, str]) -> str | None:
    """The file that `execvp` would take; None where only a process in the new directory could find it."""
    if "/" in name:
        return name
    folders = os.get_exec_path(env)
    if not all(map(os.path.isabs, folders)):
        return None
    paths = (f"{folder}/{name}" for folder in folders)
    return next((path for path in paths if os.access(path, os.X_OK)), None)
