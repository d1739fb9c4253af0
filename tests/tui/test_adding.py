from __future__ import annotations

import json
from dataclasses import fields
from datetime import UTC, datetime, timedelta

import pytest
import typer
from hypothesis import given
from hypothesis import strategies as st

from taskdeck.engine.errors import UsageError
from taskdeck.tui import adding
from taskdeck.tui.adding import Options, quick
from taskdeck.tui.commandline import CommandLine
from taskdeck.tui.grammar import Verbs
from taskdeck.tui.lines import read_specs
from taskdeck.tui.moments import after, at_time
from tests.faults import fault
from tests.tui.calls import Calls, without_database


def payload(taskdeck: Calls, task: int) -> dict:
    return taskdeck("show", str(task), "--json").lines[0]["payload"]


def test_a_task_may_have_a_bandwidth_of_its_own_on_the_command_line_and_in_a_file(taskdeck: Calls) -> None:
    task = (
        taskdeck("add", "--bandwidth", "1.5MB/s", "http", '{"url": "http://x.example/"}')
        .out.strip()
        .lstrip("#")
    )
    assert taskdeck("show", task, "--json").lines[0]["bandwidth"] == 1_500_000
    assert "1.5MB/s" in taskdeck("show", task).out
    (taskdeck.folder / "tasks.jsonl").write_text('{"command": ["true"], "bandwidth": "64kiB/s"}\n')
    task = taskdeck("add", "-f", "tasks.jsonl").out.strip().lstrip("#")
    assert taskdeck("show", task, "--json").lines[0]["bandwidth"] == 65_536
    for wrong in ("fast", "2 Mbit/s", "0B/s", "-1MB/s"):
        refused = taskdeck("add", f"--bandwidth={wrong}", "--", "true", code=2)
        assert "bandwidth" in refused.err
        assert wrong in refused.err


def test_the_quick_parser_knows_exactly_the_options_of_the_full_one() -> None:
    command = Verbs(name="taskdeck").get_command(None, "add")
    full = {option for parameter in command.params for option in parameter.opts if option.startswith("-")}
    assert {*adding.TEXTS, *adding.LISTS, *adding.NUMBERS, *adding.SWITCHES} == full - {"--help", "-h"}
    assert {field.name for field in fields(Options)} - {"type"} == {p.name for p in command.params} - {
        "type_",
        "help",
    }


def test_plain_words_are_read_quickly_and_all_else_is_left_to_the_full_parser() -> None:
    words = [
        "fetch",
        "{}",
        "--key=a=b",
        "--tag",
        "x",
        "--tag",
        "-y",
        "--priority",
        "5",
        "--wait",
        "-p",
        "n=1",
    ]
    assert quick(words) == Options(
        type="fetch", payload="{}", key="a=b", tag=["x", "-y"], priority=5, wait=True, param=["n=1"]
    )
    assert quick(["x", "-"]) == Options(type="x", payload="-")
    for odd in (
        ["--help"],
        ["--kye", "x"],
        ["--key"],
        ["--priority", "x"],
        ["a", "b", "c"],
        ["-fx"],
        ["--wait=1"],
    ):
        assert quick(odd) is None


@given(
    st.lists(
        st.sampled_from(["--key", "--tag", "--wait", "--retries", "-f", "a", "-", "3", "--x", "--tag=b", ""])
    )
)
def test_both_parsers_read_the_same(words: list[str]) -> None:
    found = quick(words)
    if found is None:
        return
    command = Verbs(name="taskdeck").get_command(None, "add")
    try:
        parsed = command.make_context("add", list(words)).params
    except typer.TyperException:
        pytest.fail(f"the full parser refuses {words}")
    for field in fields(Options):
        name = "type_" if field.name == "type" else field.name
        value = list(parsed[name]) if isinstance(parsed[name], tuple) else parsed[name]
        assert (value or None) == (getattr(found, field.name) or None)


