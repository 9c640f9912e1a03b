"""`harness ab`, simulated and through the real command: order, looks, exit codes, the noise floor, and carrying on."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.cli.comparing import block_judge, require_one_factor, verdict_code
from harness.cli.main import main
from harness.errors import InputError
from harness.run.outcome import CANNOT_TELL, ENGINE_FAILED
from harness.stats.arms import comparison_of
from harness.stats.noise import NoiseBook
from harness.store.layout import RunFolder, resolve_run
from harness.store.reader import read_run
from tests.unit.stats.arms_build import CANDIDATE, ab_run, comparison, stored
from tests.unit.store.build import new_folder

SWEEP = """\
sweep: small
recipe: dspark-2x-spark
knobs:
  checkpoint: vision-exp
  image: anemll-0.1.1
  block_k: 1
  class: code
  context_tokens: 256
  concurrency: 1
  output_tokens: 64
  temperature: 0.6
configurations:
  none: {num_speculative_tokens: 0}
  six: {num_speculative_tokens: 6}
repeat: {drafts: 40}
"""
SIX_AGAIN = ("--base", "six", "--candidate", "num_speculative_tokens=6 swa_prefix=1")  # inert: the same pace
NONE_OR_SIX = ("--base", "none", "--candidate", "six")


class Place:
    """A folder with a sweep, in which commands run one after the other."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.write(SWEEP)

    def write(self, text: str, name: str = "small") -> None:
        (self.folder / f"{name}.yaml").write_text(text)

    def ab(self, *arguments: str, scenario: str = "default", seed: int = 1, name: str = "small") -> int:
        """Run it and return the exit code."""
        engine = ("--engine", "simulated", "--scenario", scenario, "--seed", str(seed))
        return run("ab", str(self.folder / f"{name}.yaml"), *engine, "--root", str(self.folder), *arguments)

    def latest(self) -> RunFolder:
        return resolve_run("latest", root=self.folder)

    def order(self) -> list[int | None]:
        """k of the launches, in the order in which they were made."""
        return [launch.configuration.num_speculative_tokens for launch in read_run(self.latest()).launches]

    def report(self) -> str:
        (page,) = self.folder.glob(f"reports/*{self.latest().run_id}/simulated-report.md")
        return page.read_text()

    def noise(self) -> list[dict[str, Any]]:
        files = list(self.folder.glob("results/rigs/*/noise.jsonl"))
        return [json.loads(line) for file in files for line in file.read_text().splitlines()]


