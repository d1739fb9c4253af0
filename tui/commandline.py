"""What a person typed: the options that hold for every verb, and the words that are left for the verb.

Owns `--db --config --json --debug`, which may stand anywhere before `--`, and the command that stands behind `add … --`.
Reads no file until a verb asks for the settings.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from taskdeck.engine.errors import ConfigError, UsageError

if TYPE_CHECKING:
    from taskdeck.engine.config import Config

SWITCHES = ("--json", "--debug")
VALUES = ("--db", "--config")
OF_THE_FILE = ("config", "run", "restart", "restore", "demo", "chaos")
"""Verbs that are about the settings themselves, or start what works by them: a mistake in them is the answer."""


class CommandLine:
    """One call of `taskdeck`. `words` are for the verb; `command` is what stood behind `add … --`, else None."""

    def __init__(self, arguments: Sequence[str]) -> None:
        before, behind = _split(list(arguments))
        self.json = "--json" in before
        self.debug = "--debug" in before
        self.words, self.paths = _without_common(before)
        self.command: list[str] | None = None
        if behind is not None and _verb(self.words) == "add":
            self.command = behind
        elif behind is not None:
            self.words += ["--", *behind]

    @cached_property
    def config(self) -> Config:
        """The effective settings. Raises `ConfigError`, but where an engine runs without them it can still be reached."""
        from taskdeck.engine import config

        try:
            return config.load(path=self.paths.get("--config"), db=self.paths.get("--db"))
        except ConfigError as mistakes:
            if _verb(self.words) in OF_THE_FILE:
                raise
            return self._of_the_running_engine(mistakes)

    def _of_the_running_engine(self, mistakes: ConfigError) -> Config:
        """A slip in the file must not keep anybody from looking at an engine that works on, or from ending it (TF205)."""
        from taskdeck.engine import config, views

        from . import output

        found = config.load_what_stands(path=self.paths.get("--config"), db=self.paths.get("--db"))
        engine = views.holder(found)
        if not engine.running:
            raise mistakes
        for problem in mistakes.problems:
            output.note(str(problem))
        output.note(
            f"so the configuration can't be taken over; the engine with pid {engine.pid} works on without it"
        )
        return found

    @property
    def places(self) -> str:
        """` --config X --db Y` as they were given, for a command that is told to be typed next."""
        import shlex

        return "".join(f" {name} {shlex.quote(str(path))}" for name, path in self.paths.items())

    @cached_property
    def actor(self) -> str:
        """Who asks: `cli:` and the name of the user."""
        return f"cli:{user()}"


def user() -> str:
    """The name of the user by whose uid this runs, for the audit: what the environment says of it proves nothing."""
    import pwd

    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:  # a container's user without a name
        return str(os.getuid())


def nearest(word: str, known: Iterable[str]) -> str:
    """`; did you mean X?` where a known word is near, else nothing."""
    import difflib  # only needed for mistakes

    close = difflib.get_close_matches(word, list(known), 1)
    return f"; did you mean `{close[0]}`?" if close else ""


def _split(arguments: list[str]) -> tuple[list[str], list[str] | None]:
    if "--" not in arguments:
        return arguments, None
    place = arguments.index("--")
    return arguments[:place], arguments[place + 1 :]


def _without_common(arguments: list[str]) -> tuple[list[str], dict[str, Path]]:
    words: list[str] = []
    paths: dict[str, Path] = {}
    rest = iter(arguments)
    for word in rest:
        name, equals, value = word.partition("=")
        if word in SWITCHES:
            continue
        if name not in VALUES:
            words.append(word)
            continue
        value = value if equals else next(rest, "")
        if not value:
            raise UsageError(f"{name} names no file", remedy=f"write {name} PATH")
        paths[name] = Path(value)
    return words, paths


def _verb(words: list[str]) -> str:
    return next((word for word in words if not word.startswith("-")), "")
