"""What the demo's site sells (`data/items.csv`), and the orders that are uploaded to it (`data/orders.csv`).

Fixed data, the same in every run. The standard library alone.
"""

from __future__ import annotations

import csv
from functools import cache
from pathlib import Path

DATA = Path(__file__).parent / "data"

Row = dict[str, str]


@cache
def lists() -> dict[str, tuple[Row, ...]]:
    """The items of each list by the list's name, 120 in twelve lists; an item has `name`, `price`, `note`."""
    found: dict[str, list[Row]] = {}
    for item in _rows("items.csv"):
        found.setdefault(item.pop("list"), []).append(item)
    return {name: tuple(items) for name, items in found.items()}


@cache
def orders() -> tuple[Row, ...]:
    """The batch: 60 orders; `order_id` names each."""
    return tuple(_rows("orders.csv"))


def _rows(name: str) -> list[Row]:
    with (DATA / name).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))
