"""What it means that a route leaves from another address or region than before.

Source: "rotating gateways (no pinned IP, region per sample)" of the routes. Pure.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple


class IpPolicy(StrEnum):
    """How a route's exit address behaves when all is well."""

    STATIC = "static"  # it is bought with this address: another one is a surprise
    STICKY = "sticky"  # the same for a while: another one is worth a note
    ROTATING = "rotating"  # another one at each connection


class Seen(NamedTuple):
    """What one check saw at the other end; None = not known."""

    exit_ip: str | None
    region: str | None
    source: str | None = None

    def __str__(self) -> str:
        place = ", ".join(filter(None, (self.region, self.source)))
        return f"{self.exit_ip or 'an unknown address'}{f' ({place})' if place else ''}"


class Drift(NamedTuple):
    """A change to tell of: `what` (`exit_ip` or `region`), in words, and whether it needs a look."""

    what: str
    message: str
    alarming: bool


def drift(before: Seen, now: Seen, policy: IpPolicy) -> Drift | None:
    """What is to be told of this change; None where nothing changed, or changing is this route's nature."""
    if policy is IpPolicy.ROTATING or before.exit_ip is None or now.exit_ip is None:
        return None
    moved = before.exit_ip != now.exit_ip
    elsewhere = None not in (before.region, now.region) and before.region != now.region
    if not moved and not elsewhere:
        return None
    message = f"it leaves from {now}, before from {before}"
    return Drift("region" if elsewhere else "exit_ip", message, elsewhere or policy is IpPolicy.STATIC)
