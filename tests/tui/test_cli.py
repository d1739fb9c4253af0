from __future__ import annotations

import errno
import os
import shlex
import signal
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from taskdeck.engine import commands
from taskdeck.engine.config import load
from taskdeck.engine.edge.locks import DatabaseLock
from taskdeck.engine.errors import StoreError, TaskdeckError
from taskdeck.engine.rules.new_task import new_task
from taskdeck.engine.store.read_only import open_read_only
from taskdeck.tui import grammar, output, running
from taskdeck.tui.cli import main
from taskdeck.tui.telling import MOST_LINES
from tests.faults import fault
from tests.seeded import Seed
from tests.tui.calls import PROGRAM, Calls, without_database
from tests.tui.frozen import frozen


def files(folder: Path) -> dict[str, tuple[int, int]]:
    return {str(each): (each.stat().st_size, each.stat().st_mtime_ns) for each in folder.rglob("*")}


def test_the_version_is_printed(taskdeck: Calls) -> None:
    from taskdeck.engine import __version__

    assert taskdeck("--version").out == f"taskdeck {__version__}\n"


def test_alone_it_prints_the_status_and_a_hint(taskdeck: Calls) -> None:
    ended = taskdeck()
    assert "not running" in ended.out
    assert "taskdeck add -- COMMAND" in ended.out
    assert "not running" in taskdeck.process_on_terminal(TERM="dumb").out


@fault("TF257")
@pytest.mark.parametrize(
    "words", [[], ["status"], ["list"], ["show", "1"], ["events"], ["worker", "list"], ["why", "1"]]
)
def test_looking_changes_and_creates_no_file(taskdeck: Calls, words: list[str]) -> None:
    before = files(taskdeck.folder)
    taskdeck(*words, code=None)
    assert files(taskdeck.folder) == before
    seed = Seed(taskdeck.db)
    seed.task()
    seed.close()
    Path(f"{taskdeck.db}.lock").write_text('{"pid": 1, "start_time": 1, "boot_id": "b", "role": "engine"}')
    before = files(taskdeck.folder)
    taskdeck(*words)
    assert files(taskdeck.folder) == before


@fault("TF256", "TF254")
@pytest.mark.parametrize("pid", [0, 1, 2**22 + 1])
def test_stop_says_that_nothing_runs_whatever_number_a_stale_file_holds(taskdeck: Calls, pid: int) -> None:
    pid = pid or os.getpid()  # a living stranger's
    Path(f"{taskdeck.db}.lock").write_text(
        f'{{"pid": {pid}, "start_time": 1, "boot_id": "b", "role": "engine"}}'
    )
    assert "was not running" in taskdeck("stop").out
    assert taskdeck("stop", "--json").lines == [{"stopped": False, "message": "the engine was not running"}]


@without_database
def test_status_is_one_object_with_and_without_a_database(taskdeck: Calls) -> None:
    nothing = taskdeck("status", "--json").lines[0]
    assert nothing["engine"]["running"] is False
    assert nothing["exists"] is False
    seed = Seed(taskdeck.db)
    seed.task()
    seed.close()
    found = taskdeck("status", "--json").lines[0]
    assert found["counts"]["PENDING"] == 1
    names = "database exists engine stopping config counts workers holds leftovers anchor storage descendants"
    names += " alerts unhandled gave_up answers"
    assert set(found) == set(nothing) == set(names.split())


def test_a_closed_stream_is_nobodys_from_now_on(tmp_path: Path) -> None:
    for fd in (0, 1):
        kept = os.dup(fd)
        os.close(fd)
        try:
            output.prepare()
            with open(tmp_path / "database", "w") as file:
                assert file.fileno() != fd
            assert os.path.samestat(os.fstat(fd), os.stat(os.devnull))
            assert os.get_inheritable(fd)  # by an engine too
            if fd == 1:
                with pytest.raises(OSError, match="Bad file descriptor"):
                    os.write(fd, b"it stays closed")
        finally:
            os.dup2(kept, fd)
            os.close(kept)


