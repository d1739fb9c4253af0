"""Slots of resources and routes: the one place that writes their state. What a change may be is decided in `rules.resources`.

A claim is one conditional UPDATE; one changed row is yours. The slots of an attempt carry its fence, so that the end of the
attempt gives back exactly what it held, once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
from msgspec import Struct

from ..errors import NotFound, Refused, StaleLease, StoreError
from ..rules import resources as rules
from ..rules.resource_states import (
    BUSY,
    COOLDOWN,
    FAULT,
    RESTING,
    Kind,
    ResourceEvent,
    ResourceState,
)
from ..rules.resources import Change, Resource
from ..rules.route_filter import Affinity
from ..rules.route_settings import CooldownSettings
from ..rules.timing import add_seconds
from .diagnosis import is_passing
from .transaction import ENGINE, Transaction

FREE = "s.state = 'AVAILABLE' AND s.drain = 0 AND s.pending IS NULL"
HELD = "state IN ('LEASED','RUNNING')"
_UNREADY = (
    "EXISTS (SELECT 1 FROM resource_ready r WHERE r.resource_id = p.resource_id"
    " AND NOT (r.state IS 'ready' AND r.boot_id IS :boot_id AND r.until_boot > :boot))"
)
"""It has a check, and no fresh yes of that."""

Row = dict[str, Any]


class NotEnough(Refused):
    """Fewer are free than the task needs; nothing of it is taken.

    `to_verify` names routes that would do once a check has passed; `dry` a group that nobody of the same wish gets one of.
    """

    def __init__(self, *told: str, to_verify: tuple[str, ...] = (), dry: str = "") -> None:
        super().__init__(*told)
        self.to_verify, self.dry = to_verify, dry


class SlotTable(Struct, frozen=True):
    """The slots of one kind. Both kinds share every statement."""

    kind: Kind
    parent: str

    @property
    def table(self) -> str:
        return f"{self.parent}_slot"

    @property
    def id_column(self) -> str:
        return f"{self.parent}_id"

    def rows(self, tx: Transaction, condition: str, *args: Any, **named: Any) -> list[Row]:
        """Slots with what of their parent decides: id, number, state …, min_reuse, capacity."""
        sql = (
            f"SELECT s.*, p.min_reuse, p.capacity FROM {self.table} s JOIN {self.parent} p USING ({self.id_column})"
            f" WHERE {condition} ORDER BY s.{self.id_column}, s.number"
        )
        return tx.rows(sql, *args, **named)

    def name(self, row: Mapping[str, Any]) -> str:
        """`browser-1`, or `gpu/2` where there are several slots."""
        name = row[self.id_column]
        return name if row["capacity"] == 1 and row["number"] == 1 else f"{name}/{row['number']}"

    def as_rule(self, row: Mapping[str, Any]) -> Resource:
        """The slot as the rules see it."""
        return Resource(
            id=self.name(row),
            kind=self.kind,
            state=ResourceState(row["state"]),
            fence=row["fence"],
            lease_until=row["lease_until_boot"] or 0.0,
            min_reuse=row["min_reuse"],
            cooldown_until=row["cooldown_until_boot"],
            cooldown_reason=rules.CooldownReason(row["cooldown_reason"]) if row["cooldown_reason"] else None,
            drain=bool(row["drain"]),
            pending=msgspec.json.decode(row["pending"], type=Change) if row["pending"] else None,
        )

    def claim(
        self, tx: Transaction, row: Mapping[str, Any], task: Mapping[str, Any], lease: float, owner: str
    ) -> None:
        """AVAILABLE → LEASED under the attempt's fence. Raises `NotEnough` when somebody else was first."""
        rules.claim(self.as_rule(row))
        changed = tx.connection.execute(
            f"UPDATE {self.table} AS s SET state = 'LEASED', task_id = ?, lease_owner = ?, fence = ?, lease_until = ?,"
            f" lease_until_boot = ?, boot_id = ?, uses = uses + 1, last_used_at = ?, updated_at = ?"
            f" WHERE s.id = ? AND {FREE}",
            (
                task["id"],
                owner,
                task["fence"],
                add_seconds(tx.now, lease),
                tx.boot + lease,
                tx.boot_id,
                tx.now,
                tx.now,
                row["id"],
            ),
        ).rowcount
        if changed != 1:
            raise NotEnough(f"{self.kind} {self.name(row)} was taken by somebody else")
        payload = {"from": "AVAILABLE", "to": "LEASED", "fence": task["fence"]}
        self._event(tx, "RESOURCE_LEASED", row, "claimed", ENGINE, task["id"], owner, payload)

    def apply(
        self,
        tx: Transaction,
        row: Mapping[str, Any],
        change: Change,
        *,
        actor: str = ENGINE,
        message: str = "",
        error: str | None = None,
        fence: int | None = None,
    ) -> None:
        """Make a change that the rules allowed, conditionally on what was seen, with its event.

        `fence`: a new one, for a lease that is taken away. Its owner stays named until the slot is free again.
        """
        held = change.to in BUSY
        resting = change.until is not None and not held
        columns: dict[str, Any] = {
            "state": change.to.value,
            "drain": int(change.drain),
            "cooldown_reason": change.reason.value if change.reason else None,
            "cooldown_until_boot": change.until if resting else None,
            "cooldown_until": tx.utc_at(change.until) if resting and change.until else None,
            "boot_id": tx.boot_id,
            "updated_at": tx.now,
        }
        if not held:
            columns |= {"task_id": None, "lease_owner": None, "lease_until": None, "lease_until_boot": None}
            columns["pending"] = None
        if fence is not None:
            columns |= {"fence": fence, "lease_owner": row["lease_owner"]}
        if error is not None:
            columns["last_error"] = tx.redactor.text(error)
        names = ", ".join(f"{name} = ?" for name in columns)
        changed = tx.connection.execute(
            f"UPDATE {self.table} SET {names} WHERE id = ? AND state = ? AND fence = ?",
            (*columns.values(), row["id"], row["state"], row["fence"]),
        ).rowcount
        if changed != 1:
            raise StaleLease(f"{self.kind} {self.name(row)} has moved on meanwhile")
        if self.kind is Kind.ROUTE and change.to is COOLDOWN and change.reason not in RESTING:
            self._probe_then(tx, row, change.until or tx.boot)
        if change.to.value == row["state"] and not change.drain and change.to not in (COOLDOWN,):
            return
        payload: dict[str, Any] = {"from": row["state"], "to": change.to.value, "event": change.event.value}
        if change.reason:
            payload |= {"cooldown": change.reason.value, "until": columns["cooldown_until"]}
        if row["task_id"] is not None:
            payload["fence"] = row["fence"]
        self._event(
            tx,
            self._event_type(row, change),
            row,
            change.event.value,
            actor,
            row["task_id"],
            message,
            payload,
            level="warning" if change.to is FAULT else "info",
        )

    def _probe_then(self, tx: Transaction, row: Mapping[str, Any], at: float) -> None:
        """What a probe ends is probed when its rest is over, whenever the next one would have been."""
        tx.connection.execute(
            "UPDATE route_health SET next_check_boot = ?, next_check_at = ? WHERE route_id = ?",
            (at, tx.utc_at(at), row["route_id"]),
        )

    def _event_type(self, row: Mapping[str, Any], change: Change) -> str:
        if row["state"] in ("LEASED", "RUNNING") and change.to not in BUSY:
            return "RESOURCE_RELEASED"
        return "ROUTE_STATE" if self.kind is Kind.ROUTE else "RESOURCE_STATE"

    def _event(
        self,
        tx: Transaction,
        event_type: str,
        row: Mapping[str, Any],
        reason: str,
        actor: str,
        task_id: int | None,
        message: str,
        payload: dict[str, Any],
        level: str = "info",
    ) -> None:
        named: dict[str, Any] = {self.id_column: row[self.id_column]}
        if row["capacity"] > 1 or row["number"] > 1:
            payload["slot"] = row["number"]
        tx.event(
            event_type,
            actor=actor,
            task_id=task_id,
            level=level,
            reason=reason,
            message=message,
            payload=payload,
            **named,
        )


