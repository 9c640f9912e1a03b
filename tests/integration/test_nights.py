"""The promise of a nightly run in a small form; `python -m benchmarks.nightly` keeps it in full (docs/nightly.md)."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.night_draw import TOKENS, World
from benchmarks.night_worlds import DRIFTING, FROM, QUIET, Worlds, dropped, episodes, first, within
from benchmarks.nightly import TABLES, drift_table, slow_table, speed_table, written
from benchmarks.verdicts import Table, at_least, at_most

SERIES = 8
ACCEPTANCE = dropped(0.1, figure=TOKENS)
DOCS = Path(__file__).parents[2] / "docs" / "nightly.md"


@pytest.fixture(scope="module")
def worlds() -> Worlds:
    """Drawn at once: the nights before anything happens are the same in all of them."""
    drawn = Worlds(series=SERIES)
    drawn.draw(QUIET[0.02], DRIFTING, dropped(0.1), dropped(0.05), ACCEPTANCE)
    return drawn


def test_quiet_nights_hardly_ever_alarm_and_seldom_cost_a_second_launch(worlds: Worlds) -> None:
    found = worlds.of(QUIET[0.02])

    assert at_most(sum(episodes(one, lambda said: said.gate) for one in found), SERIES, 0.02)
    assert at_most(sum(episodes(one, lambda said: bool(said.shapes)) for one in found), SERIES, 0.1)
    nights = [said for series in found for said in series]
    assert sum(said.launches > 1 for said in nights) / len(nights) < 0.2


def test_drops_are_found_in_time(worlds: Worlds) -> None:
    large, small = worlds.of(dropped(0.1)), worlds.of(dropped(0.05))
    changes = [first(series, lambda said: said.change) for series in small]

    assert at_least(within([first(series, lambda said: said.gate) for series in large], 1), SERIES, 0.85)
    assert at_least(within(changes, 3), SERIES, 0.85)
    assert at_least(within(changes, 7), SERIES, 0.97)


def test_drifts_are_found_and_called_that(worlds: Worlds) -> None:
    assert drift_table(worlds).kept


def test_slow_nights_are_doubtful_until_they_are_the_rig(worlds: Worlds) -> None:
    assert slow_table(worlds).kept


def test_an_acceptance_only_change_is_named_as_that(worlds: Worlds) -> None:
    causes = [said.cause for series in worlds.of(ACCEPTANCE) for said in series[FROM + 7 :] if said.cause]

    assert causes
    assert sum("acceptance moved and step time did not" in cause for cause in causes) / len(causes) > 0.9


def test_a_rolling_baseline_swallows_what_a_pinned_one_keeps_saying(worlds: Worlds) -> None:
    pinned, rolling = (worlds.of(dropped(0.1, rolling=rolling)) for rolling in (False, True))

    assert all(series[FROM + 20].verdict == "regressed" for series in pinned)
    assert sum(series[FROM + 20].verdict == "regressed" for series in rolling) <= SERIES // 2


def test_three_years_of_nights_are_judged_at_once() -> None:
    assert speed_table(Worlds(series=1)).kept


def test_the_same_seed_is_the_same_series() -> None:
    world = World(launch_sd=0.02, nights=20)

    assert Worlds(series=2).of(world) == Worlds(series=2).of(world)


def test_every_table_has_its_place_on_the_page() -> None:
    page = DOCS.read_text(encoding="utf-8")
    table = Table(title="t", head=("a",), rows=[["1"]], judged=False)

    for name in TABLES:
        once = written(page, name, table)
        assert "### t" in once
        assert written(once, name, table) == once
    with pytest.raises(ValueError, match="no place"):
        written(page, "unknown", table)
