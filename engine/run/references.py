"""Values of a payload that stand elsewhere (`env:NAME`, `file:/path` …): resolved where the work starts and never before.

Messages hold the reference, never a value.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..credentials import NoCredential
from ..errors import InvalidPayload
from ..rules.patterns import pattern
from ..rules.references import kind_of
from ..rules.secret_names import is_secret_name

if TYPE_CHECKING:
    from .passwords import Passwords

VARIABLE = pattern(r"[A-Za-z_][A-Za-z0-9_]*")


def resolved(name: str, value: str, passwords: Passwords) -> str:
    """The value that `value` refers to, or itself where it is no reference; `name` is what it is for.

    `InvalidPayload` where a reference leads nowhere. May block, for as long as a command takes.
    """
    if not kind_of(value):
        return value
    kind, _, rest = value.partition(":")
    # `--env LANG` is such a reference too, and no secret.
    masked = kind != "env" or is_secret_name(rest) or is_secret_name(name)
    try:
        return passwords.look_up(value, masked=masked)
    except NoCredential as error:
        raise InvalidPayload(f"{name} refers to {value}", error.why, error.remedy) from None
