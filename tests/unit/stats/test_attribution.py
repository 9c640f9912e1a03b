"""What moved with a regression: acceptance, step time, both, the rig itself, or neither."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.stats.attribution import Sides, cause

STILL = 0.0


def sides(moved: float, *, before: int = 20, after: int = 4, sd: float = 0.01, seed: int = 1) -> Sides:
    rng = np.random.default_rng(seed)
    return Sides(before=_scattered(rng, before, sd, 0.0), after=_scattered(rng, after, sd, moved))


def _scattered(rng: np.random.Generator, count: int, sd: float, level: float) -> Sequence[float]:
    values = rng.standard_normal(count)
    return (level + sd * (values - values.mean())).tolist()  # whose mean is the level itself


@pytest.mark.parametrize(
    ("tokens", "step", "canary", "words"),
    [
        (-0.06, STILL, STILL, "acceptance moved and step time did not"),
        (STILL, -0.06, STILL, "step time moved and acceptance did not"),
        (STILL, -0.06, -0.05, "the canary itself became slower"),
        (STILL, 0.06, 0.05, "the canary itself became faster"),
        (-0.06, -0.06, STILL, "acceptance and step time both moved"),
        (-0.06, -0.06, -0.05, "the canary itself became slower, and acceptance moved too"),
        (STILL, STILL, STILL, "neither acceptance nor step time moved by itself"),
        (-0.06, -0.01, STILL, "acceptance moved and step time did not"),
        (STILL, -0.06, 0.05, "step time moved and acceptance did not"),
    ],
)
def test_the_cause_is_what_moved(tokens: float, step: float, canary: float, words: str) -> None:
    assert cause(sides(tokens), sides(step, seed=2), sides(canary, seed=3)).startswith(words)


def test_a_slow_rig_is_the_cause_whatever_else_is_known() -> None:
    assert "look at rig, driver and clocks, not at the workload" in cause(sides(0.0), sides(-0.3), None, slow_rig=True)


@pytest.mark.parametrize("canary", [None, Sides(before=(), after=()), Sides(before=(0.0,), after=())])
def test_a_canary_that_nobody_read_says_nothing(canary: Sides | None) -> None:
    assert cause(sides(0.0), sides(-0.06), canary).startswith("step time moved and acceptance did not")


def test_one_figure_alone_does_not_hide_what_the_other_cannot_tell() -> None:
    unknown = Sides(before=(), after=())

    assert cause(unknown, sides(-0.06), None).startswith("step time moved")
    assert cause(unknown, unknown, None).startswith("neither")


def test_nights_that_were_launched_twice_weigh_more() -> None:
    plain = Sides(before=(0.0, 0.01), after=(-0.1, 0.0))
    weighed = Sides(before=(0.0, 0.01), after=(-0.1, 0.0), after_launches=(3.0, 1.0))

    assert plain.log_ratio == pytest.approx(-0.055)
    assert weighed.log_ratio == pytest.approx(-0.08)


@given(st.floats(min_value=-0.2, max_value=0.2), st.floats(min_value=-0.2, max_value=0.2))
def test_better_and_worse_have_the_same_cause(tokens: float, step: float) -> None:
    down = cause(sides(tokens), sides(step, seed=2), None)
    up = cause(_mirrored(sides(tokens)), _mirrored(sides(step, seed=2)), None)

    assert up == down


def _mirrored(one: Sides) -> Sides:
    return Sides(before=[-value for value in one.before], after=[-value for value in one.after])
