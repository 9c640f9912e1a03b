"""What a report says of controls, and of an engine's own account of its drafts."""

from __future__ import annotations

from dataclasses import replace

from harness.records.journal import RunData
from harness.records.speculation import SpeculationStats
from harness.report.facts import RunFacts, run_facts
from harness.report.view import report_view
from harness.stats.case import Limits
from harness.stats.cells import summarise_run
from tests.fakes.run_builder import RunShape, fake_data

QUIET = RunShape(with_failure=False, with_refusal=False, with_doubts=False, repeats=1, tokens=(0, 2, 4))
STATS = SpeculationStats(
    asked=True,
    lines=1,
    counts={"cycles": 88.0, "proposed": 44.0, "accepted_draft": 31.0},
    times_s={"net_saved": -1.3266},
)


def facts_of(run: RunData) -> RunFacts:
    return run_facts(run, summarise_run(run.trials, run.launches, Limits()))


def with_control(k: int) -> RunData:
    """The fake run, with the configuration of this k as a control."""
    run = fake_data(QUIET)
    assert run.plan is not None
    ids = {one.num_speculative_tokens: one.configuration_id for one in run.plan.configurations}
    return replace(run, plan=replace(run.plan, control_ids=(ids[k],)))


def with_account(stats: SpeculationStats) -> RunData:
    run = fake_data(QUIET)
    launches = tuple(
        replace(
            launch, speculation=stats if launch.configuration.num_speculative_tokens else SpeculationStats(asked=False)
        )
        for launch in run.launches
    )
    return replace(run, launches=launches)


def test_a_control_is_never_recommended_however_fast_it_is() -> None:
    fastest = report_view(facts_of(fake_data(QUIET)))
    view = report_view(facts_of(with_control(4)))

    assert fastest.headline.result.startswith("k=4 is the fastest of 3")
    assert view.headline.result.startswith("k=2 is the fastest of 2")
    assert view.best is not None and view.best.label == "k=2"
    assert any(
        line.startswith("A control, which is never recommended, ran k=4 at +") for line in view.headline.qualifications
    )
    assert len(view.configurations.rows) == 3, "it stands in the tables all the same"


def test_what_gains_are_measured_against_counts_even_if_it_is_a_control() -> None:
    view = report_view(facts_of(with_control(0)))

    assert "against no speculation" in view.headline.result
    assert not any("A control" in line for line in view.headline.qualifications)


def test_the_account_stands_beside_the_verdict() -> None:
    view = report_view(facts_of(with_account(STATS)))

    assert view.drafts is not None
    row = next(row for row in view.drafts.rows if row.values[0] == "k=4")
    assert row.values[1:7] == ("88", "44", "31", "70.5 %", "0.35", "−1.33 s")
    assert (
        "By the engine's own account the drafts of k=4 cost 1.33 s over 88 cycles, with 70.5 % accepted behind the "
        "confidence gate."
    ) in view.headline.qualifications


def test_why_an_account_is_missing_is_said_once() -> None:
    view = report_view(facts_of(with_account(SpeculationStats(asked=True, absent_because="the line is cut"))))

    assert view.drafts is not None
    assert "k=2, k=4: the line is cut." in view.drafts.notes


def test_an_engine_that_counts_per_trial_has_no_such_table() -> None:
    assert report_view(facts_of(fake_data(QUIET))).drafts is None
