"""Which boots are slow, and against what."""

from __future__ import annotations

import pytest

from harness.records.cell import Configuration
from harness.records.launch import CanaryReading
from harness.run.canary import CanaryReference, family, judge


def configuration(k: int) -> Configuration:
    return Configuration(recipe="r", knobs={"num_speculative_tokens": k})


def boot(k: int, *, step_s: float = 0.02, ttft_s: float = 0.04, elsewhere: bool = False) -> CanaryReference:
    return CanaryReference(
        configuration_id=configuration(k).configuration_id,
        family=None if elsewhere else family(configuration(k)),
        num_speculative_tokens=k,
        reading=CanaryReading(step_s=step_s, ttft_s=ttft_s),
        at="2026-01-02T03:04:05+00:00",
    )


def test_the_first_boot_has_nothing_to_be_compared_with() -> None:
    verdict = judge(configuration(4), CanaryReading(step_s=1.0, ttft_s=1.0), [])
    assert verdict.ratio is None
    assert not verdict.is_slow(0.2)


def test_boots_of_the_same_configuration_compare_by_step_time() -> None:
    references = [boot(4, step_s=0.020), boot(4, step_s=0.022), boot(4, step_s=0.021), boot(2, step_s=0.001)]
    verdict = judge(configuration(4), CanaryReading(step_s=0.034, ttft_s=0.04), references)
    assert verdict.ratio == pytest.approx(0.034 / 0.021)
    assert verdict.is_slow(0.2)
    assert "3 boots of this configuration, the oldest of 2026-01-02" in verdict.against


def test_boots_of_one_configuration_lie_apart_by_themselves() -> None:
    verdict = judge(configuration(4), CanaryReading(step_s=0.0218, ttft_s=0.04), [boot(4, step_s=0.020)])
    assert verdict.ratio == pytest.approx(1.09)
    assert not verdict.is_slow(0.03), "every fifth good boot of a pair would be given back"
    assert judge(configuration(4), CanaryReading(step_s=0.0222, ttft_s=0.04), [boot(4, step_s=0.020)]).is_slow(0.03)


def test_boots_at_other_k_predict_the_step() -> None:
    references = [boot(1, step_s=0.032), boot(2, step_s=0.035), boot(6, step_s=0.047)]
    fine = judge(configuration(10), CanaryReading(step_s=0.060, ttft_s=9.9), references)
    assert fine.ratio == pytest.approx(0.060 / 0.059, rel=0.01), "a first token also waits for its draft: no evidence"
    assert not fine.is_slow(0.03)
    slow = judge(configuration(10), CanaryReading(step_s=0.090, ttft_s=0.1), references)
    assert slow.is_slow(0.03)
    assert slow.against == "what 3 boots at other k, the oldest of 2026-01-02 predict"


def test_a_prediction_needs_three_boots_at_two_depths_and_leaves_room() -> None:
    reading = CanaryReading(step_s=9.0, ttft_s=9.0)
    assert judge(configuration(10), reading, [boot(1), boot(2)]).ratio is None
    assert judge(configuration(10), reading, [boot(2), boot(2), boot(2)]).ratio is None
    near = judge(configuration(4), CanaryReading(step_s=0.023, ttft_s=0.1), [boot(1), boot(2), boot(6)])
    assert near.ratio == pytest.approx(1.15)
    assert not near.is_slow(0.03), "15 % beside a prediction is no reason to pay for another boot"


def test_no_speculation_is_not_predicted_from_boots_that_draft() -> None:
    references = [boot(1), boot(2), boot(6)]
    assert judge(configuration(0), CanaryReading(step_s=9.0, ttft_s=9.0), references).ratio is None


def test_boots_of_other_runs_are_no_peers_of_other_configurations() -> None:
    references = [boot(2, elsewhere=True), boot(6, elsewhere=True), boot(8, elsewhere=True)]
    assert judge(configuration(4), CanaryReading(step_s=9.0, ttft_s=9.0), references).ratio is None
    assert judge(configuration(2), CanaryReading(step_s=9.0, ttft_s=9.0), references).is_slow(0.2)


def test_a_fast_boot_is_not_slow() -> None:
    verdict = judge(configuration(4), CanaryReading(step_s=0.01, ttft_s=0.01), [boot(4)])
    assert verdict.ratio == pytest.approx(0.5)
    assert not verdict.is_slow(0.03)


def test_configurations_that_differ_in_more_than_k_are_no_peers() -> None:
    other = Configuration(recipe="r", knobs={"num_speculative_tokens": 4, "dtype": "float32"})
    references = [boot(2), boot(6), boot(8)]
    assert judge(other, CanaryReading(step_s=9.0, ttft_s=9.0), references).ratio is None
