"""Figures of ds4's account of a launch: under names of their own, and null with a reason."""

from __future__ import annotations

import pytest

from harness.records.metrics import METRICS
from harness.records.speculation import BYPASSED, SpeculationStats
from harness.stats.session_figures import session_figures


def stats(**changes: object) -> SpeculationStats:
    counts = {"cycles": 88.0, "proposed": 44.0, "accepted_draft": 31.0}
    values: dict[str, object] = {"asked": True, "lines": 1, "counts": counts, "times_s": {"net_saved": -1.3266}}
    return SpeculationStats(**(values | changes))  # type: ignore[arg-type]


def test_the_ratio_behind_the_gate_has_its_own_name() -> None:
    values = session_figures(stats()).values

    assert values["gated_acceptance_ratio"] == pytest.approx(31 / 44)
    assert values["accepted_per_cycle"] == pytest.approx(31 / 88)
    assert values["net_saved_s"] == -1.3266
    assert not set(values) & set(METRICS), "none of them may stand in a column of another engine"


def test_what_a_build_does_not_print_is_null_with_a_reason() -> None:
    figures = session_figures(stats(counts={"cycles": 205.0}, ratios={"accept_rate": 0.8377}, times_s={}))

    assert figures.values["gated_acceptance_ratio"] == 0.8377
    assert figures.values["net_saved_s"] is None
    assert figures.null_reasons["net_saved_s"] == "this build prints no net_saved"
    assert figures.null_reasons["proposed_tokens"] == "this build prints no proposed"


def test_a_bypass_is_no_acceptance_of_zero() -> None:
    figures = session_figures(stats(counts={"cycles": 0.0, "proposed": 0.0, "accepted_draft": 0.0}))

    assert figures.values["draft_cycles"] == 0
    for name in ("gated_acceptance_ratio", "accepted_per_cycle", "net_saved_s"):
        assert figures.values[name] is None
        assert figures.null_reasons[name] == BYPASSED


def test_without_drafts_there_is_nothing_to_explain() -> None:
    figures = session_figures(stats(asked=False))

    assert figures.values["gated_acceptance_ratio"] is None
    assert set(figures.null_reasons.values()) == {"no speculation", "the log has no line with this rate"}


def test_rates_of_the_log_are_medians() -> None:
    values = session_figures(stats(generation_tokens_per_s=(10.0, 30.0, 20.0))).values

    assert values["engine_generation_tokens_per_s"] == 20.0
