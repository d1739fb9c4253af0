"""The models of `tables`, which are made when one is first asked for.

Twenty-six peewee classes take as long to make as twenty modules to load, and peewee itself as long again: an engine needs
none of it at an ordinary start, nor to dispatch, nor for what a person does (docs/decisions/0003).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .tables import Resource, ResourceSlot, Route, RouteHealth, RouteSlot

__all__ = ["Resource", "ResourceSlot", "Route", "RouteHealth", "RouteSlot"]


def __getattr__(name: str) -> Any:
    from . import tables

    return getattr(tables, name)
