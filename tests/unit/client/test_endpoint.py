"""What a probe learns, from servers that really answer."""

import asyncio
import json
from collections.abc import Coroutine
from typing import Any

import httpx
import pytest

from harness.client.endpoint import Endpoint, count_tokens, probe
from harness.client.redact import ApiKey
from harness.client.transport import StampedTransport
from harness.errors import EndpointError
from tests.fakes.byte_server import byte_server, chunked, reply
from tests.fakes.recorded import captured
from tests.fakes.truth_process import truth_process

KEY = ApiKey("sk-secret-0123456789", variable="MY_KEY")
MODELS = reply(200, b'{"object":"list","data":[{"id":"pair","max_model_len":8192},{"id":"other"}]}')
TOKENS = chunked(b'data: {"choices":[{"index":0,"text":"a","finish_reason":"length"}]}\n\n', b"data: [DONE]\n\n")
QUICK = ("--ttft-us", "2000", "--step-us", "1000")


def ask(url: str, key: ApiKey | None = None, **options: Any) -> Endpoint:
    async def main() -> Endpoint:
        async with httpx.AsyncClient(transport=StampedTransport()) as http:
            return await probe(http, url, key, **options)

    return asyncio.run(main())


def with_server(scripts: list[list[bytes]], **options: Any) -> tuple[Endpoint, list[bytes]]:
    async def main() -> tuple[Endpoint, list[bytes]]:
        async with byte_server(*scripts) as server, httpx.AsyncClient(transport=StampedTransport()) as http:
            return await probe(http, server.url, None, **options), server.requests

    return asyncio.run(main())


def failure(job: Coroutine[Any, Any, object]) -> EndpointError:
    with pytest.raises(EndpointError) as caught:
        asyncio.run(job)
    return caught.value


async def probe_bytes(*scripts: list[bytes], key: ApiKey | None = None, **options: Any) -> Endpoint:
    async with byte_server(*scripts) as server, httpx.AsyncClient(transport=StampedTransport()) as http:
        return await probe(http, server.url, key, **options)


@pytest.mark.parametrize("chat", [True, False])
def test_a_server_that_counts_tokens(chat: bool) -> None:
    with truth_process(*QUICK) as truth:
        endpoint = ask(f"{truth.url}/v1/", chat=chat)
    assert endpoint.base_url == truth.url
    assert endpoint.model == "truth"
    assert endpoint.max_model_len == 1_048_576
    assert endpoint.token_count_source == "token_ids"
    assert endpoint.url == f"{truth.url}/v1/{'chat/completions' if chat else 'completions'}"
    assert {"min_tokens", "ignore_eos", "return_token_ids", "continuous_usage_stats"} <= endpoint.accepts


@pytest.mark.parametrize(
    ("rejects", "source"),
    [
        ("return_token_ids", "usage_growth"),
        ("return_token_ids,continuous_usage_stats", "none"),
        ("min_tokens,ignore_eos,chat_template_kwargs", "token_ids"),
        ("return_token_ids,stream_options", "none"),
    ],
)
def test_a_field_that_is_refused_is_left_out_and_no_other(rejects: str, source: str) -> None:
    with truth_process(*QUICK, "--rejects", rejects) as truth:
        endpoint = ask(truth.url)
    assert not endpoint.accepts & set(rejects.split(","))
    assert "seed" in endpoint.accepts
    assert endpoint.token_count_source == source


def test_a_server_that_accepts_fields_but_does_not_count() -> None:
    with truth_process(*QUICK, "--no-counts") as truth:
        assert ask(truth.url).token_count_source == "none"


def test_a_400_that_names_no_field_costs_one_field_at_a_time() -> None:
    refusal = reply(400, b'{"error":{"message":"invalid request"}}')
    endpoint, requests = with_server([[MODELS], [refusal], [refusal], [TOKENS]])
    assert not {"return_token_ids", "continuous_usage_stats"} & endpoint.accepts
    assert "min_tokens" in endpoint.accepts
    assert "return_token_ids" not in json.loads(requests[-1].split(b"\r\n\r\n", 1)[1])


def test_a_server_that_knows_only_the_new_name_of_max_tokens() -> None:
    refusal = reply(400, b'{"error":{"message":"Use \'max_completion_tokens\' instead."}}')
    endpoint, requests = with_server([[MODELS], [refusal], [TOKENS]])
    assert endpoint.length_field == "max_completion_tokens"
    assert "return_token_ids" in endpoint.accepts
    assert json.loads(requests[-1].split(b"\r\n\r\n", 1)[1])["max_completion_tokens"] > 0


