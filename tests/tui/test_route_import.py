"""`route import`: what is shown before, what is written, and that no password is in sight anywhere."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import pytest

from tests.inventoried import Inventory
from tests.seeded import Seed
from tests.tui.calls import Calls, without_database

LIST = """\
# bought in May
203.0.113.4:8080:bob:hunter2:x   #fast one
bob:hunter2@y@203.0.113.5:8080
socks5://ann:hunter2%40@h.example.net:1080
203.0.113.4:8080:bob:hunter2
"""
BAD = LIST + "2001:db8::1:1080\nftp://bob:hunter2@203.0.113.4:21\n"


def kinds(lines: list[dict[str, object]]) -> list[object]:
    return [each["kind"] for each in lines if "kind" in each]


def routes(taskdeck: Calls) -> list[str]:
    return [each["id"] for each in taskdeck("route", "list", "--json").lines]


def passwords(taskdeck: Calls) -> list[str]:
    return sorted(each.read_text() for each in (taskdeck.folder / "taskdeck.passwords").iterdir())


def no_secret_anywhere(taskdeck: Calls) -> None:
    """Neither the database, its log beside it, nor anything else outside the files of passwords."""
    for path in taskdeck.folder.rglob("*"):
        if path.is_file() and path.parent.name != "taskdeck.passwords" and path.name != "list.txt":
            assert b"hunter2" not in path.read_bytes(), path


def test_a_list_is_imported_whole_and_its_passwords_stand_in_files_of_their_owner(taskdeck: Calls) -> None:
    (taskdeck.folder / "list.txt").write_text(LIST)
    ended = taskdeck("route", "import", "list.txt", "--group", "eu", "--json")
    assert kinds(ended.lines) == ["new", "new", "new", "duplicate"]
    assert [each["line"] for each in ended.lines[:-1]] == [2, 3, 4, 5]
    assert ended.lines[3]["same_as"] == 2
    assert ended.lines[-1] == {"summary": {"new": 3, "changed": 0, "duplicate": 1, "bad": 0, "written": True}}
    (shown,) = taskdeck("route", "show", "203.0.113.4-8080", "--json").lines
    assert (shown["url"], shown["group"]) == ("http://bob@203.0.113.4:8080", "eu")
    assert shown["labels"] == {"note": "fast one"}
    file = Path(shown["password"].removeprefix("file:"))
    assert file.read_text() == "hunter2:x"
    assert stat.S_IMODE(os.stat(file).st_mode) == 0o600
    assert stat.S_IMODE(os.stat(file.parent).st_mode) == 0o700
    assert passwords(taskdeck) == ["hunter2:x", "hunter2@", "hunter2@y"]
    no_secret_anywhere(taskdeck)
    for words in (["list"], ["show", "203.0.113.4-8080"]):
        assert "hunter2" not in taskdeck("route", *words).out
    told = taskdeck("events", "--json").lines
    assert [each["reason"] for each in told if each["event_type"] == "OPERATOR_ROUTE"] == ["imported"] * 3


@without_database
def test_bad_lines_keep_everything_from_being_written_until_they_are_skipped(taskdeck: Calls) -> None:
    ended = taskdeck("route", "import", "-", stdin=BAD, code=2)
    assert "E_IPV6_BRACKETS" in ended.out
    assert "E_SCHEME" in ended.out
    assert "add --skip-bad" in ended.err
    assert "hunter2" not in ended.out + ended.err
    assert not taskdeck.db.exists()
    assert not (taskdeck.folder / "taskdeck.passwords").exists()
    ended = taskdeck("route", "import", "-", "--skip-bad", stdin=BAD)
    assert "imported: 3 new, 1 duplicate, 2 bad" in ended.err
    assert len(routes(taskdeck)) == 3


def test_a_second_import_changes_what_differs_by_its_exit_and_leaves_the_rest(taskdeck: Calls) -> None:
    taskdeck("route", "import", "-", stdin=LIST)
    before = taskdeck("route", "list", "--json").lines
    again = taskdeck("route", "import", "-", "--json", stdin=LIST).lines
    assert kinds(again) == ["duplicate"] * 4
    assert again[-1]["summary"]["written"] is False
    assert taskdeck("route", "list", "--json").lines == before
    changed = LIST.replace("hunter2:x", "hunter2:new")
    lines = taskdeck("route", "import", "-", "--json", stdin=changed).lines
    assert (lines[0]["kind"], lines[0]["changes"]) == ("changed", ["password"])
    assert passwords(taskdeck) == ["hunter2:new", "hunter2@", "hunter2@y"]
    assert len(routes(taskdeck)) == 3
    no_secret_anywhere(taskdeck)


def test_an_import_never_touches_a_live_lease(taskdeck: Calls, seed: Seed) -> None:
    stock = Inventory(seed)
    seed.close()
    table = "host,port,username,password,capacity\n203.0.113.4,80,bob,{0},{1}\n"
    taskdeck("route", "import", "-", stdin=table.format("hunter2", 2))
    stock.seed = seed = Seed(taskdeck.db)
    task = seed.running(seed.worker())
    stock.take(task, route="203.0.113.4-80")
    seed.close()
    human = taskdeck("route", "import", "-", stdin=table.format("hunter22", 1)).out
    assert "capacity, password  (in use: from the next lease on)" in human
    (shown,) = taskdeck("route", "show", "203.0.113.4-80", "--json").lines
    assert (shown["state"], shown["tasks"], shown["capacity"]) == ("RUNNING", [task], 1)
    assert passwords(taskdeck) == ["hunter2", "hunter22"]  # the attempt may still read the old one
    stock.seed = seed = Seed(taskdeck.db)
    stock.give_back(task)
    seed.close()
    taskdeck("route", "import", "-", stdin=table.format("hunter23", 1))
    assert passwords(taskdeck) == ["hunter23"]


def test_an_import_that_cannot_be_written_leaves_no_password_behind(taskdeck: Calls) -> None:
    taskdeck("route", "import", "-", stdin="203.0.113.9:1\n")
    os.chmod(taskdeck.db, 0o400)
    taskdeck.db.with_name("taskdeck.passwords").mkdir(mode=0o755)
    assert "others may enter it" in taskdeck("route", "import", "-", stdin=LIST, code=77).err
    taskdeck.db.with_name("taskdeck.passwords").rmdir()
    (taskdeck.folder / "elsewhere").mkdir()
    taskdeck.db.with_name("taskdeck.passwords").symlink_to(taskdeck.folder / "elsewhere")
    assert "not a directory" in taskdeck("route", "import", "-", stdin=LIST, code=77).err
    assert not list((taskdeck.folder / "elsewhere").iterdir())
    assert routes(taskdeck) == ["203.0.113.9-1"]


def test_what_was_changed_after_the_look_keeps_the_whole_list_out(taskdeck: Calls) -> None:
    from taskdeck.engine import commands
    from taskdeck.engine.config import load
    from taskdeck.engine.errors import Refused

    config = load(db=taskdeck.db, environ={}, cwd=taskdeck.folder)
    text = LIST + "\n"
    found = commands.look_at_list(config, text.encode() + b"203.0.113.77:1:u:hunter2\n")
    named = commands.look_at_list(config, b'{"id": "203.0.113.77-1", "host": "198.51.100.1", "port": 1}')
    commands.import_list(config, "cli:test", named)
    commands.import_list(config, "cli:test", found)  # an id of its own making is made anew
    assert routes(taskdeck) == [
        "203.0.113.4-8080",
        "203.0.113.5-8080",
        "203.0.113.77-1",
        "203.0.113.77-1-2",
        "h.example.net-1080",
    ]
    first = commands.look_at_list(
        config, b'{"id": "x", "host": "198.51.100.2", "port": 1, "username": "u", "password": "hunter2"}'
    )
    second = commands.look_at_list(
        config, b'{"id": "x", "host": "198.51.100.3", "port": 1, "username": "u", "password": "hunter2"}'
    )
    commands.import_list(config, "cli:test", first)
    files = passwords(taskdeck)
    with pytest.raises(Refused, match="another exit has this id"):
        commands.import_list(config, "cli:test", second)
    assert passwords(taskdeck) == files


@without_database
def test_on_a_terminal_it_asks_first_and_no_is_no(taskdeck: Calls) -> None:
    (taskdeck.folder / "list.txt").write_text(BAD)
    ended = taskdeck.on_terminal("route", "import", "list.txt", answer="n\n")
    assert "import 3 routes, without 2 bad lines?" in ended.out
    assert ended.code != 0
    assert not taskdeck.db.exists()
    assert "hunter2" not in ended.out
    assert taskdeck.on_terminal("route", "import", "list.txt", answer="y\n").code == 0
    assert len(routes(taskdeck)) == 3
    assert taskdeck.on_terminal("route", "import", "list.txt", "--yes").code == 0


@without_database
def test_what_a_crash_between_passwords_and_routes_left_goes_with_the_next_import(
    taskdeck: Calls, monkeypatch: pytest.MonkeyPatch
) -> None:
    from taskdeck.engine import commands

    class Crash(BaseException):
        """The end of the process: nothing is tidied up."""

    def crash(*given: object, **named: object) -> None:
        raise Crash

    with monkeypatch.context() as patch:
        patch.setattr(commands, "call", crash)
        with pytest.raises(Crash):
            taskdeck("route", "import", "-", stdin=LIST, code=None)
    assert passwords(taskdeck) == ["hunter2:x", "hunter2@", "hunter2@y"]
    assert not taskdeck.db.exists()
    (taskdeck.folder / "taskdeck.passwords" / "of.mine").write_text("kept")
    taskdeck("route", "import", "-", stdin="203.0.113.4:8080:bob:hunter2:new\n")
    assert passwords(taskdeck) == ["hunter2:new", "kept"]


@pytest.mark.parametrize(
    ("words", "code", "what"),
    [
        (["nosuch.txt"], 3, "there is no file nosuch.txt"),
        (["."], 2, "can't be read"),
        (["-", "--scheme", "ftp"], 2, "one of: http"),
        (["-", "--group", "a b"], 2, "E_GROUP"),
    ],
)
def test_what_cannot_be_read_is_told(taskdeck: Calls, words: list[str], code: int, what: str) -> None:
    ended = taskdeck("route", "import", *words, stdin="1.2.3.4:1\n", code=code)
    assert what in ended.out + ended.err


@without_database
def test_a_dry_run_writes_nothing_and_an_empty_list_is_told(taskdeck: Calls) -> None:
    assert (
        "nothing was imported: 3 new, 1 duplicate" in taskdeck("route", "import", "-n", "-", stdin=LIST).err
    )
    assert not taskdeck.db.exists()
    assert "nothing in it" in taskdeck("route", "import", "-", stdin="# nothing\n").err


def test_500_routes_are_one_transaction_and_quick(taskdeck: Calls) -> None:
    rows = [
        {"host": f"h{n}.example.net", "port": 1, "username": "u", "password": f"hunter2{n}"}
        for n in range(500)
    ]
    lines = taskdeck("route", "import", "-", "--json", stdin=json.dumps(rows)).lines
    assert lines[-1]["summary"]["new"] == 500
    assert len({each["created_at"] for each in taskdeck("events", "--json", "--limit", "0").lines}) == 1
