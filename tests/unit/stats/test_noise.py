"""The noise floor: measured by an A/A, kept, and used where it holds."""

from __future__ import annotations

import math
import statistics
from dataclasses import replace

import pytest

from harness.records.cell import LoadPoint
from harness.records.codec import from_json, to_json
from harness.records.noise import CellNoise, StoredNoise
from harness.records.trial import MEASURING_VERSION
from harness.stats.arms import comparison_of
from harness.stats.floor import measured_noise, noise_rows, sigma_interval
from harness.stats.noise import NoiseBook, usable_noise
from harness.stats.paired import SECONDS
from tests.unit.stats.arms_build import LOADS, SHORT, WIDE, ab_run, load, stored, voided

FACTORS = (1.0, 1.04, 0.97, 1.02, 0.99, 1.01)


def measured(**plan: object) -> StoredNoise:
    found = measured_noise(stored(ab_run(FACTORS, **plan)))  # type: ignore[arg-type]
    assert found is not None
    return found


def weights(*loads: LoadPoint) -> dict[LoadPoint, float]:
    return {one: 1 / len(loads) for one in loads}


def noise(sigma: float = 0.02, *, degrees: float = 5.0, at: str = "2026-11-01", version: str = "1.0") -> StoredNoise:
    cells = tuple(
        CellNoise(
            metric=SECONDS,
            context_tokens=one.context_tokens,
            concurrency=one.concurrency,
            between_sigma_ratio=sigma * (1 + number),
            within_sigma_ratio=0.05,
            degrees=degrees,
        )
        for number, one in enumerate(LOADS)
    )
    return StoredNoise(
        at=at,
        run_id=f"r-{at}",
        engine_version=version,
        measuring_version=MEASURING_VERSION,
        configuration_id="c",
        configuration="four",
        launches=6,
        objective=SECONDS,
        total_sigma_ratio=sigma,
        total_degrees=degrees,
        cells=cells,
        weights={one.load_id: 0.5 for one in LOADS},
    )


def test_an_a_a_tells_how_far_launches_lie_apart() -> None:
    found = measured()
    sigma = statistics.stdev(math.log(one) for one in FACTORS)
    assert (found.launches, found.total_degrees, found.objective) == (6, 5.0, "seconds")
    assert found.total_sigma_ratio == pytest.approx(sigma)
    rows = noise_rows(found, SECONDS)
    assert [(one.concurrency, one.degrees) for one in rows] == [(1, 5.0), (4, 5.0)]
    assert [one.between_sigma_ratio for one in rows] == pytest.approx([sigma] * 2)
    assert [one.within_sigma_ratio for one in rows] == pytest.approx([0.0] * 2, abs=1e-9)
    assert found.engine_version == "1.0"
    assert from_json(StoredNoise, to_json(found)) == found


def test_void_launches_are_not_noise() -> None:
    slow = ab_run((*FACTORS, 1.5))
    found, wanted = measured_noise(stored(voided(slow, "l7"))), measured()
    assert found is not None and found.total_sigma_ratio == pytest.approx(wanted.total_sigma_ratio)


def test_one_launch_has_no_noise_and_an_ab_stores_none() -> None:
    assert measured_noise(stored(ab_run((1.0,)))) is None
    assert measured_noise(stored(ab_run((1.0, 1.0), (0.8, 0.8)))) is None


def test_two_launches_are_an_a_a_already() -> None:
    found = measured_noise(stored(ab_run((1.0, 1.02))))
    assert found is not None and found.total_degrees == 1.0


def test_a_comparison_of_the_same_workload_uses_the_total() -> None:
    floor = NoiseBook(entries=(noise(0.02),)).of_total(SECONDS, weights(*LOADS))
    assert floor is not None
    assert (floor.sigma_ratio, floor.degrees, floor.source) == (pytest.approx(0.02), 5.0, "stored")
    assert floor.measured_at == "2026-11-01"


def test_another_mix_of_the_same_loads_uses_its_cells_as_a_bound() -> None:
    book = NoiseBook(entries=(noise(0.02),))
    floor = book.of_total(SECONDS, {SHORT: 0.25, WIDE: 0.75})
    assert floor is not None and floor.sigma_ratio == pytest.approx(0.25 * 0.02 + 0.75 * 0.04)
    text = book.of_total(SECONDS, weights(load(workload_class="code")))
    assert text is not None and text.sigma_ratio == pytest.approx(0.02), "whatever the text, one shape has one noise"


