from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from taskdeck.engine import commands
from taskdeck.engine import config as configuration
from taskdeck.engine.clock import ManualClock
from taskdeck.engine.config import Config
from taskdeck.engine.edge.locks import DatabaseLock
from taskdeck.engine.errors import NotFound, Unavailable
from taskdeck.engine.rules.filters import EventFilter, Filter, parse
from taskdeck.engine.run import stopping
from taskdeck.engine.run.messages import Save, TypeInfo, encode_one, stored
from taskdeck.engine.run.outlived import Outlived
from taskdeck.engine.run.spool import Spool
from taskdeck.engine.views import View, holder, open_view
from tests.faults import fault
from tests.inventoried import Inventory
from tests.seeded import Seed

STABLE_TASK = (
    "id type state reason priority next_run_at retry_count max_retry attempt worker resources route progress checkpoint"
    " result error key schedule tags scheduled_at created_at started_at finished_at updated_at waits"
)
STABLE_ATTEMPT = "attempt worker fence started_at ended_at outcome reason error log_path resources route"
STABLE_WORKER = "id incarnation pid host code_version state started_at last_heartbeat attempts rss"
STABLE_EVENT = (
    "event_id task_id resource_id route_id worker_id event_type level reason actor message payload_json created_at"
    " hash"
)


@pytest.fixture
def seed(tmp_path: Path) -> Iterator[Seed]:
    made = Seed(tmp_path / "taskdeck.db")
    yield made
    made.close()


def settings(seed: Seed, text: str = "") -> Config:
    file = seed.path.parent / "config.toml"
    file.write_text("[taskdeck]\n" + text)
    return configuration.load(path=file, db=seed.path, environ={})


@pytest.fixture
def view(seed: Seed) -> Iterator[View]:
    with open_view(settings(seed), seed.clock) as found:
        yield found


def publish(seed: Seed, info: TypeInfo) -> None:
    with seed.writing() as tx:
        tx.connection.execute("INSERT INTO task_type VALUES (?, ?, ?)", (info.name, stored(info), tx.now))


@contextmanager
def held(path: Path, **words: Any) -> Iterator[None]:
    with DatabaseLock(path, **words) as lock:
        assert lock.acquire()
        yield


def keys(found: Any) -> set[str]:
    return set(msgspec.to_builtins(found))


def test_a_task_and_its_attempts_have_the_stable_names(seed: Seed, view: View) -> None:
    worker = seed.worker()
    task = view.task(seed.running(worker, log_path="1/1.log"))
    assert set(STABLE_TASK.split()) | {"attempts"} <= keys(task)
    assert isinstance(task.attempts, list)
    assert set(STABLE_ATTEMPT.split()) <= keys(task.attempts[0])
    listed = view.tasks(Filter(), whole=True)[0]
    assert set(STABLE_TASK.split()) <= keys(listed)
    assert "attempts" not in keys(listed)


def test_a_worker_and_an_event_have_the_stable_names(seed: Seed, view: View) -> None:
    worker = seed.worker()
    task = seed.running(worker)
    found = view.workers()
    assert set(STABLE_WORKER.split()) <= keys(found[0])
    assert found[0].attempts == [f"#{task}.1"]
    assert keys(view.events(EventFilter())[0]) == set(STABLE_EVENT.split())


def test_whole_numbers_of_any_length_stay_exact(seed: Seed, view: View) -> None:
    number = 10**60 + 1
    task = view.task(seed.task("big", {"n": number}, result=json.dumps([number])))
    assert task.payload == {"n": number}
    assert task.result == [number]


def test_the_last_checkpoint_is_shown(seed: Seed, view: View) -> None:
    task_id = seed.running(seed.worker())
    for seq in (1, 2):
        seed.sql(
            "INSERT INTO checkpoint(task_id, attempt_id, fence, seq, data, created_at) VALUES (?, 1, 1, ?, ?, ?)",
            task_id,
            seq,
            json.dumps({"row": seq}),
            view.now,
        )
    assert view.task(task_id).checkpoint == {"row": 2}
    assert view.tasks(Filter(), whole=True)[0].checkpoint == {"row": 2}
    assert [row["data"] for row in view.checkpoints(task_id)] == [{"row": 2}, {"row": 1}]


def test_damaged_json_is_shown_as_such(seed: Seed, view: View) -> None:
    task_id = seed.running(seed.worker())
    seed.sql(
        "INSERT INTO checkpoint(task_id, attempt_id, fence, seq, data, created_at) VALUES (?, 1, 1, 1, '{\"a', ?)",
        task_id,
        view.now,
    )
    assert view.task(task_id).checkpoint == {"unreadable": '{"a'}


