from __future__ import annotations

import gc

import pytest

from taskdeck.engine.garbage import uncollected


def test_collecting_rests_in_the_block_and_goes_on_behind_it() -> None:
    with uncollected():
        assert not gc.isenabled()
    assert gc.isenabled()


def test_collecting_goes_on_behind_a_block_that_failed() -> None:
    with pytest.raises(KeyError), uncollected():
        raise KeyError
    assert gc.isenabled()


def test_where_nothing_was_collected_nothing_is_behind_it() -> None:
    gc.disable()
    try:
        with uncollected():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()
