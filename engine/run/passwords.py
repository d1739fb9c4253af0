"""Passwords of routes: a reference in the database, a value only at the moment of its use and never written anywhere."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..config import secret_of
from ..rules.declarations import RouteDeclaration


def password_of(row: Mapping[str, Any]) -> str:
    """The password of a row of `route`; empty where it has none. Raises `ConfigError` where it can't be read."""
    return secret_of(RouteDeclaration(row["route_id"], row["scheme"], secret_ref=row["secret_ref"]))
