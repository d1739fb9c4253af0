"""What one setting may be: a check turns a raw value of TOML or the environment into the one the engine uses.

A check raises `Wrong` with what was expected and what to do. It never repeats a value that might be a secret,
knows nothing of files or tables, and does no I/O.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from typing import Any, get_type_hints

from msgspec import Struct

from ..errors import UsageError
from .bandwidth import parse_rate
from .filters import parse
from .handler_names import is_file_handler
from .needs import NAME
from .patterns import pattern
from .references import fault_of, kind_of
from .timing import format_duration, parse_duration

TYPE_NAME = pattern(r"[A-Za-z0-9_.:-]{1,64}", re.ASCII)
_VARIABLE_NAME = pattern(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)


class Wrong(Exception):
    """The value is not what the setting takes: `what` is wrong with it, and the `remedy`."""

    def __init__(self, what: str, remedy: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.remedy = remedy


def shown(value: Any) -> str:
    """A wrong value as it is quoted in a message: TOML-like, one line, short."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict | list):
        return "a table" if isinstance(value, dict) else "a list"
    if isinstance(value, int) and abs(value) >= 10**18:
        return "a number out of range"
    text = "".join(c if c.isprintable() else "?" for c in str(value)[:60])
    text += "…" if len(str(value)) > 60 else ""
    return f'"{text}"' if isinstance(value, str) else text


class Check:
    """One setting's rule. `read` takes a raw value; `from_text` makes one of a variable's text."""

    def read(self, raw: Any) -> Any:
        raise NotImplementedError

    def from_text(self, text: str) -> Any:
        return text


class Whole(Check):
    """An integer between two bounds."""

    def __init__(self, low: int, high: int) -> None:
        self.low, self.high = low, high

    def read(self, raw: Any) -> int:
        if isinstance(raw, bool) or not isinstance(raw, int) or not self.low <= raw <= self.high:
            raise Wrong(
                f"expected an integer {self.low}..{self.high}, got {shown(raw)}",
                f"write for example {self.low}",
            )
        return raw

    def from_text(self, text: str) -> Any:
        return int(text) if re.fullmatch(r"-?[0-9]{1,18}", text) else text


class Duration(Check):
    """Seconds, written as a text with units or as a number."""

    def __init__(self, low: float = 0.0, high: float = 365 * 86400.0) -> None:
        self.low, self.high = low, high

    def read(self, raw: Any) -> float:
        try:
            seconds = parse_duration(raw)
        except ValueError:
            seconds = None
        if seconds is None or not self.low <= seconds <= self.high:
            bounds = f"{format_duration(self.low)}..{format_duration(self.high)}"
            raise Wrong(
                f"expected a duration {bounds}, got {shown(raw)}",
                'write "30s", "1h30m", "250ms" or a number of seconds',
            )
        return seconds


class Rate(Check):
    """Bytes a second, written as a text with units."""

    def read(self, raw: Any) -> float:
        if not isinstance(raw, str):
            raise Wrong(f"expected a bandwidth, got {shown(raw)}", 'write "2MB/s"')
        try:
            return parse_rate(raw)
        except ValueError as error:
            raise Wrong(str(error), 'write "2MB/s"') from None


class Choice(Check):
    """One of a few words."""

    def __init__(self, *words: str) -> None:
        self.words = words

    def read(self, raw: Any) -> str:
        if raw not in self.words:
            raise Wrong(
                f"expected one of {', '.join(self.words)}, got {shown(raw)}",
                f'write for example "{self.words[0]}"',
            )
        return raw


class Number(Check):
    """A number between two bounds."""

    def __init__(self, low: float, high: float) -> None:
        self.low, self.high = low, high

    def read(self, raw: Any) -> float:
        is_number = isinstance(raw, int | float) and not isinstance(raw, bool)
        if not is_number or not self.low <= raw <= self.high:
            raise Wrong(
                f"expected a number {self.low:g}..{self.high:g}, got {shown(raw)}",
                f"write for example {self.low:g}",
            )
        return float(raw)

    def from_text(self, text: str) -> Any:
        return float(text) if re.fullmatch(r"-?[0-9]{1,18}(\.[0-9]{1,18})?", text) else text


class Flag(Check):
    """True or false."""

    def read(self, raw: Any) -> bool:
        if not isinstance(raw, bool):
            raise Wrong(f"expected true or false, got {shown(raw)}", "write it without quotes")
        return raw

    def from_text(self, text: str) -> Any:
        return {"true": True, "1": True, "false": False, "0": False}.get(text.strip().lower(), text)


class Text(Check):
    """One text, which may be empty."""

    def read(self, raw: Any) -> str:
        if not isinstance(raw, str) or "\0" in raw:
            raise Wrong(f"expected a text, got {shown(raw)}", "write it in quotes")
        return raw


class Name(Check):
    """A name of A-Z a-z 0-9 _ . -"""

    def __init__(self, example: str) -> None:
        self.example = example

    def read(self, raw: Any) -> str:
        if not isinstance(raw, str) or not NAME.fullmatch(raw):
            raise Wrong(
                f"expected a name of 1 to 64 of A-Z a-z 0-9 _ . -, got {shown(raw)}",
                f'write for example "{self.example}"',
            )
        return raw


