"""What the documents state as law is what the code holds to."""

from __future__ import annotations

import re
from pathlib import Path

from taskdeck.engine.rules.tasks import TRANSITIONS, TaskState

DOCS = Path(__file__).parent.parent / "docs"


def stated_transitions() -> dict[str, dict[str, frozenset[str]]]:
    """The task table of docs/states.md."""
    section = (DOCS / "states.md").read_text("utf-8").split("## Tasks")[1].split("\n## ")[0]
    table = {}
    for state, changes in re.findall(r"^\| ([A-Z_]+) \| (.*) \|$", section, re.MULTILINE):
        table[state] = {
            to: frozenset(reasons.split(", "))
            for to, reasons in re.findall(r"([A-Z_]+) \(([a-z_, ]+)\)", changes)
        }
    return table


def test_the_task_table_of_the_documents_is_the_codes() -> None:
    in_code = {
        state.value: {to.value: reasons for to, reasons in row.items()} for state, row in TRANSITIONS.items()
    }
    assert stated_transitions() == in_code
    assert set(in_code) == {state.value for state in TaskState}


def test_every_link_between_documents_leads_somewhere() -> None:
    root = DOCS.parent
    pages = [*root.glob("*.md"), *DOCS.rglob("*.md"), *(root / "examples").rglob("*.md")]
    broken = []
    for page in pages:
        for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text("utf-8")):
            if "://" not in target and not (page.parent / target).exists():
                broken.append(f"{page.relative_to(root)}: {target}")
    assert broken == []
