"""Each doubt on whole simulated runs: its own fault raises it, and nothing does where nothing is wrong.

The rates over hundreds of runs are in docs/doubts_proof.md, which `python -m benchmarks.doubts` makes.
"""

from __future__ import annotations

import pytest

from benchmarks.doubt_faults import SIMULATED, kinds_of
from benchmarks.doubt_records import RECORDS, clean_loads, clean_run
from benchmarks.doubts import OF_COMPARISONS, Row
from harness.stats.kinds import KINDS


@pytest.mark.parametrize("kind", sorted(SIMULATED))
def test_an_engine_with_a_fault_raises_its_doubt(kind: str) -> None:
    fault = SIMULATED[kind]
    assert kind in kinds_of(fault.run(3), limits=fault.limits)


@pytest.mark.parametrize("kind", sorted(RECORDS))
def test_records_with_a_fault_raise_its_doubt(kind: str) -> None:
    fault = RECORDS[kind]
    for seed in range(2):
        assert kind in kinds_of(fault.run(seed), limits=fault.limits)


@pytest.mark.parametrize("seed", range(len(clean_loads()) + 1))
def test_a_clean_run_raises_none(seed: int) -> None:
    assert kinds_of(clean_run(seed)) == frozenset()


def test_no_kind_is_without_a_fault() -> None:
    assert set(KINDS) == set(SIMULATED) | set(RECORDS) | set(OF_COMPARISONS)


@pytest.mark.parametrize(
    ("caught", "alarms", "holds"), [(190, 10, True), (184, 17, True), (181, 0, False), (200, 18, False), (200, 0, True)]
)
def test_a_limit_fails_where_the_exact_bound_lies_beyond_it(caught: int, alarms: int, holds: bool) -> None:
    row = Row(kind="k", fault="", records=False, caught=caught, faults=200, alarms=alarms, clean=1000)
    assert row.holds is holds
