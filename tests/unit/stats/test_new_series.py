"""A new image, engine, rig or workload: what it changed against the series before."""

from __future__ import annotations

import math
from typing import Any

import pytest

from harness.records.nightly import Night
from harness.stats.new_series import differences, new_series
from tests.unit.stats.night_build import night, nights

OLD = {"engine": "1.0", "configuration": "five", "workload": "w"}
NEW = OLD | {"engine": "2.0"}
HISTORY = nights(0, 20, identity=OLD)


def first(number: int = 20, *, moved: float = -0.1, **changes: Any) -> Night:
    shifts = dict.fromkeys(("seconds", "delivered_per_step", "step_s"), moved)
    return night(number, moved=shifts, **({"key": "new", "identity": NEW} | changes))


def test_the_first_night_says_what_changed_and_by_how_much() -> None:
    found = new_series(first(), HISTORY)

    assert found is not None
    assert found.nights == 14
    assert found.log_ratios == pytest.approx(dict.fromkeys(found.log_ratios, -0.1), abs=0.03)
    assert len(found.log_ratios) == 3
    assert "engine: 1.0 → 2.0" in found.differences
    assert found.same_work


def test_other_work_is_said_to_be_that() -> None:
    found = new_series(first(identity=NEW | {"workload": "v"}), HISTORY)

    assert found is not None
    assert not found.same_work


def test_it_is_compared_until_it_has_nights_of_its_own() -> None:
    own = [first(number) for number in range(20, 26)]

    assert new_series(own[4], [*HISTORY, *own[:4]]) is not None
    assert new_series(own[5], [*HISTORY, *own[:5]]) is None


def test_the_old_series_is_compared_by_its_valid_nights() -> None:
    bad = nights(20, 22, identity=OLD, moved={"seconds": -0.5}, doubts=("canary_moved",))
    found = new_series(first(22), [*HISTORY, *bad])

    assert found is not None
    assert found.last_at == HISTORY[-1].at
    assert found.log_ratios["seconds"] == pytest.approx(-0.1, abs=0.03)


def test_a_configuration_that_is_watched_beside_is_no_series_before() -> None:
    watched = nights(0, 20, key="watched", identity=OLD | {"configuration": "three"})

    assert new_series(night(20, identity=OLD), watched) is None
    found = new_series(first(), [*HISTORY, *watched])
    assert found is not None
    assert "engine: 1.0 → 2.0" in found.differences


def test_the_first_night_of_all_is_compared_with_nothing() -> None:
    assert new_series(night(0), []) is None


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ({"driver": "580"}, {"driver": "590"}, ("driver: 580 → 590",)),
        ({"driver": "580"}, {"driver": "580"}, ()),
        ({"driver": "580"}, {}, ("driver: 580 → unknown",)),
        ({}, {"head image x": "sha"}, ("head image x: unknown → sha",)),
        ({"head temperature": "60 °C"}, {"head temperature": "65 °C"}, ()),
        ({"head temperature": "60 °C"}, {"head temperature": "66 °C"}, ("head temperature: 60 °C → 66 °C",)),
        ({"head temperature": "? °C"}, {"head temperature": "66 °C"}, ("head temperature: ? °C → 66 °C",)),
        ({"head power limit": "100 W"}, {"head power limit": "101 W"}, ("head power limit: 100 W → 101 W",)),
    ],
)
def test_facts_that_differ_are_named_and_warm_days_are_not(
    before: dict[str, str], after: dict[str, str], said: tuple[str, ...]
) -> None:
    assert differences(before, after) == said


def test_ratios_are_those_of_the_figures() -> None:
    found = new_series(first(moved=math.log(0.8)), HISTORY)

    assert found is not None
    assert math.exp(found.log_ratios["step_s"]) == pytest.approx(0.8, abs=0.03)
