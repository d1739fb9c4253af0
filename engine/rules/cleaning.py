"""Outside text made harmless for a terminal: it can't move the cursor, set a title, or turn text around.

Owns which characters may reach a screen. Markup of the screen library is no business of this module, secrets
neither.
"""

from __future__ import annotations

from .patterns import pattern

_STRINGS = r"(?:\x1b[\]PX^_]|[\x9d\x90\x98\x9e\x9f])[^\x07\x1b\x9c\n]*(?:\x07|\x1b\\|\x9c)"
_CONTROL = r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"
_ESCAPES = pattern(rf"{_STRINGS}|{_CONTROL}|\x1b[\[\]PX^_]|\x1b[ -/]*[0-~]?")
"""Whole sequences; of an unfinished one only its beginning, so that the text behind it stays visible."""

_REPLACED = {code: chr(0x2400 + code) for code in range(32)} | {0x7F: "\u2421"}
_REPLACED |= dict.fromkeys(
    [
        *range(0x80, 0xA0),  # C1 controls
        *(
            0x061C,
            0x200E,
            0x200F,
            *range(0x202A, 0x202F),
            *range(0x2066, 0x206A),
        ),  # direction marks and overrides
        *(0x2028, 0x2029),  # line and paragraph separators
        *range(0xD800, 0xE000),  # half surrogate pairs
        *range(0xE0000, 0xE0080),  # invisible tags
        *range(0xFFF9, 0xFFFC),  # interlinear annotation
    ],
    "\ufffd",
)
_TABLES: dict[str, dict[int, str]] = {}


def clean(text: str, *, limit: int | None = None, keep: str = "\n\t") -> str:
    """`text` without escape sequences, other controls made visible (`␇`, `�`), at most `limit` characters.

    `keep` names the controls that stay. What comes back is always encodable as UTF-8.
    """
    if limit is not None and len(text) > limit * 8:
        text = text[: limit * 8]  # what is far behind the limit needs no cleaning
    if not text.isprintable():
        text = _ESCAPES.sub("", text.replace("\r\n", "\n")).translate(_table(keep))
    if limit is not None and len(text) > limit:
        text = text[: max(limit - 1, 0)] + "…"
    return text


def _table(keep: str) -> dict[int, str]:
    if keep not in _TABLES:
        _TABLES[keep] = {code: shown for code, shown in _REPLACED.items() if chr(code) not in keep}
    return _TABLES[keep]
