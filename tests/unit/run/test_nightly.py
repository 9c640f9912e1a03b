"""What a night measures: cells that fit two launches, the configuration that decides, and what is left out, named."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from harness.cli.loading import PlanOptions, plan_from
from harness.errors import InputError
from harness.records.plan import Plan
from harness.run.nightly import NightlyWish
from harness.units import parse_seconds

LOADS = """
  class: prose
  context_tokens: [256, 1K, 4K]
  concurrency: [1, 4]
  cache: {cache}
  output_tokens: 128
"""
CONFIGURATIONS = """
configurations:
  four: {num_speculative_tokens: 4}
  two: {num_speculative_tokens: 2}
  off: {num_speculative_tokens: 0}
"""


def planned(
    folder: Path,
    text: str = "",
    *,
    recipe: str = "vllm-cpu-tiny",
    cache: str = "cold",
    configurations: str = CONFIGURATIONS,
    wish: NightlyWish | None = None,
    engine: str | None = None,
) -> Plan:
    file = folder / "night.yaml"
    knobs = LOADS.replace("{cache}", cache)
    file.write_text(f"sweep: night\nrecipe: {recipe}\nknobs:{knobs}{configurations}{text}")
    options = PlanOptions(
        file=str(file),
        root=folder,
        engine=engine,
        scenario=None,
        overrides=(),
        seed=1,
        launches=None,
        site=_empty_site(folder),
        nightly=wish or NightlyWish(),
    )
    return plan_from(options).plan


def _empty_site(folder: Path) -> Path:
    site = folder / "site.yaml"
    site.write_text("{}\n")
    return site


def names(plan: Plan) -> list[tuple[int, str]]:
    return [(launch.round, launch.configuration.label) for launch in plan.launches]


def shapes(plan: Plan, at: int = 0) -> set[tuple[int, int]]:
    return {(trial.load.context_tokens, trial.load.concurrency) for trial in plan.launches[at].trials}


NIGHTLY = "nightly: {configurations: [two, four]}\n"


def test_the_first_named_decides_and_is_the_only_one_that_may_be_launched_again(tmp_path: Path) -> None:
    plan = planned(tmp_path, NIGHTLY)
    assert names(plan) == [(1, "two"), (1, "four"), (2, "two")]
    assert plan.nightly is not None
    assert plan.nightly.gate_id == plan.launches[0].configuration.configuration_id
    assert plan.nightly.watched_ids == (plan.launches[1].configuration.configuration_id,)


def test_unnamed_what_gains_are_measured_against_decides_unless_it_does_not_speculate(tmp_path: Path) -> None:
    assert names(planned(tmp_path, "incumbent: two\n"))[0] == (1, "two")
    assert names(planned(tmp_path, "incumbent: off\n"))[0] == (1, "four"), "the first that speculates"
    assert {label for _, label in names(planned(tmp_path))} == {"four", "two", "off"}


@pytest.mark.parametrize("minutes", [3, 4, 6, 9, 15, 60])
def test_both_launches_fit_the_time_and_nothing_is_dropped_in_silence(tmp_path: Path, minutes: int) -> None:
    plan = planned(tmp_path, NIGHTLY + f"budget: {{time: {minutes}m}}\n")
    assert sum(launch.predicted_s for launch in plan.launches) <= minutes * 60
    assert all(launch.fits_budget for launch in plan.launches)
    everything = planned(tmp_path, NIGHTLY)
    missing = shapes(everything) - shapes(plan)
    said = " ".join(plan.notes)
    assert ("left out of the night for lack of time" in said) == bool(missing)
    for context, streams in list(missing)[:6]:
        assert f"prose {context if context < 1024 else f'{context // 1024}K'} x {streams}" in said
    watched = {label for _, label in names(plan)}
    assert ("not watched for lack of time: four" in said) == ("four" not in watched)


def test_more_time_never_measures_less(tmp_path: Path) -> None:
    found = [shapes(planned(tmp_path, NIGHTLY + f"budget: {{time: {minutes}m}}\n")) for minutes in range(3, 16, 2)]
    assert [len(one) for one in found] == sorted(len(one) for one in found)
    assert len(found[0]) < len(found[-1])


def test_the_heaviest_cells_come_first(tmp_path: Path) -> None:
    mix = "mix: {context_tokens: {4K: 10}, concurrency: {4: 5}}\n"
    assert (4096, 4) in shapes(planned(tmp_path, NIGHTLY + mix + "budget: {time: 5m}\n"))
    assert (4096, 4) not in shapes(planned(tmp_path, NIGHTLY + "budget: {time: 4m}\n"))


def test_the_cells_do_not_depend_on_when_the_night_begins(tmp_path: Path) -> None:
    budget = "budget: {time: 5m%s}\n"
    fixed = shapes(planned(tmp_path, NIGHTLY + budget % ""))
    assert shapes(planned(tmp_path, NIGHTLY + budget % ', finish_by: "06:30"')) == fixed


def test_a_time_that_has_room_for_nothing_says_how_much_it_takes(tmp_path: Path) -> None:
    with pytest.raises(InputError) as refused:
        planned(tmp_path, NIGHTLY + "budget: {time: 90s}\n")
    assert refused.value.where is not None and "night.yaml:" in refused.value.where
    assert refused.value.hint is not None
    least = refused.value.hint.removeprefix("Give it ").partition(" at least")[0]
    enough_s = parse_seconds(least.replace(" min", "m").replace(" s", "s").replace(" ", "")) + 1
    assert planned(tmp_path, NIGHTLY + f"budget: {{time: {enough_s:.0f}s}}\n").launches


def test_a_configuration_that_cannot_boot_is_named_before_the_night(tmp_path: Path) -> None:
    named = "configurations:\n  wild: {num_speculative_tokens: 99}\n  two: {num_speculative_tokens: 2}\n"
    with pytest.raises(InputError) as refused:
        planned(tmp_path, "nightly: {configurations: [wild]}\n", configurations=named)
    assert "wild" in str(refused.value) or "99" in str(refused.value)


class TestAServerInUse:
    """engine: attach."""

    def test_it_is_measured_in_warm_cells_only(self, tmp_path: Path) -> None:
        plan = planned(tmp_path, recipe="attach", cache="[cold, warm]", configurations="")
        assert plan.attached
        assert {trial.load.cache for launch in plan.launches for trial in launch.trials} == {"warm"}
        assert any("6 cold cells are left out" in note for note in plan.notes)

    def test_cold_cells_alone_are_refused(self, tmp_path: Path) -> None:
        with pytest.raises(InputError, match="warm cells only"):
            planned(tmp_path, recipe="attach", configurations="")

    def test_the_sweep_may_say_so_of_its_nights(self, tmp_path: Path) -> None:
        asked = "nightly: {configurations: [today], engine: attach}\n"
        plan = planned(
            tmp_path, asked, recipe="dspark-2x-spark", cache="warm", configurations="configurations:\n  today: {}\n"
        )
        assert (plan.recipe, plan.attached) == ("attach", True)


def test_a_rehearsal_has_a_baseline_of_its_own(tmp_path: Path) -> None:
    real, rehearsed = planned(tmp_path, NIGHTLY), planned(tmp_path, NIGHTLY, engine="simulated")
    assert real.nightly is not None and rehearsed.nightly is not None
    assert (real.nightly.baseline, rehearsed.nightly.baseline) == ("night", "simulated_night")
    named = planned(tmp_path, NIGHTLY, wish=NightlyWish(baseline="mine"))
    assert named.nightly == replace(real.nightly, baseline="mine")
