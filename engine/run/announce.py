"""What an engine tells its supervisor: that it lives, and how it ends on purpose. Without one, nothing."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping

VARIABLE = "TASKDECK_SUPERVISOR_FD"


class Announcer:
    """Writes to the pipe that the supervisor handed down. `fd` None: there is no supervisor."""

    def __init__(self, fd: int | None) -> None:
        self._fd = fd
        self._parent = os.getppid()
        self.again = False
        """This end is on purpose, and another engine shall follow."""
        if fd is not None:
            os.set_inheritable(fd, False)
            os.set_blocking(fd, False)

    @classmethod
    def from_environment(cls, environ: Mapping[str, str]) -> Announcer:
        """The pipe named by the environment, if there is one."""
        text = environ.get(VARIABLE, "")
        return cls(int(text) if text.isdigit() else None)

    @property
    def supervisor(self) -> int | None:
        """The pid of the supervisor that started us. None without one; once it is gone our parent is another process."""
        return self._parent if self._fd is not None and os.getppid() == self._parent else None

    async def beat(self) -> None:
        """Tell that the loop turns."""
        self._write(b"beat\n")

    def end(self, exit_code: int) -> None:
        """Tell that this end is on purpose, and final unless it is to be followed by another engine."""
        self._write(b"again\n" if self.again else b"exit %d\n" % exit_code)

    def _write(self, line: bytes) -> None:
        if self._fd is None:
            return
        try:
            os.write(self._fd, line)
        except BlockingIOError:
            return  # it is stopped; a full pipe is sign of life enough
        except OSError:  # it died; the engine goes on without
            with contextlib.suppress(OSError):
                os.close(self._fd)
            self._fd = None
