"""Secrets by reference: what `env:NAME`, `file:/path` and `cred:name` lead to at the moment of asking.

A message names the reference, never a value, nor anything of what was read. Keeps nothing, runs nothing: the command of a
`cmd:` reference is run by `run.passwords`.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from pathlib import Path

from . import cores
from .errors import TaskdeckError
from .rules.references import kind_of

MOST_BYTES = 64 * 1024
"""Bytes that a secret may have."""
DIRECTORY = "CREDENTIALS_DIRECTORY"
"""Where systemd puts what `LoadCredential=` and `SetCredentialEncrypted=` name; only the service may read it."""


class NoCredential(TaskdeckError):
    """A reference leads nowhere, or to something that must not be used."""

    code = "credential"
    exit_code = 78

    def __init__(self, reference: str, why: str, remedy: str = "") -> None:
        super().__init__(f"{reference} can't be read", why, remedy)
        self.reference = reference


def look_up(reference: str, environ: Mapping[str, str] = os.environ, *, to_mask: bool = False) -> str:
    """What an `env:`, `file:` or `cred:` reference leads to, without line ends at its ends. Raises `NoCredential`.

    A file that others may use is refused, unless its text is wanted only `to_mask` it elsewhere.
    """
    cores.leave_out_secrets()
    kind = kind_of(reference)
    name = reference.partition(":")[2]
    match kind:
        case "env":
            if name not in environ:
                raise NoCredential(reference, "there is no such variable", "set it where taskdeck starts")
            return usable(reference, environ[name])
        case "file":
            return usable(reference, _private(reference, Path(_expanded(name, environ)), to_mask))
        case "cred":
            return usable(reference, _of_systemd(reference, name, environ))
    raise NoCredential(reference if kind else "it", "it is no reference that can be looked up")


def usable(reference: str, text: str) -> str:
    """The text without line ends at its ends; `NoCredential` where it is empty or can't be passed on."""
    value = text.strip("\r\n")
    if not value:
        raise NoCredential(reference, "it is empty", "put the secret there")
    if "\0" in value or len(value) > MOST_BYTES:
        raise NoCredential(reference, f"it holds a NUL, or more than {MOST_BYTES} bytes")
    return value


def _of_systemd(reference: str, name: str, environ: Mapping[str, str]) -> str:
    folder = environ.get(DIRECTORY)
    if not folder:
        remedy = f"load it in the unit: LoadCredential={name}:/path"
        raise NoCredential(reference, f"there is no ${DIRECTORY}", remedy)
    return _text(reference, Path(folder, name), os.O_RDONLY | os.O_NOFOLLOW)[0]


def _private(reference: str, path: Path, to_mask: bool) -> str:
    """The text of a file that nobody but its owner may read or change."""
    text, found = _text(reference, path, os.O_RDONLY)
    if found.st_mode & 0o077 and not to_mask:
        raise NoCredential(
            reference, f"others than its owner may use it ({found.st_mode & 0o777:04o})", f"chmod 600 {path}"
        )
    return text


def _text(reference: str, path: Path, flags: int) -> tuple[str, os.stat_result]:
    try:
        # What is looked at is what is read; a pipe must not hold anybody up.
        with open(os.open(path, flags | os.O_CLOEXEC | os.O_NONBLOCK), "rb") as file:
            found = os.fstat(file.fileno())
            if not stat.S_ISREG(found.st_mode):
                raise NoCredential(reference, "it is no regular file")
            return file.read(MOST_BYTES + 1).decode(), found
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise NoCredential(reference, why[:1].lower() + why[1:]) from None


def _expanded(text: str, environ: Mapping[str, str]) -> str:
    """`~/x` in the home of `environ`; `~ann/x` in hers."""
    if text == "~" or text.startswith("~/"):
        return environ.get("HOME", os.path.expanduser("~")) + text[1:]
    return os.path.expanduser(text)
