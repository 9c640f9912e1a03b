"""`harness compare`: verdicts from stored runs, and what must be alike before there is one."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.records.codec import from_json
from harness.records.verdict import Comparison
from tests.cli.test_ab import SWEEP, run

GRID = SWEEP.replace("  block_k: 1\n", "  block_k: 1\n  num_speculative_tokens: [0, 6]\n").replace(
    "repeat: {", "repeat: {launches: 2, "
)
NATURAL = SWEEP.replace("output_tokens: 64", "output_tokens: {natural: 64}") + "incumbent: six\n"
DS4 = """\
sweep: other_engine
recipe: ds4
knobs:
  model: some.gguf
  support_model: support.gguf
  confidence_threshold: 0.5
  class: code
  context_tokens: 256
  concurrency: 1
  output_tokens: {natural: 64}
  temperature: 0.6
repeat: {launches: 2, drafts: 40}
"""


class Runs:
    """A folder with finished sweeps."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def sweep(self, name: str, text: str, *arguments: str) -> str:
        """Measure a sweep and return the id of its run."""
        path = self.folder / f"{name}.yaml"
        path.write_text(text)
        before = set(self.ids())
        assert run("sweep", str(path), "--engine", "simulated", "--root", str(self.folder), *arguments) == 0
        (made,) = set(self.ids()) - before
        return made

    def ids(self) -> list[str]:
        return [path.name for path in self.folder.glob("results/2*")]

    def compare(self, *arguments: str) -> int:
        return run("compare", *arguments, "--root", str(self.folder))

    def report(self) -> str:
        pages = sorted(self.folder.glob("reports/*compare*/simulated-report.md"), key=lambda path: path.stat().st_mtime)
        return pages[-1].read_text()


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runs]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HARNESS_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
        yield Runs(tmp_path_factory.mktemp("compare"))


@pytest.fixture(scope="module")
def grid(runs: Runs) -> str:
    return runs.sweep("grid", GRID)


@pytest.fixture(scope="module")
def again(runs: Runs, grid: str) -> str:
    return runs.sweep("again", GRID, "--seed", "5")


def document(capsys: pytest.CaptureFixture[str]) -> Comparison:
    return from_json(Comparison, capsys.readouterr().out)


def test_two_configurations_of_one_run(runs: Runs, grid: str, capsys: pytest.CaptureFixture[str]) -> None:
    arms = ("--base", "none", "--candidate", "six")
    assert runs.compare(grid, grid, *arms) == 0
    assert "six is better than none" in capsys.readouterr().err
    assert runs.report().split("**")[3].startswith("six") or "is better than" in runs.report()
    assert runs.compare(grid, grid, "--base", "six", "--candidate", "none") == 1


def test_knobs_name_a_configuration_too(runs: Runs, grid: str) -> None:
    arms = ("--base", "num_speculative_tokens=0", "--candidate", "num_speculative_tokens=6")
    assert runs.compare(grid, grid, *arms) == 0


