"""The options of the processes that taskdeck starts itself: `--name value`, `--name=value`, and flags without a value.

Not `argparse`: with what it brings along (shutil, gettext, bz2, lzma) it is a tenth of such a process's start.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..errors import UsageError


class Arguments:
    """What was given. `names` and `flags` are the options that there are, with blanks between them.

    Raises `UsageError` for any other, and for one without its value.
    """

    def __init__(self, words: Sequence[str], names: str, flags: str = "") -> None:
        self._given: dict[str, list[str]] = {}
        rest = iter(words)
        for word in rest:
            dashed, joined, value = word.partition("=")
            name = dashed.removeprefix("--")
            if name == dashed or name not in [*names.split(), *flags.split()]:
                raise UsageError(f"there is no argument {word!r} here")
            if name in flags.split():
                value = ""
            elif not joined and (value := next(rest, None)) is None:
                raise UsageError(f"{word} needs a value")
            self._given.setdefault(name, []).append(value)

    def __contains__(self, name: str) -> bool:
        return name in self._given

    def all(self, name: str) -> list[str]:
        """All values of an option, in their order."""
        return self._given.get(name, [])

    def get(self, name: str) -> str | None:
        """The last value of an option; None = it was not given."""
        return self._given[name][-1] if name in self._given else None

    def one(self, name: str) -> str:
        """The last value of an option that must be given. Raises `UsageError`."""
        value = self.get(name)
        if value is None:
            raise UsageError(f"--{name} is missing")
        return value