def test_an_engine_needs_no_directory_that_it_was_started_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (gone := tmp_path / "gone").mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert load(environ={"TASKDECK_DB": str(tmp_path / "x.db")}, cwd=tmp_path).handlers_root == Path("/")


@fault("TF257")
def test_status_tells_the_rest_where_another_user_keeps_the_anchors_to_himself(
    taskdeck: Calls, seed: Seed
) -> None:
    seed.task()
    (taskdeck.folder / "taskdeck.db.anchors").mkdir()  # can't be read, by root neither
    (found,) = taskdeck("status", "--json").lines
    assert found["counts"]["PENDING"] == 1
    assert found["anchor"] is None
    assert "anchors can't be read" in found["anchor_trouble"]
    assert "anchors can't be read" in taskdeck("status").out


def test_what_the_system_keeps_from_us_is_exit_77_and_what_is_broken_is_not(tmp_path: Path) -> None:
    class Kept(DatabaseLock):
        number = 0

        def acquire(self) -> bool:
            raise OSError(self.number, "no")

    for number, code in ((errno.EACCES, 77), (errno.EPERM, 77), (errno.EROFS, 1)):
        Kept.number = number
        with pytest.raises(TaskdeckError, match="can't be made") as told:
            commands.take(Kept(tmp_path / "taskdeck.db"))
        assert told.value.exit_code == code
    (loop := tmp_path / "loop.db").symlink_to(loop)
    with pytest.raises(StoreError, match="Too many levels of symbolic links"):
        open_read_only(loop)


def test_status_fits_the_screen_tells_trouble_first_and_what_comes_next(taskdeck: Calls, seed: Seed) -> None:
    seed.running(seed.worker())
    for state in ("SUCCESS", "PAUSED", "PENDING", "RETRYING", "CANCELLED", "FAILED", "NEEDS_REVIEW"):
        seed.task(state=state, reason="done")
    seed.sql("INSERT INTO hold VALUES ('all', 'cli:ann', '2026-11-29T12:00:00.000000Z')")
    shown = taskdeck.on_terminal("status", NO_COLOR="1").out
    assert all(len(line) <= 80 for line in shown.splitlines())
    words = " ".join(shown.split())
    assert words.index("1 ⚑ needs review") < words.index("1 ✗ failed") < words.index("1 ✓ success")
    assert "1 ▸ stands still" in words
    assert "workers" not in words
    assert "taskdeck resume --all" in words
    assert "next taskdeck list state:needs_review" in words
    assert "taskdeck run (3 tasks wait for an engine)" in words


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (["stauts"], "did you mean `status`?"),
        (["list", "--jsn"], "did you mean `--json`?"),
        (["list", "--limt", "3"], "did you mean `--limit`?"),
        (["list", "--limit", "x"], "--limit"),
        (["list", "stat:failed"], "did you mean state?"),
        (["list", "state:faild"], "did you mean failed?"),
        (["show"], "ID"),
        (["show", "1", "2"], "takes one"),
        (["cancel"], "no task was named"),
        (["cancel", "3-1"], "runs backwards"),
        (["wait", "1", "--timeout", "soon"], "--timeout"),
        (["run", "--max-wait", "5s"], "--until-idle"),
        (["--db"], "--db names no file"),
        (["audit", "verfy"], "verfy"),
        (["pause", "1", "--all"], "exclude each other"),
    ],
)
def test_a_usage_mistake_is_one_line_with_a_hint_and_exit_2(
    taskdeck: Calls, seed: Seed, words: list[str], hint: str
) -> None:
    seed.task()
    seed.task()
    ended = taskdeck(*words, code=2)
    assert hint in ended.err
    assert ended.err.startswith("taskdeck: ")
    assert ended.out == ""


