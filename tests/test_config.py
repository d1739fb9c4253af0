"""Settings are found, laid over each other, checked as a whole, and traced to where they came from."""

# ruff: noqa: E501  (messages are quoted whole)

from __future__ import annotations

import os
import re
import tomllib
from operator import attrgetter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskdeck.engine.config import Config, load, passed_over, read_secrets
from taskdeck.engine.errors import ConfigError
from taskdeck.engine.rules.checks import Wrong, checks_of
from taskdeck.engine.rules.declarations import LISTS, declared_route
from taskdeck.engine.rules.settings import TABLES, TypeSettings
from taskdeck.engine.rules.toml_lines import key_lines, line_of
from tests.faults import fault

ROOT = Path(__file__).parent.parent


@pytest.fixture
def home(tmp_path: Path) -> Path:
    place = tmp_path / "home"
    place.mkdir()
    return place


def write(folder: Path, text: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "config.toml"
    file.write_text(text, encoding="utf-8")
    return file


def read(home: Path, text: str, **variables: str) -> Config:
    write(home, text)
    return load(environ={"HOME": str(home), **variables}, cwd=home)


def problems(home: Path, text: str, **variables: str) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        read(home, text, **variables)
    assert caught.value.exit_code == 78
    return [str(problem) for problem in caught.value.problems]


def test_without_a_file_every_value_is_the_default(home: Path):
    config = load(environ={"HOME": str(home)}, cwd=home)
    assert config.engine.lease == 300
    assert config.retry.max_retry == 5
    assert config.file is None
    assert config.db == home / ".local/state/taskdeck/taskdeck.db"
    assert config.log_directory == home / ".local/state/taskdeck/logs"
    assert {origin for _, _, origin in config.origins()} == {"default"}


def test_the_example_file_holds_the_defaults_and_every_key(home: Path):
    text = (ROOT / "config.toml").read_text(encoding="utf-8")
    example, defaults = read(home, text), Config()
    for name in TABLES:
        if name != "taskdeck":
            assert attrgetter(name)(example) == attrgetter(name)(defaults), name
    assert example.db == load(environ={"HOME": str(home)}, cwd=home / "elsewhere").db
    assert example.types == {}
    keys = {found.key for found in key_lines(text.replace("\n# ", "\n"))}
    expected = {(*name.split("."), key) for name, table in TABLES.items() for key in checks_of(table)}
    expected |= {("types", "fetch_data", key) for key in checks_of(TypeSettings)}
    expected |= {(name, "0", key) for name, table in LISTS.items() for key in checks_of(table)}
    assert expected <= keys


def test_the_examples_are_right_when_they_are_taken_out_of_their_comment(home: Path):
    text = (ROOT / "config.toml").read_text(encoding="utf-8")
    head, mark, tail = text.partition("# [types.fetch_data]")
    config = read(home, head + re.sub(r"(?m)^# (?=\[|[a-z_]+ = )", "", mark + tail))
    assert config.types["fetch_data"].exit_codes == {75: "retryable", 3: "delayed", 4: "fatal", 5: "success"}
    assert config.types["fetch_data"].needs == ("browser",)
    assert [each.id for each in config.resources] == ["browser-1", "browser-2", "browser-3"]
    assert [(each.id, each.shown(), each.secret_ref) for each in config.routes] == [
        ("eu-1", "http://ann@proxy.example.net:3128", "env:EU_PASSWORD")
    ]


def test_the_file_yields_to_the_environment_and_that_to_the_arguments(home: Path):
    text = '[taskdeck]\ndb = "file.db"\n[engine]\nworkers = 3\nslots = 5\n'
    write(home, text)
    environ = {"HOME": str(home), "TASKDECK_ENGINE__WORKERS": "8", "TASKDECK_DB": "env.db"}
    config = load(environ=environ, cwd=home, db=Path("argument.db"))
    origins = {key: (value, origin) for key, value, origin in config.origins()}
    assert origins["engine.workers"] == (8, "environment TASKDECK_ENGINE__WORKERS")
    assert origins["engine.slots"] == (5, "config.toml:5")
    assert origins["engine.lease"] == (300.0, "default")
    assert origins["taskdeck.db"] == (home / "argument.db", "argument --db")
    assert load(environ=environ, cwd=home).db == home / "env.db"


def test_the_file_is_looked_for_in_order(home: Path, tmp_path: Path):
    environ = {"HOME": str(home)}
    write(home / ".config/taskdeck", "[engine]\nworkers = 1\n")
    assert load(environ=environ, cwd=tmp_path).engine.workers == 1
    write(tmp_path / "xdg/taskdeck", "[engine]\nworkers = 2\n")
    environ["XDG_CONFIG_HOME"] = str(tmp_path / "xdg")
    assert load(environ=environ, cwd=tmp_path).engine.workers == 2
    write(tmp_path, "[taskdeck]\n[engine]\nworkers = 3\n")
    assert load(environ=environ, cwd=tmp_path).engine.workers == 3
    environ["TASKDECK_CONFIG"] = str(write(tmp_path / "four", "[engine]\nworkers = 4\n"))
    assert load(environ=environ, cwd=tmp_path).engine.workers == 4
    five = write(tmp_path / "five", "[engine]\nworkers = 5\n")
    assert load(path=five, environ=environ, cwd=tmp_path).engine.workers == 5


@pytest.mark.parametrize(
    "text", ["[tool.other]\nworkers = 9\n", 'key = "[taskdeck]"\n', "[engine]\nworkers = 9\n"]
)
def test_another_programs_config_file_is_left_alone(home: Path, text: str):
    assert read(home, text).file is None


@pytest.mark.parametrize("named_by", ["--config", "TASKDECK_CONFIG"])
def test_a_missing_file_is_one_precise_mistake(home: Path, named_by: str):
    path, environ = (Path("nosuch.toml"), {}) if named_by == "--config" else (None, {named_by: "nosuch.toml"})
    with pytest.raises(ConfigError) as caught:
        load(path=path, environ={"HOME": str(home), **environ}, cwd=home)
    message = f"nosuch.toml: there is no such file (named by {named_by}) (create it, or correct {named_by})"
    assert str(caught.value) == message


@fault("TF202")
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[taskdeck]\n[engine]\nmax_runing = 4\n", 'config.toml:3: engine.max_runing: unknown key (did you mean "max_running"?)'),
        ("[taskdeck]\n[engine]\nmax_retry = 4\n", "config.toml:3: engine.max_retry: unknown key in [engine] (it belongs in [retry] or [types.NAME])"),
        ("[taskdeck]\nmax_concurrancy = 4\n", 'config.toml:2: taskdeck.max_concurrancy: unknown key (did you mean "concurrency" in [shell] or [routing] or [types.NAME]?)'),
        ("workers = 4\n[taskdeck]\n", "config.toml:1: workers: this key stands in no table (it belongs in [engine])"),
        ("[taskdeck]\n[engin]\nworkers = 4\n", "config.toml:2: engin: unknown table (did you mean [engine]?)"),
        ("[taskdeck]\n[types.a]\ntimeuot = 4\n", 'config.toml:3: types.a.timeuot: unknown key (did you mean "timeout"?)'),
        ("[taskdeck]\nzzz = 4\n", "config.toml:2: taskdeck.zzz: unknown key (known here: db, handlers, logs)"),
        ("[taskdeck]\n[engine]\nworkers.count = 4\n", "config.toml:3: engine.workers: expected an integer 1..64, got a table (write for example 1)"),
        ("engine = 4\n[taskdeck]\n", "config.toml:1: engine: expected a table, got 4 (write [engine] on a line of its own)"),
    ],
)  # fmt: skip
def test_a_mistyped_or_misplaced_key_is_refused_with_its_line_and_the_nearest_key(
    home: Path, text: str, message: str
):
    assert problems(home, text) == [message]


