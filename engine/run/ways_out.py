"""The way out of one attempt: its route with the login, which is looked up when a connection is made and never before.

Owns the login's renewal after a proxy has refused it. Must not open connections.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from ..credentials import NoCredential
from ..edge.exits import DIRECT, BadExit, Exit, Scheme
from ..edge.probe_errors import Verdict
from ..rules.route_errors import ErrorType
from .attempt_messages import LeasedRoute

if TYPE_CHECKING:  # a sync handler's process needs none of what they bring
    from ..edge.tunnels import NoTunnel
    from .passwords import Passwords

BLAMED = "_taskdeck_route_verdict"
"""Attribute of an exception that was found to be the route's when it was raised."""


def blamed(error: NoTunnel) -> NoTunnel:
    """The error, marked with whose fault it is."""
    setattr(error, BLAMED, error.verdict)
    return error


def place_of(route: LeasedRoute | None) -> Exit:
    """The exit without its login: where it is and how it is spoken to. Raises `BadExit`."""
    if route is None:
        return DIRECT
    return Exit(Scheme(route.scheme), route.host, route.port)


class WayOut:
    """The route that one attempt holds; without one, the way out is direct."""

    def __init__(self, route: LeasedRoute | None, passwords: Passwords) -> None:
        self._route = route
        self._passwords = passwords
        self._used: str | None = None
        """The password that was handed out last."""

    async def exit(self) -> Exit:
        """The exit with its login as it is now. Raises `NoCredential` or `BadExit`, blamed on the route."""
        route = self._route
        place = place_of(route)
        if route is None or not place.is_proxy:
            return place
        try:
            self._used = await self._passwords.resolve(route.secret_ref)
            return replace(place, username=route.username or None, password=self._used or None)
        except (NoCredential, BadExit) as error:
            setattr(error, BLAMED, Verdict(ErrorType.PROXY_AUTH, str(error)))
            raise

    async def renew(self) -> bool:
        """The login was refused: does its reference lead to another one by now?"""
        if self._route is None or not self._route.secret_ref:
            return False
        before = self._used
        self._passwords.forget(self._route.secret_ref)
        try:
            await self.exit()
        except (NoCredential, BadExit):
            return False
        return self._used != before
