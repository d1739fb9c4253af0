"""Passwords of routes in the database, made known to whoever writes events, before any of them is used.

So that none gets into an event, whether the configuration named the route or a person. Values are kept in memory only.
"""

from __future__ import annotations

import os
from contextlib import suppress

from ..credentials import NoCredential, look_up
from ..store import routes
from ..store.transaction import Transaction


def learn_all(tx: Transaction) -> None:
    """Have this process mask the passwords of all routes, as far as they can be read now."""
    for reference in routes.references(tx):
        with suppress(NoCredential):
            tx.redactor.learn(look_up(reference, os.environ))
