"""What is free of pools and routes: read once, when somebody asks, and put together for what is asked for."""

from __future__ import annotations

from typing import Any

from taskdeck.engine.rules.declarations import ResourceDeclaration, RouteDeclaration
from taskdeck.engine.store import rooms, slots
from tests.run.ticking import Engine
from tests.scratch import ANN, Scratch


def route(name: str, group: str, **fields: Any) -> RouteDeclaration:
    return RouteDeclaration(name, "http", "127.0.0.1", 8000 + len(name), group=group, **fields)


def of_routes(scratch: Scratch) -> rooms.Rooms:
    return rooms.of_routes(scratch.database.connection(), scratch.tx.now)


def test_a_route_is_asked_for_by_its_id_or_its_group_and_by_a_name_of_both_once(scratch: Scratch) -> None:
    scratch.declare(
        route("eu-1", "eu", capacity=2), route("us", "eu"), route("us-1", "us"), route("jp", "jp")
    )
    found = of_routes(scratch)
    assert {name: (room.free, room.total) for name, room in found.items()} == {
        "eu-1": (2, 2),
        "eu": (3, 3),
        "us": (2, 2),
        "us-1": (1, 1),
        "jp": (1, 1),
    }
    assert found.get("nowhere") is None


def test_what_is_out_is_told_and_counted(scratch: Scratch) -> None:
    scratch.declare(route("eu-1", "eu"), route("eu-2", "eu"), ResourceDeclaration("gpu", "gpu", capacity=2))
    scratch.do(slots.act, slots.ROUTES, "eu-1", "disable", ANN)
    room = of_routes(scratch)["eu"]
    assert (room.free, room.total, room.words, room.out) == (1, 2, "1 DISABLED", False)
    assert of_routes(scratch)["eu-1"].out
    assert rooms.of_pools(scratch.database.connection(), scratch.tx.now)["gpu"].free == 2


def test_a_tick_in_which_nobody_waits_for_a_route_reads_none(scratch: Scratch) -> None:
    scratch.declare(*(route(f"r-{number}", "eu") for number in range(50)))
    engine = Engine(scratch)
    scratch.add()
    read: list[str] = []

    def reads() -> int:
        """How often all routes were read since the last question."""
        count = sum(sql.startswith("SELECT p.route_id") and "FROM route_slot s" in sql for sql in read)
        read.clear()
        return count

    scratch.database.connection().set_trace_callback(read.append)
    assert len(engine.tick()) == 1
    assert reads() == 0
    scratch.add(route="eu")
    assert len(engine.tick()) == 1
    assert reads() == 1
    scratch.database.connection().set_trace_callback(None)
