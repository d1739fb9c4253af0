from __future__ import annotations

from taskdeck.engine.rules.declarations import RouteDeclaration
from taskdeck.engine.rules.route_errors import ErrorType
from taskdeck.engine.rules.route_health import Sample
from taskdeck.engine.store import routes, slots
from tests.scratch import Scratch


def probed(scratch: Scratch, error: ErrorType | None, stages: int, **details: str) -> None:
    scratch.do(routes.claim_probe, "eu-1", "token", 20.0)
    scratch.do(
        routes.record,
        "eu-1",
        Sample(scratch.clock.boot(), error, None if error else 20.0, stages),
        source="probe",
        settings=scratch.config.routing,
        uniform=lambda low, high: (low + high) / 2,
        token="token",
        details=details,
    )


def asks_for_the_address(scratch: Scratch) -> bool:
    return scratch.do(routes.needs_exit_stage, "eu-1", scratch.config.routing)


def test_a_wrong_address_is_looked_for_again_with_each_check_until_it_is_right(scratch: Scratch) -> None:
    scratch.declare(RouteDeclaration("eu-1", "http", "127.0.0.1", 3128, expected_ip="127.0.0.2"))
    assert asks_for_the_address(scratch)
    for _ in range(2):
        probed(scratch, ErrorType.EXIT_IP_MISMATCH, 2, exit_ip="127.0.0.9")
        assert asks_for_the_address(scratch)
        assert scratch.query("SELECT exit_ip FROM route_health") == [("127.0.0.9",)]
    probed(scratch, None, 3, exit_ip="127.0.0.2")
    assert not asks_for_the_address(scratch)
    probed(scratch, ErrorType.TUNNEL_TIMEOUT, 1)
    assert not asks_for_the_address(scratch)


def drifts(scratch: Scratch) -> list[tuple[str, str, str]]:
    sql = "SELECT level, reason, message FROM event_log WHERE event_type = 'ROUTE_DRIFT' ORDER BY event_id"
    return scratch.query(sql)


def test_an_exit_that_moves_is_told_of_once_with_both_places(scratch: Scratch) -> None:
    scratch.declare(RouteDeclaration("eu-1", "socks5", "127.0.0.1", 1080))
    here = {"exit_ip": "203.0.113.7", "exit_region": "DE", "region_source": "iptocc 3.3"}
    for place in (here, here, {**here, "exit_ip": "203.0.113.8"}, {**here, "exit_region": "US"}):
        probed(scratch, None, 3, **place)
        probed(scratch, None, 2)  # a short check sees no address, and forgets none
    assert drifts(scratch) == [
        (
            "info",
            "exit_ip",
            "it leaves from 203.0.113.8 (DE, iptocc 3.3), before from 203.0.113.7 (DE, iptocc 3.3)",
        ),
        (
            "warning",
            "region",
            "it leaves from 203.0.113.7 (US, iptocc 3.3), before from 203.0.113.8 (DE, iptocc 3.3)",
        ),
    ]
    assert scratch.query("SELECT exit_region, region_source FROM route_health") == [("US", "iptocc 3.3")]


def test_a_rotating_route_drifts_without_a_word(scratch: Scratch) -> None:
    scratch.declare(RouteDeclaration("eu-1", "socks5", "127.0.0.1", 1080))
    scratch.do(lambda tx: tx.connection.execute("UPDATE route SET ip_policy = 'rotating'") and None)
    for address in ("203.0.113.7", "203.0.113.8"):
        probed(scratch, None, 3, exit_ip=address)
    assert drifts(scratch) == []


def test_who_resets_or_enables_a_route_has_it_checked_now(scratch: Scratch) -> None:
    scratch.declare(RouteDeclaration("eu-1", "http", "127.0.0.1", 3128))
    probed(scratch, ErrorType.PROXY_AUTH, 1)  # it rests for a minute

    def due_in() -> float:
        found = scratch.query("SELECT next_check_boot FROM route_health")[0][0]
        return found - scratch.clock.boot()

    assert due_in() == 60
    scratch.do(slots.act, slots.ROUTES, "eu-1", "reset", "cli:test")
    assert due_in() == 0
    scratch.do(slots.act, slots.ROUTES, "eu-1", "disable", "cli:test")
    scratch.clock.advance(100)
    scratch.do(slots.act, slots.ROUTES, "eu-1", "enable", "cli:test")
    assert due_in() == 0
