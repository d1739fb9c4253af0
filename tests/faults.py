"""The known faults of other tools (`data/faults.jsonl`) and which of our tests cover them.

`@fault("TF040")` marks a test as covering a row. `python -m tests.faults [--area state,recovery]` lists the
rows with their tests, read from the source by `ast`: nothing is imported or run. Ends with 1 where a mark is
unusable.
"""

from __future__ import annotations

import argparse
import ast
import json
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
ROWS = TESTS / "data" / "faults.jsonl"


def fault(*ids: str) -> pytest.MarkDecorator:
    """Mark a test as covering these rows of `data/faults.jsonl`."""
    return pytest.mark.fault(*ids)


def known() -> dict[str, dict[str, object]]:
    """All rows by id, in the order of the file."""
    rows = [json.loads(line) for line in ROWS.read_text(encoding="utf-8").splitlines()]
    return {row["id"]: row for row in rows}


@dataclass(frozen=True)
class Mark:
    """One id as a test names it; `id` is None where the argument is no plain string."""

    id: str | None
    test: str
    line: int


_CALL = "fault("
"""What stands in each statement with a mark: of the others no tree is walked, and of most files none is made."""


class _Marks(ast.NodeVisitor):
    """Collects every `fault(...)` and `pytest.mark.fault(...)` of a file with the test it stands at."""

    def __init__(self, file: str, text: str) -> None:
        self.file = file
        self.names: list[str] = []
        self.found: list[Mark] = []
        self._lines = text.split("\n")

    def visit(self, node: ast.AST) -> None:
        if not isinstance(node, ast.stmt) or self._may_mark(node):
            super().visit(node)

    def _may_mark(self, node: ast.stmt) -> bool:
        first = min([node.lineno, *(each.lineno for each in getattr(node, "decorator_list", ()))])
        return any(_CALL in line for line in self._lines[first - 1 : node.end_lineno])

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> None:
        self.names.append(node.name)
        self.generic_visit(node)
        self.names.pop()

    visit_AsyncFunctionDef = visit_FunctionDef
    visit_ClassDef = visit_FunctionDef

    def visit_Call(self, node: ast.Call) -> None:
        if _is_fault(node.func):
            test = "::".join([self.file, *self.names])
            self.found += [Mark(_text(argument), test, node.lineno) for argument in node.args]
        self.generic_visit(node)


def _is_fault(function: ast.expr) -> bool:
    if isinstance(function, ast.Attribute):
        return function.attr == "fault"
    return isinstance(function, ast.Name) and function.id == "fault"


def _text(argument: ast.expr) -> str | None:
    if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
        return argument.value
    return None


def marks(folder: Path = TESTS) -> Iterator[Mark]:
    """Every mark in the test files below `folder`, by file name."""
    for path in sorted(folder.rglob("test_*.py")):
        text = path.read_text(encoding="utf-8")
        if _CALL not in text:
            continue
        visitor = _Marks(path.relative_to(folder.parent).as_posix(), text)
        visitor.visit(ast.parse(text, str(path)))
        yield from visitor.found


def report(areas: set[str], folder: Path = TESTS) -> tuple[list[str], bool]:
    """The lines to print for these areas (none = all), and whether every mark is usable."""
    rows = known()
    tests: dict[str, list[str]] = {}
    lines: list[str] = []
    for mark in marks(folder):
        if mark.id in rows:
            tests.setdefault(mark.id, []).append(mark.test)
        else:
            what = f"{mark.id} is no row of {ROWS.name}" if mark.id else "an id must be a plain string"
            lines.append(f"error: {mark.test} (line {mark.line}): {what}")
    usable = not lines
    shown = {id: str(row["area"]) for id, row in rows.items() if not areas or row["area"] in areas}
    lines += [line for id, area in shown.items() for line in _row(id, area, tests.get(id, []))]
    return [*lines, "", *_counts(shown, tests)], usable


def _row(id: str, area: str, tests: list[str]) -> list[str]:
    return [f"{id}  {area:<10} {test}" for test in dict.fromkeys(tests)] or [f"{id}  {area:<10} - no test"]


def _counts(shown: dict[str, str], tests: dict[str, list[str]]) -> list[str]:
    total = Counter(shown.values())
    tested = Counter(area for id, area in shown.items() if id in tests)
    lines = [f"{area:<10} {tested[area]:>3} of {total[area]:>3} have tests" for area in sorted(total)]
    return [*lines, f"{'all':<10} {tested.total():>3} of {total.total():>3} have tests"]


def main() -> int:
    areas = sorted({str(row["area"]) for row in known().values()})
    parser = argparse.ArgumentParser(prog="./dev faults", description="Which known faults have tests.")
    parser.add_argument("--area", default="", help=f"one or more, with commas: {', '.join(areas)}")
    wanted = {area for area in parser.parse_args().area.split(",") if area}
    if unknown := wanted.difference(areas):
        parser.error(f"no such area: {', '.join(sorted(unknown))} (there are: {', '.join(areas)})")
    lines, usable = report(wanted)
    print("\n".join(lines))
    return 0 if usable else 1


if __name__ == "__main__":
    sys.exit(main())
