"""What is shipped is what the folders hold, and a checkout makes its own environment."""

from __future__ import annotations

import os
import shutil
import subprocess
import tomllib
from fnmatch import fnmatch
from importlib import import_module, metadata
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
SETUPTOOLS = PROJECT["tool"]["setuptools"]
SOURCES = ("engine", "tui")


@pytest.fixture(scope="module")
def lock() -> dict[str, Any]:
    """What is locked, by name."""
    text = (ROOT / "uv.lock").read_text(encoding="utf-8")
    return {package["name"]: package for package in tomllib.loads(text)["package"]}


def shipped_files() -> list[Path]:
    found = [path.relative_to(ROOT) for top in SOURCES for path in (ROOT / top).rglob("*") if path.is_file()]
    return [path for path in found if "__pycache__" not in path.parts]


def test_the_package_list_is_the_folders_that_hold_python() -> None:
    folders = {path.parent for path in shipped_files() if path.suffix == ".py"}
    assert SETUPTOOLS["packages"] == sorted("taskdeck." + ".".join(folder.parts) for folder in folders)


def test_each_package_folder_has_an_init() -> None:
    folders = {path.parent for path in shipped_files() if path.suffix == ".py"}
    assert sorted(folder for folder in folders if not (ROOT / folder / "__init__.py").is_file()) == []


def test_each_other_file_in_a_package_is_package_data() -> None:
    patterns = SETUPTOOLS["package-data"]["*"]
    others = [path for path in shipped_files() if path.suffix != ".py"]
    assert [path for path in others if not any(fnmatch(path.name, pattern) for pattern in patterns)] == []


@pytest.mark.parametrize("top", SOURCES)
def test_a_source_folder_is_mapped_linked_and_imported_as_taskdeck(top: str) -> None:
    assert SETUPTOOLS["package-dir"][f"taskdeck.{top}"] == top
    link = ROOT / ".typing" / "taskdeck" / top
    assert link.is_symlink()
    assert link.resolve() == ROOT / top
    assert import_module(f"taskdeck.{top}").__path__[0] == str(ROOT / top)


def test_the_version_is_the_same_everywhere() -> None:
    assert metadata.version("taskdeck") == PROJECT["project"]["version"]
    assert import_module("taskdeck.engine").__version__ == PROJECT["project"]["version"]


def test_the_changelog_has_a_place_for_what_comes_next() -> None:
    assert "\n## [Unreleased]\n" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def as_written(requirement: dict[str, object]) -> str:
    extras = requirement.get("extras", [])
    assert isinstance(extras, list)
    return f"{requirement['name']}{'[' + ','.join(extras) + ']' if extras else ''}{requirement['specifier']}"


def test_the_lock_was_made_from_these_requirements(lock: dict[str, Any]) -> None:
    locked = lock["taskdeck"]["metadata"]
    extras = {
        (f"extra == '{extra}'", each)
        for extra, wanted in PROJECT["project"]["optional-dependencies"].items()
        for each in wanted
    }
    plain = {(None, each) for each in PROJECT["project"]["dependencies"]}
    assert {(r.get("marker"), as_written(r)) for r in locked["requires-dist"]} == plain | extras
    assert {as_written(r) for r in locked["requires-dev"]["dev"]} == set(PROJECT["dependency-groups"]["dev"])


def test_the_lock_works_on_any_machine(lock: dict[str, Any]) -> None:
    sources = [package["source"] for name, package in lock.items() if name != "taskdeck"]
    indexes = {source.get("registry", str(source)) for source in sources}
    assert len(indexes) == 1
    assert indexes.pop().startswith("https://")
    assert all(file["url"].startswith("https://") for p in lock.values() for file in p.get("wheels", []))


@pytest.mark.parametrize("script", ["dev", ".ci/run"])
def test_a_script_is_executable_and_parses(script: str) -> None:
    path = ROOT / script
    assert os.access(path, os.X_OK)
    shell = path.read_text(encoding="utf-8").splitlines()[0].split("/")[-1].split()[-1]
    assert subprocess.run([shell, "-n", path], check=False).returncode == 0


def dev(*arguments: str, root: Path = ROOT, path: str | None = None) -> subprocess.CompletedProcess[str]:
    environment = os.environ if path is None else {**os.environ, "PATH": path}
    command = [root / "dev", *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def test_dev_without_a_verb_shows_the_verbs() -> None:
    done = dev()
    assert done.returncode == 2
    assert "./dev test" in done.stderr


def test_dev_refuses_a_verb_that_it_does_not_know() -> None:
    done = dev("tset")
    assert done.returncode == 2
    assert "unknown verb: tset" in done.stderr


@pytest.fixture
def bare(tmp_path: Path) -> Path:
    """A checkout on a machine that has the POSIX tools and nothing else; `bin` is its whole PATH."""
    for name in ("dev", "pyproject.toml", "uv.lock"):
        shutil.copy(ROOT / name, tmp_path)
    (tmp_path / "bin").mkdir()
    for tool in ("cat", "cksum", "dirname", "head", "rm"):
        (tmp_path / "bin" / tool).symlink_to(shutil.which(tool) or pytest.fail(f"no {tool}"))
    return tmp_path


def provide(bare: Path, name: str, script: str) -> None:
    command = bare / "bin" / name
    command.write_text(f"#!/bin/sh\n{script}\n")
    command.chmod(0o755)


def test_dev_says_what_to_install_where_python_is_too_old(bare: Path) -> None:
    provide(bare, "python3", '[ "$1" = -V ] && echo Python 3.9.2')
    done = dev("setup", root=bare, path=str(bare / "bin"))
    assert done.returncode == 1
    assert "no Python 3.11 or newer" in done.stderr
    assert "python3 is: Python 3.9.2" in done.stderr
    assert not (bare / ".venv").exists()


def test_dev_takes_a_newer_python_by_its_full_name(bare: Path) -> None:
    provide(bare, "python3", "exit 1")
    provide(
        bare,
        "python3.12",
        f'[ "$1" = -m ] && echo "asked for: $2 $3"; [ "$1" = -c ] && echo {bare}/bin/python3.12',
    )
    done = dev("setup", root=bare, path=str(bare / "bin"))
    assert f"asked for: venv {bare}/.venv" in done.stdout


def test_dev_hands_the_lock_to_uv_where_it_is(bare: Path) -> None:
    provide(bare, "uv", 'echo "uv $*" >&2; [ "$1" = --version ]')
    done = dev("setup", root=bare, path=str(bare / "bin"))
    assert "uv sync --quiet --frozen" in done.stderr
    assert "trying pip" in done.stderr