def run(*arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(list(arguments))
    return int(ended.value.code or 0)


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HARNESS_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture
def place(tmp_path: Path, cache: None) -> Place:
    return Place(tmp_path)


@pytest.fixture(scope="module")
def decided(tmp_path_factory: pytest.TempPathFactory, cache: None) -> Place:
    """A place with one run, whose candidate is clearly better."""
    made = Place(tmp_path_factory.mktemp("decided"))
    assert made.ab(*NONE_OR_SIX) == 0
    return made


def test_launches_alternate_and_stop_as_soon_as_the_verdict_stands(decided: Place) -> None:
    order = decided.order()
    assert order in ([0, 6, 6, 0], [6, 0, 0, 6])
    notes = [note.text for note in read_run(decided.latest()).notes]
    assert any("is better after 2 launches of each arm" in note and "no more launches" in note for note in notes)


def test_both_arms_answer_the_same_prompts(decided: Place) -> None:
    trials = read_run(decided.latest()).trials
    assert len({trial.workload_id for trial in trials}) == 1
    assert len({tuple(request.prompt_id for request in trial.requests) for trial in trials}) == 1


def test_the_report_begins_with_the_verdict_and_its_margin(decided: Place) -> None:
    lines = [line for line in decided.report().splitlines() if line]
    assert lines[2].startswith("**six is better than none: +") and "margin 3.0 %" in lines[2]
    assert "It took 2 launches of each arm; up to 6 were allowed." in decided.report()


def test_a_decided_run_is_not_measured_again(decided: Place) -> None:
    before = len(decided.order())
    assert decided.ab(*NONE_OR_SIX, "--resume") == 0
    assert len(decided.order()) == before


def test_another_design_is_another_run(decided: Place, capsys: pytest.CaptureFixture[str]) -> None:
    for more in (("--launches", "12"), ("--fixed",)):
        assert decided.ab(*NONE_OR_SIX, "--resume", *more) == 2
        assert "begun for at most 6 launches of each arm with looks after each block" in capsys.readouterr().err
    assert decided.ab("--base", "six", "--candidate", "none", "--resume") == 2
    assert "the run compares six with none, not none with six" in capsys.readouterr().err
    assert len(decided.order()) == 4


def test_the_worse_arm_is_an_exit_code(place: Place) -> None:
    assert place.ab("--base", "six", "--candidate", "none", "--launches", "2") == 1
    assert "none is worse than six" in place.report()


def test_two_arms_of_one_pace_cannot_be_told_apart_and_what_would_do_is_said(
    place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    assert place.ab(*SIX_AGAIN, "--launches", "2") == 4
    said = capsys.readouterr().err
    assert "Cannot tell whether" in said and "would" in said.split("Next:")[1]
    step = said.split("Next:")[1]
    assert "harness ab" in step or "repeat.drafts" in step
    assert "--resume" not in step, "launches that were looked at are no new ones"
    assert place.ab(*SIX_AGAIN, "--launches", "2", "--resume") == 4
    assert len(place.order()) == 4, "all launches are made, and more would have to be new"


def test_fixed_makes_every_launch_and_looks_once(place: Place) -> None:
    assert place.ab(*NONE_OR_SIX, "--fixed", "--launches", "4") == 0
    assert place.order().count(0) == place.order().count(6) == 4
    assert "after each block" not in place.report()


def test_a_a_measures_the_noise_floor_and_the_next_verdict_uses_it(
    place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    assert place.ab("--base", "six", "--same") == 0
    assert place.order() == [6] * 6
    (kept,) = place.noise()
    assert (kept["launches"], kept["total_degrees"], kept["objective"]) == (6, 5.0, "seconds")
    said = capsys.readouterr().err
    assert f"differ by {kept['total_sigma_ratio'] * 100:.1f} % (standard deviation over 6 of them)" in said
    assert "the noise floor of this rig" in said

    assert run("plan", str(place.folder / "small.yaml"), "--engine", "simulated", "--root", str(place.folder)) == 0
    assert "A/A of" in capsys.readouterr().err

    assert place.ab(*NONE_OR_SIX, "--launches", "2") == 0
    assert "the A/A of" in place.report() and "noise assumed" not in place.report()

    assert place.ab("--base", "six", "--same", "--resume") == 0
    assert len({one["run_id"] for one in place.noise()}) == 1, "of one run the last word"


def test_an_a_a_of_one_launch_has_no_noise(place: Place) -> None:
    place.write(SWEEP + "budget: {time: 12m}\n")
    assert place.ab("--base", "six", "--same") == 4
    assert place.noise() == []
    assert "The noise floor could not be measured" in place.report()


def test_silence_is_a_noise_floor_too(place: Place) -> None:
    assert place.ab("--base", "none", "--same", "--launches", "1", scenario="quiet") == 0
    assert run("plan", str(place.folder / "small.yaml"), "--engine", "simulated", "--scenario", "quiet") == 0
    assert place.ab(*NONE_OR_SIX, "--launches", "2", scenario="quiet") == 0


def test_a_budget_that_ends_between_blocks_leaves_what_was_measured(place: Place) -> None:
    place.write(SWEEP + "budget: {time: 40m}\n")
    assert place.ab(*SIX_AGAIN) == 4
    assert 2 <= len(place.order()) <= 5
    assert "Cannot tell whether" in place.report() and "--resume" in place.report()


def test_a_limit_that_is_broken_vetoes_better(place: Place) -> None:
    place.write(SWEEP + "limits: {ttft_s.p95: {at_most: 0.001}}\n")
    assert place.ab(*NONE_OR_SIX, "--launches", "2") == 4
    first = next(line for line in place.report().splitlines() if line.startswith("**six"))
    assert "six is not called better than none, although it is at +" in first
    assert "it breaks the limit ttft" in first.replace("\\", "")


def test_an_arm_that_never_comes_up_ends_it(place: Place) -> None:
    arms = ("--base", "num_speculative_tokens=5", "--candidate", "six")
    assert place.ab(*arms, scenario="stale_worker") == 3
    run = read_run(place.latest())
    assert len(run.launches) == 4
    assert any("never came up" in note.text for note in run.notes)
    assert "nothing of six counts" in place.report()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--base", "none", "--candidate", "num_speculative_tokens=6 max_num_seqs=4"), "2 factors"),
        (("--base", "none", "--candidate", "none"), "both arms would be the same server"),
        (("--base", "none", "--candidate", "nobody"), 'no configuration "nobody"'),
        (("--base", "none"), "the comparison has no candidate"),
        (("--base", "none", "--candidate", "num_speculative_tokens='6"), "a quote is not closed"),
        ((*NONE_OR_SIX, "--same"), "--same compares the base with itself"),
        ((*NONE_OR_SIX, "--launches", "0"), "0"),
        ((*NONE_OR_SIX, "--resume", "nothing"), "nothing"),
    ],
)
def test_what_is_no_comparison_is_refused(
    place: Place, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], said: str
) -> None:
    assert place.ab(*arguments) == 2
    assert said in capsys.readouterr().err
    assert not (place.folder / "results").exists() or not list(place.folder.glob("results/2*"))