def test_help_is_written_for_every_verb(taskdeck: Calls) -> None:
    from taskdeck.tui.grammar import VERBS

    text = taskdeck("--help").out
    assert len(text.splitlines()) <= 22, "it fits a screen of 24 lines with the prompts around it"
    assert max(map(len, text.splitlines())) <= 79
    told = {word.strip(",") for line in text.splitlines() for word in line[:18].split()}
    assert set(VERBS) <= told
    for verb in VERBS:
        assert "--json" in taskdeck(verb, "-h").out or verb in (
            "resource",
            "route",
            "worker",
            "audit",
            "config",
            "op",
            "operation",
        )


@pytest.mark.parametrize("group", ["op", "worker", "audit", "config", "resource", "route"])
def test_a_group_without_a_verb_prints_its_help_as_it_is(taskdeck: Calls, group: str) -> None:
    ended = taskdeck(group, code=2)
    assert ended.err == taskdeck(group, "--help").out
    assert taskdeck(group, "--json", code=2).error["what"] == f"taskdeck {group} needs a verb"


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (["tail", "3"], "`taskdeck log --follow ID`"),
        (["abort", "3"], "`taskdeck cancel ID`"),
        (["ls"], "`taskdeck list`"),
        (["-v"], "`--version`"),
    ],
)
def test_the_words_of_other_programs_are_understood(taskdeck: Calls, words: list[str], meant: str) -> None:
    assert f"did you mean {meant}?" in taskdeck(*words, code=2).err


def test_help_is_a_verb_too(taskdeck: Calls) -> None:
    assert taskdeck("help").out == taskdeck("--help").out
    assert taskdeck("help", "why").out == taskdeck("why", "--help").out


def test_errors_are_one_json_object_where_json_is_asked_for(taskdeck: Calls, seed: Seed) -> None:
    for words, code, name in [
        (["show", "99", "--json"], 3, "not_found"),
        (["--json", "list", "stat:x"], 2, "usage"),
        (["nothing", "--json"], 2, "usage"),
        (["list", "--json", "--nope"], 2, "usage"),
    ]:
        ended = taskdeck(*words, code=code)
        assert ended.error["code"] == name
        assert set(ended.error) == {"code", "what", "why", "remedy"}


@without_database
def test_a_missing_database_is_exit_3_with_the_next_command(taskdeck: Calls) -> None:
    assert "taskdeck add" in taskdeck("list", code=3).err


def test_another_schema_is_exit_4(taskdeck: Calls, seed: Seed) -> None:
    seed.sql("PRAGMA user_version = 99")
    assert "schema 99" in taskdeck("list", code=4).err


@pytest.mark.parametrize("place", [0, 1, 2])
def test_common_options_may_stand_anywhere(taskdeck: Calls, tmp_path: Path, place: int) -> None:
    other = Seed(tmp_path / "other.db")
    other.task("elsewhere", {})
    other.close()
    for common in (["--db", "other.db"], ["--db=other.db"]):
        words = ["list", "type:elsewhere"]
        words[place:place] = [*common, "--json"]
        assert len(taskdeck(*words).lines) == 1


def test_a_bad_id_or_number_is_named_with_what_is_wanted(taskdeck: Calls, seed: Seed) -> None:
    seed.task()
    seed.close()
    for word in ("5-", "1--3", "3-#"):
        assert f"`{word}` is no id (write ids" in taskdeck("cancel", word, "--yes", code=2).err
    for verb in ("show", "wait", "cancel"):
        told = taskdeck(verb, "abcxyz", code=3).err
        assert "no task matches `abcxyz`: `abcxyz` is no id, and was searched as text (write ids" in told
    assert "'x' is not a number from 0.05 to 10000 (see" in taskdeck("chaos", "--minutes", "x", code=2).err
    assert "'x' is not a whole number from 0 (see" in taskdeck("list", "--limit", "x", code=2).err


