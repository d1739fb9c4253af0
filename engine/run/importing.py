"""Importing a list of routes: what it would change, and the change itself, all of it or nothing.

Whoever imports reads the list and writes the passwords into files of their own; the database, its events and the way to the
engine only ever see references to them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from ..config import Config
from ..credentials import look_up
from ..edge import secret_files
from ..errors import Refused, TaskdeckError, Unavailable
from ..rules import route_merge as rules
from ..rules.route_import import ImportFault, read_list
from ..rules.route_merge import BAD, CHANGED, NEW, ImportLine, KnownRoute, Offer
from ..store import inventory, routes
from ..store.inventory import Declared, json
from ..store.reading import Reader
from ..store.transaction import Transaction

MOST = 10_000
"""Routes of one list: more would keep the writer from its other work for too long."""
_TO_COME = "file:"
"""Stands for the reference to a password that is not written yet."""

Write = Callable[[list[Any]], list[dict[str, Any]]]


class Import(msgspec.Struct, frozen=True):
    """A list that was looked at: what becomes of each line. The rest is for the import itself and is not shown."""

    lines: list[ImportLine]
    offers: list[Offer]
    passwords: dict[int, str]
    """Those to be written, by line."""

    def __repr__(self) -> str:
        return f"<a list of {len(self.lines)} lines>"

    def count(self, kind: str) -> int:
        """How many lines of this kind there are."""
        return sum(line.kind == kind for line in self.lines)


def look(reader: Reader | None, raw: bytes, scheme: str, group: str) -> Import:
    """What this list would change; without a database everything is new. Writes nothing."""
    found = read_list(raw, scheme)
    offered, faults = rules.offers(found, group)
    if len(offered) > MOST:
        many = f"the list names {len(offered)} routes, more than {MOST}"
        offered, faults = [], [ImportFault(0, "E_TOO_MANY", many, "import it in parts")]
    known = reader.ask(inventory.known_routes) if reader is not None else []
    passwords = {each.line: each.url.password for each in found.routes if each.url.password}
    changed = _changed(offered, passwords, known)
    offered = [
        msgspec.structs.replace(each, said=each.said | {"secret_ref": _TO_COME})
        if each.line in changed
        else each
        for each in offered
    ]
    merged = rules.merged(offered, known)
    lines = [*merged, *rules.bad_lines(faults), *rules.repeated_lines(found)]
    lines.sort(key=lambda line: line.line)
    wanted = [offer for line, offer in zip(merged, offered, strict=True) if line.kind in (NEW, CHANGED)]
    return Import(lines, wanted, {each.line: changed[each.line] for each in wanted if each.line in changed})


def _changed(
    offered: Sequence[Offer], passwords: Mapping[int, str], known: Sequence[KnownRoute]
) -> dict[int, str]:
    """The passwords, by line, that differ from what their exits have now."""
    of_exit = {each.identity: each for each in known if not each.removed}
    return {
        each.line: passwords[each.line]
        for each in offered
        if each.line in passwords and not _has(of_exit.get(each.identity), passwords[each.line])
    }


def _has(known: KnownRoute | None, password: str) -> bool:
    if known is None or not known.values["secret_ref"]:
        return False
    try:
        return look_up(known.values["secret_ref"]) == password
    except TaskdeckError:
        return False  # what can't be read here is replaced by what the list says


def carry_out(
    config: Config, found: Import, write: Write, known: Callable[[], list[KnownRoute]]
) -> list[Any]:
    """Write the passwords, then everything else by `write`; where that fails they are gone again. Returns its lines."""
    if not found.passwords:
        return write([msgspec.to_builtins(each) for each in found.offers])
    folder = secret_files.folder_of(config.db)
    ids = {each.line: each.id for each in found.lines}
    with secret_files.held(folder):
        files = secret_files.write(
            folder, {ids[line]: password for line, password in found.passwords.items()}
        )
        try:
            lines = write([_referring(each, files.get(ids[each.line])) for each in found.offers])
        except Unavailable:
            raise  # the engine may have written before it went away: a file too many harms nobody, one too few does
        except TaskdeckError:
            secret_files.remove(files.values())
            raise
        left = known()
        # A route in use may still need its old password; its file goes with the next import.
        secret_files.sweep(folder, _referred(left), {each.id for each in left if each.held})
    return lines


def _referring(offer: Offer, file: Path | None) -> Any:
    said = offer.said | ({"secret_ref": f"file:{file}"} if file else {})
    return msgspec.to_builtins(msgspec.structs.replace(offer, said=said))


def _referred(known: Sequence[KnownRoute]) -> set[str]:
    return {str(each.values["secret_ref"]).removeprefix("file:") for each in known}


def import_routes(tx: Transaction, args: Mapping[str, Any], actor: str) -> list[dict[str, Any]]:
    """The verb: all of these offers in this transaction, or none. Returns what became of each as an `ImportLine`.

    Raises `Refused` where one can't be taken any more, since something was changed after the list was looked at.
    """
    offered = msgspec.convert(args["offers"], list[Offer])
    known = {each.id: each for each in inventory.known_routes(tx.connection)}
    merged = rules.merged(offered, list(known.values()))
    for line in merged:
        if line.kind == BAD:
            raise Refused(f"line {line.line} of the list: {line.what}", "nothing was imported", line.remedy)
    for line, offer in zip(merged, offered, strict=True):
        if line.kind in (NEW, CHANGED):
            _write(tx, line, offer, known.get(line.id), actor)
    return [msgspec.to_builtins(line) for line in merged]


def _write(tx: Transaction, line: ImportLine, offer: Offer, known: KnownRoute | None, actor: str) -> None:
    stands = known.values if known is not None and not known.removed else _FRESH
    values = {**stands, **offer.said}
    values["labels"] = tx.redactor.value({**stands["labels"], **offer.said.get("labels", {})})
    capacity = values.pop("capacity")
    columns = dict(zip(("scheme", "host", "port", "username"), offer.identity, strict=True)) | {
        **values,
        "labels": json(values["labels"]),
        "expected_regions": json(values["expected_regions"]),
    }
    origin = known.origin if known is not None and not known.removed else "import"
    inventory.put_route(tx, Declared(line.id, capacity, columns), origin)
    if "password" in line.changes:
        routes.probe_soon(tx, line.id)
    tx.event(
        "OPERATOR_ROUTE",
        actor=actor,
        route_id=line.id,
        reason="imported" if line.kind == NEW else "import_changed",
        message=line.url + (f": {', '.join(line.changes)}" if line.changes else ""),
        payload={"line": line.line, "changes": list(line.changes)},
    )


_FRESH: Mapping[str, Any] = {
    "secret_ref": None,
    "group": "default",
    "labels": {},
    "capacity": 1,
    "expected_regions": [],
}