def test_a_command_is_everything_behind_the_dashes(taskdeck: Calls) -> None:
    ended = taskdeck("add", "--tag", "t", "--", "echo", "--json", "--db", "x", "--", "a b")
    task = int(ended.out)
    assert payload(taskdeck, task)["argv"] == ["echo", "--json", "--db", "x", "--", "a b"]
    assert payload(taskdeck, task)["cwd"] == str(taskdeck.folder)


@without_database
def test_add_prints_the_id_alone_or_json(taskdeck: Calls) -> None:
    assert taskdeck("add", "--", "true").out == "1\n"
    assert taskdeck("add", "--json", "--", "true").lines == [{"id": 2, "created": True, "state": "PENDING"}]


def test_every_option_reaches_the_task(taskdeck: Calls) -> None:
    words = ["--priority", "5", "--key", "k", "--in", "2h", "--retries", "3", "--timeout", "1m30s"]
    words += [
        "--on-lost",
        "review",
        "--tag",
        "a",
        "--tag",
        "b",
        "--env",
        "NAME",
        "--env",
        "X=1",
        "--pause",
        "checkpoint",
    ]
    taskdeck("add", *words, "--cwd", "/", "--", "true")
    task = taskdeck("show", "1", "--json").lines[0]
    assert (task["priority"], task["key"], task["max_retry"], task["timeout"]) == (5, "k", 3, 90.0)
    assert (task["on_lost"], task["tags"]) == ("review", ["a", "b"])
    assert task["payload"] == {
        "argv": ["true"],
        "cwd": "/",
        "env": {"NAME": "env:NAME", "X": "1"},
        "pause": "checkpoint",
    }
    assert task["scheduled_at"] > task["created_at"]


def test_a_file_says_how_many_of_its_tasks_were_known_by_their_keys(taskdeck: Calls) -> None:
    file = taskdeck.folder / "keyed.jsonl"
    lines = [f'{{"command":["true"],"key":"k{number}"}}\n' for number in range(3)]
    file.write_text("".join(lines[:2]))
    assert taskdeck("add", "-f", str(file)).err == ""
    file.write_text("".join(lines))
    again = taskdeck("add", "-f", str(file))
    assert again.out.split() == ["1", "2", "3"]
    assert "2 of these 3 are known by their keys already; nothing was added for them" in again.err


def test_a_known_key_adds_nothing_and_prints_its_task(taskdeck: Calls) -> None:
    assert taskdeck("add", "--key", "k", "--", "true").out == "1\n"
    again = taskdeck("add", "--key", "k", "--", "true")
    assert again.out == "1\n"
    assert "nothing was added" in again.err


@without_database
@pytest.mark.parametrize(
    "words",
    [
        ["add"],
        ["add", "--"],
        ["add", "x", "--", "true"],
        ["add", "--env", "A", "x"],
        ["add", "--param", "a=1", "--", "true"],
        ["add", "-f", "nowhere.jsonl"],
        ["add", "-f", ".", "x"],
        ["add", "--priority", "1", "-f", "x"],
        ["add", "--at", "tomorrow", "--", "true"],
        ["add", "--at", "2020-01-01 00:00", "--", "true"],
        ["add", "--at", "17:00", "--in", "5m", "--", "true"],
        ["add", "--in", "soon", "--", "true"],
        ["add", "--timeout", "-1", "--", "true"],
        ["add", "--retries", "-1", "--", "true"],
        ["add", "--on-lost", "panic", "--", "true"],
        ["add", "--pause", "never", "--", "true"],
        ["add", "--cwd", "/nowhere", "--", "true"],
        ["add", "--kye", "x", "--", "true"],
        ["add", "x", "{}", "more"],
        ["add", "x", "--param", "a"],
        ["add", "x", "--param", "a=1", "--param", "a=2"],
        ["add", "x", "[1]", "--param", "a=1"],
    ],
)
def test_a_mistake_in_add_is_a_usage_error_and_makes_nothing(taskdeck: Calls, words: list[str]) -> None:
    ended = taskdeck(*words, code=2)
    assert ended.err.startswith("taskdeck: ")
    assert not taskdeck.db.exists()