def test_the_one_task_that_was_found_by_its_text_is_told_as_such(taskdeck: Calls, seed: Seed) -> None:
    task_id = seed.task(payload='{"argv": ["echo", "abcxyz"]}')
    seed.close()
    for verb in ("show", "why"):
        shown = taskdeck(verb, "abcxyz")
        assert f"#{task_id} is the one task that matches `abcxyz`, which is no id" in shown.err
        assert f"#{task_id}" in shown.out
        assert taskdeck(verb, str(task_id)).err == taskdeck(verb, "type:shell").err == ""


@fault("TF202")
def test_every_mistake_of_a_configuration_is_listed_and_exit_78(taskdeck: Calls) -> None:
    file = taskdeck.folder / "config.toml"
    file.write_text('[taskdeck]\n[engine]\nworkrs = 4\nlease = "two"\n[retry]\nworkers = 3\n')
    ended = taskdeck("config", "check", code=78)
    assert len(ended.err.splitlines()) == 3
    assert 'config.toml:3: engine.workrs: unknown key (did you mean "workers"?)' in ended.err
    assert taskdeck("list", code=78).err == ended.err
    problems = taskdeck("list", "--json", code=78).error["problems"]
    assert [problem["line"] for problem in problems] == [3, 4, 6]


@fault("TF206", "TF130")
def test_the_same_files_are_used_from_every_folder(taskdeck: Calls, tmp_path: Path) -> None:
    home = tmp_path / "there"
    home.mkdir()
    file = home / "config.toml"
    file.write_text('[taskdeck]\ndb = "data/x.db"\n')
    del taskdeck.environment["TASKDECK_DB"]
    shown = set()
    for name in ("a", "b", "there"):
        taskdeck.folder = tmp_path / name
        taskdeck.folder.mkdir(exist_ok=True)
        lines = taskdeck("config", "show", "--config", str(file), "--origin", "--json").lines
        shown.add(next(line["value"] for line in lines if line["key"] == "taskdeck.db"))
        assert {line["origin"] for line in lines if line["key"] == "engine.workers"} == {"default"}
    assert shown == {str(home / "data" / "x.db")}


def test_a_first_configuration_is_made_valid_private_and_never_overwritten(taskdeck: Calls) -> None:
    taskdeck.environment["XDG_CONFIG_HOME"] = str(taskdeck.folder / "xdg")
    made = Path(taskdeck("config", "init").out.strip())
    assert made == taskdeck.folder / "xdg" / "taskdeck" / "config.toml"
    assert made.stat().st_mode & 0o777 == 0o600
    assert str(made) in taskdeck("config", "check").out
    assert taskdeck("config", "path").out.strip() == str(made)
    assert "exists already" in taskdeck("config", "init", code=4).err