def test_all_mistakes_are_told_at_once_each_with_its_line(home: Path):
    found = problems(
        home,
        """[taskdeck]
[engine]
workers = "two"
lease = "5 minutes"
slots = true
[retry]
base = -1
[logging]
level = "loud"
[types."a b"]
[types.x]
on_lost = "ignore"
exit_codes = { 300 = "fatal" }
""",
        TASKDECK_ENGINE__MAX_RUNNING="many",
    )
    assert [text.partition(": expected")[0] for text in found] == [
        "config.toml:3: engine.workers",
        "config.toml:4: engine.lease",
        "config.toml:5: engine.slots",
        "config.toml:7: retry.base",
        "config.toml:9: logging.level",
        "config.toml:10: types.a b: this can't be the name of a type (a type's name has 1 to 64 of A-Z a-z 0-9 _ . : -)",
        "config.toml:12: types.x.on_lost",
        "config.toml:13: types.x.exit_codes",
        "environment: TASKDECK_ENGINE__MAX_RUNNING",
    ]
    assert 'got "two"' in found[0]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[taskdeck]\n[engine]\nlease = 5m\n", 'config.toml:3: this is not TOML: Expected newline or end of document after a statement, column 10 (texts stand in quotes: key = "text")'),
        ("[taskdeck]\n[engine]\nslots = 1\nslots = 2\n", "config.toml:4: engine.slots: defined twice, first on line 3 (remove one of the two)"),
        ("[taskdeck]\n[engine]\n[retry]\n[engine]\n", "config.toml:4: engine: defined twice, first on line 2 (remove one of the two)"),
    ],
)  # fmt: skip
def test_bad_toml_is_one_precise_mistake(home: Path, text: str, message: str):
    assert problems(home, text) == [message]


