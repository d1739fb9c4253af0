"""A small fleet over some simulated hours; `python -m benchmarks.routes` is the large one over days."""

from __future__ import annotations

import pytest

from tests.rules.route_fleet import DETECTED_S, SETTINGS, Fleet


@pytest.mark.parametrize("seed", [1, 2])
def test_a_fleet_of_mixed_routes_is_given_out_as_the_model_has_it(seed: int) -> None:
    fleet = Fleet(40, seed, task_every_s=4.0)
    fleet.run(4 * 3600)
    figures = fleet.figures()
    assert figures["differs"] == 0
    assert figures["unserved"] == 0
    assert figures["dead_longest_s"] <= DETECTED_S
    assert figures["dead_given"] <= 0.02 * figures["given"]
    assert figures["mttr_longest_s"] <= SETTINGS.cooldown.max_s
    for route in fleet.routes:
        assert abs(route.picks - route.expected) <= 6 * max(1.0, route.expected) ** 0.5, route.id
