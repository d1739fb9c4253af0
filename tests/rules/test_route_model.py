"""Random histories of checks: at every step the rules come to the same health and state as a plain second writing of them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from taskdeck.engine.rules.resource_states import COOLDOWN, DISABLED
from taskdeck.engine.rules.route_cooldown import Group, Judgement, Standing, judge, recheck
from taskdeck.engine.rules.route_errors import ErrorType
from taskdeck.engine.rules.route_health import RouteHealth, Sample, score
from taskdeck.engine.rules.route_settings import RouteSettings
from tests.rules.route_model import Model

SETTINGS = RouteSettings()

Step = tuple[float, ErrorType | None, float]

steps = st.tuples(
    st.sampled_from([1.0, 10.0, 59.9, 60.0, 120.0, 599.0, 600.0, 1799.0, 1800.0, 1900.0, 4000.0]),
    st.one_of(st.none(), st.none(), st.sampled_from(list(ErrorType))),
    st.sampled_from([20.0, 180.0, 800.0, 801.0, 1250.0, 9000.0]),
)
histories = st.lists(st.tuples(steps, st.integers(1, 7)), max_size=12).map(
    lambda runs: [step for step, times in runs for _ in range(times)]
)
"""What fails, mostly fails again."""


class Rules:
    """One route under the real rules, moved as the store moves it."""

    def __init__(self, cap_refuses: bool) -> None:
        self.standing, self.health = Standing(), RouteHealth()
        self.group = Group(enabled=1 if cap_refuses else 100)

    def probe(self, now: float, error: ErrorType | None, ms: float) -> None:
        if change := recheck(self.standing, self.health, now, SETTINGS.cooldown):
            self._apply(Judgement(self.health, (change,)))
        stages = 3 if error is None else min(error.stages) - 1
        sample = Sample(now, error, None if error else ms, stages)
        self._apply(judge(self.standing, self.health, sample, self.group, SETTINGS, lambda low, high: 1.0))

    def _apply(self, judgement: Judgement) -> None:
        self.health = judgement.health
        for change in judgement.changes:
            self.standing = structs.replace(
                self.standing, state=change.to, reason=change.reason, cooldown_until=change.until or 0.0
            )


@given(histories, st.booleans())
def test_any_history_of_checks_leads_where_the_model_leads(history: list[Step], cap_refuses: bool) -> None:
    rules, model, now = Rules(cap_refuses), Model(cap_refuses), 1000.0
    for wait, error, ms in history:
        now += wait
        if error is not None and error.neutral and model.state == "FAULT":
            continue  # the re-check itself begins anew; the model has no half-begun ones
        rules.probe(now, error, ms)
        model.probe(now, error.value if error else "", ms)
        standing, health = rules.standing, rules.health
        assert standing.state == model.state
        assert (standing.reason or "") == (model.reason if model.state == "COOLDOWN" else "")
        if standing.state is DISABLED:
            return  # it is checked no more
        if standing.state is COOLDOWN:
            assert standing.cooldown_until == model.until
        assert health.consecutive_failures == model.failures
        assert health.degraded == model.degraded
        known = score(health, now, SETTINGS.score)
        assert (known.raw if known else None) == model.raw(now)
