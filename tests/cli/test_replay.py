"""`harness sweep` on a trace, as a user types it: the result by class and length, and nothing of its texts anywhere."""

from __future__ import annotations

import gzip
import json
import stat
from pathlib import Path

import pytest

from tests.system.driver import Desk

SECRET = "Wilhelmina's orchard ledger"
CODE = "def count_{n}(shelf):\n    total = len(shelf)\n    return total + {n}\n\n"


def trace_in(folder: Path) -> Path:
    """Twenty conversations of two kinds, sent two seconds apart, half of them with a second turn."""
    lines = []
    for number in range(20):
        text = CODE.format(n=number) * 12 if number % 2 else f"{SECRET} of year {number}. " * 20
        messages = [{"role": "user", "content": text}]
        lines.append({"messages": messages, "timestamp": 2.0 * number, "max_tokens": 16, "temperature": 0.6})
        if number % 4 < 2:
            turns = [*messages, {"role": "assistant", "content": SECRET}, {"role": "user", "content": f"And {number}?"}]
            lines.append({"messages": turns, "timestamp": 2.0 * number + 1, "max_tokens": 16, "temperature": 0.6})
    path = folder / "trace.jsonl.gz"
    path.write_bytes(gzip.compress("".join(json.dumps(line) + "\n" for line in lines).encode()))
    return path


def sweep_in(folder: Path, arrivals: str, more: str = "") -> Path:
    path = folder / "mine.yaml"
    path.write_text(
        "sweep: mine\nrecipe: vllm-cpu-tiny\n"
        f"workload: {{trace: {trace_in(folder).name}, arrivals: {arrivals}{more}}}\n"
        "knobs: {num_speculative_tokens: [0, 2], concurrency: 2}\nmix: {by: tokens}\nrepeat: {drafts: 1}\n"
    )
    return path


@pytest.mark.parametrize("arrivals", ["closed", "recorded, speed: 4", "poisson, rate_per_s: 3"])
def test_a_trace_is_replayed_and_its_texts_stay_where_they_are(desk: Desk, tmp_path: Path, arrivals: str) -> None:
    sweep = sweep_in(tmp_path, arrivals)
    root = tmp_path / "root"

    done = desk.run("sweep", str(sweep), "--engine", "simulated", "--scenario", "quiet", "--root", str(root))
    shown = desk.run("show", "--json", "--root", str(root))

    assert done.code == 0, done.err
    cells = shown.document()["cells"]
    assert {(cell["class"], cell["context_tokens"], cell["cache"]) for cell in cells} == {
        ("code", 256, "as_recorded"),
        ("prose", 256, "as_recorded"),
    }
    assert all(cell["decode_tokens_per_s"] for cell in cells)
    kinds = {doubt["kind"] for cell in cells for doubt in cell["doubts"]}
    assert not kinds & {"recorded_reuse_differs", "replay_incomplete", "prompt_off_target", "sent_late"}, kinds
    mix = shown.document()["mix"]
    assert sum(each["weight"] for each in mix["weights"]) == pytest.approx(1.0)
    assert all(each["workload_seconds"] for each in mix["workload_seconds"])
    written = [path for path in (*root.rglob("*"), *desk.folder.rglob("*")) if path.is_file()]
    assert any(path.name == "journal.jsonl" for path in written)
    for path in written:
        if path.name not in (sweep.name, "trace.jsonl.gz"):
            content = path.read_bytes()
            assert b"orchard" not in content and b"count_3" not in content, path
    assert "orchard" not in done.err + shown.out


def test_texts_are_kept_where_the_user_asks_for_it_and_nowhere_else(desk: Desk, tmp_path: Path) -> None:
    root = tmp_path / "root"
    sweep = sweep_in(tmp_path, "closed")

    options = ("--engine", "simulated", "--scenario", "quiet", "--root", str(root), "--keep-text")
    done = desk.run("sweep", str(sweep), *options)

    assert done.code == 0, done.err
    (kept,) = [path for path in root.rglob("*") if path.is_file() and b"orchard" in path.read_bytes()]
    assert kept.name == "texts.jsonl"
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    lines = [json.loads(line) for line in kept.read_text().splitlines()]
    assert len(lines) == 2 * 30
    assert all(line["body"]["messages"] and line["answer"] for line in lines)


def test_recorded_arrivals_are_in_the_records(desk: Desk, tmp_path: Path) -> None:
    root = tmp_path / "root"
    sweep = sweep_in(tmp_path, "recorded, idle: {at_most: 1s}")

    done = desk.run("sweep", str(sweep), "--engine", "simulated", "--scenario", "quiet", "--root", str(root))

    assert done.code == 0, done.err
    journal = next(root.glob("results/*/journal.jsonl"))
    trials = [record for line in journal.read_text().splitlines() if "requests" in (record := json.loads(line))]
    assert trials
    for trial in trials:
        assert {request["scheduled_s"] for request in trial["requests"]} > {0.0}
        for request in trial["requests"]:
            assert -1e-6 <= request["sent_s"] - request["scheduled_s"] < 0.25


def test_a_trace_that_is_not_there_is_said_at_its_line(desk: Desk, tmp_path: Path) -> None:
    sweep = sweep_in(tmp_path, "closed")
    (tmp_path / "trace.jsonl.gz").unlink()

    failed = desk.run("plan", str(sweep))

    assert failed.code == 2
    assert "mine.yaml:3:" in failed.err and "cannot be read" in failed.err


def test_a_class_beside_a_trace_is_refused(desk: Desk, tmp_path: Path) -> None:
    sweep = sweep_in(tmp_path, "closed")

    for knob, said in (("class=code", "no meaning"), ("context_tokens=1K", "no meaning"), ("cache=warm", "no meaning")):
        failed = desk.run("plan", str(sweep), "--set", f"knobs.{knob}")
        assert failed.code == 2
        assert said in failed.err