RESOURCES = SlotTable(Kind.UNIT, "resource")
ROUTES = SlotTable(Kind.ROUTE, "route")
BOTH = (RESOURCES, ROUTES)


SPENT = (
    "((p.max_uses IS NOT NULL AND (SELECT sum(uses) FROM {parent}_slot x WHERE x.{parent}_id = p.{parent}_id) >= p.max_uses)"
    " OR (p.max_age IS NOT NULL AND (julianday(:now) - julianday(s.fresh_since)) * 86400.0 >= p.max_age - 0.001))"
)
"""It has had its uses, or is too old: given to nobody until a person resets it."""

BOUND_ELSEWHERE = (
    "(p.route_id IS NOT NULL AND p.route_soft = 0 AND NOT EXISTS"
    f" (SELECT 1 FROM route_slot s WHERE s.route_id = p.route_id AND {FREE}))"
)
"""It goes out by one route only, and that can't be had now."""


def take_from_pool(
    tx: Transaction, pool: str, count: int, task: Mapping[str, Any], lease: float, owner: str
) -> list[str]:
    """Claim `count` free slots of a pool, the least recently used first, ids in order. Raises `NotEnough`."""
    spent = SPENT.format(parent="resource")
    free = RESOURCES.rows(
        tx,
        "s.id IN (SELECT s.id FROM resource_slot s JOIN resource p USING (resource_id) WHERE p.pool = :pool"
        f" AND p.removed_at IS NULL AND {FREE} AND NOT {spent} AND NOT {BOUND_ELSEWHERE} AND NOT {_UNREADY}"
        " ORDER BY coalesce(s.last_used_at, ''), s.resource_id, s.number LIMIT :count)",
        pool=pool,
        now=tx.now,
        count=count,
        boot=tx.boot,
        boot_id=tx.boot_id,
    )
    if len(free) < count:
        raise NotEnough(f"pool {pool}: {len(free)} free of {count} needed")
    for row in free:
        RESOURCES.claim(tx, row, task, lease, owner)
    return [RESOURCES.name(row) for row in free]


