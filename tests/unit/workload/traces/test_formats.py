"""Each format on a fixture written after its public specification: what is read, what is not, and why."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
import zstandard

from harness.errors import InputError
from harness.workload.traces.entry import Entry, Reason, Skipped
from harness.workload.traces.own import written
from harness.workload.traces.read import format_of, read_trace

FIXTURES = Path(__file__).parents[3] / "fixtures" / "traces"
FORMAT_OF = {
    "openai.jsonl": "openai",
    "openai_batch.jsonl": "openai_batch",
    "sharegpt.json": "sharegpt",
    "vllm_custom.jsonl": "vllm_custom",
    "mooncake.jsonl": "timed",
    "aiperf.jsonl": "aiperf",
    "litellm.jsonl": "litellm",
    "litellm_spend.csv": "litellm_spend",
    "litellm_spend.jsonl": "litellm_spend",
    "langfuse.jsonl": "langfuse",
    "langfuse.csv": "langfuse",
    "harness.jsonl": "harness",
}


def read(name: str, format_name: str = "auto") -> tuple[list[Entry], dict[int, Reason]]:
    found = list(read_trace(FIXTURES / name, format_name=format_name))
    skipped = {each.line: each.reason for each in found if isinstance(each, Skipped)}
    return [each for each in found if isinstance(each, Entry)], skipped


@pytest.mark.parametrize("name", FORMAT_OF)
def test_the_format_is_told_by_its_keys(name: str) -> None:
    assert format_of(FIXTURES / name).name == FORMAT_OF[name]
    assert read(name) == read(name, FORMAT_OF[name])


def test_every_fixture_is_tested() -> None:
    assert {path.name for path in FIXTURES.iterdir()} == set(FORMAT_OF)


def test_openai_bodies_are_what_was_written() -> None:
    entries, skipped = read("openai.jsonl")
    recorded = [json.loads(line) for line in (FIXTURES / "openai.jsonl").read_text().splitlines()]

    assert [entry.line for entry in entries] == [1, 2, 3, 4, 5, 9]
    for entry in entries:
        if entry.line != 5:
            assert entry.body == recorded[entry.line - 1]
    assert skipped == {6: Reason.EMPTY, 7: Reason.UNKNOWN_ROLE, 8: Reason.SEVERAL_ANSWERS}


def test_the_answer_at_the_end_of_a_chat_is_no_part_of_its_prompt() -> None:
    entry = read("openai.jsonl")[0][4]

    assert entry.body["messages"] == [{"role": "user", "content": "Say good morning."}]
    assert entry.answer_bytes == len("Good morning to you.")


def test_a_batch_holds_other_calls_too() -> None:
    entries, skipped = read("openai_batch.jsonl")

    assert [entry.body["messages"][0]["content"] for entry in entries] == ["Name a tree.", "Name a bird."]
    assert skipped == {2: Reason.NO_REQUEST}


def test_a_conversation_is_a_request_for_each_turn_of_the_human() -> None:
    entries, skipped = read("sharegpt.json")

    assert [(entry.session, len(entry.body["messages"])) for entry in entries] == [
        ("talk_0", 2),
        ("talk_0", 4),
        ("talk_3", 1),
    ]
    assert entries[1].body["messages"][:3] == [
        {"role": "system", "content": "You know boats."},
        {"role": "user", "content": "Hello there."},
        {"role": "assistant", "content": "Hello. What shall we build?"},
    ]
    assert entries[1].answer_bytes == len("Then we need rope.")
    assert list(skipped.values()) == [Reason.EMPTY, Reason.OTHER_FORMAT, Reason.UNKNOWN_ROLE]
    text = (FIXTURES / "sharegpt.json").read_text().splitlines()
    assert all("{" in text[line - 1] for line in skipped)  # the line on which the element begins


def test_vllm_custom() -> None:
    entries, skipped = read("vllm_custom.jsonl")

    assert entries[0].body == {"messages": [{"role": "user", "content": "Tell of the sea."}]}
    assert [entry.output_tokens for entry in entries] == [48, None]
    assert skipped == {3: Reason.EMPTY}


def test_a_timed_trace_is_lengths() -> None:
    entries, skipped = read("mooncake.jsonl")

    assert [(entry.text, entry.prompt_tokens, entry.output_tokens, entry.at_s) for entry in entries] == [
        ("none", 1200, 40, 0.0),
        ("none", 1700, 25, 2.5),
        ("none", 600, 10, 1.0),
    ]
    assert entries[1].blocks == (1, 2, 3, 4)
    assert skipped == {4: Reason.EMPTY}


def test_turns_build_on_each_other() -> None:
    first, second, single = read("aiperf.jsonl")[0]

    assert second.body["messages"] == [*first.body["messages"], {"role": "user", "content": "Second question."}]
    assert (first.at_s, second.at_s, single.at_s) == (0.0, 1.5, 0.7)
    assert (first.session, second.session, single.session) == ("s-1", "s-1", None)


def test_litellm_says_what_it_lacks() -> None:
    entries, skipped = read("litellm.jsonl")

    assert [(entry.line, entry.text) for entry in entries] == [(1, "whole"), (3, "redacted"), (4, "cut"), (5, "cut")]
    assert entries[0].body["temperature"] == 0.6
    assert entries[0].body["tools"][0]["function"]["name"] == "read_file"
    assert "stream" not in entries[0].body
    assert (entries[0].prompt_tokens, entries[0].output_tokens, entries[0].at_s) == (30, 12, 1764500000.25)
    assert all(entry.body == {} for entry in entries[1:])
    assert skipped == {2: Reason.FAILED, 6: Reason.NO_REQUEST, 7: Reason.EMPTY}


@pytest.mark.parametrize(
    ("content", "state"),
    [
        ("begin... (litellm_truncated 5000 chars)", "cut"),
        ("begin... (litellm_truncated skipped 5000 chars. Truncation is a safeguard) ...end", "cut"),
        ("x" * 1000, "cut"),
        ("x" * 1001, "whole"),
        ("the tool said: ... (truncated 300 chars)", "whole"),
        (
            [{"type": "text", "text": "See."}, {"type": "image_url", "image_url": {"url": "data:litellm_truncated"}}],
            "cut",
        ),
        ("redacted-by-litellm", "redacted"),
        ("", "none"),
    ],
)
def test_what_a_gateway_did_to_a_text(content: object, state: str, tmp_path: Path) -> None:
    row = {"request_id": "r", "spend": 0, "startTime": 1.0, "prompt_tokens": 70, "completion_tokens": 5}
    path = tmp_path / "rows.jsonl"
    path.write_text(json.dumps(row | {"messages": [{"role": "user", "content": content}]}))

    found = list(read_trace(path))

    assert [each.text for each in found if isinstance(each, Entry)] == [state]


@pytest.mark.parametrize("name", ["litellm_spend.csv", "litellm_spend.jsonl"])
def test_spend_logs_mostly_hold_lengths(name: str) -> None:
    entries, skipped = read(name)

    assert [entry.text for entry in entries] == ["none", "whole", "whole", "cut"]
    assert entries[1].body["messages"] == [{"role": "user", "content": 'Is the "tide" coming in?\nI hope so.'}]
    assert entries[2].body == {"temperature": 0.2, "messages": [{"role": "user", "content": "What is the wind?"}]}
    assert [entry.session for entry in entries] == ["talk-0", "talk-0", "talk-1", "talk-2"]
    assert entries[0].at_s is not None
    assert entries[1].at_s == entries[0].at_s + 1
    assert list(skipped.values()) == [Reason.FAILED]


@pytest.mark.parametrize("name", ["langfuse.jsonl", "langfuse.csv"])
def test_langfuse_holds_more_than_generations(name: str) -> None:
    entries, skipped = read(name)

    assert [entry.text for entry in entries] == ["whole", "whole", "none"]
    assert entries[0].body["temperature"] == 0.6
    assert entries[0].body["max_tokens"] == 128
    assert entries[1].body["messages"][-1]["content"] == "And back?"
    assert entries[1].body["tools"][0]["function"]["name"] == "read_file"
    assert (entries[2].prompt_tokens, entries[2].output_tokens) == (512, 80)
    assert [entry.session for entry in entries] == ["talk-1", "talk-1", "t-3"]
    assert list(skipped.values()) == [Reason.NO_REQUEST, Reason.FAILED]


def test_csv_and_json_say_the_same() -> None:
    for stem in ("langfuse", "litellm_spend"):
        tables, objects = read(f"{stem}.csv")[0], read(f"{stem}.jsonl")[0]
        assert [entry.body for entry in tables] == [entry.body for entry in objects]


def test_our_own_format() -> None:
    entries, skipped = read("harness.jsonl")

    assert [(entry.text, entry.workload_class, entry.prompt_tokens) for entry in entries] == [
        ("whole", "prose", 12),
        ("cut", None, 4000),
    ]
    assert skipped == {3: Reason.OTHER_FORMAT}


@pytest.mark.parametrize("name", FORMAT_OF)
def test_what_is_written_in_our_format_reads_the_same(name: str, tmp_path: Path) -> None:
    entries, _ = read(name)
    copy = tmp_path / "copy.jsonl"
    copy.write_bytes(b"".join(written(entry) + b"\n" for entry in entries))

    again = [each for each in read_trace(copy) if isinstance(each, Entry)]

    kept = ("text", "body", "prompt_tokens", "output_tokens", "at_s", "session", "blocks", "workload_class")
    assert [[getattr(each, key) for key in kept] for each in again] == [
        [getattr(each, key) for key in kept] for each in entries
    ]


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"temperature": 1e-3, "nothing": None, "text": 'ä "\u2028\x1f'},
        {"timestamp": 12, "session_id": "s"},  # beside the body: not written as part of it
        {"messages": [{"role": "user", "content": "Hm?"}, {"role": "assistant", "content": "Hm."}]},
    ],
)
@pytest.mark.parametrize("spaces", [(",", ":"), (" , ", " : ")])
def test_a_line_that_is_a_body_is_written_as_it_stands(
    more: dict[str, object], spaces: tuple[str, str], tmp_path: Path
) -> None:
    body = {"messages": [{"role": "user", "content": "Hm?"}], "max_tokens": 3} | more
    trace, copy = tmp_path / "trace.jsonl", tmp_path / "copy.jsonl"
    line = json.dumps(body, separators=spaces, ensure_ascii=False)
    trace.write_text(line + "\n", encoding="utf-8")
    (entry,) = (each for each in read_trace(trace) if isinstance(each, Entry))

    copy.write_bytes(written(entry, session="c0") + b"\n")

    (again,) = (each for each in read_trace(copy) if isinstance(each, Entry))
    assert again.body == entry.body == json.loads(copy.read_text(encoding="utf-8"))["body"]
    assert (again.session, again.at_s, again.answer_bytes) == ("c0", entry.at_s, entry.answer_bytes)
    stands_whole = not {"timestamp", "messages"} & set(more)
    assert (line in copy.read_text(encoding="utf-8")) == stands_whole


@pytest.mark.parametrize("pack", [gzip.compress, zstandard.ZstdCompressor().compress])
@pytest.mark.parametrize("suffix", ["", ".bin"])
def test_compression_is_told_by_content(pack: object, suffix: str, tmp_path: Path) -> None:
    assert callable(pack)
    packed = tmp_path / f"trace{suffix}"
    packed.write_bytes(pack((FIXTURES / "openai.jsonl").read_bytes()))

    assert list(read_trace(packed)) == list(read_trace(FIXTURES / "openai.jsonl"))


def test_frames_and_members_one_after_the_other_are_one_file(tmp_path: Path) -> None:
    first, rest = (FIXTURES / "openai.jsonl").read_bytes().split(b"\n", 1)
    for pack, suffix in ((gzip.compress, "gz"), (zstandard.ZstdCompressor().compress, "zst")):
        packed = tmp_path / f"trace.{suffix}"
        packed.write_bytes(pack(first + b"\n") + pack(rest))
        assert list(read_trace(packed)) == list(read_trace(FIXTURES / "openai.jsonl"))


def test_an_unknown_format_is_named_with_the_known_ones() -> None:
    with pytest.raises(InputError, match='unknown trace format "litelm"') as caught:
        list(read_trace(FIXTURES / "openai.jsonl", format_name="litelm"))

    assert '"litellm"' in str(caught.value.hint)
