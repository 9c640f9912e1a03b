"""What stands beside the headline: every cell with its usual value, and few false alarms over many."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from harness.records.nightly import Night
from harness.stats.beside import BesideFigure, beside
from tests.unit.stats.night_build import accepted, night

CELLS = tuple(f"load {number}" for number in range(20))
NAMES = ("ttft_s", "decode_tokens_per_s", "step_s")
LOAD = {"class": "prose", "concurrency": 4}


def measured(number: int, *, slower: dict[tuple[str, str], float] | None = None, **changes: Any) -> Night:
    rng = np.random.default_rng([number, 7])
    cells = {load: {name: 0.5 * math.exp(0.02 * float(rng.standard_normal())) for name in NAMES} for load in CELLS}
    for (load, name), factor in (slower or {}).items():
        cells[load][name] *= factor
    fields = {
        "cells": cells,
        "loads": dict.fromkeys(CELLS, LOAD),
        "boot_s": 300.0 + number % 3,
        "kv_cache_tokens": 1000,
    }
    return night(number, **(fields | changes))


HISTORY = [measured(number) for number in range(20)]
BASELINE = accepted(HISTORY[:14])


def by_name(found: tuple[BesideFigure, ...], name: str, load_id: str | None = None) -> BesideFigure:
    return next(one for one in found if (one.name, one.load_id) == (name, load_id))


def test_a_cell_that_moved_is_named_with_its_usual_value() -> None:
    tonight = measured(20, slower={("load 3", "ttft_s"): 1.3})

    found = beside(tonight, HISTORY, BASELINE)

    moved = [one for one in found if one.moved]
    assert [(one.name, one.load_id, one.is_worse) for one in moved] == [("ttft_s", "load 3", True)]
    assert moved[0].load == LOAD
    assert moved[0].against == "baseline"
    assert moved[0].nights == 14
    assert moved[0].ratio == pytest.approx(1.3, abs=0.07)
    assert moved[0].p is not None
    assert moved[0].p < 0.05


@pytest.mark.parametrize(("name", "factor", "worse"), [("decode_tokens_per_s", 0.7, True), ("step_s", 0.7, False)])
def test_whether_it_is_worse_depends_on_the_figure(name: str, factor: float, worse: bool) -> None:
    found = beside(measured(20, slower={("load 3", name): factor}), HISTORY, BASELINE)

    assert by_name(found, name, "load 3").is_worse is worse


def test_many_quiet_cells_rarely_alarm() -> None:
    alarmed = [
        number for number in range(20, 60) if any(one.moved for one in beside(measured(number), HISTORY, BASELINE))
    ]

    assert len(alarmed) <= 6  # 5 % of 40 nights are 2; more than 6 have a chance below 1 in 100


def test_a_small_move_is_no_news_however_sure() -> None:
    steady = [night(number, cells={"load": {"ttft_s": 0.5 + 1e-6 * number}}) for number in range(14)]
    tonight = night(14, cells={"load": {"ttft_s": 0.51}})

    figure = by_name(beside(tonight, steady, accepted(steady)), "ttft_s", "load")

    assert figure.p is not None
    assert figure.p < 0.001
    assert not figure.moved


def test_without_a_baseline_the_history_stands_in_and_says_so() -> None:
    figure = by_name(beside(measured(20), HISTORY, None), "ttft_s", "load 0")

    assert figure.against == "history"
    assert figure.nights == 14


def test_what_cannot_be_held_against_anything_says_why() -> None:
    tonight = measured(3, cells={"load 0": {"ttft_s": 0.5}, "new": {"ttft_s": 0.5}})
    found = beside(tonight, HISTORY[:3], None)

    assert by_name(found, "ttft_s", "load 0").null_reason == "3 earlier nights measured it, 5 are needed"
    assert by_name(found, "ttft_s", "new").usual is None
    assert by_name(found, "ttft_s", "load 1").null_reason == "not measured tonight"
    assert by_name(found, "ttft_s", "load 1").value is None
    assert not any(one.moved for one in found)


def test_boot_cache_and_failed_launches_stand_beside_too() -> None:
    found = beside(measured(20, boot_s=500.0, kv_cache_tokens=950, failed_launches=1), HISTORY, BASELINE)

    assert by_name(found, "boot_s").moved
    assert by_name(found, "kv_cache_tokens").moved
    assert by_name(found, "failed_launches").moved
    assert by_name(found, "failed_launches").usual == 0
    quiet = beside(measured(20), HISTORY, BASELINE)
    assert not any(one.moved for one in quiet if one.load_id is None)


def test_an_engine_that_says_nothing_of_its_cache_has_no_figure_of_it() -> None:
    mute = [measured(number, kv_cache_tokens=None) for number in range(10)]

    assert not [one for one in beside(mute[-1], mute[:-1], None) if one.name == "kv_cache_tokens"]