@fault("TF273")
def test_an_unknown_parameter_is_refused_with_the_known_ones(taskdeck: Calls) -> None:
    (taskdeck.folder / "jobs.py").write_text(
        "import msgspec\nfrom taskdeck.engine import Context, task\n"
        "class Where(msgspec.Struct):\n    region: str\n    rows: int = 1\n"
        "@task('copy')\nasync def copy(ctx: Context, where: Where) -> None: ...\n"
    )
    (taskdeck.folder / "config.toml").write_text('[taskdeck]\nhandlers = ["jobs.py"]\n')
    refused = taskdeck("add", "copy", "--param", "regoin=eu", code=4)
    assert "regoin" in refused.err
    assert "region" in refused.err.replace("regoin", "")
    task = int(taskdeck("add", "copy", "--param", "region=eu", "--param", "rows=3").out)
    assert payload(taskdeck, task) == {"region": "eu", "rows": 3}
    assert payload(taskdeck, int(taskdeck("add", "copy", "-", stdin='{"region": "us"}').out)) == {
        "region": "us"
    }


def test_a_secret_is_refused_with_the_remedy_and_not_repeated(taskdeck: Calls) -> None:
    secret = "ghp_" + "abcdefghijklmnopqrstuvwxyz0123456789"
    ended = taskdeck("add", "--", "push", secret, code=4)
    assert secret not in ended.err
    assert "reference" in ended.err
    assert taskdeck("add", "--json", "--", "push", secret, code=4).error["code"] == "secret_in_input"


def test_a_file_of_tasks_is_added_whole(taskdeck: Calls) -> None:
    lines = [
        {"command": ["echo", "任务"], "key": "a", "timeout": "5m", "tags": ["x"]},
        {"command": ["true"], "env": {"A": "env:B"}, "retries": 0, "on_lost": "review", "priority": 7},
    ]
    file = taskdeck.folder / "tasks.jsonl"
    file.write_text("\n\n".join(json.dumps(line) for line in lines) + "\n")
    assert taskdeck("add", "-f", "tasks.jsonl").out == "1\n2\n"
    assert taskdeck("add", "--file=-", stdin='{"command": ["true"]}').out == "3\n"
    task = taskdeck("show", "2", "--json").lines[0]
    assert (task["max_retry"], task["on_lost"], task["priority"]) == (0, "review", 7)


@without_database
def test_all_bad_lines_of_a_file_are_named_and_nothing_is_added(taskdeck: Calls) -> None:
    file = taskdeck.folder / "tasks.jsonl"
    file.write_text(
        '{"command": ["true"]}\n{"comand": ["true"]}\n\n{"type": "a", "command": ["b"]}\nno json\n{}\n'
        '{"command": []}\n{"command": ["a"], "payload": 1}\n{"type": "x", "cwd": "/"}\n{"command": ["a"], "at": "x"}\n'
    )
    ended = taskdeck("add", "-f", "tasks.jsonl", code=2)
    assert [f"tasks.jsonl:{number}:" in ended.err for number in range(1, 11)] == [
        *(False, True, False, True, True, True, True, True, True, True)
    ]
    assert not taskdeck.db.exists()


def test_a_line_that_the_engine_refuses_is_named_by_its_number(taskdeck: Calls) -> None:
    file = taskdeck.folder / "tasks.jsonl"
    file.write_text('{"command": ["true"]}\n\n{"command": ["a"], "priority": -1}\n')
    assert "tasks.jsonl:3: priority" in taskdeck("add", "-f", "tasks.jsonl", code=2).err
    file.write_text('{"command": ["true"], "priority": -1}\n')
    assert "tasks.jsonl:1: priority" in taskdeck("add", "-f", "tasks.jsonl", code=2).err