def bound_route(tx: Transaction, fence: int) -> Affinity | None:
    """The route that what is held under this fence goes out by; a hard binding before a soft one."""
    row = tx.row(
        "SELECT p.route_id, p.route_soft FROM resource_slot s JOIN resource p USING (resource_id)"
        f" WHERE s.fence = ? AND {HELD} AND p.route_id IS NOT NULL ORDER BY p.route_soft, p.route_id LIMIT 1",
        fence,
    )
    return Affinity(row["route_id"], not row["route_soft"]) if row else None


def started(tx: Transaction, fence: int) -> None:
    """The attempt of this fence has begun: what it leased is RUNNING."""
    if not _holds_any(tx, fence):
        return
    for slots in BOTH:
        for row in slots.rows(tx, "s.fence = ? AND s.state = 'LEASED'", fence):
            change = rules.start(
                slots.as_rule(row), fence, min(tx.boot, (row["lease_until_boot"] or tx.boot) - 0.001)
            )
            slots.apply(tx, row, change)


def release(
    tx: Transaction,
    fence: int,
    *,
    dead: bool = False,
    faulty: Iterable[str] = (),
    stuck: bool = False,
    message: str = "",
) -> None:
    """The attempt of this fence has ended: give back all that it held. Twice is once, since nothing is held then.

    `stuck`: something of the attempt lives on and may still use its resources: they are at FAULT until a person has looked.
    """
    if not _holds_any(tx, fence):
        return
    broken = set(faulty)
    for slots in BOTH:
        for row in slots.rows(tx, f"s.fence = ? AND {HELD}", fence):
            is_faulty = stuck or bool({row[slots.id_column], slots.name(row)} & broken)
            if is_faulty and slots.kind is Kind.ROUTE:
                is_faulty = False  # a route's faults are judged by its health
            change = rules.release(slots.as_rule(row), tx.boot, faulty=is_faulty, dead=dead)
            slots.apply(tx, row, change, message=message, error=message if is_faulty else None)
            if row["state"] == "RUNNING":
                _note_use(tx, slots, row, is_faulty, stuck)
            if is_faulty:
                _fault_siblings(tx, slots, row, message)


