from __future__ import annotations

import pytest

from taskdeck.engine.rules.losses import Held, Loss, Way, way_of, why_review

BARE = Held(begun=True, bare=True, losses=0, losses_total=0, on_lost="rerun")


@pytest.mark.parametrize(
    ("held", "loss", "way"),
    [
        (BARE, Loss(), Way.TAKEN_OVER),
        (BARE._replace(bare=False), Loss(), Way.ALONE),
        (BARE._replace(bare=False, begun=False), Loss(), Way.ALONE),
        (BARE._replace(begun=False, losses=9, on_lost="review"), Loss(doubt="nobody knows"), Way.NEVER_BEGUN),
        (BARE._replace(on_lost="review"), Loss(charged=False), Way.REVIEW),
        (BARE, Loss(doubt="nobody knows"), Way.REVIEW),
        (BARE._replace(losses=2, losses_total=2), Loss(), Way.REVIEW),
        (BARE._replace(losses=2, losses_total=2), Loss(charged=False), Way.TAKEN_OVER),
        (BARE._replace(losses=2, losses_total=2), Loss(suspected=True, shared=True), Way.TAKEN_OVER),
        (BARE._replace(losses_total=29), Loss(suspected=True, shared=True), Way.REVIEW),
    ],
)
def test_what_a_task_has_and_how_its_worker_went_decide_its_way(held: Held, loss: Loss, way: Way) -> None:
    assert way_of(held, loss, 3) is way


def test_too_many_losses_are_told_before_a_task_that_must_not_run_twice() -> None:
    assert why_review(3, 4, "review", 3) == "its worker was lost 4 times"
    assert why_review(1, 1, "review", 3) == "its worker was lost and it must not run twice unasked"
    assert why_review(1, 1, "rerun", 3) == ""