@fault("TF270")
@pytest.mark.parametrize("words", [["list", "--json", "--limit", "0"], ["list"], ["events", "--limit", "0"]])
def test_a_reader_that_goes_away_ends_it_quietly_with_141(
    taskdeck: Calls, seed: Seed, words: list[str]
) -> None:
    with seed.writing() as tx:
        for _ in range(3000):
            tx.event("STEP_STARTED", actor="engine", message="x" * 50)
    with seed.writing() as tx:
        from taskdeck.engine.store import tasks

        for _ in range(600):
            tasks.create(tx, new_task("x", '{"pad": "%s"}' % ("x" * 200)), "cli:test")
    words = [*words, "--limit", "0"] if words == ["list"] else words
    process = subprocess.Popen(
        [*PROGRAM, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=taskdeck.environment
    )
    assert process.stdout
    assert process.stderr
    process.stdout.readline()
    process.stdout.close()
    assert process.wait(20) == 141
    assert process.stderr.read() == b""
    process.stderr.close()


@fault("TF270")
def test_a_closed_output_ends_it_quietly_and_a_full_one_with_a_line(taskdeck: Calls, seed: Seed) -> None:
    seed.task()
    for words in (["list"], ["show", "1", "--json"], ["--version"], ["--help"], ["list", "--help"]):
        shut = closed(taskdeck, *words)
        assert (shut.returncode, shut.stderr) == (141, ""), words
    full = unheard(taskdeck, "list")
    assert full.returncode == 1
    assert full.stderr.startswith("taskdeck: the output can't be written: No space left")
    assert len(full.stderr.splitlines()) == 1


def unheard(taskdeck: Calls, *words: str, to: str = ">/dev/full") -> subprocess.CompletedProcess[str]:
    """A call whose standard output leads to a full disk, or elsewhere (`to`, as a shell writes it)."""
    shell = shlex.join([*PROGRAM, *words])
    return subprocess.run(
        ["sh", "-c", f"exec {shell} {to}"],
        capture_output=True,
        text=True,
        cwd=taskdeck.folder,
        env=taskdeck.environment,
        check=False,
    )


def unread(taskdeck: Calls, *words: str) -> subprocess.CompletedProcess[str]:
    """A call whose reader has gone before it says anything."""
    theirs, ours = os.pipe()
    os.close(theirs)
    try:
        return subprocess.run(
            [*PROGRAM, *words],
            stdout=ours,
            stderr=subprocess.PIPE,
            text=True,
            cwd=taskdeck.folder,
            env=taskdeck.environment,
            check=False,
        )
    finally:
        os.close(ours)


def closed(taskdeck: Calls, *words: str) -> subprocess.CompletedProcess[str]:
    """A call without a standard output."""
    return unheard(taskdeck, *words, to=">&-")


WRITING = [
    (["add", "--", "true"], "2"),
    (["add", "--json", "--", "true"], '"id":2'),
    (["cancel", "1"], "#1 ⊘ cancelled"),
    (["pause", "type:shell"], "type shell is held"),
    (["resume", "type:shell"], "type shell is not held"),
    (["route", "add", "http://127.0.0.1:9", "--id", "r9"], "r9"),
    (["route", "disable", "nosuch"], ""),
    (["backup", "copy.db"], "copy.db"),
    (["stop"], "the engine was not running"),
    (["config", "init"], "config.toml"),
]


@fault("TF270")
@pytest.mark.parametrize(("words", "told"), WRITING, ids=[" ".join(words) for words, _ in WRITING])
@pytest.mark.parametrize("call", [unheard, unread, closed])
def test_an_act_whose_output_cannot_be_written_says_elsewhere_what_was_done_and_does_not_fail(
    taskdeck: Calls, seed: Seed, call: Any, words: list[str], told: str
) -> None:
    seed.task()
    taskdeck.environment["XDG_CONFIG_HOME"] = str(taskdeck.folder / "xdg")
    ended = call(taskdeck, *words)
    assert "Traceback" not in ended.stderr
    assert told in ended.stderr
    if told:
        assert ended.returncode == 0, ended
        assert "the output can't be written" in ended.stderr
        assert "it is done, so don't repeat it" in ended.stderr
    else:  # what was refused is told as ever, and nothing else was to be said
        assert ended.returncode == 3


@pytest.mark.parametrize("to", [">/dev/full 2>&1", ">&- 2>&-", "<&- >&- 2>&-"])
def test_an_act_that_could_say_nothing_at_all_is_done(taskdeck: Calls, seed: Seed, to: str) -> None:
    ended = unheard(taskdeck, "add", "--", "true", to=to)
    assert ended.returncode == 0
    assert [each["id"] for each in taskdeck("list", "--json").lines] == [1]


def test_a_closed_standard_error_changes_nothing_about_what_is_shown(taskdeck: Calls, seed: Seed) -> None:
    seed.task()
    shown = unheard(taskdeck, "list", "--json", to="2>&-")
    assert (shown.returncode, len(shown.stdout.splitlines())) == (0, 1)
    assert unheard(taskdeck, "show", "99", to="2>&-").returncode == 3


def test_of_thousands_of_lines_that_cannot_be_written_the_first_are_told(taskdeck: Calls, seed: Seed) -> None:
    (taskdeck.folder / "many.jsonl").write_text('{"command": ["true"]}\n' * 3000)
    ended = unheard(taskdeck, "add", "-f", "many.jsonl")
    assert ended.returncode == 0
    _, *ids, more = ended.stderr.splitlines()
    assert (ids, more) == ([str(n) for n in range(1, MOST_LINES + 1)], f"and {3000 - MOST_LINES} lines more")


def test_what_was_refused_keeps_its_exit_code_where_the_output_cannot_be_written(
    taskdeck: Calls, seed: Seed
) -> None:
    seed.task()
    seed.task(state="SUCCESS", reason="done")
    ended = unheard(taskdeck, "cancel", "1", "2")
    assert ended.returncode == 4
    assert "#1 ⊘ cancelled" in ended.stderr
    assert "#2" in ended.stderr


@fault("TF274")
@pytest.mark.parametrize("word", ["", " \n", '"', '""', '" "'])
@pytest.mark.parametrize(
    "verb", [["cancel", "-y"], ["kill", "-y"], ["pause", "-y"], ["stop", "-y"], ["show"], ["wait"], ["log"]]
)
def test_an_empty_word_is_a_variable_that_was_not_set_and_names_no_task(
    taskdeck: Calls, seed: Seed, verb: list[str], word: str
) -> None:
    seed.task()
    assert "names no task: is a variable not set?" in taskdeck(*verb, word, code=2).err
    assert taskdeck("list", "--json").lines[0]["state"] == "PENDING"


@fault("TF148", "TF274")
@pytest.mark.parametrize(
    "words",
    [["list"], ["events"], ["cancel"], ["resource", "disable"], ["pause", "type:x"], ["operation", "list"]],
)
def test_a_word_that_is_not_utf8_is_a_usage_mistake_that_shows_its_byte(
    taskdeck: Calls, seed: Seed, words: list[str]
) -> None:
    seed.task()
    *verb, last = [*words, ""] if words[-1] != "type:x" else words
    err = taskdeck(*verb, last + os.fsdecode(b"caf\xe9"), code=2).err
    assert "caf\\xe9` is not written in UTF-8" in err


@fault("TF215", "TF206")
@pytest.mark.parametrize(
    "words",
    [
        ["--db", "x" * 300, "list"],
        ["--db", "x" * 300, "status"],
        ["--db", "x" * 300, "add", "--", "true"],
        ["restore", "x" * 300],
    ],
)
def test_a_place_that_the_system_refuses_is_named_with_the_reason(taskdeck: Calls, words: list[str]) -> None:
    assert "x can't be used: File name too long (name another, or mend it)" in taskdeck(*words, code=1).err


def test_an_interrupt_is_exit_130_without_a_word(taskdeck: Calls, seed: Seed) -> None:
    seed.task()
    # Whoever ran these tests in the background of a shell may have had interrupts ignored, which is inherited.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        process = subprocess.Popen(
            [*PROGRAM, "events", "--follow"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=taskdeck.environment,
        )
    finally:
        signal.signal(signal.SIGINT, before)
    assert process.stdout
    assert process.stderr
    assert b"TASK_CREATED" in process.stdout.readline()
    process.send_signal(signal.SIGINT)
    assert process.wait(20) == 130
    assert process.stderr.read() == b""
    process.stdout.close()
    process.stderr.close()


def test_what_nobody_meant_is_one_line_with_advice_and_a_traceback_only_on_debug(taskdeck: Calls) -> None:
    broken = (
        "import sys; from taskdeck.tui import commandline, cli; commandline.CommandLine.actor = None;"
        + ("commandline.CommandLine.config = property(lambda self: 1 / 0); sys.exit(cli.main())")
    )
    for words, lines in ((["list"], 1), (["list", "--debug"], 5)):
        done = subprocess.run(
            [sys.executable, "-c", broken, *words], capture_output=True, text=True, check=False
        )
        assert done.returncode == 1
        assert "ZeroDivisionError" in done.stderr
        assert len(done.stderr.splitlines()) >= lines
        assert ("Traceback" in done.stderr) == (lines > 1)


def test_the_program_ends_at_once_with_its_code_and_all_that_it_has_to_say_is_there(
    taskdeck: Calls, seed: Seed
) -> None:
    for _ in range(2):
        seed.task()
    at_the_end = "import atexit, sys; atexit.register(lambda: print('taken apart'));"
    for words, code, lines in ((["list", "--json"], 0, 2), (["show", "99", "--json"], 3, 0)):
        done = subprocess.run(
            [sys.executable, "-c", f"{at_the_end} from taskdeck.tui.cli import script; script()", *words],
            capture_output=True,
            text=True,
            env=taskdeck.environment,
            cwd=taskdeck.folder,
            check=False,
        )
        assert (done.returncode, len(done.stdout.splitlines())) == (code, lines)
        assert "taken apart" not in done.stdout
        assert ("error" in done.stderr) == (code != 0)
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))
    assert project["project"]["scripts"] == {"taskdeck": "taskdeck.tui.cli:script"}