def test_a_load_that_no_a_a_has_covered_leaves_the_floor_unknown() -> None:
    book = NoiseBook(entries=(noise(),))
    assert book.of_total(SECONDS, weights(SHORT, load(context_tokens=8192))) is None
    assert book.of_total("ttft_s", weights(*LOADS)) is None
    assert book.of_total(SECONDS, {}) is None
    assert NoiseBook().of_total(SECONDS, weights(*LOADS)) is None
    unweighted = {SHORT: 1.0, load(context_tokens=8192): 0.0}
    assert book.of_total(SECONDS, unweighted) is not None, "what counts nothing needs no noise"


def test_several_a_as_are_pooled_by_their_degrees() -> None:
    book = NoiseBook(entries=(noise(0.02, degrees=5.0), noise(0.04, degrees=2.0, at="2026-11-20")))
    floor, cell = book.of_total(SECONDS, weights(*LOADS)), book.of_cell(SHORT, SECONDS)
    assert floor is not None and cell is not None
    assert floor.sigma_ratio == pytest.approx(math.sqrt((5 * 0.0004 + 2 * 0.0016) / 7))
    assert (floor.degrees, floor.measured_at) == (7.0, "2026-11-20")
    assert cell.sigma_ratio == pytest.approx(floor.sigma_ratio)


def test_texts_of_one_shape_add_no_degrees() -> None:
    one = noise(0.02)
    twice = replace(one, cells=(*one.cells, *one.cells))
    floor = NoiseBook(entries=(twice,)).of_cell(SHORT, SECONDS)
    assert floor is not None and floor.degrees == 5.0


def test_texts_of_one_shape_are_one_row() -> None:
    one = noise(0.02)
    short = one.cells[0]
    other = replace(short, between_sigma_ratio=0.04)
    (row, _) = noise_rows(replace(one, cells=(short, other, one.cells[1])), SECONDS)
    assert row.between_sigma_ratio == pytest.approx(math.sqrt((0.0004 + 0.0016) / 2))


def test_six_launches_know_their_noise_within_a_factor_of_two_and_a_half() -> None:
    low, high = sigma_interval(noise(0.02))
    assert (low / 0.02, high / 0.02) == pytest.approx((0.62, 2.45), abs=0.01)


def test_another_engine_or_way_of_measuring_has_another_floor() -> None:
    old, new = noise(version="1.0"), noise(version="2.0", at="2026-11-20")
    outdated = replace(new, measuring_version=MEASURING_VERSION - 1)
    entries = (old, outdated, new)
    kept = usable_noise(entries, engine_version="1.0", measuring_version=MEASURING_VERSION)
    assert kept == (old,)
    assert usable_noise(entries, engine_version=None, measuring_version=MEASURING_VERSION) == (new,)
    assert usable_noise((), engine_version=None, measuring_version=MEASURING_VERSION) == ()


@pytest.mark.parametrize(
    "change",
    [{"total_sigma_ratio": -1.0}, {"total_sigma_ratio": 1e300}, {"total_degrees": 0.0}, {"total_degrees": -3.0}],
)
def test_what_nobody_can_have_measured_is_passed_over(change: dict[str, float]) -> None:
    entries = (noise(), replace(noise(at="2026-11-20"), **change))  # type: ignore[arg-type]
    kept = usable_noise(entries, engine_version="1.0", measuring_version=MEASURING_VERSION)
    assert kept == entries[:1]


def test_a_verdict_uses_the_stored_floor() -> None:
    run = ab_run((1.0, 1.01), (0.9, 0.91))
    quiet, loud = (comparison_of(stored(run), NoiseBook(entries=(noise(sigma),))) for sigma in (0.005, 0.2))
    assert quiet is not None and loud is not None and quiet.effect and loud.effect
    assert (quiet.verdict, loud.verdict) == ("better", "cannot tell")
    assert quiet.effect.noise.source == "stored" and quiet.doubts == ()


def test_an_a_a_of_one_run_is_described_as_one() -> None:
    found = comparison_of(stored(ab_run(FACTORS)), NoiseBook())
    assert found is not None and found.same and found.looks == () and found.effect is not None
    assert found.effect.launches == (3, 3)
