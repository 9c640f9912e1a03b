"""What is kept of a rig across runs, and what a damaged line of it costs."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.records.codec import to_json
from harness.records.launch import CanaryReading
from harness.records.manifest import UNKNOWN_RIG
from harness.store.rig import StoredCanary, add_canary, add_noise, read_canaries, read_noise
from tests.unit.stats.test_noise import noise


def test_noise_is_kept_oldest_first_and_of_one_run_the_last_word(tmp_path: Path) -> None:
    first, second = noise(0.02), noise(0.03, at="2026-11-20")
    again = noise(0.025)
    for each in (first, second, again):
        add_noise(tmp_path, "rig", each)
    assert read_noise(tmp_path, "rig") == (again, second)
    assert read_noise(tmp_path, "another") == ()


@pytest.mark.parametrize("line", ["", "{half a line", "[]", "null", '{"at": 3}'])
def test_a_line_that_is_none_is_passed_over(tmp_path: Path, line: str) -> None:
    add_noise(tmp_path, "rig", noise())
    path = tmp_path / "rigs" / "rig" / "noise.jsonl"
    with path.open("a") as file:
        file.write(f"{line}\n{to_json(noise()).replace('0.02', 'NaN')}\n")
    assert read_noise(tmp_path, "rig") == (noise(),)


def test_the_canary_of_a_rig_that_nobody_knows_is_not_kept(tmp_path: Path) -> None:
    canary = StoredCanary(
        at="2026-11-01",
        configuration_id="c",
        engine_version="1.0",
        measuring_version=1,
        reading=CanaryReading(step_s=0.06, ttft_s=0.3),
    )
    add_canary(tmp_path, "rig", canary)
    add_canary(tmp_path, UNKNOWN_RIG, canary)
    assert read_canaries(tmp_path, "rig") == (canary,)
    assert read_canaries(tmp_path, UNKNOWN_RIG) == ()
