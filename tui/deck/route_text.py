"""What a route's page says: the sum that makes its score, the stages of its last check, its last results. Pure."""

from __future__ import annotations

from taskdeck.engine import views

from .. import format as look
from .states import Glyphs
from .tables import stage_marks

SHOWN = 15


def page(found: views.RouteView, glyphs: Glyphs, width: int) -> list[str]:
    """All lines."""
    plain = glyphs.plain
    expected = [*([found.expected_ip] if found.expected_ip else []), *found.expected_regions]
    glyph, word, _ = glyphs.slot(found.state)
    why = found.why_not if isinstance(found.why_not, str) else ""
    lines = look.fields(
        [
            ("state", f"{glyph} {word}" + (", degraded: chosen last" if found.degraded else "")),
            ("usable", f"no: {look.tidy(why)}" if why else "yes"),
            ("score", plain(look.breakdown(found.breakdown))),
            ("latency", look.milliseconds(found.latency_ms)),
            ("failures", f"{found.consecutive_failures} in a row, {found.recent_timeouts} recent timeouts"),
            ("stages", _stages(found, glyphs)),
            ("exit", " ".join(look.tidy(text) for text in (found.exit_ip, found.region) if text)),
            ("expected", look.tidy(", ".join(expected))),
            (
                "rests",
                f"until {look.local(found.cooldown_until)} ({found.cooldown_reason})"
                if found.cooldown_until
                else "",
            ),
            (
                "last error",
                look.tidy(" ".join(text for text in (found.last_error, found.last_error_detail) if text)),
            ),
            ("last check", look.local(found.last_check_at)),
            ("next check", look.local(found.next_check_at)),
            ("held by", " ".join(f"#{task}" for task in found.tasks)),
            ("group", found.group),
            ("url", look.tidy(found.url)),
        ],
        width=width,
    )
    return [*lines, *_samples(found, glyphs)]


def _stages(found: views.RouteView, glyphs: Glyphs) -> str:
    stages = {
        "reached": found.stages.tcp,
        "probed": found.stages.probe,
        "left by its exit": found.stages.exit,
    }
    if not found.last_check_at:
        return "never checked"
    marks = stage_marks(found, glyphs)
    return ", ".join(
        f"{mark} {name} {look.milliseconds(ms)}".rstrip()
        for mark, (name, ms) in zip(marks, stages.items(), strict=True)
    )


def _samples(found: views.RouteView, glyphs: Glyphs) -> list[str]:
    if not isinstance(found.samples, list) or not found.samples:
        return []
    now = views.now()
    rows = [
        (
            look.local(each.at, now=now),
            each.source,
            "passed" if each.error_type is None else look.tidy(each.error_type),
            look.milliseconds(each.ms),
            look.tidy(each.target or ""),
        )
        for each in found.samples[:SHOWN]
    ]
    return ["", *look.table(("AT", "BY", "RESULT", "TOOK", "TARGET"), rows)]