def test_no_secret_is_shown_wherever_it_got_in(seed: Seed, view: View) -> None:
    secret = "Hunter2-Hunter2-Hunter2"
    task_id = seed.task("x", {"password": secret}, result=json.dumps({"api_key": secret}))
    shown = msgspec.json.encode(view.task(task_id)) + msgspec.json.encode(view.tasks(Filter(), whole=True))
    assert secret.encode() not in shown


def test_the_retry_bound_is_the_tasks_own_else_the_configured_else_the_declared_one(seed: Seed) -> None:
    publish(seed, TypeInfo("declared", "tasks.py", max_retry=7))
    own, plain = seed.task(max_retry=1), seed.task()
    declared, configured = seed.task("declared", {}), seed.task("configured", {})
    with open_view(settings(seed, "[types.configured]\nmax_retry = 9\n"), seed.clock) as view:
        assert {task.id: task.max_retry for task in view.tasks(Filter())} == {
            own: 1,
            plain: 5,
            declared: 7,
            configured: 9,
        }


def test_a_waiting_task_says_why_and_names_the_remedy(seed: Seed, view: View) -> None:
    task_id = seed.task()
    _, reasons = view.why(task_id)
    assert any("taskdeck run" in reason for reason in reasons)
    assert view.task(task_id).waits == reasons


def test_with_an_engine_the_reasons_are_those_of_the_scheduler(seed: Seed, view: View) -> None:
    worker = seed.worker()
    seed.running(worker)
    with held(seed.path, role="engine", incarnation="x"):
        first, second = seed.task(), seed.task()
        unknown = seed.task("nobody", {})
        later = seed.task(next_run_at="2026-11-29T13:00:00.000000Z")
        assert view.why(first)[1] == ["it is due and starts with the next tick"]
        assert view.why(second)[1] == ["1 due task comes before it"]
        assert "no worker has a handler" in view.why(unknown)[1][0]
        assert view.why(later)[1] == ["is due at 2026-11-29T13:00:00.000000Z"]
        seed.sql("INSERT INTO hold VALUES ('all', 'cli:ann', '2026-11-29T12:00:00.000000Z')")
        held_back = "everything is held by cli:ann (let it go on: taskdeck resume --all)"
        assert held_back in view.why(first)[1]


def test_where_no_worker_is_ready_it_is_told_which_one_starts_and_what_it_loads_first(seed: Seed) -> None:
    seed.sql("UPDATE worker SET state = 'STARTING' WHERE id = ?", seed.worker())
    task_id = seed.task()
    (seed.path.parent / "tasks.py").touch()
    config = settings(seed, 'handlers = ["tasks.py"]\n')
    with held(seed.path, role="engine", incarnation="x"), open_view(config, seed.clock) as view:
        (told,) = view.why(task_id)[1]
    assert told.startswith("no worker is ready yet: worker 1 starts since 2026-")
    assert told.endswith(f", and loads its handlers ({seed.path.parent / 'tasks.py'}) first")


def test_what_only_the_engine_knows_of_why_nothing_starts_is_told_by_every_look_at_a_task(seed: Seed) -> None:
    seed.running(seed.worker())
    task_id = seed.task()
    asked: list[str] = []

    def told() -> dict[str, object]:
        asked.append("ping")
        return {"stopping": True, "storage": {"pause": "the disk is full (make room)"}}

    with held(seed.path, role="engine", incarnation="x"), open_view(settings(seed), seed.clock, told) as view:
        reasons = ["the engine is stopping", "the disk is full (make room)"]
        assert view.why(task_id)[1] == view.task(task_id).waits == view.upcoming(1)[0].waits == reasons
        assert view.tasks(Filter(ids=((task_id, task_id),)))[0].waits == reasons
    asked.clear()
    with open_view(settings(seed), seed.clock, told) as view:
        assert "no engine runs" in view.why(task_id)[1][0]
    assert asked == []


