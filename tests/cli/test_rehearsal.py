"""A simulated run from the command line: it repeats to the byte, and says everywhere that no engine ran."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path

import pandas as pd
import pytest

from harness.cli.main import main

SWEEP = """\
sweep: small
recipe: dspark-2x-spark
knobs:
  checkpoint: vision-exp
  image: anemll-0.1.1
  swa_prefix: 1
  num_speculative_tokens: [0, 6]
  class: code
  context_tokens: [256, 2K]
  concurrency: [1, 2]
  cache: [cold, warm]
  output_tokens: 64
  temperature: 0.6
exclude:
  - {cache: warm, context_tokens: 256}
repeat: {launches: 2, drafts: 40}
"""
QUIET_FILES = {"run.lock"}  # they say nothing at all


def run(*arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(list(arguments))
    return int(ended.value.code or 0)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Two roots that hold the same rehearsal, made one after the other, the second with the texts of the first."""
    folder = tmp_path_factory.mktemp("rehearsal")
    (folder / "small.yaml").write_text(SWEEP)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HARNESS_CACHE_DIR", str(folder / "cache"))
        for name in ("one", "two"):
            options = ("--engine", "simulated", "--seed", "3", "--root", str(folder / name))
            assert run("sweep", str(folder / "small.yaml"), *options) == 0
        yield folder


def run_folder(place: Path, name: str) -> Path:
    (folder,) = (place / name / "results").glob("*-simulated_small-*")
    return folder


def test_the_same_seed_gives_the_same_cells_to_the_byte(place: Path) -> None:
    one, two = (run_folder(place, name) / "cells.csv" for name in ("one", "two"))
    assert one.read_bytes() == two.read_bytes()
    assert len(one.read_text().splitlines()) == 1 + 2 * 6


def test_another_seed_gives_other_cells(place: Path) -> None:
    options = ("--engine", "simulated", "--seed", "4", "--root", str(place / "three"))
    run("sweep", str(place / "small.yaml"), *options)
    one, three = (run_folder(place, name) / "cells.csv" for name in ("one", "three"))
    assert one.read_bytes() != three.read_bytes()


def test_every_file_of_a_simulated_run_says_so(place: Path) -> None:
    files = [path for path in (place / "one").rglob("*") if path.is_file() and path.name not in QUIET_FILES]
    assert {path.suffix for path in files} >= {".json", ".jsonl", ".csv", ".parquet", ".html", ".md", ".svg", ".log"}
    for path in files:
        assert "simulated" in str(path.relative_to(place / "one"))
        if path.suffix == ".parquet":
            continue
        text = path.read_text()
        mark = "simulated" if path.suffix in (".csv", ".jsonl") else "SIMULATED"
        assert mark in text, path.name


def test_every_table_and_figure_of_the_report_says_so(place: Path) -> None:
    (report,) = (place / "one").glob("reports/*/simulated-report.md")
    lines = report.read_text().splitlines()
    tables = [at for at, line in enumerate(lines) if line.startswith("|") and not lines[at - 1].startswith("|")]
    assert len(tables) > 2
    for at in tables:
        assert "SIMULATED" in "\n".join(lines[max(0, at - 3) : at]), lines[at]
    figures = list((report.parent / "figures").iterdir())
    assert figures
    assert all(path.name.startswith("simulated-") and "SIMULATED" in path.read_text() for path in figures)


def test_best_env_is_ready_to_paste_into_the_pairs_own_env_file(place: Path) -> None:
    (env,) = (place / "one").glob("reports/*/simulated-best.env")
    lines = env.read_text().splitlines()
    assert "# SIMULATED: no engine ran." in lines
    assert [line for line in lines if not line.startswith("#")] == [
        "DSPARK_VLLM_IMAGE=ghcr.io/anemll/dspark-vllm-gx10:0.1.1"
        "@sha256:a83948492cf13df455170fb42885f5ef4db54fefe0feff0f841ecbff464ac9d8",
        "ABLITERATED=0",
        "DSPARK_MODEL_OFFICIAL=deepseek-ai/DeepSeek-V4-Flash-Vision-Exp",
        "DSPARK_REVISION=86f746b36186f0e567729a5c06a8c918caba82a9",
        "SERVED_MODEL_NAME=deepseek-v4-flash-vision-exp",
        "MTP_NUM_TOKENS=6",
        "DSPARK_ENABLE_DSPARK_SWA_PREFIX=1",
    ]


