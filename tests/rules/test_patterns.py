"""Patterns that are compiled when they are first used."""

from __future__ import annotations

import pkgutil
import re
import subprocess
import sys
from importlib import import_module

import pytest

import taskdeck.engine
from taskdeck.engine.rules.patterns import Late, pattern


def test_a_pattern_finds_what_a_compiled_one_finds() -> None:
    made = pattern(r"(?P<word>[a-z]+)", re.IGNORECASE)
    for _ in range(2):
        assert [found["word"] for found in made.finditer("Two words")] == ["Two", "words"]
        assert made.fullmatch("Two words") is None
    assert made.flags == re.compile(made.pattern, re.IGNORECASE).flags
    assert pattern(rb"\d").findall(b"a1b2") == [b"1", b"2"]


def test_a_pattern_is_compiled_when_it_is_first_used() -> None:
    wrong = pattern("(")
    with pytest.raises(re.error):
        wrong.search("")


def test_every_pattern_that_waits_in_a_module_can_be_compiled() -> None:
    waiting = [
        value
        for found in pkgutil.walk_packages(taskdeck.engine.__path__, "taskdeck.engine.")
        if not found.name.endswith("__main__")
        for value in vars(import_module(found.name)).values()
        if isinstance(value, Late)
    ]
    assert len(waiting) > 50
    for each in waiting:
        assert isinstance(re.compile(each.pattern, each.flags & ~re.UNICODE), re.Pattern)


def test_no_module_of_a_worker_compiles_a_pattern_while_it_is_loaded() -> None:
    code = (
        "import re, sys; made = []; compiled = re.compile\n"
        "def told(*words, **named):\n"
        "    made.append(sys._getframe(1).f_globals['__name__']); return compiled(*words, **named)\n"
        "re.compile = told\n"
        "import taskdeck.engine.run.worker, taskdeck.engine.run.engine, taskdeck.engine.commands\n"
        "print(*[name for name in made if name.startswith('taskdeck')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
