"""Where a value was set: a text for people, the place of a problem, and where its relative paths start."""

from __future__ import annotations

from pathlib import PurePath
from typing import NamedTuple

from ..errors import Problem
from .checks import Wrong


class Origin(NamedTuple):
    """`text` for people, such as `config.toml:3`; `base` is the directory that relative paths start from."""

    text: str
    file: str
    line: int | None
    key: str
    base: PurePath | None

    def problem(self, wrong: Wrong) -> Problem:
        return Problem(self.file, self.line, self.key, wrong.what, wrong.remedy)
