"""Each file in sweeps/: what it plans, what that costs, and that it can be rehearsed."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.cli.loading import PlanOptions, plan_from
from harness.cli.main import main
from harness.records.plan import Plan

SWEEPS = Path(__file__).parent.parent / "sweeps"
NAMES = sorted(file.stem for file in SWEEPS.glob("*.yaml"))
REHEARSED = {
    # what is left of it here, so that each takes seconds
    "before_after": ("class=code", "context_tokens=2K", "concurrency=1"),
    "block_k": ("class=code", "context_tokens=256", "concurrency=1"),
    "ds4_confidence": ("context_tokens=256", "temperature=0"),
    "first_evening": ("context_tokens=256",),
    "laptop": ("context_tokens=256", "concurrency=4"),
    "laptop_nightly": ("context_tokens=256", "concurrency=1"),
    "my_workload": ("num_speculative_tokens=[0, 2]", "workload.sample.sessions=12"),
    "nightly": ("class=code", "context_tokens=2K", "concurrency=1"),
    "official_0731": ("class=code", "context_tokens=256", "concurrency=6"),
    "stage_c_confidence": ("class=code", "concurrency=6"),
    "vision_exp": ("class=[code, agentic]", "context_tokens=[256, 8K]", "concurrency=6"),
}
NOT_SIMULATED = {"attach", "attach_nightly", "local"}  # their recipes stand for any server and any model
MINUTE_S = 60.0


def plan_of(name: str, *overrides: str, engine: str | None = None) -> Plan:
    options = PlanOptions(
        file=str(SWEEPS / f"{name}.yaml"),
        root=None,
        engine=engine,
        scenario=None,
        overrides=overrides,
        seed=1,
        launches=None,
    )
    return plan_from(options).plan


def said_by(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[object, str]:
    with pytest.raises(SystemExit) as ended:
        main(list(arguments))
    return ended.value.code, capsys.readouterr().err


def test_every_sweep_is_rehearsed_here() -> None:
    assert set(NAMES) == {*REHEARSED, *NOT_SIMULATED}


@pytest.mark.parametrize("name", NAMES)
def test_it_says_in_three_lines_what_it_asks(name: str) -> None:
    schema, *comments, first = (SWEEPS / f"{name}.yaml").read_text().splitlines()[:5]
    assert schema.startswith("# yaml-language-server: $schema=")
    assert all(line.startswith("# ") for line in comments)
    assert "?" in " ".join(comments[:2])
    assert first == f"sweep: {name}"


@pytest.mark.parametrize("name", NAMES)
def test_it_plans(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, err = said_by(capsys, "plan", str(SWEEPS / f"{name}.yaml"))
    assert code == 0
    assert f"{name} on " in err
    assert "Dearest cells of a launch: " in err
    assert "exclude matches nothing" not in err
    assert "does not fit the budget" not in err
    assert "budget.cell ends" not in err


@pytest.mark.parametrize("name", sorted(REHEARSED))
def test_the_times_of_a_rehearsal_are_those_of_the_real_thing(name: str) -> None:
    assert plan_of(name, engine="simulated").predicted_s == pytest.approx(plan_of(name).predicted_s)


def test_vision_exp_has_nine_configurations_of_34_cells_and_45_minutes_a_launch() -> None:
    plan = plan_of("vision_exp")
    assert len(plan.configurations) == 9
    assert len(plan.launches) == 18
    assert {len(launch.trials) for launch in plan.launches} == {34}
    assert max(launch.predicted_s for launch in plan.launches) <= 45 * MINUTE_S
    assert {(refusal.configuration.num_speculative_tokens, refusal.loads) for refusal in plan.refusals} == {
        (3, ()),
        (5, ()),
    }


def test_vision_exp_changes_block_k_alone_where_both_boot() -> None:
    knobs = [configuration.knobs for configuration in plan_of("vision_exp").configurations]
    pairs = [
        (one, other) for one in knobs for other in knobs if one | {"block_k": 1} == other and one.get("block_k") == 0
    ]
    assert sorted(one["draft_sample_method"] for one, _ in pairs) == ["greedy", "probabilistic"]


def test_the_first_evening_is_over_in_45_minutes() -> None:
    plan = plan_of("first_evening")
    assert [launch.round for launch in plan.launches] == [1, 1, 2, 2]
    assert plan.predicted_s < 45 * MINUTE_S


def test_the_three_profiles_are_named_and_one_is_in_the_grid() -> None:
    plan = plan_of("block_k")
    named = {each.name: each.knobs for each in plan.configurations if each.name}
    assert sorted(named) == ["profile_3_block", "profile_6", "profile_9_block_swa"]
    assert [same.kept.name for same in plan.collapsed] == ["profile_6"]
    assert len(plan.configurations) == 6


def test_before_after_are_two_arms_of_one_server_but_for_speculation() -> None:
    plan = plan_of("before_after")
    assert sorted(each.name or "" for each in plan.configurations) == ["no_speculation", "today"]


def test_confidence_is_refused_on_an_image_that_ignores_it(capsys: pytest.CaptureFixture[str]) -> None:
    sweep = str(SWEEPS / "stage_c_confidence.yaml")
    for image in ("anemll-0.1.1", "ghcr.io/anemll/dspark-vllm-gx10:0.1.1"):
        code, err = said_by(capsys, "plan", sweep, "--set", f"image={image}")
        assert code == 2
        assert "every arm would be the same server" in err


def test_a_cell_of_six_deep_cold_prompts_says_what_it_costs(capsys: pytest.CaptureFixture[str]) -> None:
    deep = ("context_tokens=128K", "concurrency=6", "cache=cold", "class=code")
    options = [part for override in deep for part in ("--set", override)]
    _, err = said_by(capsys, "plan", str(SWEEPS / "official_0731.yaml"), *options)
    (line,) = [line for line in err.splitlines() if line.startswith("Dearest cells of a launch: ")]
    trial = plan_of("official_0731", *deep).launches[0].trials[0]
    assert trial.ttft_s == pytest.approx(282, rel=0.05), "what was measured on the pair"
    assert 7 * MINUTE_S < trial.predicted_s < 10 * MINUTE_S
    assert "128K tokens · 6 streams: 8 min" in line and "time to first token 4 min" in line


@pytest.mark.parametrize("name", sorted(REHEARSED))
def test_it_is_rehearsed_without_an_error(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HARNESS_CACHE_DIR", str(tmp_path / "cache"))
    options = [part for override in REHEARSED[name] for part in ("--set", override)]
    sweep = str(SWEEPS / f"{name}.yaml")
    root = ("--root", str(tmp_path))
    code, err = said_by(capsys, "sweep", sweep, "--engine", "simulated", "--launches", "1", *root, *options)
    assert code == 0, err
    assert list(tmp_path.glob("reports/*/simulated-report.html"))
    (run,) = (tmp_path / "results").glob("*-simulated_*")
    assert "Traceback" not in err
    assert (run / "cells.csv").read_text().count("\n") > 1