def test_per_request_speculation_is_noticed() -> None:
    captured_stream = captured("vllm-cpu/detailed_chat_tokenids")
    endpoint, _ = with_server([[captured("vllm-cpu/models")], [captured_stream]])
    assert endpoint.reports_speculation
    assert (endpoint.model, endpoint.max_model_len, endpoint.token_count_source) == ("pair", 8192, "token_ids")


def test_a_refused_key_names_its_variable_and_not_its_value() -> None:
    with truth_process("--api-key", "right") as truth:
        with pytest.raises(EndpointError) as refused:
            ask(truth.url, KEY)
        with pytest.raises(EndpointError) as missing:
            ask(truth.url)
        assert ask(truth.url, ApiKey("right", variable="MY_KEY")).model == "truth"
    assert refused.value.hint == "check the value of MY_KEY"
    assert "401" in refused.value.what
    assert "secret" not in str(refused.value)
    assert missing.value.hint is not None and "api_key_variable" in missing.value.hint


def test_a_model_that_is_not_served() -> None:
    near = failure(probe_bytes([MODELS], model="pairs"))
    assert near.hint == 'did you mean "pair"?'
    far = failure(probe_bytes([MODELS], model="zzz"))
    assert far.hint == "it serves: pair, other"
    assert with_server([[MODELS], [TOKENS]], model="other")[0].model == "other"


def test_a_server_without_a_list_of_models_needs_a_name() -> None:
    missing = reply(404, b'{"detail":"Not Found"}')
    assert failure(probe_bytes([missing])).hint == "name the model that it serves"
    assert with_server([[missing], [TOKENS]], model="mine")[0].model == "mine"


@pytest.mark.parametrize(
    ("answer", "what"),
    [
        (b"vllm-cpu/dead_stream", "a tiny streamed request failed: EngineCore encountered an issue"),
        (b"vllm-cpu/dead_completions_after", "a tiny streamed request failed (HTTP 500): EngineCore"),
        (b"vllm-cpu/error_not_found", "a tiny streamed request failed (HTTP 404): Not Found"),
    ],
)
def test_an_engine_that_is_dead(answer: bytes, what: str) -> None:
    said = failure(probe_bytes([MODELS], [captured(answer.decode())]))
    assert said.what.startswith(what)
    assert said.where is not None and said.where.endswith("/v1/chat/completions")


def test_something_that_is_no_engine() -> None:
    assert "names no model" in failure(probe_bytes([reply(200, b"<html>")])).what
    assert "brought no tokens" in failure(probe_bytes([MODELS], [reply(200, b"{}")])).what
    refusal = reply(400, b'{"error":{"message":"never"}}')
    assert "refuses a plain request: never" in failure(probe_bytes([MODELS], [refusal])).what


def test_nobody_listens() -> None:
    async def main() -> None:
        async with byte_server([b""]) as server:
            url = server.url
        async with httpx.AsyncClient(transport=StampedTransport()) as http:
            await probe(http, url, None)

    said = failure(main())
    assert said.what.startswith("no answer: 127.0.0.1")
    assert said.hint == "is the engine running?"


@pytest.mark.parametrize("chat", [True, False])
def test_tokens_are_counted_in_the_form_of_the_requests(chat: bool) -> None:
    async def main() -> None:
        async with (
            byte_server([captured("vllm-cpu/tokenize_chat")]) as server,
            httpx.AsyncClient(transport=StampedTransport()) as http,
        ):
            endpoint = Endpoint(base_url=server.url, model="pair", chat=chat, api_key=KEY)
            assert await count_tokens(http, endpoint, "hello", thinking="high") == 31
            head, _, body = server.requests[0].partition(b"\r\n\r\n")
            assert head.startswith(b"POST /tokenize ")
            assert b"Bearer sk-secret-0123456789" in head
            sent = json.loads(body)
            assert sent["model"] == "pair"
            if chat:
                assert sent["messages"] == [{"role": "user", "content": "hello"}]
                assert sent["add_generation_prompt"] is True
                assert sent["chat_template_kwargs"] == {
                    "thinking": True,
                    "enable_thinking": True,
                    "reasoning_effort": "high",
                }
            else:
                assert sent["prompt"] == "hello"

    asyncio.run(main())


def test_a_server_without_tokenize_says_so() -> None:
    async def main() -> None:
        with truth_process("--no-tokenize") as truth:
            async with httpx.AsyncClient(transport=StampedTransport()) as http:
                await count_tokens(http, Endpoint(base_url=truth.url, model="truth"), "hello")

    said = failure(main())
    assert "HTTP 404" in said.what
    assert said.hint is not None and "/tokenize" in said.hint