@pytest.mark.parametrize(
    "text", ['[taskdeck\ndb = "deck.db"\n', "[other]\nkey = \n", "this is no TOML at all"]
)
def test_a_file_here_that_is_no_toml_is_never_passed_over_for_another_database(home: Path, text: str):
    (home / "config.toml").write_text(text)
    with pytest.raises(ConfigError) as caught:
        load(environ={"HOME": str(home)}, cwd=home)
    (problem,) = caught.value.problems
    assert (problem.file, problem.line is not None, bool(problem.remedy)) == ("config.toml", True, True)
    assert passed_over(environ={}, cwd=home) is None


@pytest.mark.parametrize(
    "text", ["[taskdeck]\nx = '''", "[taskdeck]\nx = " + "[" * 5000, "[taskdeck]\nx = " + "9" * 5000]
)
def test_any_unreadable_toml_ends_in_one_mistake(home: Path, text: str):
    assert len(problems(home, text)) == 1


def test_a_byte_that_is_not_utf8_is_told_with_its_line(home: Path):
    (home / "config.toml").write_bytes(b"[taskdeck]\n# \xff\n")
    with pytest.raises(ConfigError, match=r"config\.toml:2: a byte here is not UTF-8"):
        load(environ={"HOME": str(home)}, cwd=home)


def test_a_pipe_or_directory_as_file_is_refused_and_never_blocks(home: Path):
    os.mkfifo(home / "pipe")
    (home / "etc").mkdir()
    for name, what in [("pipe", "no regular file"), ("etc", "a directory")]:
        with pytest.raises(ConfigError, match=what):
            load(path=Path(name), environ={"HOME": str(home)}, cwd=home)


@fault("TF130", "TF206")
def test_paths_are_relative_to_the_file_that_names_them_from_wherever_it_is_read(home: Path, tmp_path: Path):
    file = write(
        home / "etc",
        '[taskdeck]\ndb = "data/t.db"\nlogs = "$STATE/logs"\nhandlers = ["tasks.py", "package.module"]\n',
    )
    (home / "etc/tasks.py").touch()
    environ = {"HOME": str(home), "STATE": "~x"}
    for folder in (home, tmp_path, home / "etc"):
        config = load(path=file, environ=environ, cwd=folder)
        assert config.db == home / "etc/data/t.db"
        assert config.log_directory == home / "etc/~x/logs"
        assert config.taskdeck.handlers == (str(home / "etc/tasks.py"), "package.module")
    assert load(path=Path("etc/config.toml"), environ=environ, cwd=home).db == home / "etc/data/t.db"
    assert load(path=file, environ={**environ, "TASKDECK_DB": "x.db"}, cwd=tmp_path).db == tmp_path / "x.db"


@fault("TF130", "TF206")
def test_a_base_folder_or_home_that_each_directory_reads_differently_is_passed_over(home: Path):
    write(home / ".config/taskdeck", "[engine]\nworkers = 3\n")
    for name in ("XDG_STATE_HOME", "XDG_CONFIG_HOME"):
        config = load(environ={"HOME": str(home), name: "rel"}, cwd=home / "other")
        assert config.db == home / ".local/state/taskdeck/taskdeck.db"
        assert config.engine.workers == 3
    anywhere = [load(environ={"HOME": name}, cwd=home).db for name in ("", ".", "rel")]
    assert anywhere == [load(environ={}, cwd=home).db] * 3