def test_json_is_one_document(runs: Runs, grid: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert runs.compare(grid, grid, "--base", "none", "--candidate", "six", "--json") == 0
    found = document(capsys)
    assert (found.verdict, found.factors) == ("better", ("num_speculative_tokens",))
    assert found.effect is not None and found.effect.low > 0
    assert found.base.run_id == found.candidate.run_id == grid


def test_one_configuration_in_two_runs(runs: Runs, grid: str, again: str, capsys: pytest.CaptureFixture[str]) -> None:
    arms = ("--base", "six", "--candidate", "six")
    refused = runs.compare(grid, again, *arms, "--json")
    said = capsys.readouterr()
    assert refused == 2 and "other prompts" in said.err and "--across workload" in said.err
    assert runs.compare(grid, again, *arms, "--across", "workload", "--json") in (0, 4)
    found = document(capsys)
    assert found.factors == ("run",) and found.verdict in ("no difference", "cannot tell")
    (kind,) = [one for one in found.doubts if one.kind == "fingerprints_differ"]
    assert "other prompts" in kind.evidence
    assert "other prompts" in runs.report(), "the doubt stays on the page"


def test_launches_of_two_runs_did_not_alternate(
    runs: Runs, grid: str, again: str, capsys: pytest.CaptureFixture[str]
) -> None:
    runs.compare(grid, again, "--base", "none", "--candidate", "six", "--across", "workload", "--json")
    assert "not_alternating" in {one.kind for one in document(capsys).doubts}


def test_another_rig_is_refused(runs: Runs, grid: str, capsys: pytest.CaptureFixture[str]) -> None:
    quiet = runs.sweep("quiet", GRID, "--scenario", "quiet")
    assert runs.compare(grid, quiet, "--base", "none", "--candidate", "six") == 2
    said = capsys.readouterr().err
    assert "the runs are not alike: rig: simulated-default and simulated-quiet" in said and "--across rig" in said
    assert runs.compare(grid, quiet, "--base", "none", "--candidate", "six", "--across", "rig") == 0


def test_another_engine_is_compared_by_what_its_user_gets_and_never_by_acceptance(
    runs: Runs, capsys: pytest.CaptureFixture[str]
) -> None:
    spark, other = runs.sweep("natural", NATURAL), runs.sweep("ds4", DS4)
    assert runs.compare(spark, other, "--base", "none", "--json") == 2
    said = capsys.readouterr().err
    assert "recipe: dspark-2x-spark and ds4" in said
    flags = said.split("with a doubt: ")[1].split()
    assert runs.compare(spark, other, "--base", "none", "--json", *flags) in (0, 1, 4)
    found = document(capsys)
    assert found.factors == ("engine",)
    names = {part.metric for part in (*found.overall, *(part for cell in found.cells for part in cell.parts))}
    assert names == {"decode_tokens_per_s", "ttft_s", "worst_stream_tokens_per_s", "prefill_tokens_per_s"}
    assert found.effect is not None and found.sameness == ()
    assert "fingerprints_differ" in {one.kind for one in found.doubts}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "say which one with --base"),
        (("--base", "none", "--candidate", "none"), "a run cannot be compared with itself"),
        (("--base", "nobody", "--candidate", "six"), "no configuration fits"),
        (("--base", "num_speculative_tokens=9", "--candidate", "six"), "no configuration fits"),
        (("--base", "none", "--candidate", "six", "--margin", "much"), "much"),
        (("--base", "none", "--candidate", "six", "--margin", "-3%"), "-3%"),
    ],
)
def test_bad_arguments(
    runs: Runs, grid: str, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], said: str
) -> None:
    assert runs.compare(grid, grid, *arguments) == 2
    assert said in capsys.readouterr().err


def test_unknown_runs(runs: Runs, grid: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert runs.compare("nothing", grid) == 2
    assert "nothing" in capsys.readouterr().err


def test_the_margin_may_be_another(runs: Runs, grid: str, capsys: pytest.CaptureFixture[str]) -> None:
    arms = ("--base", "none", "--candidate", "six", "--json")
    runs.compare(grid, grid, *arms, "--margin", "20%")
    found: Any = json.loads(capsys.readouterr().out)
    assert found["margin_ratio"] == pytest.approx(0.2)


def test_a_run_of_another_version_is_refused(
    runs: Runs, grid: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copy = tmp_path / "results" / grid
    copy.mkdir(parents=True)
    for file in (runs.folder / "results" / grid).glob("*.json*"):
        (copy / file.name).write_bytes(file.read_bytes())
    path = copy / "manifest.json"
    tree = json.loads(path.read_text())
    path.write_text(json.dumps(tree | {"measuring_version": 999}))
    assert run("compare", grid, str(copy), "--root", str(runs.folder), "--base", "none", "--candidate", "six") == 2
    assert "--across harness" in capsys.readouterr().err
    path.write_text(json.dumps(tree | {"schema_version": 999, "measuring_version": "odd"}))
    code = run("compare", grid, str(copy), "--root", str(runs.folder), "--base", "none", "--candidate", "six")
    assert code in (2, 3) and str(copy) in capsys.readouterr().err
