"""Rooms for other widgets. What shows of a room between them is blank, and drawn as that: composing the lines of all rooms,
which hardly show, was a third of each picture.
"""

from __future__ import annotations

from textual.containers import Container, Horizontal, Vertical


class Room(Container):
    """A room whose style sheet says how it is filled."""

    BLANK = True


class Across(Horizontal):
    """Widgets beside each other."""

    BLANK = True


class Down(Vertical):
    """Widgets below each other."""

    BLANK = True