@fault("TF148", "TF206")
@pytest.mark.parametrize(
    "variable", ["XDG_STATE_HOME", "TASKDECK_DB", "TASKDECK_TASKDECK__LOGS", "TASKDECK_CONFIG"]
)
def test_a_place_that_no_message_could_name_is_refused_before_an_engine_starts(home: Path, variable: str):
    bad = os.fsdecode(bytes(home) + b"/caf\xe9")
    os.mkdir(bad)
    with pytest.raises(ConfigError, match="is not UTF-8"):
        load(environ={"HOME": str(home), variable: bad}, cwd=home)
    (home / "link").symlink_to(bad)
    with pytest.raises(ConfigError, match="is not UTF-8"):
        load(db=home / "link" / "t.db", environ={"HOME": str(home)}, cwd=home)


@fault("TF206")
@pytest.mark.parametrize("text", ["~/td/t.db", "$HOME/td/t.db", "${HOME}/td/t.db"])
def test_home_and_variables_are_expanded_and_missing_tables_take_defaults(home: Path, text: str):
    config = read(home, f'[taskdeck]\ndb = "{text}"\n')
    assert config.db == home / "td/t.db"
    assert config.engine == Config().engine
    assert config.log_directory == home / "td/logs"
    by_variable = load(environ={"HOME": str(home), "TASKDECK_DB": "~/td/t.db"}, cwd=home / "other")
    assert by_variable.db == config.db


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ('db = "$NOSUCH/t.db"', "the variable $NOSUCH is not set"),
        ('db = "~nosuchuser/t.db"', "there is no user"),
        ('db = "."', "is a directory"),
        ('db = ":memory:"', "the database must be a file"),
        ('db = ""', "expected a path"),
        ('db = "a\\u0000b"', "NUL"),
        ('logs = "config.toml"', "is not a directory"),
        ('handlers = ["nosuch.py"]', "there is no file"),
        ('handlers = ["not a module"]', "expected a .py file or an importable module"),
        ('handlers = "tasks.py"', "expected a list"),
    ],
)
def test_a_path_that_cannot_be_meant_is_refused(home: Path, text: str, what: str):
    (found,) = problems(home, f"[taskdeck]\n{text}\n")
    assert found.startswith("config.toml:2: taskdeck.")
    assert what in found


def test_two_names_of_one_database_are_one_path(home: Path):
    (home / "real").mkdir()
    (home / "link").symlink_to("real")
    environ = {"HOME": str(home)}
    assert load(environ=environ, cwd=home, db=Path("link/t.db")).db == home / "real/t.db"


@fault("TF265")
@pytest.mark.parametrize("text", ["/dev/null", "/dev/stderr", "pipe"])
def test_logs_in_a_device_or_pipe_are_refused(home: Path, text: str):
    os.mkfifo(home / "pipe")
    (found,) = problems(home, f'[taskdeck]\nlogs = "{text}"\n')
    assert "is not a directory" in found


@fault("TF265")
@pytest.mark.parametrize("text", ["/dev/full", "pipe", "link"])
def test_the_engines_own_log_in_a_device_or_pipe_is_refused_and_a_link_is_followed(home: Path, text: str):
    os.mkfifo(home / "pipe")
    (home / "link").symlink_to("pipe")
    (found,) = problems(home, f'[taskdeck]\n[logging]\nfile = "{text}"\n')
    assert "is no regular file" in found
    (home / "link").unlink()
    (home / "link").symlink_to("real.log")
    assert read(home, '[taskdeck]\n[logging]\nfile = "link"\n').logging.file == home / "real.log"
    assert read(home, '[taskdeck]\n[logging]\nfile = "/dev/null"\n').logging.file == Path("/dev/null")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('heartbeat = "2m"', "config.toml:3: engine.heartbeat: must be less than engine.suspect_after (1m30s, default), got 2m (change one of them)"),
        ('suspect_after = "5m"', "config.toml:3: engine.suspect_after: must be less than engine.lease (5m, default), got 5m (change one of them)"),
        ('lease = "1m"', "config.toml:3: engine.lease: must be more than engine.suspect_after (1m30s, default), got 1m (change one of them)"),
        ('[types.a]\nmax_delay = "1s"', "config.toml:4: types.a.max_delay: must be at least retry.base (30s, default), got 1s (change one of them)"),
    ],
)  # fmt: skip
def test_values_that_bound_each_other_are_checked(home: Path, text: str, message: str):
    assert problems(home, f"[taskdeck]\n[engine]\n{text}\n") == [message]