def _note_use(tx: Transaction, slots: SlotTable, row: Row, is_faulty: bool, stuck: bool) -> None:
    """A fault is counted and looked at again later, unless a person must look first; a good use forgets the faults.

    `recheck_boot` is when (boot clock) it came into FAULT, where time may bring it out.
    """
    if is_faulty or row["rechecks"] or row["recheck_boot"] is not None:
        tx.connection.execute(
            f"UPDATE {slots.table} SET rechecks = ?, recheck_boot = ? WHERE id = ?",
            (
                row["rechecks"] + 1 if is_faulty else 0,
                tx.boot if is_faulty and not stuck else None,
                row["id"],
            ),
        )


def recheck_units(tx: Transaction, settings: CooldownSettings) -> None:
    """Units in FAULT are tried again after a while; one that fails again and again is switched off, and told of."""
    for row in RESOURCES.rows(tx, "s.state = 'FAULT' AND s.recheck_boot IS NOT NULL"):
        change = rules.recheck(
            RESOURCES.as_rule(row),
            row["recheck_boot"],
            row["rechecks"],
            tx.boot,
            settings.fault_recheck_s,
            settings.fault_max,
        )
        if change is None:
            continue
        RESOURCES.apply(tx, row, change)
        if change.to is ResourceState.DISABLED:
            told = f"{RESOURCES.name(row)} is switched off: it was at fault {row['rechecks']} times in a row"
            tx.event(
                "ALERT_RAISED",
                actor=ENGINE,
                resource_id=row["resource_id"],
                level="error",
                reason="resource_fault",
                message=told,
            )


def _holds_any(tx: Transaction, fence: int) -> bool:
    """Most attempts hold nothing: one look tells."""
    sql = (
        f"SELECT 1 FROM resource_slot WHERE fence = ? AND {HELD}"
        f" UNION ALL SELECT 1 FROM route_slot WHERE fence = ? AND {HELD} LIMIT 1"
    )
    return tx.connection.execute(sql, (fence, fence)).fetchone() is not None


def _fault_siblings(tx: Transaction, slots: SlotTable, row: Row, message: str) -> None:
    """The thing itself is broken, so all its slots are: idle ones at once, busy ones when their lease ends."""
    pending = msgspec.json.encode(Change(FAULT, ResourceEvent.RELEASED)).decode()
    tx.connection.execute(
        f"UPDATE {slots.table} SET pending = ? WHERE {slots.id_column} = ? AND {HELD}",
        (pending, row[slots.id_column]),
    )
    for sibling in slots.rows(tx, f"s.{slots.id_column} = ? AND s.state = 'AVAILABLE'", row[slots.id_column]):
        slots.apply(tx, sibling, Change(FAULT, ResourceEvent.FATAL_ERROR), message=message, error=message)


def renew(tx: Transaction, worker_id: int, lease: float) -> None:
    """What the attempts of a worker hold gets the same fresh lease as they."""
    for slots in BOTH:
        tx.connection.execute(
            f"UPDATE {slots.table} SET lease_until = ?, lease_until_boot = ?, boot_id = ? WHERE {HELD} AND fence IN"
            " (SELECT fence FROM task WHERE worker_id = ? AND state IN ('RUNNING','PAUSED','LOST'))",
            (add_seconds(tx.now, lease), tx.boot + lease, tx.boot_id, worker_id),
        )


