"""Five hundred routes of mixed quality over three simulated days, under the rules and beside the plain model of each.

    .venv/bin/python -m benchmarks.routes [--routes 500] [--days 3] [--task-every 5] [--seed 1]

Ends with 1 where a dead route was given out for longer than a failure needs to be seen, where a good one got fewer tasks than
the model's odds allow, or where rules and model differ anywhere.
"""

from __future__ import annotations

import argparse
import sys

from taskdeck.engine.clock import SystemClock
from tests.rules.route_fleet import DETECTED_S, QUALITIES, SETTINGS, Fleet


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.routes")
    parser.add_argument("--routes", type=int, default=500)
    parser.add_argument("--days", type=float, default=3.0)
    parser.add_argument("--task-every", type=float, default=5.0, help="mean seconds between two tasks")
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    clock, fleet = SystemClock(), Fleet(asked.routes, asked.seed, asked.task_every)
    begun = clock.monotonic()
    for hour in range(1, round(asked.days * 24) + 1):
        fleet.run(hour * 3600.0)
        if hour % 6 == 0:
            print(f"{hour} h, {clock.monotonic() - begun:.0f} s", file=sys.stderr, flush=True)
    return report(fleet, asked.days, clock.monotonic() - begun)


def report(fleet: Fleet, days: float, took: float) -> int:
    """Print the figures; 1 where one is not as the model has it."""
    found = fleet.figures()
    print(f"{len(fleet.routes)} routes, {days:g} simulated days in {took:.0f} s")
    print(f"checks {found['checks']}, tasks given a route {found['given']}, without one {found['unserved']}")
    print(f"results after which rules and model differ: {found['differs']}")
    print(
        f"given while dead: {found['dead_given']} ({100 * found['dead_given'] / max(1, found['given']):.2f} %),"
        f" the longest {found['dead_longest_s']:.0f} s after its death (the model allows {DETECTED_S:.0f} s)"
    )
    print(
        f"back in service after the end of an outage: median {found['mttr_s']:.0f} s, longest"
        f" {found['mttr_longest_s']:.0f} s of {found['recoveries']} (the model allows {SETTINGS.cooldown.max_s:.0f} s)"
    )
    print("picks by quality: " + ", ".join(f"{kind} {found['picks'][kind][0]}" for kind in QUALITIES))
    print("by the model's odds: " + ", ".join(f"{kind} {found['picks'][kind][1]}" for kind in QUALITIES))
    print(
        f"the good route with the fewest: {found['good_least']}, by odds {found['good_least_expected']:.1f}"
    )
    starved = [
        each.id
        for each in fleet.routes
        if each.kind == "good" and each.expected - each.picks > 6 * max(1.0, each.expected) ** 0.5
    ]
    if starved:
        print(f"starved: {', '.join(starved)}")
    late = found["dead_longest_s"] > DETECTED_S or found["mttr_longest_s"] > SETTINGS.cooldown.max_s
    return int(bool(starved) or late or found["differs"] > 0)


if __name__ == "__main__":
    raise SystemExit(main())