@fault("TF202")
@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("TASKDECK_ENGINE__WORKER", 'unknown key (did you mean "workers"?)'),
        ("TASKDECK_ENGIN__WORKERS", "unknown table (did you mean [engine]?)"),
        ("TASKDECK_ENGINE_WORKERS", "unknown variable (did you mean TASKDECK_ENGINE__WORKERS?)"),
        ("TASKDECK_WORKERS", "unknown variable (did you mean TASKDECK_ENGINE__WORKERS?)"),
        ("TASKDECK_MAX_RETRY", "unknown variable (did you mean TASKDECK_RETRY__MAX_RETRY?)"),
        ("TASKDECK_LOGS", "unknown variable (did you mean TASKDECK_TASKDECK__LOGS?)"),
        ("TASKDECK_DATABASE", "unknown variable (did you mean TASKDECK_DB?)"),
        ("TASKDECK_CONFIG_FILE", "unknown variable (did you mean TASKDECK_CONFIG?)"),
        ("TASKDECK_TYPES__TIMEOUT", "this names no key of a type"),
        ("TASKDECK_RESOURCES", "this sets nothing (write [[resources]] in a file)"),
        ("TASKDECK_TYPES", "this sets nothing (write TASKDECK_TYPES__NAME__KEY)"),
        ("TASKDECK_CONF", "unknown variable (did you mean TASKDECK_CONFIG?)"),
        ("TASKDECK_LOG_LEVEL", "unknown variable (did you mean TASKDECK_LOGGING__LEVEL?)"),
    ],
)
def test_a_mistyped_variable_is_refused(home: Path, name: str, what: str):
    (found,) = problems(home, "[taskdeck]\n", **{name: "3"})
    assert found.startswith(f"environment: {name}: {what}")


def test_variables_of_commands_are_no_settings(home: Path):
    names = "TASK_ID ATTEMPT CHECKPOINT FD MARK PROXY ROUTE RESOURCE RESOURCE_MY__POOL ROLLBACK ENGINE_PID SLOW ASCII"
    names = (
        *names.split(),
        "READ_ONLY",
        "SUPPRESS",
        "CRASH_AT",
        "CRASH_LOG",
        "CRASH_ONCE",
        "SUPERVISOR_FD",
        "OWN_THING",
    )
    assert read(home, "[taskdeck]\n", **{f"TASKDECK_{name}": "1" for name in names}).sources == {}


def test_variables_hold_lists_durations_and_types(home: Path):
    config = read(
        home,
        "[taskdeck]\n[types.Fetch]\ntimeout = 5\n",
        TASKDECK_SHELL__ENVIRONMENT="PATH, HOME",
        TASKDECK_ENGINE__LEASE="600",
        TASKDECK_TYPES__FETCH__TIMEOUT="1m",
        TASKDECK_TYPES__BATCH__EXIT_CODES='{ 3 = "fatal" }',
    )
    assert config.shell.environment == ("PATH", "HOME")
    assert config.engine.lease == 600
    assert config.types["Fetch"].timeout == 60
    assert config.types["batch"].exit_codes == {3: "fatal"}


def test_a_types_settings_fall_back_to_the_general_ones(home: Path):
    config = read(home, '[taskdeck]\n[retry]\nmax_retry = 7\n[types.a]\nbase = "1s"\n')
    assert config.for_type("a").base == 1
    assert config.for_type("a").max_retry == 7
    assert config.for_type("b").base == 30
    assert config.for_type("b").on_exhausted == "review"


def test_a_literal_secret_is_refused_and_never_repeated(home: Path):
    for text in ('values = ["hunter2"]', 'values = "hunter2"', 'values = ["env:A", "hunter2"]'):
        (found,) = problems(home, f"[taskdeck]\n[secrets]\n{text}\n")
        assert "hunter2" not in found
        assert "env:API_TOKEN" in found
    for text in ('password = "hunter2"', "x = hunter2", 'x = "hunter2'):
        (found,) = problems(home, f"[taskdeck]\n[secrets]\n{text}\n")
        assert "hunter2" not in found


