"""Which changes of a series stand, and which somebody accepted."""

from __future__ import annotations

from collections.abc import Sequence

from harness.records.nightly import Night
from harness.stats.series import Series, marks, points, series_of
from tests.unit.stats.night_build import accepted, night

FIGURE = "seconds"


def made(levels: Sequence[float]) -> list[Night]:
    return [night(number, moved={FIGURE: level}) for number, level in enumerate(levels)]


def series(nights: list[Night], first: int = 0, end: int = 0) -> Series:
    return series_of(FIGURE, nights, accepted(nights[first:end]) if end else None)


STEP = [*[0.0] * 25, *[-0.08] * 30]
DRIFT = [-0.004 * max(0, at - 24) for at in range(80)]


def test_a_change_after_the_baseline_stands() -> None:
    one = series(made(STEP), 0, 14)

    assert one.standing is not None
    assert one.standing.log_ratio < 0
    assert [mark.accepted for mark in marks(one)] == [False]


def test_a_change_within_or_before_the_baseline_is_accepted() -> None:
    nights = made(STEP)

    for first, end in ((20, 34), (25, 39), (40, 54)):
        one = series(nights, first, end)
        assert one.standing is None
        assert [mark.accepted for mark in marks(one)] == [True]


def test_a_drift_that_goes_on_after_it_was_accepted_stands_again() -> None:
    nights = made(DRIFT)

    early, late = series(nights[:54], 40, 54), series(nights, 40, 54)

    assert early.standing is None
    assert late.standing is not None
    assert late.standing.log_ratio < -0.03
    assert [mark.accepted for mark in marks(late)] == [True, False]


def test_a_drift_that_ended_before_the_baseline_never_comes_back() -> None:
    levels = [*DRIFT[:50], *[DRIFT[49]] * 60]
    nights = made(levels)

    assert all(series(nights[:end], 60, 74).standing is None for end in (80, 95, 110))


def test_what_went_and_came_back_does_not_stand_and_is_still_drawn() -> None:
    one = series(made([*[0.0] * 25, *[-0.08] * 20, *[0.0] * 20]), 0, 14)

    assert one.standing is None
    assert [round(mark.change.log_ratio, 1) for mark in marks(one)] == [-0.1, 0.1]


def test_what_went_and_came_back_in_part_stands_in_the_direction_that_is_left() -> None:
    one = series(made([*[0.0] * 25, *[-0.16] * 20, *[-0.08] * 20]), 0, 14)

    assert one.standing is not None
    assert one.standing.log_ratio < -0.1


def test_a_baseline_whose_nights_were_pruned_accepts_what_was_before_it() -> None:
    nights = made(STEP)
    baseline = accepted(nights[26:40])

    assert series_of(FIGURE, [*nights[:26], *nights[40:]], baseline).standing is None


def test_the_dates_of_a_change_are_those_of_its_nights() -> None:
    nights = made(STEP)
    (mark,) = marks(series(nights))

    assert abs(nights.index(next(one for one in nights if one.at == mark.at)) - 25) <= 1
    assert mark.found_at > mark.at
    assert mark.date == mark.at[:10]


def test_doubtful_nights_are_points_that_do_not_count() -> None:
    nights = made([0.0] * 4)
    doubtful = night(4, doubts=("canary_moved",))
    nothing = night(5, figures={FIGURE: ()})

    found = points(FIGURE, [*nights, doubtful, nothing], nights)

    assert [point.counts for point in found] == [True] * 4 + [False]
