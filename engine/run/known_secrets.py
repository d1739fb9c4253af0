"""Passwords of routes in the database, made known to whoever writes events, before any of them is used.

So that none gets into an event, whether the configuration named the route or a person. Values are kept in memory only.
"""

from __future__ import annotations

import os
from contextlib import suppress

from ..credentials import NoCredential, look_up
from ..rules.references import kind_of
from ..store.transaction import Transaction

CHEAP = ("env", "file")
"""Kinds of references that cost nothing to look at; what others lead to is learnt when it is used."""


def learn_all(tx: Transaction) -> None:
    """Have this process mask the passwords of all routes, as far as they can be read now."""
    for row in tx.rows("SELECT DISTINCT secret_ref FROM route WHERE secret_ref IS NOT NULL"):
        if kind_of(row["secret_ref"]) in CHEAP:
            with suppress(NoCredential):
                tx.redactor.learn(look_up(row["secret_ref"], os.environ))
