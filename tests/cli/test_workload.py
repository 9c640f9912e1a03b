"""`harness workload` as a user types it."""

from __future__ import annotations

import json
import stat
import subprocess
import sys
from pathlib import Path

import pytest

FIXTURES = Path(__file__).parents[1] / "fixtures" / "traces"


def harness(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "harness", "workload", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)


def test_inspect_draws_and_writes_json_and_a_page(tmp_path: Path) -> None:
    page = tmp_path / "page.html"

    shown = harness("inspect", FIXTURES / "langfuse.csv", "--recipe", "dspark-2x-spark", "--html", page)
    document = harness("inspect", FIXTURES / "langfuse.csv", "--json")

    assert shown.returncode == document.returncode == 0
    assert shown.stdout == ""
    for words in (
        "Langfuse observations",
        "Prompt tokens",
        "█",
        "on dspark-2x-spark",
        "is a request that failed (line 5)",
    ):
        assert words in shown.stderr
    found = json.loads(document.stdout)
    assert (found["format"], found["entries"], found["by_text"]["whole"]) == ("langfuse", 5, 2)
    assert "Prompt tokens" in page.read_text()
    for output in (shown.stderr, document.stdout, page.read_text()):
        assert "ferry" not in output


def test_inspect_names_what_is_longer_than_the_model_takes(tmp_path: Path) -> None:
    trace = tmp_path / "trace.jsonl"
    lines = [{"timestamp": 0, "input_length": length, "output_length": 100} for length in (500, 8100, 8000, 9000)]
    trace.write_text("".join(json.dumps(line) + "\n" for line in lines))

    shown = harness("inspect", trace, "--recipe", "vllm-cpu-tiny")
    document = json.loads(harness("inspect", trace, "--recipe", "vllm-cpu-tiny", "--json").stdout)

    assert "2 × longer than the 8K tokens that the model takes (lines 2, 4): left out" in shown.stderr
    assert (document["most_tokens"], document["too_long"], document["too_long_lines"]) == (8192, 2, [2, 4])


def test_convert_writes_what_only_its_owner_may_read(tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"

    done = harness("convert", FIXTURES / "openai.jsonl", out, "--sample", "3", "--seed", "4")
    again = harness("convert", FIXTURES / "openai.jsonl", out)

    assert done.returncode == 0
    assert "3 requests of 3 conversations" in done.stderr
    assert "3 entries were left out" in done.stderr
    assert stat.S_IMODE(out.stat().st_mode) == 0o600
    assert again.returncode == 2
    assert "--force" in again.stderr
    assert list(tmp_path.iterdir()) == [out]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "the trace is empty"),
        ("{}".encode("utf-16"), "iconv"),
        (b"hello\nworld\n", "no known format"),
        (b"\x1f\x8b\x08\x00 no such thing", "damaged or cut off"),
    ],
)
def test_a_file_that_is_no_trace_is_one_clear_error(tmp_path: Path, content: bytes, said: str) -> None:
    path = tmp_path / "trace"
    path.write_bytes(content)

    for arguments in (("inspect", path), ("convert", path, tmp_path / "out")):
        failed = harness(*arguments)
        assert failed.returncode == 2
        assert said in failed.stderr
        assert "Traceback" not in failed.stderr
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_that_is_not_there() -> None:
    failed = harness("inspect", "nowhere.jsonl")

    assert failed.returncode == 2
    assert "nowhere.jsonl" in failed.stderr