def test_every_row_of_the_exports_says_so(place: Path) -> None:
    folder = run_folder(place, "one")
    for frame in (pd.read_csv(folder / "cells.csv"), pd.read_parquet(folder / "cells.parquet")):
        assert frame["simulated"].all()


def test_json_documents_say_so(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = run_folder(place, "one")
    documents = [json.loads((folder / name).read_text()) for name in ("manifest.json", "plan.json")]
    run("show", str(folder), "--json")
    documents.append(json.loads(capsys.readouterr().out))
    run("plan", str(place / "small.yaml"), "--engine", "simulated", "--json")
    documents.append(json.loads(capsys.readouterr().out))
    for document in documents:
        assert document["simulated"] is True
        assert document["mark"] == "SIMULATED"
    assert all(cell["simulated"] for cell in documents[2]["cells"])


def test_the_screen_says_so(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run("plan", str(place / "small.yaml"), "--engine", "simulated")
    err = capsys.readouterr().err
    assert err.startswith("SIMULATED: small on dspark-2x-spark")
    assert "SIMULATED · Launches" in err
    assert "SIMULATED: Dearest cells" in err


def test_a_real_plan_does_not(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run("plan", str(place / "small.yaml"), "--json")
    document = json.loads(capsys.readouterr().out)
    assert (document["simulated"], document["mark"]) == (False, None)


def test_a_rehearsal_is_carried_on_with_as_one(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ("--root", str(place / "one"), "--resume", "latest")
    sweep = str(place / "small.yaml")
    assert run("sweep", sweep, *options) == 2
    assert "there is no run of sweep small yet" in capsys.readouterr().err
    before = (run_folder(place, "one") / "cells.csv").read_bytes()
    assert run("sweep", sweep, "--engine", "simulated", "--seed", "3", *options) == 0
    assert (run_folder(place, "one") / "cells.csv").read_bytes() == before


def test_a_sweep_ends_by_the_time_that_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "small.yaml").write_text(SWEEP)
    soon = (datetime.now() + timedelta(minutes=12)).strftime("%H:%M")  # a boot takes 8, and there are four

    code = run("sweep", "small.yaml", "--engine", "simulated", "--finish-by", soon)

    said = capsys.readouterr().err
    assert code == 0, said
    assert "launch 1/" in said
    assert "launch 4/" not in said


def test_a_time_in_which_no_launch_fits_is_refused_with_what_it_would_need(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "small.yaml").write_text(SWEEP)
    soon = (datetime.now() + timedelta(minutes=4)).strftime("%H:%M")  # a boot takes 8

    assert run("sweep", "small.yaml", "--engine", "simulated", "--finish-by", soon) == 2
    said = capsys.readouterr().err
    assert "--finish-by: no launch fits: " in said
    assert f"are left until {soon}, and the shortest needs about 8 min" in said
    assert "harness plan small.yaml" in said
    assert not (tmp_path / "results").exists()

    (tmp_path / "small.yaml").write_text(f"{SWEEP}\nbudget: {{time: 2m}}\n")
    assert run("sweep", "small.yaml", "--engine", "simulated") == 2
    assert "small: budget: no launch fits: 2 min are left, and" in capsys.readouterr().err


@pytest.mark.parametrize("when", ["25:00", "soon", "6"])
def test_a_time_that_is_none_is_refused(
    when: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "small.yaml").write_text(SWEEP)

    assert run("sweep", "small.yaml", "--engine", "simulated", "--finish-by", when) == 2
    assert "--finish-by: not a time of day" in capsys.readouterr().err


def test_giving_a_server_back_is_part_of_the_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "small.yaml").write_text(SWEEP)
    soon = (datetime.now() + timedelta(minutes=12)).strftime("%H:%M")

    assert run("sweep", "small.yaml", "--engine", "simulated", "--borrow", "--finish-by", soon) == 2
    assert "nothing can be measured before" in capsys.readouterr().err
