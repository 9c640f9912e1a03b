"""What inspect says of a trace, and that a sample is like the whole."""

from __future__ import annotations

import io
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.errors import InputError
from harness.report.workload_page import render_workload
from harness.report.workload_view import Speed, terminal_text, workload_sections
from harness.workload.classify import class_of, class_of_text
from harness.workload.corpus import load_corpus
from harness.workload.inspection import inspect_trace
from harness.workload.sampling import (
    Sample,
    chosen_entries,
    convert,
    index_of,
    require_strata,
    shares,
)
from harness.workload.traces.chat import texts_of
from harness.workload.traces.entry import Entry
from harness.workload.traces.read import read_trace

FIXTURES = Path(__file__).parents[2] / "fixtures" / "traces"


def chat(*texts: str, **more: Any) -> dict[str, Any]:
    roles = ("user", "assistant")
    return {"messages": [{"role": roles[at % 2], "content": text} for at, text in enumerate(texts)]} | more


def trace_of(tmp_path: Path, bodies: list[dict[str, Any]], name: str = "trace.jsonl") -> Path:
    path = tmp_path / name
    path.write_text("".join(json.dumps(body) + "\n" for body in bodies))
    return path


def test_turns_of_one_conversation_are_found_by_what_they_begin_with(tmp_path: Path) -> None:
    first, second = "How far is it to the mill? " * 60, "And from there to the bridge?"
    path = trace_of(
        tmp_path, [chat(first), chat("Something else."), chat(first, "Two miles.", second), chat(first, "No.", second)]
    )

    found = inspect_trace(path)

    assert (found.entries, found.sessions) == (4, 2)
    assert found.turns is not None
    assert (found.turns.p10, found.turns.most) == (1, 3)
    assert 0.5 < found.shared_prefix_ratio < 0.7


def test_what_is_counted_and_what_is_named() -> None:
    found = inspect_trace(FIXTURES / "litellm.jsonl")

    assert found.by_text == {"whole": 1, "cut": 2, "redacted": 1, "none": 0}
    assert (found.entries, found.replayable, found.lengths_only) == (7, 1, 3)
    assert {each.reason: each.lines for each in found.unreplayable} == {
        "is a request that failed": (2,),
        "is no chat or completion": (6,),
        "has an empty prompt": (7,),
    }
    assert found.span_s == 4.0


def test_times_out_of_order_are_named() -> None:
    found = inspect_trace(FIXTURES / "mooncake.jsonl")

    assert (found.out_of_order, found.out_of_order_lines, found.span_s) == (1, (3,), 2.5)
    assert found.shared_prefix_ratio == pytest.approx(1700 * 0.75 / 3500)


def test_the_picture_and_the_page_hold_no_text_of_the_trace() -> None:
    for path in sorted(FIXTURES.iterdir()):
        found = inspect_trace(path)
        sections = workload_sections(
            found, Speed(engine="some-engine", prefill_tokens_per_s=1000, decode_tokens_per_s=40)
        )
        shown = terminal_text(sections) + render_workload(found.file, sections) + repr(found)
        for entry in read_trace(path):
            for text in texts_of(entry.body).parts if isinstance(entry, Entry) else ():
                assert text not in shown
        assert "one request after the other" in shown
        assert "<script" not in shown


@pytest.mark.parametrize("name", ["prose", "code", "structured"])
def test_the_classes_of_our_own_texts_are_told_apart(name: str) -> None:
    guessed = Counter(class_of_text(passage) for passage in load_corpus(name).passages)

    assert guessed[name] >= 0.8 * guessed.total()


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (chat("A walk by the sea, please, and nothing more."), "prose"),
        (chat("A walk by the sea.", tools=[{"type": "function"}]), "agentic"),
        ({"messages": [{"role": "tool", "content": "done", "tool_call_id": "1"}]}, "agentic"),
        (chat("A walk by the sea.", response_format={"type": "json_object"}), "structured"),
        (chat("A walk by the sea.", response_format={"type": "text"}), "prose"),
        ({"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}]}, "vision"),
        ({"prompt": "def a():\n    return b(1)\n\ndef c():\n    return d(2)\n"}, "code"),
    ],
)
def test_the_class_of_a_body(body: dict[str, Any], expected: str) -> None:
    assert class_of(body, texts_of(body)) == expected


@given(sizes=st.lists(st.integers(min_value=1, max_value=50), min_size=1, max_size=8), count=st.integers(1, 500))
def test_shares_are_in_proportion(sizes: list[int], count: int) -> None:
    taken = shares(sizes, count)

    assert sum(taken) == min(count, sum(sizes))
    assert all(0 <= some <= size for some, size in zip(taken, sizes, strict=True))
    if count < sum(sizes):
        assert all(abs(some - count * size / sum(sizes)) < 1 for some, size in zip(taken, sizes, strict=True))


def test_a_sample_is_like_the_whole_and_the_same_for_a_seed(tmp_path: Path) -> None:
    prose = [chat(f"Number {n}: a long and quiet walk by the sea.") for n in range(60)]
    code = [chat(f"def walk_{n}():\n    return sea({n})\n\ndef row():\n    return boat()\n") for n in range(30)]
    path = trace_of(tmp_path, [*prose, *code])
    drawn = []
    for seed in (1, 1, 2):
        out = io.BytesIO()
        done = convert(path, out, sample=Sample(conversations=12, seed=seed))
        assert (done.entries, done.conversations) == (12, 12)
        drawn.append(out.getvalue())

    assert drawn[0] == drawn[1] != drawn[2]
    copy = tmp_path / "copy.jsonl"
    copy.write_bytes(drawn[0])
    assert {share.workload_class: share.requests for share in inspect_trace(copy).shares} == {"prose": 8, "code": 4}


def test_a_conversation_is_drawn_whole(tmp_path: Path) -> None:
    bodies = [chat(*(f"{n} of turn {turn}" for turn in range(2 * turns + 1))) for n in range(20) for turns in range(3)]
    path = trace_of(tmp_path, bodies)

    index = index_of(path)
    found = list(chosen_entries(path, index, index.kinds.drawn(Sample(conversations=5, seed=3))))

    assert sorted(Counter(ordinal for ordinal, _ in found).values()) == [3] * 5


def test_a_sample_of_arrays_whose_elements_share_a_line(tmp_path: Path) -> None:
    talks = [{"id": str(n), "conversations": [{"from": "human", "value": f"talk {n}"}]} for n in range(30)]
    path = tmp_path / "talks.json"
    path.write_text(json.dumps(talks))

    index = index_of(path)
    found = list(chosen_entries(path, index, frozenset({3, 29})))

    assert [entry.body["messages"][0]["content"] for _, entry in found] == ["talk 3", "talk 29"]


def test_an_unknown_stratum_is_refused() -> None:
    assert require_strata(()) == ("class", "prompt_tokens")
    with pytest.raises(InputError, match='cannot be spread over "colour"'):
        require_strata(("class", "colour"))
