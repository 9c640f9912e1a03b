"""What a client expects of an engine: one suite, against the simulated engine twice and, where asked, a real vLLM."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from harness.client.endpoint import Endpoint, count_tokens, probe
from harness.client.load import LoadResult, run_closed_loop
from harness.client.openai import PreparedRequest, build_request, prepare, record, send
from harness.client.stream import read_stream
from harness.engine.identity import Probes, prove_tokens
from harness.metrics.scrape import scrape, settled_after
from harness.metrics.speculation import difference
from harness.records.cell import LoadPoint, OutputLength
from harness.records.counters import CounterSnapshot
from harness.records.exchange import DEFERRED, EXCHANGE, GATE
from harness.records.request import RequestRecord
from harness.records.workload import Prompt
from tests.contract.engines import MODEL, Engine, K, Main, against, in_virtual_time, over_http, real_engine

Leg = Callable[[Main], None]
PROSE = "The keeper of the light wrote down the weather every evening before the lamp was lit. "
LOAD = LoadPoint(workload_class="prose", context_tokens=256, concurrency=1, output=OutputLength(tokens=48))
_SIMULATED = [pytest.param(in_virtual_time, id="virtual time"), pytest.param(over_http, id="http")]


@pytest.fixture(scope="module")
def vllm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with real_engine(tmp_path_factory.mktemp("vllm")) as base_url:
        yield base_url


@pytest.fixture(params=[*_SIMULATED, pytest.param(None, id="vllm", marks=pytest.mark.engine)])
def leg(request: pytest.FixtureRequest, tmp_path: Path) -> Leg:
    run = request.param
    if run is None:
        base_url: str = request.getfixturevalue("vllm")
        return lambda main: against(base_url, main)
    return lambda main: run(main, tmp_path)


@pytest.fixture(params=_SIMULATED)
def simulated(request: pytest.FixtureRequest, tmp_path: Path) -> Leg:
    """For what a real engine cannot be asked to do."""
    return lambda main: request.param(main, tmp_path)


async def probed(engine: Engine, *, chat: bool = True) -> Endpoint:
    async with engine.client() as http:
        # The client closes its transport, which is of no matter to the ones under test.
        return await probe(http, engine.base_url, None, model=MODEL, chat=chat)


def prepared(endpoint: Endpoint, text: str, load: LoadPoint = LOAD, *, stream: int = 0) -> PreparedRequest:
    return prepare(endpoint, Prompt(text=text, tokens=0), load, stream=stream, turn=0, seed=stream)


async def answered(engine: Engine, endpoint: Endpoint, text: str, load: LoadPoint = LOAD) -> RequestRecord:
    request = prepared(endpoint, text, load)
    sent = await send(engine.transport, request, build_request(request, read_timeout_s=60.0))
    return record(sent, epoch_s=0.0)


async def replayed(engine: Engine, endpoint: Endpoint, texts: list[str], load: LoadPoint = LOAD) -> LoadResult:
    streams = [[prepared(endpoint, text, load, stream=index)] for index, text in enumerate(texts)]
    return await run_closed_loop(engine.transport, streams, read_timeout_s=60.0, prewarm=engine.transport.prewarm)


async def counters(engine: Engine) -> CounterSnapshot:
    async with engine.client() as http:
        snapshot = await scrape(http, engine.base_url, None, engine.clock)
    assert snapshot is not None
    return snapshot


async def at_rest(engine: Engine) -> CounterSnapshot:
    for _ in range(200):
        snapshot = await counters(engine)
        if not snapshot.requests_running and not snapshot.requests_waiting:
            return snapshot
        await engine.clock.sleep(0.05)
    raise AssertionError("requests are still in the engine")


@pytest.mark.parametrize("chat", [True, False])
def test_a_probe_learns_the_model_and_counts_token_ids(leg: Leg, chat: bool) -> None:
    async def main(engine: Engine) -> None:
        endpoint = await probed(engine, chat=chat)
        assert (endpoint.model, endpoint.max_model_len) == (MODEL, 8192)
        assert endpoint.token_count_source == "token_ids"
        assert {"seed", "top_p", "min_tokens", "ignore_eos", "stream_options"} <= endpoint.accepts

    leg(main)


@pytest.mark.parametrize("chat", [True, False])
def test_prompts_have_the_tokens_that_the_server_counted_before(leg: Leg, chat: bool) -> None:
    async def main(engine: Engine) -> None:
        endpoint = await probed(engine, chat=chat)
        for text in ("x", PROSE * 3, '{"a": [1, 2, 3]}\n' * 20, "grün ☃ 木" * 9):
            async with engine.client() as http:
                counted = await count_tokens(http, endpoint, text)
            assert (await answered(engine, endpoint, text)).prompt_tokens == counted

    leg(main)


@pytest.mark.parametrize("chat", [True, False])
def test_a_stream_brings_what_was_asked_for_in_several_events(leg: Leg, chat: bool) -> None:
    async def main(engine: Engine) -> None:
        endpoint = await probed(engine, chat=chat)
        answer = await answered(engine, endpoint, PROSE * 8)
        assert (answer.outcome, answer.finish_reason, answer.http_status) == ("length", "length", 200)
        assert answer.output_tokens == 48
        assert sum(batch.tokens or 0 for batch in answer.batches) == 48
        assert answer.batches[0].tokens == 1  # of the prompt's own step, which drafts nothing
        assert 48 / (K + 1) <= len(answer.batches) < 48
        assert answer.sent_s is not None
        times = [batch.at_s for batch in answer.batches]
        assert times == sorted(times)
        assert answer.sent_s < times[0] < times[-1] <= (answer.closed_s or 0.0)

    leg(main)


def test_greedy_answers_repeat_and_differ_by_prompt(leg: Leg) -> None:
    async def main(engine: Engine) -> None:
        endpoint = await probed(engine)
        first, again, other = [await answered(engine, endpoint, text) for text in (PROSE, PROSE, PROSE * 2)]
        assert first.token_ids_sha256 == again.token_ids_sha256 != other.token_ids_sha256
        assert first.text_sha256 == again.text_sha256

    leg(main)


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/completions"])
def test_a_whole_reply_is_the_stream_at_once(leg: Leg, path: str) -> None:
    async def main(engine: Engine) -> None:
        endpoint = await probed(engine, chat="chat" in path)
        body = json.loads(prepared(endpoint, PROSE).body)
        streamed = await _exchange(engine, path, body)
        facts = read_stream(streamed)
        del body["stream"], body["stream_options"]
        async with engine.client() as http:
            response = await http.post(path, json=body)
        whole = response.json()
        (choice,) = whole["choices"]
        assert (response.status_code, choice["finish_reason"]) == (200, "length")
        assert whole["usage"]["completion_tokens"] == facts.output_tokens == len(choice["token_ids"])
        assert whole["usage"]["prompt_tokens"] == facts.prompt_tokens
        text = choice["message"]["content"] if "chat" in path else choice["text"]
        assert text == "".join(_texts(streamed))

    leg(main)


def test_counters_hold_what_was_served_and_no_more(leg: Leg) -> None:
    async def main(engine: Engine) -> None:
        endpoint = await probed(engine)
        before = await at_rest(engine)
        texts = [f"Story {index}. {PROSE * 8}" for index in range(3)]
        result = await replayed(engine, endpoint, texts, replace(LOAD, concurrency=3))
        served = sum(request.output_tokens or 0 for request in result.requests)
        settled = await settled_after(
            lambda: _optional(counters(engine)), engine.clock, before=before, expected_tokens=served
        )
        delta = difference(before, settled.snapshot, settled=settled.settled, num_speculative_tokens=K)
        assert settled.settled
        assert (delta.generation_tokens, served) == (144, 144)
        assert delta.prompt_tokens == sum(request.prompt_tokens or 0 for request in result.requests)
        assert delta.requests_finished == 3
        assert delta.drafts and delta.draft_tokens == K * delta.drafts
        assert delta.accepted_by_position is not None and len(delta.accepted_by_position) == K
        assert sum(delta.accepted_by_position) == delta.accepted_tokens
        assert list(delta.accepted_by_position) == sorted(delta.accepted_by_position, reverse=True)
        made = 3 + delta.drafts + (delta.accepted_tokens or 0)
        assert 0 <= made - served <= 3 * K  # accepted past the end: counted, and not sent
        assert delta.iterations and delta.iterations >= delta.drafts / 3

    leg(main)


def test_k_is_proved_from_counters(leg: Leg) -> None:
    async def main(engine: Engine) -> None:
        endpoint = await probed(engine)

        async def draft() -> None:
            await answered(engine, endpoint, PROSE)

        probes = Probes(counters=lambda: _optional(counters(engine)), draft=draft, clock=engine.clock)
        assert (await prove_tokens(probes, may_be_trimmed=False)).num_speculative_tokens == K

    leg(main)


def test_a_repeated_prompt_comes_from_the_cache_and_a_new_head_does_not(leg: Leg) -> None:
    async def main(engine: Engine) -> None:
        endpoint = await probed(engine)
        fresh = f"{engine.clock.now_s()} {PROSE * 40}"  # a real engine may have seen others
        hits = []
        for text in (f"A {fresh}", f"A {fresh}", f"B {fresh}"):
            before = await at_rest(engine)
            await answered(engine, endpoint, text)
            after = await at_rest(engine)
            hits.append((after.prefix_cache_hits or 0) - (before.prefix_cache_hits or 0))
        assert hits[0] == hits[2] == 0
        assert hits[1] > 500

    leg(main)


def test_streams_that_start_together_are_all_answered(leg: Leg) -> None:
    async def main(engine: Engine) -> None:
        endpoint = await probed(engine)
        texts = [f"Story {index}. {PROSE * 4}" for index in range(6)]
        result = await replayed(engine, endpoint, texts, replace(LOAD, concurrency=6))
        assert [request.outcome for request in result.requests] == ["length"] * 6
        assert [request.stream for request in result.requests] == list(range(6))
        sent = [request.sent_s for request in result.requests if request.sent_s is not None]
        assert max(sent) - min(sent) < 0.2
        assert not result.aborted

    leg(main)


REFUSALS: list[tuple[str, str, dict[str, Any] | bytes | None, int]] = [
    ("POST", "/v1/completions", {"model": "nope", "prompt": "x"}, 404),
    ("POST", "/v1/completions", {"prompt": "one two three four " * 9000}, 400),
    ("POST", "/v1/chat/completions", {"messages": [{"role": "user", "content": "one two three " * 9000}]}, 400),
    ("POST", "/v1/completions", {"prompt": "x", "max_tokens": 99999}, 400),
    ("POST", "/v1/completions", {"prompt": "x", "max_tokens": 0}, 400),
    ("POST", "/v1/completions", {"prompt": "x", "temperature": -1}, 400),
    ("POST", "/v1/completions", {"prompt": "x", "temperature": "hot"}, 400),
    ("POST", "/v1/completions", {"prompt": "x", "stream_options": {"include_usage": True}}, 400),
    ("POST", "/v1/completions", {"prompt": ""}, 400),
    ("POST", "/v1/completions", {"prompt": [999_999_999]}, 400),
    ("POST", "/v1/chat/completions", {"messages": []}, 400),
    ("POST", "/v1/completions", b'{"model": "tiny", "prompt": ', 400),
    ("POST", "/v1/nothing", {}, 404),
    ("GET", "/v1/completions", None, 405),
]


@pytest.mark.parametrize(("method", "path", "body", "status"), REFUSALS)
def test_what_is_wrong_is_refused_in_the_same_form(
    leg: Leg, method: str, path: str, body: dict[str, Any] | bytes | None, status: int
) -> None:
    async def main(engine: Engine) -> None:
        content = body if isinstance(body, bytes) else json.dumps({"model": MODEL, **(body or {})}).encode()
        headers = {"content-type": "application/json"}
        async with engine.client() as http:
            response = await http.request(method, path, content=content if body is not None else None, headers=headers)
        assert response.status_code == status
        tree = response.json()
        if path == "/v1/nothing" or method == "GET":
            assert set(tree) == {"detail"}
        else:
            assert set(tree) == {"error"}
            assert set(tree["error"]) == {"message", "type", "param", "code"}
            assert tree["error"]["code"] == status

    leg(main)


def test_health_version_and_models(leg: Leg) -> None:
    async def main(engine: Engine) -> None:
        async with engine.client() as http:
            assert (await http.get("/health")).status_code == 200
            assert (await http.get("/version")).json()["version"].startswith("0.32.0")
            (card,) = (await http.get("/v1/models")).json()["data"]
            assert (card["id"], card["max_model_len"]) == (MODEL, 8192)
            head = await http.head("/health")
            assert (head.status_code, head.content) == (405, b"")

    leg(main)


def test_a_read_timeout_ends_the_exchange_and_the_engine_forgets_the_request(leg: Leg) -> None:
    async def main(engine: Engine) -> None:
        endpoint = await probed(engine)
        request = prepared(endpoint, f"{engine.clock.now_s()} {PROSE * 350}", replace(LOAD, context_tokens=7000))
        sent = await send(engine.transport, request, build_request(request, read_timeout_s=0.05))
        timed_out = record(sent, epoch_s=0.0)
        assert timed_out.outcome == "timeout"
        assert sent.exchange is not None
        assert 0.049 < sent.exchange.closed_s - sent.exchange.sent_s < 5.0
        assert not timed_out.batches
        await at_rest(engine)

    leg(main)


def test_a_read_timeout_counts_from_the_last_event(leg: Leg) -> None:
    async def main(engine: Engine) -> None:
        endpoint = await probed(engine)
        load = replace(LOAD, output=OutputLength(tokens=1024))
        request = prepared(endpoint, PROSE * 2, load)
        sent = await send(engine.transport, request, build_request(request, read_timeout_s=1.0))
        whole = record(sent, epoch_s=0.0)
        assert whole.outcome == "length"
        assert sent.exchange is not None
        assert sent.exchange.closed_s - sent.exchange.sent_s > 1.0

    leg(main)


def test_a_cancelled_request_keeps_what_came_and_leaves_the_engine(leg: Leg) -> None:
    async def main(engine: Engine) -> None:
        endpoint = await probed(engine)
        request = build_request(
            prepared(endpoint, PROSE, replace(LOAD, output=OutputLength(tokens=4000))), read_timeout_s=60.0
        )
        task = asyncio.create_task(engine.transport.handle_async_request(request))
        await engine.clock.sleep(1.0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        exchange = request.extensions[EXCHANGE]
        assert (exchange.ended, exchange.status) == ("cancelled", 200)
        facts = read_stream(exchange)
        assert facts.batches and facts.finish_reason is None
        await at_rest(engine)

    leg(main)


def test_the_gate_is_the_last_thing_before_the_send(leg: Leg) -> None:
    async def main(engine: Engine) -> None:
        endpoint = await probed(engine)
        opened, reached = asyncio.Event(), asyncio.Event()

        async def gate() -> None:
            reached.set()
            await opened.wait()

        request = build_request(prepared(endpoint, PROSE), read_timeout_s=60.0)
        request.extensions[GATE] = gate
        task = asyncio.create_task(engine.transport.handle_async_request(request))
        await reached.wait()
        await engine.clock.sleep(0.5)
        opened_s = asyncio.get_running_loop().time()
        opened.set()
        await task
        assert request.extensions[EXCHANGE].sent_s >= opened_s

    leg(main)


def test_closing_the_transport_ends_what_is_in_flight(leg: Leg) -> None:
    async def main(engine: Engine) -> None:
        endpoint = await probed(engine)
        load = replace(LOAD, output=OutputLength(tokens=4000))
        request = build_request(prepared(endpoint, PROSE, load), read_timeout_s=60.0)
        task = asyncio.create_task(engine.transport.handle_async_request(request))
        await engine.clock.sleep(0.5)
        await engine.transport.aclose()
        assert (await task).extensions[EXCHANGE].ended == "cancelled"
        await at_rest(engine)

    leg(main)


def test_a_server_that_is_gone_refuses_connections(simulated: Leg) -> None:
    async def main(engine: Engine) -> None:
        endpoint = await probed(engine)
        assert engine.stop is not None
        await engine.stop()
        await engine.transport.aclose()
        refused = await answered(engine, endpoint, PROSE)
        assert (refused.outcome, refused.sent_s) == ("refused", None)
        with pytest.raises(httpx.ConnectError):
            await engine.transport.prewarm(endpoint.url, 2)

    simulated(main)


async def _optional(waited: Any) -> CounterSnapshot | None:
    snapshot: CounterSnapshot = await waited
    return snapshot


async def _exchange(engine: Engine, path: str, body: dict[str, Any]) -> Any:
    request = httpx.Request("POST", f"{engine.base_url}{path}", json=body, extensions={DEFERRED: True})
    response = await engine.transport.handle_async_request(request)
    return response.extensions[EXCHANGE]


def _texts(exchange: Any) -> Iterator[str]:
    body = b"".join(read.data for read in exchange.body_reads()).decode()
    for line in body.split("\n\n"):
        if line.startswith("data: {"):
            for choice in json.loads(line[6:])["choices"]:
                yield choice["text"] if "text" in choice else choice["delta"].get("content") or ""
