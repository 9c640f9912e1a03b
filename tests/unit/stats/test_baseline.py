"""A baseline is made of valid nights of one series, and says when it is too small to judge."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from harness.errors import InputError
from harness.records.nightly import Baseline, Night
from harness.stats.baseline import baseline_of, too_few


def night(number: int, **changes: object) -> Night:
    plain = Night(
        run_id=f"run-{number:02}",
        sweep="small",
        at=f"2026-11-{number:02}T02:00:00+00:00",
        key="k",
        figures={"seconds": (0.01 * number, 0.01 * number + 0.002)},
        cells={"load": {"ttft_s": 0.4 + number}},
        boot_s=300.0 + number,
    )
    return replace(plain, **changes)  # type: ignore[arg-type] # fields by name


def accepted(nights: list[Night]) -> Baseline:
    return baseline_of(nights, name="shipped", author="op", reason="first", accepted_at="2026-12-01T09:00:00+00:00")


def test_it_holds_a_value_for_each_night_and_the_scatter_of_each_cell() -> None:
    found = accepted([night(number) for number in range(1, 8)])

    assert found.values["seconds"] == pytest.approx([0.01 * number + 0.001 for number in range(1, 8)])
    assert found.cells == {"load": {"ttft_s": tuple(0.4 + number for number in range(1, 8))}}
    assert found.launch["boot_s"] == tuple(300.0 + number for number in range(1, 8))
    assert found.launch["kv_cache_tokens"] == ()
    assert found.launch["failed_launches"] == (0.0,) * 7
    assert too_few(found) is None


def test_the_order_in_which_nights_are_given_does_not_matter() -> None:
    nights = [night(number) for number in range(1, 8)]
    mixed = random.Random(3).sample(nights, len(nights))

    assert accepted(mixed) == accepted(nights)


def test_doubtful_nights_are_left_out() -> None:
    nights = [night(number) for number in range(1, 7)]

    assert accepted([*nights, night(7, doubts=("slow_boot",))]) == accepted(nights)


def test_few_nights_are_kept_and_leave_judging_to_the_history() -> None:
    found = accepted([night(1), night(2)])

    assert len(found.run_ids) == 2
    assert "holds 2 nights" in str(too_few(found))
    assert "only the history judges" in str(too_few(found))
    assert "holds 1 night," in str(too_few(accepted([night(1)])))


@pytest.mark.parametrize("other", [{"key": "other"}, {"sweep": "large"}])
def test_nights_of_two_series_are_no_baseline(other: dict[str, str]) -> None:
    with pytest.raises(InputError, match=r"2 series.*run-0[12].*run-0[12]"):
        accepted([night(1), night(2, **other)])


def test_without_a_valid_night_there_is_none() -> None:
    with pytest.raises(InputError, match="no night is valid"):
        accepted([night(1, doubts=("canary_moved",)), night(2, figures={})])
