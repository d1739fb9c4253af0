"""Texts that hurt screens, and what a terminal must never be sent of them."""

from __future__ import annotations

import re

HOSTILE = (
    "\x1b]52;c;ZXZpbA==\x07clipboard by BEL",
    "\x1b]52;c;ZXZpbA==\x1b\\clipboard by ST",
    "\x9d52;c;ZXZpbA==\x9cclipboard by C1",
    "\x1b[2J\x1b[H\x1b[6nfake screen",
    "\x1b]0;title\x07",
    "an unfinished \x1b]52;c;",
    "an unfinished \x1b[",
    "\x1bc\x1b(0\x0e\x9b31mred\x9c",
    "\x1b_Gi=1;AAAA\x1b\\kitty \x1bPq#0\x1b\\ sixel",
    "\x00\x01\x08\x0b\x0c\x0d\x7f\x85\x90",
    "right \u202eto left\u202c \u2066isolated\u2069 \u200f\u061c",
    "line\u2028separator\u2029 tag\U000e0041 surrogate \ud800\udcff \ufff9a\ufffab\ufffb",
    "x" * 10_000,
    "字" * 10_000,
    "a" + "\u0301" * 10_000,
    "[/x] [bold] [@click=app.quit]quit[/] [/",
    "[link=https://example.org]x[/link] \\",
    "a backslash at the end\\",
    "a\u200db\u200d \u200d 👩‍👩‍👧‍👦 👍🏽 ❤️ 🇯🇵",
    "cafe\u0301 한글 \u1112\u1161\u11ab ｆｕｌｌ ﾊﾝｶｸ",
    "tab\there\nand a second line\r\nand a third\rover",
    "",
    " ",
)
"""Escapes and controls of every kind, markup, and characters whose width is anybody's guess."""

UNWANTED = re.compile(
    r"[\x00-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ud800-\udfff\ufe00-\ufe0f\ufeff\ufff9-\ufffb\U000e0000-\U000e0fff]"
)
"""What no widget may draw."""