@pytest.mark.parametrize(
    ("words", "banned"),
    [
        (["add", "--", "true"], {"textual", "aiohttp", "rich", "pydantic", "typer"}),
        (["list"], {"textual", "aiohttp", "rich", "pydantic", "peewee"}),
        (["show", "1"], {"textual", "aiohttp", "rich", "pydantic", "peewee"}),
        (["status"], {"textual", "aiohttp", "rich", "pydantic", "peewee"}),
    ],
)
def test_nothing_heavy_is_loaded_for_the_quick_verbs(
    taskdeck: Calls, seed: Seed, words: list[str], banned: set[str]
) -> None:
    seed.task()
    code = (
        "import sys; from taskdeck.tui.cli import main; code = main();"
        f"print(sorted({banned!r} & set(sys.modules)), file=sys.stderr); sys.exit(code)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *words],
        capture_output=True,
        text=True,
        env=taskdeck.environment,
        cwd=taskdeck.folder,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr.splitlines()[-1] == "[]"


def test_a_run_starts_without_the_parser_of_all_verbs(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[dict[str, bool]] = []
    monkeypatch.setattr(running, "run", lambda line, **how: started.append(how) or 0)
    monkeypatch.setattr(grammar, "invoke", lambda line: pytest.fail("the parser was asked"))
    for words in (["run"], ["run", "--until-idle"], ["--db", "x.db", "run", "--until-idle"]):
        assert main(words) == 0
    assert [how["until_idle"] for how in started] == [False, True, True]


@fault("TF205")
@pytest.mark.parametrize(
    ("text", "reached"),
    [
        ("[engine]\nworkers = 1\nworkers = 2\n", True),
        ("[engine]\nworkers = 99\n", True),
        ('[taskdeck]\n# db = "x"\ndb = "taskdeck.db"\n\xff[', True),
        ('[taskdeck]\ndb = "other.db"\n[engine', False),
        ('[taskdeck]\ndb = "taskdeck.db"\ndb = "other.db"\n', False),
        ("[taskdeck]\ndb = 5\n", False),
        ('taskdeck = { db = "taskdeck.db" }\n[', False),
    ],
)
def test_a_mistake_in_the_file_keeps_nobody_from_the_engine_that_works_without_it(
    taskdeck: Calls, seed: Seed, monkeypatch: pytest.MonkeyPatch, text: str, reached: bool
) -> None:
    seed.task()
    state = taskdeck.folder / "state"
    (state / "taskdeck").mkdir(parents=True)
    taskdeck.db.rename(state / "taskdeck" / "taskdeck.db")
    file = state / "taskdeck" / "c.toml"
    file.write_bytes(text.encode("latin-1"))
    taskdeck.environment |= {"XDG_STATE_HOME": str(state), "TASKDECK_CONFIG": str(file)}
    del taskdeck.environment["TASKDECK_DB"]
    taskdeck("list", code=78)
    with DatabaseLock(state / "taskdeck" / "taskdeck.db", role="engine", incarnation="x") as lock:
        assert lock.acquire()
        ended = taskdeck("list", code=0 if reached else 78)
        assert ended.err.startswith(f"taskdeck: {file}:")
        assert ("works on without it" in ended.err) is reached
        for words in (["config", "check"], ["run"], ["restart"]):
            assert taskdeck(*words, code=78).out == ""


@fault("TF205")
def test_a_file_that_can_not_be_read_keeps_nobody_from_the_engine_of_a_database_that_is_named(
    taskdeck: Calls, seed: Seed
) -> None:
    seed.task()
    (taskdeck.folder / "config.toml").mkdir()
    with DatabaseLock(taskdeck.db, role="engine", incarnation="x") as lock:
        assert lock.acquire()
        told = taskdeck("list").err
        assert "config.toml: it can't be read: it is a directory" in told
        assert "works on without it" in told
        del taskdeck.environment["TASKDECK_DB"]  # the file may have named it
        assert "it is a directory" in taskdeck("list", code=78).err
        taskdeck("run", "--db", str(taskdeck.db), code=78)


@fault("TF131")
def test_an_engine_that_is_silent_is_told_of_and_its_end_is_not_waited_for(
    taskdeck: Calls, seed: Seed, monkeypatch: pytest.MonkeyPatch
) -> None:
    from taskdeck.engine import commands

    seed.task()
    monkeypatch.setattr(commands, "ANSWER_WITHIN", 0.2)
    with frozen(taskdeck.db, monkeypatch):
        shown = " ".join(taskdeck("status").out.split())
        assert "SILENT it does not answer: it begins, or hangs" in shown
        assert f"no supervisor would end one that hangs: kill -KILL {os.getpid()}" in shown
        assert taskdeck("status", "--json").lines[0]["answers"] is False
        waits, ended = taskdeck("add", "--", "true", code=75).err.splitlines()
        assert waits.startswith(f"taskdeck: the engine (pid {os.getpid()}) is silent: it begins, or hangs")
        assert "Ctrl+C ends the wait" in waits
        assert f"(pid {os.getpid()}) has not answered 'submit'" in ended
        assert "it may still carry it out" in ended
        assert "look then: taskdeck show 1" in taskdeck("pause", "1", code=75).err


def test_a_verb_that_waited_for_a_silent_engine_is_answered_when_that_goes_on(
    taskdeck: Calls, seed: Seed, monkeypatch: pytest.MonkeyPatch
) -> None:
    seed.task()
    with frozen(taskdeck.db, monkeypatch) as engine:
        seen: list[str] = []

        def goes_on(text: str) -> None:
            seen.append(text)
            engine.go_on(pause=[{"id": 1, "ok": True, "state": "PAUSED", "message": "paused"}])

        monkeypatch.setattr(output, "note", goes_on)
        assert taskdeck("pause", "1").out.startswith("#1")
    assert len(seen) == 1


def test_of_an_engine_that_is_stopped_nothing_is_promised_of_its_supervisor(
    taskdeck: Calls, seed: Seed, monkeypatch: pytest.MonkeyPatch
) -> None:
    with frozen(taskdeck.db, monkeypatch):
        monkeypatch.setattr("taskdeck.engine.commands.process_state", lambda pid: "T")
        shown = " ".join(taskdeck("status").out.split())
        assert f"it is stopped (kill -CONT {os.getpid()} lets it go on; nothing else does)" in shown


def test_a_held_lock_shows_as_a_running_engine(taskdeck: Calls, seed: Seed) -> None:
    lock = DatabaseLock(taskdeck.db, role="engine", incarnation="x")
    assert lock.acquire()
    with lock:
        assert taskdeck("status", "--json").lines[0]["engine"]["running"] is True