def test_a_task_whose_route_is_being_verified_says_so_and_not_that_it_starts(
    seed: Seed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("taskdeck.engine.edge.identity.boot_id", lambda: "boot")
    seed.running(seed.worker())
    stock = Inventory(seed)
    stock.route(id="eu-1", url="http://proxy.example.net:3128", group="eu")
    text = '[routing]\nprobe_urls = ["https://judge.example.net/nonce"]\n[types.shell]\nroute_labels = ["fast"]\n'
    wanted, unfit = seed.task("fetch", {}, route="eu"), seed.task(route="eu")
    publish(seed, TypeInfo("fetch", "tasks.py"))
    with held(seed.path, role="engine", incarnation="x"), open_view(settings(seed, text), seed.clock) as view:
        told = ["route eu: eu-1 is being verified before a task gets one"]
        assert view.why(wanted)[1] == view.task(wanted).waits == told
        assert {task.id: task.waits for task in view.tasks(Filter())}[wanted] == told
        assert view.why(unfit)[1] == ["route eu: 0 of 1 usable: 1: it lacks the label fast"]
        stock.probed("eu-1", ms=80.0)
        assert view.why(wanted)[1] == ["it is due and starts with the next tick"]


@pytest.mark.parametrize(
    ("state", "word"), [("PAUSED", "resume"), ("NEEDS_REVIEW", "retry"), ("LOST", "taken over")]
)
def test_a_standing_task_says_what_can_be_done(seed: Seed, view: View, state: str, word: str) -> None:
    task_id = seed.task(state=state, reason="user_pause")
    assert word in view.task(task_id).waits[0]


def test_a_finished_or_running_task_waits_for_nothing(seed: Seed, view: View) -> None:
    done, running = seed.task(state="SUCCESS", reason="done"), seed.running(seed.worker())
    with held(seed.path, role="engine", incarnation="x"):
        assert view.task(done).waits == view.task(running).waits == []


def test_without_an_engine_a_running_task_says_that_it_stands_still_and_where_it_goes_on(
    seed: Seed, view: View
) -> None:
    task_id = seed.running(seed.worker())
    assert "goes on from the beginning" in view.why(task_id)[1][0]
    seed.sql(
        "INSERT INTO checkpoint(task_id, attempt_id, fence, seq, data, created_at) VALUES (?, 1, 1, 7, '{}', ?)",
        task_id,
        view.now,
    )
    assert "taskdeck run" in view.why(task_id)[1][0]
    assert "goes on from checkpoint 7" in view.task(task_id).waits[0]
    assert "its last checkpoint" in view.tasks(Filter())[0].waits[0]


def test_a_checkpoint_that_a_dead_worker_kept_without_an_engine_may_be_later_than_the_one_that_is_named(
    seed: Seed, view: View, tmp_path: Path
) -> None:
    task_id = seed.running(seed.worker())
    seed.sql("UPDATE worker SET journal = ?", str(tmp_path / "w.starts"))
    spool = Spool(tmp_path / "w.spool")
    save = Save(0, task_id, 1, '{"page": 9}')
    spool.add(save, bytes(encode_one(save)))
    spool.write()
    assert "from the beginning, or a later one that its worker kept" in view.why(task_id)[1][0]
    spool.recorded(1)
    assert view.why(task_id)[1][0].endswith("from the beginning)")


def test_a_missing_task_is_not_found(seed: Seed, view: View) -> None:
    with pytest.raises(NotFound):
        view.task(99)


def test_every_state_is_counted(seed: Seed, view: View) -> None:
    seed.task()
    seed.task(state="DEAD", reason="user_discard")
    counts = view.counts()
    assert len(counts) == 10
    assert (counts["PENDING"], counts["DEAD"], counts["RUNNING"]) == (1, 1, 0)


def test_a_summary_is_the_command_or_the_beginning_of_the_payload(seed: Seed, view: View) -> None:
    command = seed.task(payload={"argv": ["sh", "-c", "echo 'a b'"]})
    other, empty = seed.task("fetch", {"url": "x"}), seed.task("fetch", {})
    long = seed.task(payload={"argv": ["echo", "x" * 5000]})
    shown = {task.id: task.summary for task in view.tasks(Filter())}
    assert shown[command] == "sh -c 'echo '\"'\"'a b'\"'\"''"
    assert shown[other] == '{"url": "x"}'
    assert shown[empty] == ""
    assert len(shown[long]) == 1000


@fault("TF254", "TF257")
def test_only_a_held_lock_is_an_engine_whatever_the_lock_file_says(seed: Seed) -> None:
    config = settings(seed)
    assert not holder(config).running
    with held(seed.path, role="engine", incarnation="x", socket="/s"):
        found = holder(config)
        assert (found.running, found.incarnation, found.socket) == (True, "x", "/s")
    stale = Path(f"{seed.path}.lock")
    stale.write_text('{"pid": 1, "start_time": 1, "boot_id": "b", "role": "engine"}\n')
    before = stale.read_bytes()
    assert not holder(config).running
    assert stale.read_bytes() == before
    with held(seed.path, role="cli"):
        assert not holder(config).running


def test_the_engine_is_shown_with_its_row_or_the_last_that_ended(seed: Seed, view: View) -> None:
    assert not view.engine().running
    seed.worker()
    found = view.engine()
    assert (found.running, found.pid, found.version) == (False, 10, "0.1.0")
    with held(seed.path, role="engine", incarnation=found.incarnation or ""):
        assert view.engine().running
        assert view.engine().since == found.since


def test_waiting_for_a_change_ends_with_the_change_or_the_time(seed: Seed) -> None:
    class Writing(ManualClock):
        """Someone writes while we sleep for the third time."""

        slept = 0

        def sleep(self, seconds: float) -> None:
            super().sleep(seconds)
            self.slept += 1
            if self.slept == 3:
                seed.task()

    clock = Writing()
    with open_view(settings(seed), clock) as view:
        assert view.wait_for_change(60)
        assert clock.slept == 3
        assert not view.wait_for_change(1)


def test_a_whole_audit_is_verified_with_its_anchors(seed: Seed, view: View) -> None:
    for _ in range(5):
        seed.task()
    report = view.verify_audit()
    assert (report.ok, report.events, report.anchored_to) == (True, 5, None)
    anchor(seed, 3)
    report = view.verify_audit()
    assert (report.ok, report.anchored_to) == (True, 3)


@pytest.mark.parametrize(
    ("damage", "named"),
    [
        ("UPDATE event_log SET message = 'x' WHERE event_id = 3", 3),
        ("UPDATE event_log SET actor = 'cli:eve' WHERE event_id = 5", 5),
        ("DELETE FROM event_log WHERE event_id = 2", 2),
        ("DELETE FROM event_log WHERE event_id >= 4", 4),
        ("UPDATE event_head SET hash = 'x'", 5),
        (
            "INSERT INTO event_log SELECT 6, task_id, NULL, NULL, NULL, event_type, level, reason, actor, message,"
            " payload_json, created_at, hash FROM event_log WHERE event_id = 5",
            6,
        ),
        (
            "UPDATE event_log SET event_id = -2 WHERE event_id = 2; UPDATE event_log SET event_id = 2 WHERE event_id = 3;"
            "UPDATE event_log SET event_id = 3 WHERE event_id = -2",
            2,
        ),
    ],
)
def test_a_damaged_audit_names_the_first_row(seed: Seed, view: View, damage: str, named: int) -> None:
    for _ in range(5):
        seed.task()
    for trigger in ("event_log_is_append_only_u", "event_log_is_append_only_d"):
        seed.sql(f"DROP TRIGGER {trigger}")
    for statement in damage.split(";"):
        seed.sql(statement)
    report = view.verify_audit()
    assert not report.ok
    assert report.event_id == named


def test_a_tail_cut_with_its_head_is_told_by_the_anchor(seed: Seed, view: View) -> None:
    for _ in range(5):
        seed.task()
    anchor(seed, 5)
    seed.sql("DROP TRIGGER event_log_is_append_only_d")
    seed.sql("DELETE FROM event_log WHERE event_id > 3")
    seed.sql(
        "UPDATE event_head SET event_id = 3, count = 3, hash = (SELECT hash FROM event_log WHERE event_id = 3)"
    )
    report = view.verify_audit()
    assert (report.ok, report.event_id) == (False, 4)


def test_a_long_audit_is_walked_in_windows(seed: Seed, view: View, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("taskdeck.engine.store.reading.CHAIN_WINDOW", 4)
    for _ in range(9):
        seed.task()
    assert view.verify_audit().ok
    assert view.tasks(parse("state:pending"), 0)


def anchor(seed: Seed, event_id: int) -> None:
    row = (
        seed.database.connection()
        .execute("SELECT hash FROM event_log WHERE event_id = ?", (event_id,))
        .fetchone()
    )
    with open(f"{seed.path}.anchors", "a") as file:
        file.write(f"{event_id} {event_id} {row[0]} 2026-11-29T12:00:00.000000Z\n")


class FallingBack(ManualClock):
    """A wall clock that is set back by an hour at each sleep."""

    def sleep(self, seconds: float) -> None:
        super().sleep(seconds)
        self.step(-3600.0)


@fault("TF088")
def test_no_wait_is_longer_for_a_clock_that_is_set_back(seed: Seed) -> None:
    clock = FallingBack()
    with DatabaseLock(seed.path) as lock:
        assert lock.acquire()
        began = clock.monotonic()
        with pytest.raises(Unavailable, match="still there"):
            stopping.stop(settings(seed), lambda: None, Outlived, clock)
        assert clock.monotonic() - began < settings(seed).engine.stop_grace + stopping.SLACK + 1.0
    with DatabaseLock(seed.path, role="cli") as lock:
        assert lock.acquire()
        began = clock.monotonic()
        with pytest.raises(Unavailable):
            commands.call(settings(seed), "pause", "cli:ann", clock=clock, ids=[1])
        assert clock.monotonic() - began < commands.PATIENCE + 1.0
