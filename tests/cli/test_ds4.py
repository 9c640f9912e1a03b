"""ds4 from the command line: a stand-in process is swept end to end, and the report says what to run, by how much."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.system.driver import ROOT, Desk, Done

FAKE = ROOT / "tests" / "fakes" / "fake_ds4.py"
PER_LAUNCH = "this engine counts drafts per launch"


def sweep(desk: Desk, *confidences: float) -> str:
    """Write a sweep of both controls and some confidences, on files of one checkpoint."""
    for name in ("model.gguf", "support.gguf"):
        (desk.folder / name).write_text("checkpoint=a")
    tree = {
        "sweep": "confidence",
        "recipe": "ds4",
        "knobs": {
            "command": [sys.executable, str(FAKE)],
            "model": str(desk.folder / "model.gguf"),
            "support_model": str(desk.folder / "support.gguf"),
            "confidence_threshold": list(confidences),
            "context_tokens": 256,
            "output_tokens": {"natural": 48},
        },
        "configurations": {"off": {"mode": "off"}, "strict": {"mode": "strict"}},
        "incumbent": "off",
        "repeat": {"drafts": 24},
    }
    (desk.folder / "confidence.yaml").write_text(json.dumps(tree))
    return "confidence.yaml"


def shown(desk: Desk) -> dict[str, Any]:
    return desk.run("show", "latest", "--json").document()


def report_of(desk: Desk) -> tuple[str, str]:
    """report.md and best.env of the only report."""
    (folder,) = desk.reports.iterdir()
    return (folder / "report.md").read_text(), (folder / "best.env").read_text()


def result_of(done: Done) -> str:
    return next(line for line in done.err.splitlines() if "decode speed" in line)


def by_confidence(document: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Launches that measured, by confidence, else by mode."""
    launches = [launch for launch in document["launches"] if launch["outcome"] == "measured"]
    names = [launch["configuration"].get("confidence_threshold") for launch in launches]
    return {str(name or one["configuration"]["mode"]): one for name, one in zip(names, launches, strict=True)}


def test_on_the_curve_of_a_gb10_nothing_beats_off(desk: Desk) -> None:
    done = desk.run("sweep", sweep(desk, 0.5, 0.9), FAKE_DS4="curve=gb10 stats=2 token_ms=2")

    assert done.code == 0, done.err
    assert result_of(done).startswith("Nothing beats off (no speculation). Next is confidence_threshold=0.9")
    margin = re.search(r"with (-\d+\.\d) % decode speed", result_of(done))
    assert margin is not None and float(margin[1]) == pytest.approx(-16.2, abs=3)
    report, best = report_of(desk)
    assert "By the engine's own account the drafts of confidence_threshold=0.9 cost" in report.replace("\\", "")
    assert "A control, which is never recommended, ran strict" in report.replace("\\", "")
    assert "# No DSpark" in best
    launches = by_confidence(shown(desk))
    assert launches["0.9"]["speculation"]["net_saved_s"] < 0
    assert (
        launches["0.9"]["speculation"]["gated_acceptance_ratio"]
        > launches["0.5"]["speculation"]["gated_acceptance_ratio"]
    ), "a stricter gate accepts a larger share, and that is no reason to take it"
    assert launches["off"]["speculation"]["null_reasons"]["gated_acceptance_ratio"] == "no speculation"


def test_on_a_curve_where_a_confidence_wins_it_is_recommended(desk: Desk) -> None:
    done = desk.run("sweep", sweep(desk, 0.5, 0.9), FAKE_DS4="curve=m5 stats=3 token_ms=2")

    assert done.code == 0, done.err
    assert result_of(done).startswith("confidence_threshold=0.5 is the fastest of 3 configurations: +")
    margin = re.search(r"\+(\d+\.\d) % decode speed against off", result_of(done))
    assert margin is not None and float(margin[1]) == pytest.approx(27, abs=4)
    report, best = report_of(desk)
    assert "What the engine says of its drafts" in report
    assert "DS4_ARGS='--dspark --dspark-confidence 0.5'" in best
    document = shown(desk)
    assert by_confidence(document)["0.5"]["speculation"]["net_saved_s"] > 0
    for cell in document["cells"]:
        assert cell["acceptance_ratio"] is None, "what ds4 accepts behind its gate is another figure"
        reason = cell["null_reasons"]["acceptance_ratio"]
        assert reason == "no speculation" if cell["num_speculative_tokens"] == 0 else PER_LAUNCH in reason


def test_a_build_that_bypasses_dspark_is_reported_as_such(desk: Desk) -> None:
    done = desk.run("sweep", sweep(desk, 0.5), FAKE_DS4="bypass=1 stats=3 token_ms=0.3")

    assert done.code == 4, "a cell of a configuration that did not run cannot be told"
    assert "speculation bypassed, not used" in done.err
    document = shown(desk)
    said = by_confidence(document)["0.5"]["speculation"]
    assert said["bypassed"] is True
    assert (
        said["gated_acceptance_ratio"] is None and "bypassed DSpark" in said["null_reasons"]["gated_acceptance_ratio"]
    )
    (cell,) = [cell for cell in document["cells"] if cell.get("confidence_threshold") == 0.5]
    assert [doubt["kind"] for doubt in cell["doubts"] if doubt["void"]] == ["speculation_bypassed"]
    assert cell["acceptance_ratio"] is None


def test_a_statistics_line_that_is_cut_breaks_nothing(desk: Desk) -> None:
    done = desk.run("sweep", sweep(desk, 0.5), FAKE_DS4="cut=70 stats=1 token_ms=0.3")

    assert done.code == 0, done.err
    said = by_confidence(shown(desk))["0.5"]["speculation"]
    assert said["draft_cycles"] is None and said["counts"] == {}
    assert "cut" in said["null_reasons"]["gated_acceptance_ratio"]
    assert "cut" in report_of(desk)[0]


def test_a_model_that_is_not_there_is_explained_and_the_sweep_ends_with_3(desk: Desk) -> None:
    name = sweep(desk, 0.5)
    Path(desk.folder / "support.gguf").unlink()

    done = desk.run("sweep", name, FAKE_DS4="token_ms=0.3")

    assert done.code == 3
    assert "cannot open model" in done.err and "`support_model`" in done.err
    assert [launch["outcome"] for launch in shown(desk)["launches"]].count("measured") == 1, "off needs no such file"
