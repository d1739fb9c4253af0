"""The models of `tables`, which are made when one is first asked for.

Twenty-six peewee classes take as long to make as twenty modules to load, and an engine needs none of them at an ordinary
start and dispatch, whose statements are constant SQL (docs/decisions/0003).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .tables import Hold, Request, Resource, ResourceSlot, Route, RouteHealth, RouteSlot

__all__ = ["Hold", "Request", "Resource", "ResourceSlot", "Route", "RouteHealth", "RouteSlot"]


def __getattr__(name: str) -> Any:
    from . import tables

    return getattr(tables, name)
