"""What most attempts report, a begin and a good end, of many attempts at once: the short way beside `recording`.

Only for attempts with which nothing else is to be done (`batches.plain`); all others, and all that can't be written as it
came, are left to the long way, one by one.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..rules.payloads import decode, encode
from ..store import batches
from ..store.batches import Plain, Success
from ..store.transaction import Transaction
from .messages import Message, Outcome, Started
from .secrecy import masked

Report = Started | Outcome
Claim = tuple[int, int]
"""A task and the fence of its attempt."""


def claim_of(report: Report) -> Claim:
    """Whose report it is."""
    return report.task_id, report.fence


def is_common(message: Message) -> bool:
    """May the short way be tried with it?"""
    if isinstance(message, Started):
        return True
    return isinstance(message, Outcome) and message.kind == "succeeded" and not message.left


def record(tx: Transaction, reports: Sequence[Report]) -> set[Claim]:
    """Write what these reports say where it can be done for all at once. Returns the attempts that it was done for.

    Raises `TaskdeckError` where one of them can't be written like this: then take back what was done and go the long way.
    """
    latest = {(report.task_id, report.fence): report for report in reports}
    plain = batches.plain(tx, latest)
    written = {(each.task_id, each.fence) for each in plain}
    commands = [
        each for each in reports if isinstance(each, Started) and each.pid and claim_of(each) in written
    ]
    if commands:
        batches.note_commands(tx, [(each.pid, each.start_time, each.fence) for each in commands])
    begun, ended = [], []
    for each in plain:
        report = latest[each.task_id, each.fence]
        if isinstance(report, Outcome):
            ended.append(_success(tx, each, report))
        else:
            begun.append(each)
    batches.start_all(tx, begun)
    batches.succeed_all(tx, ended)
    return written


def _success(tx: Transaction, plain: Plain, outcome: Outcome) -> Success:
    result = "null"
    if outcome.result:
        value = masked(tx, decode(outcome.result, where="result"), "result", plain.task_id)
        result = encode(value)
    tail = tx.redactor.text(outcome.tail) if outcome.tail else None
    return Success(plain, result, outcome.exit_code, tail)
