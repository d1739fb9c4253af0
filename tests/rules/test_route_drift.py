"""An exit that is not where it was: told for those that should stay, not for those that wander by nature."""

from __future__ import annotations

import pytest

from taskdeck.engine.rules.route_drift import IpPolicy, Seen, drift

HERE = Seen("203.0.113.7", "DE", "iptocc 3.3")
P = IpPolicy


@pytest.mark.parametrize(
    ("now", "policy", "what", "alarming"),
    [
        (Seen("203.0.113.8", "DE"), P.STATIC, "exit_ip", True),
        (Seen("203.0.113.8", "DE"), P.STICKY, "exit_ip", False),
        (Seen("203.0.113.8", "US"), P.STICKY, "region", True),
        (Seen("203.0.113.7", "US"), P.STATIC, "region", True),
        (Seen("203.0.113.8", None), P.STICKY, "exit_ip", False),
    ],
)
def test_another_place_is_told_of(now: Seen, policy: IpPolicy, what: str, alarming: bool) -> None:
    found = drift(HERE, now, policy)
    assert found
    assert (found.what, found.alarming) == (what, alarming)
    assert "before from 203.0.113.7 (DE, iptocc 3.3)" in found.message


@pytest.mark.parametrize("policy", P)
@pytest.mark.parametrize(
    "now", [HERE, Seen("203.0.113.7", None), Seen("203.0.113.7", "DE", "x.mmdb"), Seen(None, None)]
)
def test_the_same_place_and_an_unknown_one_are_no_drift(policy: IpPolicy, now: Seen) -> None:
    assert drift(HERE, now, policy) is None
    assert drift(Seen(None, None), now, policy) is None


def test_a_rotating_gateway_is_expected_to_rotate() -> None:
    assert drift(HERE, Seen("198.51.100.1", "US"), P.ROTATING) is None