_LEFT = (
    "(s.lease_owner IS NULL OR NOT EXISTS (SELECT 1 FROM attempt a WHERE a.ended_at IS NULL"
    " AND s.lease_owner = 'task:' || a.task_id || '/' || a.number))"
)
"""Has whoever lost it by a kick ended? Proof of that beats waiting, so the rest goes on until then."""


def let_rested_return(tx: Transaction) -> str | None:
    """Units and route slots whose rest is over by time alone are AVAILABLE. Returns when the next one will be (UTC text)."""
    for slots in BOTH:
        for row in slots.rows(
            tx, f"s.state = 'COOLDOWN' AND s.cooldown_until_boot <= ? AND {_LEFT}", tx.boot
        ):
            change = rules.rested(slots.as_rule(row), tx.boot)
            if change is not None:
                slots.apply(tx, row, change)
    nexts = [
        tx.connection.execute(
            f"SELECT min(cooldown_until) FROM {slots.table} WHERE state = 'COOLDOWN' AND cooldown_until_boot > ?"
            " AND cooldown_reason IN ('USE','EXPIRED','MANUAL')",
            (tx.boot,),
        ).fetchone()[0]
        for slots in BOTH
    ]
    return min((each for each in nexts if each), default=None)


def sweep(tx: Transaction) -> int:
    """Give back what is held under a fence that no live attempt has: found by its own row. Returns how many.

    A slot with which that fails stays as it is, and an alert names it; the others are given back.
    """
    condition = f"{HELD} AND s.fence NOT IN (SELECT fence FROM attempt WHERE ended_at IS NULL)"
    return sum(_swept(tx, slots, row) for slots in BOTH for row in slots.rows(tx, condition))


def _swept(tx: Transaction, slots: SlotTable, row: Row) -> bool:
    def give_back(tx: Transaction) -> None:
        change = rules.release(slots.as_rule(row), tx.boot, dead=True)
        slots.apply(tx, row, change, message="its attempt is gone")

    try:
        tx.unit(give_back)
    except Exception as error:
        if isinstance(error, StoreError) or is_passing(error):
            raise
        story = tx.redactor.text(f"{slots.name(row)} can't be given back and stays {row['state']}: {error}")
        named = {slots.id_column: row[slots.id_column]}
        tx.event("ALERT_RAISED", actor=ENGINE, level="error", reason="row_failed", message=story, **named)
        return False
    return True


def rebase(tx: Transaction) -> None:
    """After a reboot the boot clock starts anew: rests go on by the UTC time at which they end."""
    for slots in BOTH:
        tx.connection.execute(
            f"UPDATE {slots.table} SET recheck_boot = ? WHERE recheck_boot IS NOT NULL AND boot_id <> ?",
            (tx.boot, tx.boot_id),
        )
        for row in tx.rows(
            f"SELECT id, cooldown_until FROM {slots.table} WHERE cooldown_until IS NOT NULL AND boot_id <> ?",
            tx.boot_id,
        ):
            tx.connection.execute(
                f"UPDATE {slots.table} SET cooldown_until_boot = ?, boot_id = ? WHERE id = ?",
                (tx.boot_at(row["cooldown_until"]), tx.boot_id, row["id"]),
            )


def act(tx: Transaction, slots: SlotTable, name: str, verb: str, actor: str) -> str:
    """A person's act on a whole resource or route: enable, disable or reset each of its slots. Returns what became of it."""
    rows = slots.rows(tx, f"s.{slots.id_column} = ?", name)
    if not rows:
        raise NotFound(f"there is no {slots.parent} {name!r}", remedy=f"see: taskdeck {slots.parent} list")
    told = []
    for row in rows:
        resource = slots.as_rule(row)
        change = _act(resource, verb, tx.boot, actor)
        if verb != "disable":
            _renew(tx, slots, row, worn=verb == "reset")
        if change is None:
            told.append(f"is {row['state']}{', as good as new' if verb == 'reset' else ' already'}")
            continue
        slots.apply(tx, row, change, actor=actor)
        told.append("is drained: disabled when its attempt ends" if change.drain else f"is {change.to}")
    return "; ".join(dict.fromkeys(told))