def test_secrets_are_read_by_reference_and_the_missing_ones_told(home: Path):
    (home / "token").write_text("t0ken\n")
    (home / "token").chmod(0o600)
    config = read(
        home, '[taskdeck]\n[secrets]\nvalues = ["env:A", "file:~/token", "env:NOSUCH", "file:/no/such"]\n'
    )
    values, missing = read_secrets(config, {"A": "alpha", "HOME": str(home)})
    assert values == ["alpha", "t0ken"]
    assert [problem.what for problem in missing] == [
        "env:NOSUCH can't be read: there is no such variable",
        "file:/no/such can't be read: no such file or directory",
    ]


def test_lines_are_found_through_strings_lists_and_quoted_keys():
    text = '''a = """
[no]
b = 1"""
list = [ # ] comment
  "]", '#',
]
[t."x.y"]  # header
k.l = {m = 1}
[[many]]
n = 1
[[many]]
n = 2
'''
    lines = key_lines(text)
    assert [(found.key, found.line) for found in lines] == [
        (("a",), 1),
        (("list",), 4),
        (("t", "x.y"), 7),
        (("t", "x.y", "k", "l"), 8),
        (("many", "0"), 9),
        (("many", "0", "n"), 10),
        (("many", "1"), 11),
        (("many", "1", "n"), 12),
    ]
    assert line_of(lines, ("t", "x.y", "k", "l", "m")) == 8


@given(st.text(alphabet="[]{}=\"'#.,\n\\ a1", max_size=60))
def test_any_text_has_lines_and_every_key_of_good_toml_one(text: str):
    lines = key_lines(text)
    try:
        data = tomllib.loads(text)
    except ValueError:
        return
    assert all(line_of(lines, (key,)) for key in data if "\\" not in text)


DECLARED = """[taskdeck]
[[resources]]
id = "browser"
pool = "browser"
count = 2
labels = { kind = "firefox" }
[[resources]]
id = "gpu"
pool = "gpu"
capacity = 4
min_reuse = "2s"
[[routes]]
id = "eu-1"
url = "socks5h://an%20n@Proxy.example.net:1080"
password = "env:EU"
group = "eu"
expected_ip = "203.0.113.9"
[[routes]]
id = "here"
url = "direct://"
[types.fetch]
needs = ["browser:2", "gpu"]
route = "eu"
allow_direct = true
"""


def test_resources_and_routes_are_declared_in_lists_of_tables(home: Path):
    config = read(home, DECLARED)
    assert [(each.id, each.pool, each.capacity, each.min_reuse) for each in config.resources] == [
        ("browser-1", "browser", 1, 0),
        ("browser-2", "browser", 1, 0),
        ("gpu", "gpu", 4, 2),
    ]
    first, second = config.routes
    assert (first.scheme, first.host, first.port, first.username) == (
        "socks5h",
        "proxy.example.net",
        1080,
        "an n",
    )
    assert (first.secret_ref, first.group, first.expected_ip) == ("env:EU", "eu", "203.0.113.9")
    assert (second.shown(), second.group) == ("direct://", "default")
    assert config.types["fetch"].needs == ("browser:2", "gpu")
    assert (config.types["fetch"].route, config.types["fetch"].allow_direct) == ("eu", True)
    origins = {key: (value, origin) for key, value, origin in config.origins()}
    assert origins["resources.browser-2.labels"] == ({"kind": "firefox"}, "config.toml:6")
    assert origins["routes.eu-1.url"] == ("socks5h://an%20n@proxy.example.net:1080", "config.toml:14")
    assert origins["routes.here.group"] == ("default", "default")


