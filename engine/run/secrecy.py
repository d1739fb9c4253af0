"""What workers hand in to be kept: no secret reaches the database, and nothing is changed behind its owner's back.

A checkpoint or an operation's key that holds a secret is refused with the remedy, since masking it would quietly break
what it is for. A result is masked, and an event says so.
"""

from __future__ import annotations

import re
from typing import Any

from ..errors import SecretInInput
from ..rules.patterns import pattern
from ..store.tasks import ENGINE
from ..store.transaction import Transaction

_PLACES = pattern(
    r"value of \S*?(page|next|prev|sync|continuation|continue|cursor|resume|change|delta|start|end|offset|position)"
    r"[a-z]*[_.-]?(token|key)",
    re.IGNORECASE,
)
"""Names that sound secret and are none: where a source goes on."""


def refuse_secrets(tx: Transaction, value: Any, what: str) -> None:
    """Raise `SecretInInput` where `value` holds a secret; `what` says whose it is."""
    for found in tx.redactor.find(value):
        if not _PLACES.match(found.rule):
            raise SecretInInput(
                f"a secret stands in the {what} ({found.where}: {found.rule})",
                "what is saved is stored and shown",
                "save a reference to it, or read it anew in each attempt",
            )


def masked(tx: Transaction, value: Any, what: str, task_id: int) -> Any:
    """`value` without its secrets; where there were some, an event says so."""
    clean = tx.redactor.value(value)
    if clean != value:
        tx.event(
            "SECRET_MASKED",
            actor=ENGINE,
            task_id=task_id,
            level="warning",
            reason="secret",
            message=f"a secret in the {what} was masked; what is stored differs from what was given",
            ours=True,
        )
    return clean