def rest(tx: Transaction, slots: SlotTable, name: str, seconds: float, actor: str) -> str:
    """A person lets a resource or route rest for so many seconds: every slot that is free. Returns what became of it.

    A live lease is not touched, and nothing that rests already, is in fault or switched off. Raises `NotFound`.
    """
    rows = slots.rows(tx, f"s.{slots.id_column} = ?", name)
    if not rows:
        raise NotFound(f"there is no {slots.parent} {name!r}", remedy=f"see: taskdeck {slots.parent} list")
    told = []
    for row in rows:
        if row["state"] != "AVAILABLE":
            told.append(f"is {row['state']} and stays so")
            continue
        change = rules.rest(slots.as_rule(row), tx.boot + seconds, actor)
        slots.apply(tx, row, change, actor=actor)
        told.append(f"rests until {tx.utc_at(tx.boot + seconds)}")
    return "; ".join(dict.fromkeys(told))


def kick(
    tx: Transaction, slots: SlotTable, name: str, actor: str, lock_delay: float, fence: int = 0
) -> list[Row]:
    """Take away the leases on a resource or route, or on one slot of it (`gpu/2`). Returns the slots as they were held.

    Their holders can do nothing with them any more (a new fence), and nobody else gets them for `lock_delay` seconds nor
    before the attempt has ended. With `fence` only that lease. Raises `NotFound`, `StaleLease`.
    """
    parent, _, number = name.partition("/")
    rows = slots.rows(tx, f"s.{slots.id_column} = ?", parent)
    rows = [row for row in rows if not number or str(row["number"]) == number]
    if not rows:
        raise NotFound(f"there is no {slots.parent} {name!r}", remedy=f"see: taskdeck {slots.parent} list")
    held = [row for row in rows if row["task_id"] is not None and fence in (0, row["fence"])]
    if fence and not held:
        raise StaleLease(
            f"{slots.parent} {name} is not held with fence {fence}",
            "that lease has ended meanwhile",
            f"see who holds it now: taskdeck {slots.parent} show {parent}",
        )
    for row in held:
        change = rules.expire(slots.as_rule(row), tx.boot, lock_delay, actor)
        slots.apply(
            tx, row, change, actor=actor, message="its lease was taken away", fence=tx.next_fences(1)[0]
        )
    return held


def _renew(tx: Transaction, slots: SlotTable, row: Row, *, worn: bool) -> None:
    """A person has looked at it: its faults are forgotten, and (`worn`) its uses and its age begin anew."""
    more = ", uses = 0, fresh_since = :now" if worn else ""
    tx.connection.execute(
        f"UPDATE {slots.table} SET rechecks = 0, recheck_boot = NULL{more} WHERE id = :id",
        {"now": tx.now, "id": row["id"]},
    )
    if slots.kind is Kind.ROUTE:
        tx.connection.execute(
            "UPDATE route_health SET model = json_remove(model, '$.faulted_at', '$.failed_rechecks', '$.last_error')"
            " WHERE route_id = ?",
            (row["route_id"],),
        )


def _act(resource: Resource, verb: str, now: float, actor: str) -> Change | None:
    disabled = resource.state is ResourceState.DISABLED
    if verb == "disable":
        return None if disabled or resource.drain else rules.disable(resource, actor)
    if verb == "enable":
        return rules.enable(resource, now, actor) if disabled or resource.drain else None
    return rules.reset(resource, now, actor) if resource.state in (COOLDOWN, FAULT) else None
