"""A list of routes that is looked at before it is imported: read from a file, told line by line. Loads nothing of the command
line, since the deck shows it as well.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from taskdeck.engine.errors import NotFound, NotPermitted, UsageError

from . import format as look

if TYPE_CHECKING:
    from taskdeck.engine.commands import Import

LARGEST = 16 * 2**20 + 1
"""Bytes that are read at most; of a list that is longer, only that it is."""
KINDS = ("new", "changed", "duplicate", "bad")


def read(file: str) -> bytes:
    """What stands in a file. Raises `NotFound`, `NotPermitted`, `UsageError`."""
    try:
        with Path(file).expanduser().open("rb") as opened:
            return opened.read(LARGEST)
    except FileNotFoundError:
        raise NotFound(f"there is no file {look.tidy(file)}") from None
    except PermissionError as error:
        raise NotPermitted(f"{look.tidy(file)} can't be read", error.strerror or "") from None
    except (OSError, ValueError) as error:
        raise UsageError(f"{look.tidy(file)} can't be read", getattr(error, "strerror", None) or "") from None


def told(each: Any) -> str:
    """One line of a preview in words; no part of what stood in the list but its address."""
    if each.kind == "bad":
        return f"{each.code}: {each.what}; {each.remedy}" if each.remedy else f"{each.code}: {each.what}"
    if each.same_as is not None:
        return f"as line {each.same_as}, which counts"
    changes = f"  {', '.join(each.changes)}" if each.changes and each.kind == "changed" else ""
    in_use = "  (in use: from the next lease on)" if each.held and each.kind == "changed" else ""
    return f"{look.tidy(each.url)}{changes}{in_use}"


def summary(found: Import) -> str:
    """`3 new, 1 changed, 2 duplicate, 1 bad`."""
    return ", ".join(f"{found.count(kind)} {kind}" for kind in KINDS if found.count(kind)) or "nothing in it"


def to_write(found: Import) -> int:
    """How many routes importing it writes."""
    return found.count("new") + found.count("changed")


def wish(found: Import) -> str:
    """What would be done: `import 3 routes, without 1 bad line`."""
    bad = found.count("bad")
    without = f", without {look.counted(bad, 'bad line')}" if bad else ""
    return f"import {look.counted(to_write(found), 'route')}{without}"
