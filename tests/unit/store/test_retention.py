"""What the history keeps: everything lately, then one a week, then one a month, and always what is referred to."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.errors import InputError
from harness.records.nightly import Night
from harness.store.retention import OF_MONTH, OF_WEEK, RECENT, WEEKLY, Period, parse_period, thinned

NOW = "2026-12-01T08:00:00+00:00"
LAST = datetime(2026, 12, 1, 2, tzinfo=UTC)


def night(days_ago: int, *, key: str = "k", sweep: str = "s", run_id: str = "", doubtful: bool = False) -> Night:
    return Night(
        run_id=run_id or f"run-{10_000 - days_ago}-{key}-{sweep}",
        sweep=sweep,
        at=(LAST - timedelta(days=days_ago)).isoformat(),
        key=key,
        figures={"seconds": (0.1,)},
        doubts=("canary_moved",) if doubtful else (),
    )


def kept_days(nights: list[Night], period: Period, why: str) -> list[date]:
    kept = thinned(nights, period, now=NOW, protected={}).kept
    return [datetime.fromisoformat(one.at).date() for one in nights if kept.get(one.run_id) == why]


def test_three_years_of_nights_are_thinned_by_their_age() -> None:
    nights = [night(days) for days in range(1_095, -1, -1)]

    recent = kept_days(nights, Period(days=90), RECENT)
    weekly = kept_days(nights, Period(days=90), OF_WEEK)
    monthly = kept_days(nights, Period(days=90), OF_MONTH)

    assert len(recent) == 90
    assert len({day.isocalendar()[:2] for day in weekly}) == len(weekly) == 53
    assert all(day.weekday() == 0 for day in weekly[1:])  # the first night of its week
    assert len({(day.year, day.month) for day in monthly}) == len(monthly) == 22
    assert all(day.day == 1 for day in monthly[1:])
    assert max(monthly) < min(weekly) < max(weekly) < min(recent)


def test_a_number_keeps_so_many_of_the_newest_nights_of_each_sweep() -> None:
    nights = [night(days, sweep=sweep) for sweep in ("a", "b") for days in range(40)]

    assert len(kept_days(nights, Period(nights=7), RECENT)) == 14


def test_a_valid_night_stands_for_its_week_before_a_doubtful_one() -> None:
    monday = next(days for days in range(100, 107) if (LAST - timedelta(days=days)).weekday() == 0)
    nights = [night(monday, doubtful=True), night(monday - 1), night(monday - 2)]

    found = thinned(nights, Period(days=30), now=NOW, protected={})

    assert found.kept == {nights[1].run_id: OF_WEEK}
    assert found.removed == (nights[0].run_id, nights[2].run_id)


def test_series_are_thinned_apart_and_a_run_stays_for_any_of_its_nights() -> None:
    monday = next(days for days in range(100, 107) if (LAST - timedelta(days=days)).weekday() == 0)
    nights = [
        night(monday, key="k"),
        night(monday - 1, key="k", run_id="both"),
        night(monday - 1, key="other", run_id="both"),
        night(monday - 2, key="k"),
    ]

    assert thinned(nights, Period(days=30), now=NOW, protected={}).removed == (nights[3].run_id,)


def test_a_night_without_a_readable_date_stays() -> None:
    strange = Night(run_id="strange", sweep="s", at="once", key="k", figures={})

    assert "strange" in thinned([strange, *map(night, range(60))], Period(nights=1), now=NOW, protected={}).kept


@st.composite
def histories(draw: st.DrawFn) -> list[Night]:
    days = draw(st.lists(st.integers(0, 1_500), max_size=60))
    keys, sweeps = st.sampled_from(["k", "l"]), st.sampled_from(["s", "t"])
    shared = st.sampled_from(["", "", "", "one-run"])
    return [
        night(day, key=draw(keys), sweep=draw(sweeps), run_id=draw(shared), doubtful=draw(st.booleans()))
        for day in days
    ]


PERIODS = st.one_of(
    st.builds(Period, days=st.integers(1, 400)),
    st.builds(Period, nights=st.integers(1, 40)),
)


@given(nights=histories(), period=PERIODS, data=st.data())
def test_what_is_protected_never_goes(nights: list[Night], period: Period, data: st.DataObject) -> None:
    run_ids = sorted({one.run_id for one in nights})
    protected = data.draw(st.lists(st.sampled_from(run_ids), unique=True)) if run_ids else []

    found = thinned(nights, period, now=NOW, protected=dict.fromkeys([*protected, "elsewhere"], "a baseline"))

    assert not set(found.removed) & set(protected)
    assert all(found.kept[run_id] == "a baseline" for run_id in protected)
    assert set(found.kept) | set(found.removed) == set(run_ids)
    assert not set(found.kept) & set(found.removed)


@given(nights=histories(), period=PERIODS)
def test_the_period_stays_whole_and_no_week_or_month_is_lost(nights: list[Night], period: Period) -> None:
    found = thinned(nights, period, now=NOW, protected={})
    kept = [one for one in nights if one.run_id in found.kept]

    def slots(of: list[Night]) -> set[tuple[object, ...]]:
        return {(one.sweep, one.key, *datetime.fromisoformat(one.at).isocalendar()[:2]) for one in of}

    def months(of: list[Night]) -> set[tuple[object, ...]]:
        return {(one.sweep, one.key, one.at[:7]) for one in of}

    if period.days is not None:
        start = datetime.fromisoformat(NOW) - timedelta(days=period.days)
        assert all(one in kept for one in nights if datetime.fromisoformat(one.at) >= start)
        # A week that lies across the border may be kept as one of the period.
        assert slots(kept) >= slots([one for one in nights if datetime.fromisoformat(one.at) >= start - WEEKLY])
    assert months(kept) == months(nights)


@given(nights=histories(), period=PERIODS)
def test_pruning_twice_removes_nothing_more(nights: list[Night], period: Period) -> None:
    once = thinned(nights, period, now=NOW, protected={})
    left = [one for one in nights if one.run_id in once.kept]

    assert thinned(left, period, now=NOW, protected={}).removed == ()


@pytest.mark.parametrize(
    ("text", "expected"),
    [("90d", Period(days=90)), ("12w", Period(days=84)), (" 30 ", Period(nights=30)), ("1 w", Period(days=7))],
)
def test_a_period_is_days_weeks_or_nights(text: str, expected: Period) -> None:
    assert parse_period(text) == expected


@pytest.mark.parametrize("text", ["", "0", "0d", "-3d", "90days", "1.5w", "999999d", "6000w", "d"])
def test_what_is_no_period_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="not a period"):
        parse_period(text)
