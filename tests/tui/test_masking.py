from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from taskdeck.tui.masking import LONGEST, Masked


def star(text: str) -> str:
    if "-----BEGIN " in text and "-----END " in text:
        text = "[key]\n"
    return text.replace("hunter2", "***")


def masked(chunks: list[bytes]) -> bytes:
    return b"".join(Masked(star).all(chunks))


@given(st.lists(st.binary(max_size=50), max_size=20))
def test_without_secrets_every_byte_passes_in_order(chunks: list[bytes]) -> None:
    assert b"".join(Masked(lambda text: text).all(chunks)) == b"".join(chunks)


@given(st.integers(1, 20))
def test_a_secret_is_masked_however_the_stream_is_cut(size: int) -> None:
    data = b"one hunter2 two\nthree hunter2"
    assert masked([data[i : i + size] for i in range(0, len(data), size)]) == b"one *** two\nthree ***"


@given(st.integers(1, 40))
def test_a_private_key_is_masked_as_a_whole(size: int) -> None:
    data = b"-----BEGIN PRIVATE KEY-----\nabc\ndef\n-----END PRIVATE KEY-----\n"
    assert masked([data[i : i + size] for i in range(0, len(data), size)]) == b"[key]\n"


def test_whole_lines_are_shown_at_once_and_unfinished_ones_at_the_end() -> None:
    stream = Masked(star)
    assert stream.feed(b"a\nb") == b"a\n"
    assert stream.feed(b"c") == b""
    assert stream.rest() == b"bc"


def test_a_line_without_end_is_cut_at_a_space_in_bounded_memory() -> None:
    stream = Masked(star)
    shown = b""
    for _ in range(20):
        shown += stream.feed(b"x hunter2 " * 10_000)
        assert len(stream._held) <= LONGEST + 100_000
    shown += stream.rest()
    assert shown == b"x *** " * 200_000


def test_a_key_that_never_ends_does_not_hold_the_stream_back_for_ever() -> None:
    stream = Masked(star)
    shown = b"".join(stream.feed(b"-----BEGIN X\n" + b"y\n" * 50_000) for _ in range(10))
    assert shown
