"""The deck: the screens of taskdeck and the terminal below them. Textual is imported from here on only."""

from __future__ import annotations

import os

# Has to stand before the first import of textual: with that protocol on, input methods lose text in some terminals.
os.environ.setdefault("TEXTUAL_DISABLE_KITTY_KEY", "1")
