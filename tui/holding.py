"""What is told of holds, on the command line and in the deck alike: slips in their names, and what is held still."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from taskdeck.engine import views


def members(scope: str, **more: Any) -> views.Filter:
    """The tasks of a scope; `more` narrows them."""
    kind, _, name = scope.partition(":")
    return views.Filter(**({} if scope == views.EVERYTHING else {f"{kind}s": (name,)}), **more)


def unknown(view: views.View, scopes: Sequence[str]) -> list[str]:
    """A name that nothing is known of may be a slip: what is said of each of these scopes that has one."""
    pools: set[str] = set()
    told = []
    for scope in scopes:
        kind, _, name = scope.partition(":")
        if kind == "pool":
            pools = pools or {each.pool for each in view.resources()}
        known = scope == views.EVERYTHING or name in (pools if kind == "pool" else view.types())
        if not known and not view.task_ids(members(scope)):
            told.append(f"nothing is known of {views.hold_named(scope)}; it is held all the same")
    return told


def still_held(view: views.View) -> str:
    """What goes on being held: `still held: pool:gpu type:fetch`; nothing where nothing is."""
    scopes = [each.scope for each in view.holds()]
    return f"still held: {' '.join(scopes)}" if scopes else ""
