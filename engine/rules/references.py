"""References to secrets, as they are written: `env:NAME`, `file:/path`, `cred:name`, `cmd:program arguments`.

Pure: which form a text has, and what is wrong with one. What it leads to is read by `credentials` and `run.passwords`.
"""

from __future__ import annotations

import re
import shlex

from .patterns import pattern

REFERENCE = pattern(
    r"env:(?P<env>[A-Za-z_][A-Za-z0-9_]*)|file:(?P<file>[/~].*)|cred:(?P<cred>[A-Za-z0-9_@-][A-Za-z0-9_.@-]{0,254})"
    r"|cmd:(?P<cmd>\S.*)",
    re.ASCII,
)
FORMS = '"env:NAME", "file:/path", "cred:NAME" or "cmd:PROGRAM ARGUMENTS"'


def kind_of(value: str) -> str:
    """`env`, `file`, `cred` or `cmd` where `value` is a reference of that form, else empty."""
    found = REFERENCE.fullmatch(value)
    return (found.lastgroup or "") if found else ""


def command_of(reference: str) -> list[str]:
    """The argument list of a `cmd:` reference; no shell is between. Raises `ValueError` for quotes that don't close."""
    return shlex.split(reference.partition(":")[2])


def fault_of(reference: str) -> str:
    """What is wrong with a reference; empty where nothing is. Never repeats it: it may hold a secret."""
    kind = kind_of(reference)
    if not kind:
        return "expected a reference to the secret, not the secret itself"
    if kind != "cmd":
        return ""
    try:
        argv = command_of(reference)
    except ValueError:
        return "the quotes in the command don't close"
    from .redaction import find_secrets  # not needed for the others

    return "a secret stands in the command" if find_secrets(argv) else ""
