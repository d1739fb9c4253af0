"""What most attempts report, a begin and a good end, of many attempts at once: the short way beside `recording`.

Only for attempts with which nothing else is to be done (`batches.plain`); all others, and all that can't be written as it
came, are left to the long way, one by one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

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


def record(tx: Transaction, reports: Sequence[Report], known: Mapping[int, Plain]) -> set[Claim]:
    """Write what these reports say where it can be done for all at once. Returns the attempts that it was done for.

    `known` by fence: plain attempts as they began. Whether they still are is looked at when they end, by the statement that
    ends them; where one is not, or can't be written like this, `TaskdeckError` is raised: then take back what was done, and
    go the long way.
    """
    latest = {(report.task_id, report.fence): report for report in reports}
    plain = _known(tx, latest, known) or batches.plain(tx, latest)
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


def _known(tx: Transaction, latest: Mapping[Claim, Report], known: Mapping[int, Plain]) -> list[Plain]:
    """Those of these attempts, where all are known, end, and may be plain; else none."""
    found = [
        each
        for (task_id, fence), report in latest.items()
        if (each := known.get(fence)) and each.task_id == task_id and isinstance(report, Outcome)
    ]
    return found if len(found) == len(latest) and batches.untouched(tx) else []


def _success(tx: Transaction, plain: Plain, outcome: Outcome) -> Success:
    result = "null"
    if outcome.result:
        value = masked(tx, decode(outcome.result, where="result"), "result", plain.task_id)
        result = encode(value)
    tail = tx.redactor.text(outcome.tail) if outcome.tail else None
    return Success(plain, result, outcome.exit_code, tail)