def test_the_rules_of_routes_are_set_by_file_and_variables(home: Path):
    text = '[taskdeck]\n[routing]\ninterval_s = "2m"\n[routing.score]\nenter = 30\n[routing.blocked]\nstatuses = [403]\n'
    routing = read(
        home, text, TASKDECK_ROUTING__COOLDOWN__BASE_S="1s", TASKDECK_ROUTING__JITTER="0.5"
    ).routing
    assert (routing.interval_s, routing.jitter, routing.score.enter, routing.score.leave) == (
        120,
        0.5,
        30,
        60,
    )
    assert (routing.cooldown.base_s, routing.blocked.statuses) == (1, (403,))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[[routes]]\nid = "a"\n', 'config.toml:2: routes[a]: "url" is missing (write id = "eu-1" and url = "http://user@host:port")'),
        ('[[routes]]\nurl = "direct://"\n[[routes]]\nid = "b"\nurl = "direct://"\n', 'config.toml:2: routes[#1]: "id" is missing (write id = "eu-1" and url = "http://user@host:port")'),
        ('[[routes]]\nid = "a"\nurl = "direct://"\ngrop = "x"\n', 'config.toml:5: routes[a].grop: unknown key (did you mean "group"?)'),
        ('[[routes]]\nid = "a"\nurl = "direct://"\ninterval_s = 1\n', "config.toml:5: routes[a].interval_s: unknown key in [[routes]] (it belongs in [routing])"),
        ('[[routes]]\nid = "a b"\nurl = "direct://"\n', 'config.toml:3: routes[#1].id: expected a name of 1 to 64 of A-Z a-z 0-9 _ . -, got "a b" (write for example "eu-1")'),
        ('[[routes]]\nid = "a"\nurl = "direct://"\n[[routes]]\nid = "a"\nurl = "http://h:1"\n', "config.toml:6: routes[a].id: a is declared twice, first on line 3 (name one of them otherwise)"),
        ('[[routes]]\nid = "a"\nurl = "http://H:1"\n[[routes]]\nid = "b"\nurl = "http://h:1/"\n', "config.toml:7: routes[b].url: another route has this url, first on line 4 (remove one of the two)"),
        ('[[routes]]\nid = "a"\nurl = "socks5://u@h:1"\n', "config.toml:4: routes[a].url: SOCKS5 needs a name and a password, or neither (correct url or password)"),
        ('[[routes]]\nid = "a"\nurl = "http://u@h:1"\nexpected_ip = "203.0.113.7/24"\n', 'config.toml:5: routes[a].expected_ip: expected an IP address or a network, got "203.0.113.7/24" (write for example "203.0.113.0/24")'),
        ('[routes]\nid = "a"\n', "config.toml:2: routes: expected a list of tables, got a table (write [[routes]] above each of them; settings for all routes stand in [routing])"),
        ('[[resources]]\nid = "b"\npool = "b"\ncount = 2\n[[resources]]\nid = "b-2"\npool = "b"\n', "config.toml:7: resources[b-2].id: b-2 is declared twice, first on line 3 (name one of them otherwise)"),
        ('[[resources]]\nid = "b"\npool = "b"\n[types.a]\nneeds = ["c"]\n', 'config.toml:6: types.a.needs: there is no pool "c" (declared: b)'),
        ('[[resources]]\nid = "b"\npool = "b"\n[types.a]\nneeds = ["b:2"]\n', 'config.toml:6: types.a.needs: pool "b" has 1, not 2 (declare more of them, or need fewer)'),
        ('[types.a]\nneeds = ["b:x"]\n', 'config.toml:3: types.a.needs: "b:x" is no need; write POOL or POOL:COUNT, such as browser:2 (write for example ["browser:2"])'),
        ("[routing.score]\nenter = 70\n", "config.toml:3: routing.score.enter: must be at most routing.score.leave (60, default), got 70 (change one of them)"),
        ("[routing.scor]\nenter = 70\n", "config.toml:2: routing.scor: unknown key (did you mean [routing.score]?)"),
        ("[routing]\nscore = 70\n", "config.toml:3: routing.score: expected a table, got 70 (write [routing.score] on a line of its own)"),
        ('[routing]\nprobe_urls = ["https://u:pw@h/"]\n', 'config.toml:3: routing.probe_urls: expected URLs with http or https and no login (write ["https://judge.example.net/nonce"])'),
    ],
)  # fmt: skip
def test_a_mistake_in_a_declaration_is_told_with_its_line_and_remedy(home: Path, text: str, message: str):
    assert problems(home, f"[taskdeck]\n{text}") == [message]