class PathText(Check):
    """A path; it is made absolute by whoever knows what it is relative to."""

    def read(self, raw: Any) -> str:
        if not isinstance(raw, str) or not raw.strip():
            raise Wrong(
                f"expected a path, got {shown(raw)}", 'write a path in quotes, such as "~/data/taskdeck.db"'
            )
        if "\0" in raw:
            raise Wrong("a path can't hold a NUL character", "remove it")
        return raw


class Texts(Check):
    """A list of texts. In the environment: separated by commas, or a TOML list."""

    example = '["a", "b"]'

    def read(self, raw: Any) -> tuple[str, ...]:
        if not isinstance(raw, list):
            raise Wrong(f"expected a list of texts, got {self.quote(raw)}", f"write {self.example}")
        return tuple(self.read_one(item) for item in raw)

    def read_one(self, item: Any) -> str:
        if not isinstance(item, str) or not item.strip():
            raise Wrong(
                f"expected a list of texts, one of them is {self.quote(item)}", f"write {self.example}"
            )
        return item

    def quote(self, value: Any) -> str:
        return shown(value)

    def from_text(self, text: str) -> Any:
        if text.lstrip().startswith("["):
            return toml_value(text)
        return [part.strip() for part in text.split(",") if part.strip()]


class VariableNames(Texts):
    """Names of environment variables."""

    example = '["PATH", "HOME"]'

    def read_one(self, item: Any) -> str:
        if not isinstance(item, str) or not _VARIABLE_NAME.fullmatch(item):
            raise Wrong(
                f"expected names of environment variables, one of them is {shown(item)}",
                f"write {self.example}",
            )
        return item


class Filters(Texts):
    """Filters of tasks, as `taskdeck list` takes them."""

    example = '["tag:legal", "type:invoice"]'

    def read_one(self, item: Any) -> str:
        item = super().read_one(item)
        try:
            parse(item)
        except UsageError as error:
            raise Wrong(f"{shown(item)}: {error.what}", error.remedy or f"write {self.example}") from None
        return item


class Handlers(Texts):
    """Python files or importable modules that declare task types."""

    example = '["tasks.py", "package.module"]'

    def read_one(self, item: Any) -> str:
        item = super().read_one(item)
        if "\0" in item or not (
            is_file_handler(item) or all(part.isidentifier() for part in item.split("."))
        ):
            raise Wrong(
                f"expected a .py file or an importable module, got {shown(item)}", f"write {self.example}"
            )
        return item


@cache
def checks_of(table: type[Struct]) -> dict[str, Check]:
    """The checks of a table's own keys; tables in it have none."""
    hints = get_type_hints(table, include_extras=True)
    return {key: hint.__metadata__[0] for key, hint in hints.items() if hasattr(hint, "__metadata__")}


class References(Texts):
    """Secrets by reference. A literal is refused and never repeated, here or in any message."""

    example = '["env:API_TOKEN", "file:/run/secrets/token"]'

    def read_one(self, item: Any) -> str:
        if not isinstance(item, str) or not kind_of(item):
            raise Wrong("expected references to secrets, one of them is a literal", f"write {self.example}")
        if fault := fault_of(item):
            raise Wrong(fault, "correct it, or write a reference of another form")
        return item

    def quote(self, value: Any) -> str:
        return "a literal"


class ExitCodes(Check):
    """A table of exit codes to failure classes."""

    classes = ("retryable", "delayed", "fatal", "success")

    def read(self, raw: Any) -> dict[int, str]:
        if not isinstance(raw, dict):
            raise Wrong(f"expected a table of exit codes, got {shown(raw)}", 'write { 75 = "retryable" }')
        return {self._code(code): self._class(code, word) for code, word in raw.items()}

    def from_text(self, text: str) -> Any:
        return toml_value(text)

    def _code(self, code: str) -> int:
        if not re.fullmatch(r"0|[1-9][0-9]{0,2}", code) or int(code) > 255:
            raise Wrong(f"expected an exit code 0..255, got {shown(code)}", 'write { 75 = "retryable" }')
        return int(code)

    def _class(self, code: str, word: Any) -> str:
        if word not in self.classes:
            expected = ", ".join(self.classes)
            raise Wrong(
                f"exit code {code}: expected one of {expected}, got {shown(word)}",
                'write for example "fatal"',
            )
        return word


def toml_value(text: str) -> Any:
    try:
        import tomllib  # asked for by lists in variables alone

        return tomllib.loads(f"value = {text}")["value"]
    except (ValueError, RecursionError):
        return text


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known word that `word` was most likely meant to be."""
    import difflib  # costs milliseconds and is needed for mistakes only

    by_lower = {name.lower(): name for name in known}
    found = difflib.get_close_matches(word.lower().replace("-", "_"), by_lower, n=1, cutoff=0.6)
    return by_lower[found[0]] if found else None
