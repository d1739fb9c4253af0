"""Handlers load with what they declare; a mistake costs only itself and is told with its place."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from shutil import make_archive, rmtree
from textwrap import dedent

import pytest

from taskdeck.engine.run.handlers import GROUP, Registry, load, load_type


@pytest.fixture(autouse=True)
def _imports_stay_here() -> Iterator[None]:
    path, modules = list(sys.path), set(sys.modules)
    yield
    sys.path[:] = path
    for name in set(sys.modules) - modules:
        del sys.modules[name]


def write(folder: Path, name: str, text: str) -> str:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("from taskdeck.engine import Context, task\n" + dedent(text))
    return name


def loaded(folder: Path, *entries: str) -> Registry:
    return load(entries, folder, plugins=False)


def test_a_file_relative_to_the_root_declares_types_with_their_limits(tmp_path: Path) -> None:
    text = """
        from typing import Any
        import msgspec

        class Page(msgspec.Struct):
            url: str

        async def verify(ctx, key): ...

        @task("fetch", timeout="10m", max_retry=5, base="30s", max_delay=60, concurrency=4, on_lost="rerun",
              on_exhausted="dead", checkpoint_version=2, verify=verify, verify_after="3s")
        async def fetch(ctx: Context, page: Page) -> dict:
            '''Fetch a page.

            More about it.'''

        @task("any")
        async def anything(ctx: Context, value: Any): ...
        """
    registry = loaded(tmp_path, write(tmp_path, "jobs/fetching.py", text))
    assert registry.problems == []
    info = registry.handlers["fetch"].info
    assert (info.timeout, info.max_retry, info.base, info.max_delay, info.concurrency) == (600, 5, 30, 60, 4)
    assert (info.on_lost, info.on_exhausted, info.checkpoint_version) == ("rerun", "dead", 2)
    assert info.doc == "Fetch a page."
    assert info.origin.startswith("jobs/fetching.py:")
    assert '"url"' in info.schema
    assert registry.handlers["fetch"].verify_after == 3
    assert [one.name for one in registry.infos()] == ["any", "fetch", "http", "shell"]
    limits = registry.handlers["any"].info
    assert (limits.timeout, limits.max_retry, limits.on_lost, limits.schema) == (None, None, None, "")


def test_the_built_in_types_are_always_there(tmp_path: Path) -> None:
    assert '"argv"' in loaded(tmp_path).handlers["shell"].info.schema
    assert '"save_to"' in loaded(tmp_path).handlers["http"].info.schema


def test_a_plain_function_is_a_sync_handler(tmp_path: Path) -> None:
    text = """
        def verify(ctx, key): ...

        @task("old", verify=verify, needs=["browser", "gpu:2", "acc_1.x:1"], route="eu", allow_direct=True)
        def old_style(ctx, params): ...

        @task("new")
        async def new_style(ctx, params): ...
        """
    registry = loaded(tmp_path, write(tmp_path, "jobs.py", text))
    assert registry.problems == []
    info = registry.handlers["old"].info
    assert (info.sync, registry.handlers["new"].info.sync) == (True, False)
    assert (info.needs, info.route, info.allow_direct) == (["browser", "gpu:2", "acc_1.x"], "eu", True)
    assert registry.handlers["old"].source == "jobs.py"


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ("needs='browser'", 'expected a list such as ["browser:2"]'),
        ("needs=['a b']", '"a b" is no need'),
        ("needs=['browser:0']", "the count must be 1 to 64"),
        ("needs=['browser:65']", "the count must be 1 to 64"),
        ("needs=['browser', 'browser:2']", "named twice"),
        ("needs=[3]", '"3" is no need'),
        ("needs=7", "needs must be a list"),
        ("route=''", "can't be a group of routes"),
        ("route='e u'", "can't be a group of routes"),
        ("route=True", "can't be a group of routes"),
        ("route='" + "e" * 65 + "'", "can't be a group of routes"),
        ("allow_direct=1", "allow_direct must be True or False"),
    ],
)
def test_wrong_needs_are_told_at_load(tmp_path: Path, options: str, why: str) -> None:
    registry = loaded(tmp_path, write(tmp_path, "jobs.py", f"@task('x', {options})\nasync def x(ctx): ..."))
    [problem] = registry.problems
    assert why in problem
    assert problem.startswith("jobs.py:2: ")


@pytest.mark.parametrize(
    ("definition", "why"),
    [
        ("class f:\n    def __init__(self, ctx): ...", "write a `def` or an `async def`"),
        ("def f(ctx): yield 1", "must return its result, not yield it"),
        ("async def f(ctx): yield 1", "must return its result, not yield it"),
    ],
)
def test_what_is_no_function_of_either_kind_is_refused(tmp_path: Path, definition: str, why: str) -> None:
    registry = loaded(tmp_path, write(tmp_path, "jobs.py", f"@task('x')\n{definition}"))
    [problem] = registry.problems
    assert why in problem
    assert "x" not in registry.handlers


def test_a_sync_handlers_verify_is_a_plain_function_too(tmp_path: Path) -> None:
    text = "async def v(ctx, key): ...\n@task('x', verify=v)\ndef x(ctx): ..."
    [problem] = loaded(tmp_path, write(tmp_path, "jobs.py", text)).problems
    assert "verify must be a plain `def`" in problem


def test_every_mistake_of_a_declaration_is_a_problem_of_its_own(tmp_path: Path) -> None:
    text = """
        @task("no spaces")
        async def a(ctx): ...

        @task("twice")
        async def b(ctx): ...

        @task("twice")
        async def c(ctx): ...

        @task("shell")
        async def d(ctx): ...

        @task("lost", on_lost="ignore")
        async def e(ctx): ...

        @task("long", timeout="soon")
        async def f(ctx): ...

        @task("many", concurrency=0)
        async def g(ctx): ...

        @task("three")
        async def h(ctx, one, two): ...

        @task("none")
        async def i(): ...

        @task("unknown")
        async def j(ctx, params: "Missing"): ...

        @task("opaque")
        async def k(ctx, params: object.__class__): ...

        @task("verified", verify=lambda ctx, key: None)
        async def l(ctx): ...

        @task(7)
        async def m(ctx): ...

        @task("good")
        async def n(ctx): ...
        """
    registry = loaded(tmp_path, write(tmp_path, "jobs.py", text))
    assert set(registry.handlers) == {"shell", "http", "twice", "good"}
    story = "\n".join(registry.problems)
    assert len(registry.problems) == 12, story
    for word in ("bad type name", "declared already in jobs.py:", "on_lost must be", "concurrency must be"):
        assert word in story
    for word in (
        "declared already in built-in",
        "Missing",
        "is not JSON",
        "verify must be",
        "must take (ctx)",
    ):
        assert word in story
    assert all(problem.startswith("jobs.py:") for problem in registry.problems)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("import nowhere_to_be_found", "ModuleNotFoundError: No module named 'nowhere_to_be_found'"),
        ("def broken(:", "SyntaxError: invalid syntax (line 2)"),
        ("raise SystemExit(3)", "SystemExit: 3"),
        ("raise KeyboardInterrupt", "KeyboardInterrupt"),
        ("class Odd(BaseException): ...\nraise Odd('x')", "Odd: x"),
        ("1 / 0", "ZeroDivisionError: division by zero"),
        ("raise RuntimeError('https://u:hunter2@h/ \\x1b[2J\\nsecond')", "RuntimeError: https://"),
    ],
)
def test_a_file_that_fails_to_load_is_a_problem_and_the_others_load(
    tmp_path: Path, text: str, why: str
) -> None:
    good = "@task('good')\nasync def good(ctx): ..."
    registry = loaded(tmp_path, write(tmp_path, "bad.py", text), write(tmp_path, "good_jobs.py", good))
    [problem] = registry.problems
    assert problem.startswith(f"bad.py: {why}")
    assert "hunter2" not in problem
    assert "\x1b" not in problem
    assert "\n" not in problem
    assert "good" in registry.handlers


def test_a_process_that_runs_one_type_looks_at_no_other_of_its_file(tmp_path: Path) -> None:
    text = """
        @task("one")
        def one(ctx): ...

        @task("one")
        def again(ctx): ...

        @task("bad", timeout="never")
        def bad(ctx): ...
        """
    source = write(tmp_path, "jobs.py", text)
    registry = load_type("one", source, tmp_path)
    assert (list(registry.handlers), registry.handlers["one"].source) == (["one"], source)
    assert [problem.partition(": ")[2] for problem in registry.problems] == [
        'type "one" is declared already in jobs.py:3'
    ]
    assert load_type("other", source, tmp_path) == Registry()
    assert "no such file" in load_type("one", "gone.py", tmp_path).problems[0]


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    [problem] = loaded(tmp_path, "missing.py").problems
    assert problem.startswith("missing.py: FileNotFoundError: no such file")


def test_types_declared_before_a_failure_still_load(tmp_path: Path) -> None:
    registry = loaded(tmp_path, write(tmp_path, "half.py", "@task('first')\nasync def first(ctx): ...\n1/0"))
    assert "first" in registry.handlers
    assert len(registry.problems) == 1


def test_a_file_may_bear_a_standard_name_and_import_its_neighbours(tmp_path: Path) -> None:
    write(tmp_path, "neighbour_of_json.py", "WORD = 'near'")
    text = "import neighbour_of_json\n@task(neighbour_of_json.WORD)\nasync def f(ctx): ..."
    registry = loaded(tmp_path, write(tmp_path, "json.py", text))
    import json

    assert registry.problems == []
    assert "near" in registry.handlers
    assert json.loads("[1]") == [1]


def test_two_files_of_one_name_are_both_loaded(tmp_path: Path) -> None:
    entries = [
        write(tmp_path, f"{folder}/same_jobs.py", f"@task('{folder}')\nasync def f(ctx): ...")
        for folder in ("east", "west")
    ]
    assert {"east", "west"} <= set(loaded(tmp_path, *entries).handlers)


def test_a_module_is_imported_by_its_dotted_name_and_again_from_memory(tmp_path: Path) -> None:
    write(tmp_path, "shop_jobs/__init__.py", "")
    write(tmp_path, "shop_jobs/orders.py", "@task('order')\nasync def order(ctx): ...")
    for _ in range(2):
        registry = loaded(tmp_path, "shop_jobs.orders")
        assert registry.problems == []
        assert "order" in registry.handlers


def test_what_stands_in_a_file_now_is_loaded_whatever_bytecode_was_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    for says in ("old", "new"):  # of the same size, and written in the same second
        name = write(tmp_path, "jobs.py", f'@task("says_{says}")\nasync def says(ctx): ...\n')
        os.utime(tmp_path / name, (1, 1))
        assert f"says_{says}" in loaded(tmp_path, name).handlers
        del sys.modules["jobs"]


def test_the_same_function_met_twice_is_no_duplicate(tmp_path: Path) -> None:
    write(tmp_path, "first_jobs.py", "@task('one')\nasync def one(ctx): ...")
    second = write(
        tmp_path, "second_jobs.py", "from first_jobs import one\n@task('two')\nasync def two(ctx): ..."
    )
    registry = loaded(tmp_path, second, "first_jobs.py")
    assert registry.problems == []
    assert {"one", "two"} <= set(registry.handlers)


def test_the_door_is_light_and_says_its_version() -> None:
    import subprocess
    from importlib.metadata import version

    code = "import sys, taskdeck.engine as e; print(e.__version__, *sorted({'asyncio', 'msgspec'} & set(sys.modules)))"
    said = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, check=True).stdout
    assert said.split() == [version("taskdeck")]


def plugin(folder: Path, group: str) -> None:
    """An installed distribution that names a module in this group of entry points."""
    write(folder, "their_jobs.py", "@task('theirs')\nasync def theirs(ctx): ...")
    about = folder / "their_jobs-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: their-jobs\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(f"[{group}]\njobs = their_jobs\n")


def test_handlers_of_installed_distributions_are_loaded_by_their_entry_point(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plugin(tmp_path / "site", GROUP)
    monkeypatch.syspath_prepend(tmp_path / "site")
    registry = load([], tmp_path)
    assert registry.problems == []
    assert "theirs" in registry.handlers


def test_handlers_of_a_distribution_in_an_archive_are_found_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plugin(tmp_path / "site", GROUP)
    archive = make_archive(str(tmp_path / "site"), "zip", tmp_path / "site")
    rmtree(tmp_path / "site")
    monkeypatch.syspath_prepend(archive)
    assert "theirs" in load([], tmp_path).handlers


def test_where_no_distribution_names_handlers_nothing_is_loaded_to_read_entry_points(tmp_path: Path) -> None:
    import subprocess

    plugin(tmp_path / "site", "others.group")
    code = (
        "import sys; from pathlib import Path; from taskdeck.engine.run.handlers import load\n"
        f"sys.path.insert(0, {str(tmp_path / 'site')!r}); load([], Path('.'))\n"
        "print('importlib.metadata' in sys.modules)"
    )
    said = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, check=True).stdout
    assert said == "False\n"