@pytest.mark.parametrize(
    ("url", "code"),
    [
        ("1.2.3.4:8080", "E_SCHEME"),
        ("ftp://1.2.3.4:21", "E_SCHEME"),
        ("http://1.2.3.4", "E_PORT_MISSING"),
        ("http://ann@h.example.net:", "E_PORT_MISSING"),
        ("http://1.2.3.4:0", "E_HOSTPORT"),
        ("http://1.2.3.4:99999", "E_HOSTPORT"),
        ("http://999.1.1.1:80", "E_HOSTPORT"),
        ("http://h:80/path", "E_HOSTPORT"),
        ("http://h:hunter2", "E_HOSTPORT"),
        ("http://ann:hunter2:h:80", "E_HOSTPORT"),
        ("http://2001:db8::1:1080", "E_IPV6_BRACKETS"),
        ("http://h:80/@other:80", "E_LOGIN"),
        ("http://%ff@h:80", "E_LOGIN"),
        ("direct://h:80", "E_HOSTPORT"),
        ("http://ann:hunter2@h:80", "a password stands in the url"),
    ],
)
def test_a_wrong_url_is_told_by_its_code_and_never_repeated(home: Path, url: str, code: str):
    (found,) = problems(home, f'[taskdeck]\n[[routes]]\nid = "a"\nurl = "{url}"\n')
    assert found.startswith(f"config.toml:4: routes[a].url: {code}")
    assert "hunter2" not in found


@fault("TF188")
def test_a_password_may_stand_without_a_name(home: Path):
    text = '[taskdeck]\n[[routes]]\nid = "a"\nurl = "http://h.example.net:1"\npassword = "env:KEY"\n'
    (found,) = read(home, text).routes
    assert (found.username, found.secret_ref) == ("", "env:KEY")


def test_the_login_of_a_route_is_no_url_of_its_own(home: Path):
    text = '[taskdeck]\n[[routes]]\nid = "a"\nurl = "http://u@h:1"\npassword = "hunter2"\n'
    (found,) = problems(home, text)
    assert found == (
        "config.toml:5: routes[a].password: expected a reference to the password, not the password itself "
        '(write "env:NAME", "file:/path", "cred:NAME" or "cmd:PROGRAM ARGUMENTS", and put it there)'
    )
    assert (
        "[2001:db8::1]:80"
        in read(home, '[taskdeck]\n[[routes]]\nid="a"\nurl="http://[2001:DB8::1]:80"\n').routes[0].shown()
    )


def test_a_routes_password_is_read_at_use_and_masked_everywhere(home: Path):
    (home / "pw").write_text("hunter2\n")
    (home / "pw").chmod(0o644)
    text = "".join(
        f'[[routes]]\nid = "{name}"\nurl = "http://u@{name}:1"\npassword = "{reference}"\n'
        for name, reference in [("a", "env:A"), ("b", "file:~/pw"), ("c", "env:NOSUCH")]
    )
    config = read(home, "[taskdeck]\n" + text)
    environ = {"A": "alpha", "HOME": str(home)}
    values, found = read_secrets(config, environ)
    assert values == ["alpha", "hunter2"]
    assert [str(problem) for problem in found] == [
        "config.toml:9: routes.b.password: file:~/pw can't be read: others than its owner may use it (0644) "
        f"(chmod 600 {home}/pw)",
        "config.toml:13: routes.c.password: env:NOSUCH can't be read: there is no such variable "
        "(set it where taskdeck starts)",
    ]
    (home / "pw").chmod(0o600)
    assert len(read_secrets(config, environ)[1]) == 1


def test_a_route_from_elsewhere_is_checked_like_one_in_the_file():
    found = declared_route({"id": "a", "url": "http://u@h:1", "password": "env:PW", "group": "eu"})
    assert (found.shown(), found.secret_ref, found.group) == ("http://u@h:1", "env:PW", "eu")
    for raw, what in [
        ({"id": "a", "url": "http://u:hunter2@h:1"}, "url: a password stands in the url"),
        ({"id": "a"}, "url: it is missing"),
        ({"id": "a b", "url": "direct://"}, "id: expected a name"),
        ({"id": "a", "url": "direct://", "x": 1}, "x: unknown"),
    ]:
        with pytest.raises(Wrong) as caught:
            declared_route(raw)
        assert caught.value.what.startswith(what)