def test_a_payload_in_a_file_is_handed_on_as_it_stands() -> None:
    number = "1" * 50
    specs = read_specs("f", f'{{"type": "x", "payload": {{"n": {number}, "n": 1.50}}}}')
    assert specs == {1: {"type": "x", "payload": f'{{"n": {number}, "n": 1.50}}'}}


NOW = datetime(2026, 11, 29, 12, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "utc"),
    [
        ("2026-12-24T17:00:00Z", "2026-12-24T17:00:00.000000Z"),
        ("2026-12-24T17:00:00+02:00", "2026-12-24T15:00:00.000000Z"),
        ("2026-12-24 17:00", "2026-12-24T16:00:00.000000Z"),
        ("14:30", "2026-11-29T13:30:00.000000Z"),
        ("12:30", "2026-11-30T11:30:00.000000Z"),
    ],
)
def test_times_are_local_unless_they_say_otherwise(
    monkeypatch: pytest.MonkeyPatch, text: str, utc: str
) -> None:
    with berlin(monkeypatch):
        assert at_time(text, NOW) == utc


@pytest.mark.parametrize(
    "text", ["2027-03-28 02:30", "noon", "2026-12-24", "17", "2026-13-01 10:00", "2026-11-29 12:59", ""]
)
def test_a_time_that_is_past_unclear_or_skipped_is_refused(
    monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    with berlin(monkeypatch), pytest.raises(UsageError):
        at_time(text, NOW)


@pytest.mark.parametrize("text", ["+1h", "1h", " + 1h "])
def test_a_length_of_time_given_as_a_time_is_told_the_option_that_takes_it(text: str) -> None:
    with pytest.raises(UsageError, match="write --in 1h; else write 17:00"):
        at_time(text, NOW)


def test_a_duration_from_now_is_utc_text() -> None:
    from taskdeck.engine.views import now, parse_utc

    assert timedelta(minutes=4) < parse_utc(after("5m")) - now() < timedelta(minutes=6)


class berlin:
    """The local zone is Berlin's."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._patch = monkeypatch

    def __enter__(self) -> None:
        import time

        self._patch.setenv("TZ", "Europe/Berlin")
        time.tzset()

    def __exit__(self, *_: object) -> None:
        import time

        self._patch.undo()
        time.tzset()


def test_a_word_behind_the_dashes_of_other_verbs_is_theirs() -> None:
    line = CommandLine(["list", "--json", "--", "-x", "--db"])
    assert (line.words, line.command, line.json) == (["list", "--", "-x", "--db"], None, True)


def test_what_a_task_needs_is_read_by_both_parsers_and_from_a_file() -> None:
    words = ["fetch", "--needs", "browser:2", "--needs=gpu", "--route", "eu", "--allow-direct"]
    options = quick(words)
    assert options is not None
    assert (options.needs, options.route, options.allow_direct) == (["browser:2", "gpu"], "eu", True)
    line = '{"type": "fetch", "needs": ["browser:2"], "route": "eu", "allow_direct": true}'
    assert read_specs("file", line)[1] == {
        "type": "fetch",
        "payload": "{}",
        "needs": ["browser:2"],
        "route": "eu",
        "allow_direct": True,
    }


@without_database
@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (["./job.sh"], "taskdeck add -- ./job.sh"),
        (["echo", "hi"], "taskdeck add -- echo hi"),
        (["echo"], "taskdeck add -- echo"),
        (["echo", "hi", "you"], "taskdeck add [OPTIONS] -- COMMAND"),
    ],
)
def test_a_command_without_its_dashes_is_told_how_it_is_written(
    taskdeck: Calls, words: list[str], meant: str
) -> None:
    assert meant in taskdeck("add", *words, code=None).err
    assert not taskdeck.db.exists()


def test_a_line_for_a_shell_as_one_word_is_refused_unless_a_program_has_that_name(taskdeck: Calls) -> None:
    assert "sh -c 'echo hi; sleep 1'" in taskdeck("add", "--", "echo hi; sleep 1", code=2).err
    (taskdeck.folder / "my job.sh").write_text("#!/bin/sh\n")
    taskdeck("add", "--", "./my job.sh")
    taskdeck("add", "--", "sh", "-c", "echo hi; sleep 1")


def test_a_configuration_that_is_not_read_is_named_where_a_handler_is_missed(taskdeck: Calls) -> None:
    file = taskdeck.folder / "config.toml"
    file.write_text('handlers = ["tasks.py"]\n')
    for words, code in ((["add", "greet"], 4), (["config", "check"], 0), (["config", "path"], 0)):
        assert f"{file} is not read: it has no [taskdeck] table" in taskdeck(*words, code=code).err
    assert (
        "not read" not in taskdeck("config", "check", "--db", "x.db", "--config", "other.toml", code=78).err
    )


def test_a_handler_file_that_fails_to_load_is_told_where_its_type_is_missed(taskdeck: Calls) -> None:
    (taskdeck.folder / "config.toml").write_text('[taskdeck]\nhandlers = ["tasks.py"]\n')
    (taskdeck.folder / "tasks.py").write_text("import nothing_here\n")
    told = taskdeck("add", "greet", code=4).err
    assert "tasks.py: ModuleNotFoundError: No module named 'nothing_here'" in told
    assert "failed to load" in told
    assert "name its file" not in told


def test_the_check_of_a_configuration_loads_its_handlers(taskdeck: Calls) -> None:
    (taskdeck.folder / "config.toml").write_text('[taskdeck]\nhandlers = ["tasks.py"]\n')
    tasks = taskdeck.folder / "tasks.py"
    tasks.write_text(
        'from taskdeck.engine import task\n\n@task("greet")\nasync def greet(ctx, params: dict): ...\n'
    )
    assert "types: greet" in taskdeck("config", "check").out
    tasks.write_text("import nothing_here\n")
    assert "No module named 'nothing_here'" in taskdeck("config", "check", code=78).err
    found = taskdeck("config", "check", "--json", code=78).lines[0]
    assert (found["ok"], len(found["problems"])) == (False, 1)


@fault("TF212")
def test_what_never_ends_is_not_read_for_ever(taskdeck: Calls, monkeypatch: pytest.MonkeyPatch) -> None:
    from taskdeck.tui import adding

    monkeypatch.setattr(adding, "LARGEST_INPUT", 1 << 20)
    assert (
        "/dev/zero is larger than 1 MiB (add it in parts)" in taskdeck("add", "-f", "/dev/zero", code=2).err
    )
    ended = taskdeck("add", "-f", "-", stdin="y\n" * (1 << 20), code=2)
    assert "standard input is larger than 1 MiB" in ended.err


@without_database
@fault("TF212")
def test_what_a_parameter_says_twice_or_without_end_is_refused_and_not_passed_over(taskdeck: Calls) -> None:
    for words, why in [
        (["-p", 'x={"a": 1, "a": 2}'], 'the key "a" stands twice'),
        (["-p", f"x={'[' * 20_000}"], "nested too deeply"),
        (["-p", f"x={'1' * 5_000}"], "too many digits"),
        (['{"a": 1, "a": 2}', "-p", "b=1"], 'the key "a" stands twice'),
        (['{"a":' * 20_000, "-p", "b=1"], "nested too deeply"),
    ]:
        assert why in taskdeck("add", "http", *words, code=2).err
    assert not taskdeck.db.exists()


@fault("TF212")
def test_a_line_that_says_a_thing_twice_or_is_nested_without_end_adds_nothing(taskdeck: Calls) -> None:
    deep = '{"type": "http", "payload":' + "[" * 20_000 + "]" * 20_000 + "}"
    lines = [
        '{"command": ["true"], "command": ["false"]}',
        '{"command": ["true"], "priority": 1, "priority": 2}',
        '{"command": ["true"], "env": {"A": "1", "A": "2"}}',
        '{"type": "http", "payload": {}, "payload": {}}',
        '{"type": "http", "payload": {}, "k\\u0065y": "a", "key": "b"}',
        deep,
    ]
    for line in lines:
        told = taskdeck("add", "-f", "-", stdin=line, code=2).err
        assert "standard input:1:" in told
        assert ("nested too deeply" if line is deep else "stands twice") in told
    ok = '\ufeff{"command": ["true"], "env": {"key": "\\"key\\"", "A": "\\u00e9"}, "key": "x"}\n'
    assert taskdeck("add", "-f", "-", stdin=ok).out == "1\n"


@without_database
def test_an_option_without_a_word_is_a_variable_that_was_not_set_and_never_a_task_without_it(
    taskdeck: Calls,
) -> None:
    for option in ("--route", "--target", "--cwd", "--tag", "--needs", "--key"):
        told = taskdeck("add", option, "", "--", "true", code=2).err
        assert told.count("\n") == 1, option
    for field in ("route", "target", "cwd"):
        taskdeck("add", "-f", "-", stdin=f'{{"command": ["true"], "{field}": ""}}', code=2)
    assert not taskdeck.db.exists()
    taskdeck("add", "--", "true")
    assert "no task id was given" in taskdeck("events", "--task", "", code=2).err
    assert "an empty word names no backup" in taskdeck("restore", "", code=3).err


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ('"cwd": 1', "cwd must be the whole path"),
        ('"cwd": "~/x"', "cwd must be the whole path"),
        ('"cwd": "/a\\u0000"', "cwd must be the whole path"),
        ('"env": {"A=B": "1"}', "'A=B' can't be the name of a variable"),
        ('"env": {"": "1"}', "'' can't be the name of a variable"),
    ],
)
def test_a_command_that_no_attempt_could_start_is_refused_when_it_is_added(
    taskdeck: Calls, more: str, why: str
) -> None:
    assert why in taskdeck("add", "shell", f'{{"argv": ["true"], {more}}}', code=4).err


def test_a_moment_that_utc_has_no_year_for_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    import time

    for zone, text in (("Europe/Berlin", "0001-01-01 00:00"), ("America/New_York", "9999-12-31 23:59")):
        monkeypatch.setenv("TZ", zone)
        time.tzset()
        with pytest.raises(UsageError, match="can't be read"):
            at_time(text)


def test_a_file_of_handlers_that_declares_no_task_is_told_by_the_check(taskdeck: Calls) -> None:
    (taskdeck.folder / "tasks.py").write_text("async def greet(ctx, params): ...\n")
    (taskdeck.folder / "config.toml").write_text('[taskdeck]\nhandlers = ["tasks.py"]\n')
    checked = taskdeck("config", "check")
    assert "tasks.py: it loads and declares no task" in checked.err
    assert "config.toml is right" in checked.out
    assert len(taskdeck("config", "check", "--json").lines[0]["warnings"]) == 1


@fault("TF202")
def test_settings_of_a_type_or_pool_that_nobody_declares_are_told_by_the_check(taskdeck: Calls) -> None:
    (taskdeck.folder / "tasks.py").write_text(
        'from taskdeck.engine import task\n\n@task("greet")\nasync def greet(ctx, params: dict): ...\n'
    )
    (taskdeck.folder / "config.toml").write_text(
        '[taskdeck]\nhandlers = ["tasks.py"]\n[types.greeet]\ntimeout = "1m"\n[types.greet]\nneeds = ["gqu:2"]\n'
    )
    told = taskdeck("config", "check").err
    assert 'config.toml:4: types.greeet: no handler declares this type (did you mean "greet"?)' in told
    assert "config.toml:6: types.greet.needs: no resource is in the pool gqu" in told
    assert len(taskdeck("config", "check", "--json").lines[0]["warnings"]) == 2