def test_several_factors_where_they_are_allowed(place: Place) -> None:
    two = ("--base", "none", "--candidate", "num_speculative_tokens=6 max_num_seqs=4")
    assert place.ab(*two, "--allow-factors", "--launches", "2") == 0


def test_servers_that_differ_in_more_than_was_asked_are_refused_and_named() -> None:
    run = ab_run((1.0, 1.0), (0.8, 0.8))
    require_one_factor(run, comparison())
    other = replace(
        run,
        launches=tuple(
            replace(one, live=replace(one.live, max_model_len=8192))
            if one.live and one.configuration == CANDIDATE
            else one
            for one in run.launches
        ),
    )
    with pytest.raises(InputError) as caught:
        require_one_factor(other, comparison())
    assert "the servers differ in more than num_speculative_tokens: max_model_len: 4096 and 8192" in str(caught.value)
    require_one_factor(other, comparison(factors_allowed=True))
    require_one_factor(other, comparison(factors=("image",)))


def test_the_judge_between_rounds_refuses_them_before_the_next_launch(tmp_path: Path) -> None:
    judge = block_judge(new_folder(tmp_path), comparison())
    assert judge(1) is None and judge(2) is None, "a run without a launch has nothing to say"


@pytest.mark.parametrize(
    ("base", "candidate", "code"),
    [((1.0, 1.0), (0.8, 0.8), 0), ((0.8, 0.8), (1.0, 1.0), 1), ((1.0, 1.02), (0.98, 1.0), CANNOT_TELL)],
)
def test_the_workload_verdict_is_the_exit_code(base: Any, candidate: Any, code: int) -> None:
    found = comparison_of(stored(ab_run(base, candidate)), NoiseBook())
    assert verdict_code(found, 0) == code
    assert verdict_code(None, ENGINE_FAILED) == ENGINE_FAILED
    assert found is not None
    assert verdict_code(replace(found, effect=None, verdict="cannot tell"), ENGINE_FAILED) == ENGINE_FAILED
    assert verdict_code(replace(found, effect=None, verdict="cannot tell"), 0) == CANNOT_TELL
    assert verdict_code(found, ENGINE_FAILED) == code, "a launch that failed and was repeated is in the report"
