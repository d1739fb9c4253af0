"""The plan is data: the same for the same seed, its ends for every seed, its configuration one that loads."""

from __future__ import annotations

import random
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from taskdeck.engine import config
from taskdeck.engine.demo import plan
from taskdeck.engine.demo.chaos import order

NOW = datetime(2026, 11, 29, 12, tzinfo=UTC)


def world(folder: Path) -> dict[str, Any]:
    place = {"host": "127.0.0.1", "group": "demo"}
    secret = folder / "secrets" / "b"
    secret.parent.mkdir(parents=True)
    secret.touch(0o600)
    return {
        "site": "http://127.0.0.1:8787",
        "nonce_url": "http://127.0.0.1:8787/nonce",
        "ip_url": "http://127.0.0.1:8787/ip",
        "proxies": [
            {"id": "a", "scheme": "http", "port": 1, "username": None, "password_file": None, **place},
            {
                "id": "b",
                "scheme": "socks5",
                "port": 2,
                "username": "bob",
                "password_file": str(secret),
                "exit_ip": "127.0.0.9",
                **place,
            },
        ],
    }


def ends(seed: int, chaos: bool) -> set[tuple[str, str, str]]:
    return {(each.key, each.end, each.reason) for each in plan.tasks(seed, chaos=chaos)}


def test_about_sixty_tasks_each_with_a_key_of_its_own() -> None:
    planned = plan.tasks(1, chaos=False)
    assert 50 <= len(planned) <= 70
    assert len({each.key for each in planned}) == len(planned)
    assert all(each.spec["key"] == each.key for each in planned)


def test_the_seed_draws_the_order_and_nothing_else() -> None:
    first, again, other = (plan.tasks(seed, chaos=False, now=NOW) for seed in (1, 1, 2))
    assert first == again
    assert first != other
    assert sorted(first, key=lambda each: each.key) == sorted(other, key=lambda each: each.key)


def test_chaos_changes_no_end() -> None:
    assert ends(1, chaos=False) == ends(1, chaos=True) == ends(7, chaos=True)


def test_its_configuration_loads_and_says_what_is_shown(tmp_path: Path) -> None:
    file = tmp_path / plan.CONFIG_FILE
    for chaos in (False, True):
        text = plan.configuration(world(tmp_path / str(chaos)), tmp_path / "x.db", tmp_path, chaos=chaos)
        file.write_text(text, encoding="utf-8")
        loaded = config.load(path=file, environ={})
        assert loaded.db == tmp_path / "x.db"
        assert loaded.retry.base == 0.1
        assert loaded.engine.max_losses == plan.MAX_LOSSES[chaos]
        assert [each.id for each in loaded.resources] == ["browser-1", "browser-2", "browser-3"]
        assert [each.shown() for each in loaded.routes] == ["http://127.0.0.1:1", "socks5://bob@127.0.0.1:2"]
        assert loaded.routing.probe_urls == ("http://127.0.0.1:8787/nonce",)
        assert all(line in text for line in plan.settings(chaos=chaos).splitlines())


def test_chaos_draws_who_dies_and_stays_within_what_the_supervisor_takes() -> None:
    drawn = {tuple(order(random.Random(seed))) for seed in range(50)}
    assert len(drawn) > 5
    for victims in drawn:
        assert victims.count("worker") + 1 >= 5  # and the one at the fault point
        assert 3 <= victims.count("engine") <= 4
        assert victims[0] == victims[-1] == "worker"
