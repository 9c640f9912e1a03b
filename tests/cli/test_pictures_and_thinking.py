"""Class vision and thinking, from the sweep file to the tables, on the simulated engine."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from tests.cli.test_simulate import address_of
from tests.system.driver import Desk

HEAD = "sweep: mine\nrecipe: dspark-2x-spark\n"
KNOBS = "checkpoint: {checkpoint}, image: anemll-0.1.1, block_k: 1, swa_prefix: 1, num_speculative_tokens: 5"
REHEARSED = ("--engine", "simulated", "--scenario", "quiet")
PICTURE = "data:image/png;base64,AAAA"


def sweep_in(folder: Path, knobs: str, *, checkpoint: str = "vision-exp", more: str = "repeat: {drafts: 20}\n") -> str:
    path = folder / "mine.yaml"
    path.write_text(f"{HEAD}knobs: {{{KNOBS.replace('{checkpoint}', checkpoint)}, {knobs}}}\n{more}")
    return str(path)


@pytest.mark.parametrize("cache", ["cold", "warm"])
def test_prompts_with_pictures_are_as_long_as_asked(desk: Desk, tmp_path: Path, cache: str) -> None:
    sweep = sweep_in(tmp_path, f"class: vision, context_tokens: [1K, 4K], cache: {cache}, concurrency: 2")

    done = desk.run("sweep", sweep, *REHEARSED, "--root", str(tmp_path), "--keep-text")

    assert done.code == 0, done.err
    cells = desk.run("show", "--json", "--root", str(tmp_path)).document()["cells"]
    assert [cell["class"] for cell in cells] == ["vision", "vision"]
    assert [cell["prompt_tokens"] for cell in cells] == pytest.approx([1024, 4096], abs=4)
    kinds = {doubt["kind"] for cell in cells for doubt in cell["doubts"]}
    assert not kinds & {"cold_cache_hits", "reused_prefix_missed", "prompt_off_target"}
    kept = next(tmp_path.rglob("texts.jsonl")).read_text().splitlines()
    contents = [json.loads(line)["body"]["messages"][0]["content"] for line in kept]
    assert all([part["type"] for part in content] == ["image_url", "text"] for content in contents)
    pictures = {content[0]["image_url"]["url"] for content in contents}
    assert len(pictures) == (len(contents) if cache == "cold" else 4)
    journal = next(tmp_path.rglob("journal.jsonl")).read_text()
    assert "base64" not in journal


def test_a_context_that_a_picture_fills_is_a_void_cell_and_not_the_end(desk: Desk, tmp_path: Path) -> None:
    sweep = sweep_in(tmp_path, "class: [prose, vision], context_tokens: 256")

    done = desk.run("sweep", sweep, *REHEARSED, "--root", str(tmp_path))

    assert done.code == 4, done.err
    cells = desk.run("show", "--json", "--root", str(tmp_path)).document()["cells"]
    by_class = {cell["class"]: cell for cell in cells}
    assert by_class["prose"]["decode_tokens_per_s"] is not None
    assert by_class["vision"]["decode_tokens_per_s"] is None
    (doubt,) = by_class["vision"]["doubts"]
    assert "256 tokens are too few for a prompt, with a picture" in doubt["evidence"]


def test_a_text_only_checkpoint_is_refused_in_the_plan(desk: Desk, tmp_path: Path) -> None:
    knobs = "class: [prose, vision], context_tokens: 1K"
    planned = desk.run("plan", sweep_in(tmp_path, knobs, checkpoint="official-0731"), *REHEARSED)
    alone = desk.run("plan", sweep_in(tmp_path, "class: vision", checkpoint="official-0731"), *REHEARSED)

    assert planned.code == 0, planned.err
    assert "Refused:" in planned.err and "which only checkpoint vision-exp takes" in planned.err
    assert alone.code == 2
    assert "which only checkpoint vision-exp takes" in alone.err


def test_recorded_pictures_go_only_where_they_are_taken(desk: Desk, tmp_path: Path) -> None:
    text, picture = {"type": "text", "text": "What?"}, {"type": "image_url", "image_url": {"url": PICTURE}}
    lines = [{"messages": [{"role": "user", "content": parts}]} for parts in ([text], [text, picture])]
    (tmp_path / "t.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    workload = "workload: {trace: t.jsonl, arrivals: closed}\n"

    said = {
        checkpoint: desk.run("plan", sweep_in(tmp_path, "concurrency: 1", checkpoint=checkpoint, more=workload), *more)
        for checkpoint, more in (("vision-exp", REHEARSED), ("official-0731", REHEARSED))
    }

    assert said["vision-exp"].code == said["official-0731"].code == 0
    assert "Refused" not in said["vision-exp"].err
    assert "class vision sends a picture" in said["official-0731"].err


def test_the_first_answer_stands_beside_the_first_token(desk: Desk, tmp_path: Path) -> None:
    knobs = 'class: prose, context_tokens: 256, output_tokens: {natural: 64}, thinking: ["off", low]'

    done = desk.run("sweep", sweep_in(tmp_path, knobs), *REHEARSED, "--root", str(tmp_path))

    assert done.code == 0, done.err
    assert "answer" in done.err and "+ 1024 to think" in done.err
    off, low = desk.run("show", "--json", "--root", str(tmp_path)).document()["cells"]
    assert (off["thinking"], off["time_to_answer_s"]) == ("off", None)
    assert "no reasoning" in off["null_reasons"]["time_to_answer_s"]
    assert (low["thinking"], low["thinking_tokens"]) == ("low", 1024)
    assert low["time_to_answer_s"] > 2 * low["ttft_s"]
    pages = [path.read_text() for path in tmp_path.rglob("*report.md")]
    assert pages and all("first answer" in page for page in pages)


@pytest.mark.parametrize(("reserve", "doubted"), [("by_effort", False), ("100", True)])
def test_reasoning_that_eats_the_answer_is_a_doubt(desk: Desk, tmp_path: Path, reserve: str, doubted: bool) -> None:
    knobs = f"class: prose, output_tokens: {{natural: 64}}, thinking: high, thinking_tokens: {reserve}"

    done = desk.run("sweep", sweep_in(tmp_path, knobs), *REHEARSED, "--root", str(tmp_path))

    assert done.code == 0, done.err
    (cell,) = desk.run("show", "--json", "--root", str(tmp_path)).document()["cells"]
    found = [doubt for doubt in cell["doubts"] if doubt["kind"] == "thinking_used_budget"]
    assert bool(found) == doubted
    for doubt in found:
        assert "were cut within their reasoning, at 164 tokens" in doubt["evidence"]
        assert "thinking_tokens" in doubt["remedy"]
    assert (cell["time_to_answer_s"] is None) == doubted


def test_what_a_server_is_asked_over_http(desk: Desk, tmp_path: Path) -> None:
    """A recorder stands between, so that what was sent can be looked at."""
    simulated = ("--recipe", "vllm-cpu-tiny", "--model", "tiny", "--scenario", "quiet")
    engine = desk.start("simulate", "--port", "0", *simulated)
    engine.wait_for_text("Ctrl-C")
    trace = tmp_path / "trace.jsonl"
    between = desk.start(
        "workload", "record", "--listen", "0", "--upstream", address_of(engine.said), "--out", str(trace)
    )
    between.wait_for_text("Ctrl-C")
    sweep = tmp_path / "attached.yaml"
    sweep.write_text(
        f"sweep: attached\nrecipe: attach\nknobs: {{url: '{address_of(between.said)}', class: vision, "
        "context_tokens: 512, output_tokens: {natural: 32}, thinking: low, thinking_tokens: 160}\nrepeat: {drafts: 1}\n"
    )

    done = desk.run("sweep", str(sweep), "--root", str(tmp_path))

    assert done.code == 0, done.err
    (cell,) = desk.run("show", "--json", "--root", str(tmp_path)).document()["cells"]
    assert cell["prompt_tokens"] == pytest.approx(512, abs=4)
    assert cell["ttft_s"] < cell["time_to_answer_s"] < cell["request_s"]
    for process in (between, engine):
        process.process.send_signal(signal.SIGINT)
        assert process.process.wait(10) == 0
    bodies = [json.loads(line)["body"] for line in trace.read_text().splitlines()]
    measured = [body for body in bodies if body.get("max_tokens") == 32 + 160]
    assert measured
    for body in measured:
        picture, text = body["messages"][0]["content"]
        assert picture["image_url"]["url"].startswith("data:image/png;base64,")
        assert text["text"].startswith("Label: ") and "Describe the picture" in text["text"]
        assert body["chat_template_kwargs"] == {"thinking": True, "enable_thinking": True, "reasoning_effort": "low"}
        assert body["reasoning_effort"] == "low"
        assert not {"min_tokens", "ignore_eos"} & set(body)
