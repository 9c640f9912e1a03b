"""What a report claims: no more than its launches can carry."""

from __future__ import annotations

from dataclasses import replace

from harness.report.facts import run_facts
from harness.report.headline import next_command
from harness.report.models import ReportView
from harness.report.view import report_view
from harness.stats.case import Limits
from harness.stats.cells import summarise_run
from tests.fakes.run_builder import RunShape, fake_data, fake_facts

QUIET = RunShape(with_failure=False, with_refusal=False, with_doubts=False, repeats=1)


def test_one_launch_each_is_a_map_and_says_what_to_run_next(view: ReportView) -> None:
    headline = view.headline

    assert headline.standing == "map"
    assert headline.result.startswith("k=4 is the fastest of 5 configurations: +")
    assert any("a map, not a verdict" in line for line in headline.qualifications)
    assert any("assumed: one launch each cannot measure it" in line for line in headline.qualifications)
    assert headline.next_step is not None
    assert headline.next_step.command == (
        "harness sweep sweeps/laptop.yaml --resume 20261130-132811-laptop-4f2a9c --launches 3"
    )
    assert headline.next_step.time == "19 min"


def test_configurations_within_the_noise_are_called_equal(view: ReportView) -> None:
    level = [line for line in view.headline.qualifications if "cannot be told apart" in line]

    assert len(level) == 1
    assert level[0].startswith("k=4, k=6 and k=2 cannot be told apart")


def test_repeated_launches_are_measured_and_show_their_spread() -> None:
    view = report_view(fake_facts(replace(QUIET, tokens=(0, 4, 10), contexts=(256,), rounds=3)))

    assert view.headline.standing == "measured"
    assert "3 launches" in view.headline.result
    assert "by launch" in view.headline.result
    assert not any("map" in line for line in view.headline.qualifications)
    assert not any("cannot be told apart" in line for line in view.headline.qualifications)
    assert view.headline.next_step is None


def test_more_noise_asks_for_more_launches_where_the_best_are_level() -> None:
    noisy = replace(QUIET, tokens=(0, 4, 6), contexts=(256,), rounds=3, launch_noise_ratio=0.05)

    view = report_view(fake_facts(noisy))

    assert any("cannot be told apart" in line for line in view.headline.qualifications)
    assert view.headline.next_step is not None
    assert "--launches" in view.headline.next_step.command


def test_nothing_beats_the_reference_where_it_is_the_best() -> None:
    data = fake_data(replace(QUIET, tokens=(0, 1), contexts=(256,)))
    slowed = tuple(
        replace(
            trial,
            requests=tuple(
                replace(one, batches=tuple(replace(batch, at_s=batch.at_s * 3) for batch in one.batches))
                for one in trial.requests
            ),
        )
        if trial.cell.configuration.num_speculative_tokens
        else trial
        for trial in data.trials
    )
    slow = replace(data, trials=slowed)

    view = report_view(run_facts(slow, summarise_run(slow.trials, slow.launches, Limits())))

    assert view.headline.result.startswith("Nothing beats no speculation.")


def test_a_run_without_a_trial_says_so() -> None:
    data = fake_data(replace(QUIET, contexts=(256,)))
    empty = replace(data, trials=(), plan=None)

    view = report_view(run_facts(empty, ()))

    assert view.headline.standing == "nothing"
    assert view.headline.result == "Nothing usable was measured, so there is nothing to compare."
    assert view.best is None
    assert all(figure.absent_because for figure in view.figures)


def test_an_interrupted_run_asks_to_be_resumed() -> None:
    data = fake_data(replace(QUIET, contexts=(256,)))
    cut = replace(data, trials=data.trials[:-1])

    view = report_view(run_facts(cut, summarise_run(cut.trials, cut.launches, Limits())))

    assert "1 planned trial not measured yet." in view.headline.qualifications
    assert view.headline.next_step is not None
    assert view.headline.next_step.command.endswith("--resume 20261130-132811-laptop-4f2a9c")


def test_the_incumbent_is_the_reference_where_the_sweep_has_one() -> None:
    data = fake_data(replace(QUIET, tokens=(0, 2, 4), contexts=(256,)))
    trials = tuple(
        replace(
            trial,
            cell=replace(trial.cell, configuration=replace(trial.cell.configuration, name="today")),
        )
        if trial.cell.configuration.num_speculative_tokens == 2
        else trial
        for trial in data.trials
    )

    view = report_view(run_facts(replace(data, trials=trials), summarise_run(trials, data.launches, Limits())))

    assert "against today (k=2)" in view.headline.result


def test_the_next_command_drops_earlier_run_options() -> None:
    command = ("harness", "sweep", "--resume", "old", "s.yaml", "--launches=2", "--set", "k=4")

    assert next_command(command, "new", launches=1) == "harness sweep s.yaml --set k=4 --resume new --launches 1"
    assert next_command(("harness", "sweep", "--resume", "s.yaml"), "new") == "harness sweep s.yaml --resume new"
