"""The shipped CSV batch under fire: the site's own ledger holds every row exactly once."""

from __future__ import annotations

import csv
import json
import shutil
import sys
from collections import Counter
from pathlib import Path

from tests.faults import fault
from tests.journeys.decks import CONFIG, Deck, examples, kill

ROWS_BETWEEN_KILLS = 12
CHECKPOINT_EVERY = 5  # fewer, so that each loss is behind durable progress


def ledger_rows(ledger: Path) -> list[dict[str, str]]:
    """What the site accepted, in order."""
    return [json.loads(line)["row"] for line in ledger.read_text(encoding="utf-8").splitlines()]


def engine_on_record(deck: Deck) -> int:
    """The pid of the engine that works, once its start is committed: rows arrive without any engine, too."""
    started = deck.rows("SELECT pid FROM engine WHERE ended_at IS NULL AND pid = ?", deck.engine_pid)
    return started[0]["pid"] if started else 0


@fault("TF252")
def test_three_engines_and_five_workers_die_and_every_row_arrives_once(deck: Deck) -> None:
    batch = deck.home / "csv_batch"
    shutil.copytree(examples("csv_batch"), batch)
    deck.configure(CONFIG.format(handlers=json.dumps(str(batch / "tasks.py"))))
    ledger, port = deck.home / "ledger.jsonl", deck.home / "port"
    deck.helper(sys.executable, batch / "site.py", "--port", "0", "--ledger", ledger, "--port-file", port)
    deck.until(port.exists, "the site listens")
    payload = {
        "file": "orders.csv",
        "url": f"http://127.0.0.1:{port.read_text()}/rows",
        "every": CHECKPOINT_EVERY,
    }
    task_id = deck.add("post_rows", json.dumps(payload))

    # The first worker dies by a fault point, after the site has written a row and before that is recorded.
    once = deck.home / "once"
    run = deck.start(
        "--until-idle", workers=2, TASKDECK_CRASH_AT="before_operation_end:12", TASKDECK_CRASH_ONCE=str(once)
    )
    deck.until(once.exists, "the fault point")
    victims: dict[str, list[int]] = {"engine": [], "worker": []}
    for what in ("worker", "engine", "worker", "engine", "worker", "engine", "worker"):
        goal = len(ledger_rows(ledger)) + ROWS_BETWEEN_KILLS
        deck.until(lambda goal=goal: len(ledger_rows(ledger)) >= goal, f"{goal} rows")
        victim = deck.until(
            lambda what=what: engine_on_record(deck) if what == "engine" else deck.worker_of(task_id), what
        )
        victims[what].append(victim)
        kill(victim)
    assert deck.finish(run) == 0, deck.told()

    with (batch / "orders.csv").open(encoding="utf-8", newline="") as file:
        orders = list(csv.DictReader(file))
    assert Counter(row["order_id"] for row in ledger_rows(ledger)) == {row["order_id"]: 1 for row in orders}
    assert sorted(ledger_rows(ledger), key=lambda row: row["order_id"]) == orders
    assert deck.show(task_id)["result"] == {"rows": 200}

    lost = deck.events(None, "WORKER_LOST")
    killed = {each["payload"]["pid"] for each in lost}  # with an engine, or while there was none
    assert len(killed) >= 5
    assert set(victims["worker"]) < killed  # and the one that died at the fault point
    assert len(set(victims["engine"])) == 3
    assert {each["payload"]["pid"] for each in deck.events(None, "ENGINE_LOST")} == set(victims["engine"])
    doubts = deck.events(task_id, "OPERATION_IN_DOUBT")
    assert doubts, "nothing died between a request and its record"
    assert len(deck.rows("SELECT * FROM operation WHERE state = 'DONE'")) == 200
    assert deck.ok("audit", "verify")
