"""The fake engine beside recordings of vLLM 0.32: the same fields in the same order, and counters that add up."""

from __future__ import annotations

import asyncio
import json
import re
import socket
import subprocess
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from harness.engine.launch import launched
from harness.engine.ports import choose_port
from harness.recipe.spec import PORT
from tests.integration.engine.bench import Bench, fake_spec

pytestmark = pytest.mark.anyio
WIRE = Path("tests/fixtures/vllm_wire")
METRICS = Path("tests/fixtures/metrics/cpu_draft_after.txt")
DETAILED = ("--per-request-spec-decode-metrics", "detailed")
CHAT = {"messages": [{"role": "user", "content": "tell me about the sea"}]}
TEXT = {"prompt": "tell me about the sea"}


@asynccontextmanager
async def fake(
    bench: Bench, *, k: int = 4, fake: str = "", argv: tuple[str, ...] = ()
) -> AsyncIterator[httpx.AsyncClient]:
    spec = fake_spec(k=k, fake=fake, argv=(*(DETAILED if k else ()), *argv))
    async with launched(spec, bench.setting()) as engine, httpx.AsyncClient(base_url=engine.base_url) as client:
        yield client


@pytest.fixture(scope="module")
def shared_url() -> Iterator[str]:
    """One server with k = 4 and without faults, for the tests that only ask."""
    port = choose_port(None)
    spec = fake_spec(k=4, argv=DETAILED)
    argv = [word.replace(PORT, str(port)) for word in spec.argv]
    with subprocess.Popen(argv, stdout=subprocess.DEVNULL) as process:
        url = f"http://127.0.0.1:{port}"
        deadline_s = time.monotonic() + 20
        while not _answers(url) and time.monotonic() < deadline_s:
            time.sleep(0.02)
        yield url
        process.terminate()


def _answers(url: str) -> bool:
    try:
        return httpx.get(f"{url}/health").status_code == 200
    except httpx.TransportError:
        return False


@pytest.fixture
async def shared(shared_url: str) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=shared_url) as client:
        yield client


def shape(tree: Any, *, name: str = "") -> Any:
    """The fields of a reply in their order, and the kinds of their values."""
    if isinstance(tree, dict):
        return {key: shape(value, name=key) for key, value in tree.items()}
    if isinstance(tree, list):
        return [shape(tree[0])] if tree and isinstance(tree[0], dict) else "list"
    return "null" if tree is None else type(tree).__name__


def ordered(tree: Any) -> str:
    return json.dumps(shape(tree))


def events_of(sse: str) -> list[Any]:
    return [json.loads(line[6:]) for line in sse.splitlines() if line.startswith("data: {")]


async def stream(client: httpx.AsyncClient, path: str, body: dict[str, Any]) -> str:
    request = {"max_tokens": 48, "temperature": 0, "ignore_eos": True, "stream": True, **body}
    response = await client.post(path, json=request)
    assert response.status_code == 200
    assert response.headers["content-type"] == "text/event-stream; charset=utf-8"
    return response.text


USAGE = {"stream_options": {"include_usage": True}}
GROWTH = {"stream_options": {"include_usage": True, "continuous_usage_stats": True}}
STREAMS = [
    ("draft_chat_plain", "/v1/chat/completions", CHAT),
    ("draft_chat_usage", "/v1/chat/completions", CHAT | USAGE),
    ("draft_chat_contusage", "/v1/chat/completions", CHAT | GROWTH),
    ("draft_chat_tokenids", "/v1/chat/completions", CHAT | USAGE | {"return_token_ids": True}),
    ("draft_comp_plain", "/v1/completions", TEXT),
    ("draft_comp_contusage", "/v1/completions", TEXT | GROWTH),
    ("draft_comp_tokenids", "/v1/completions", TEXT | USAGE | {"return_token_ids": True}),
]


async def test_streams_have_the_shape_of_recorded_ones(shared: httpx.AsyncClient) -> None:
    for name, path, body in STREAMS:
        recorded = events_of((WIRE / f"{name}.sse").read_text())
        text = await stream(shared, path, body)
        answered = events_of(text)
        assert text.endswith("data: [DONE]\n\n"), name
        for place in (0, 1, -2, -1):
            assert ordered(answered[place]) == ordered(recorded[place]), (name, place)


async def test_whole_replies_have_the_shape_of_recorded_ones(shared: httpx.AsyncClient) -> None:
    for name, path, body in (
        ("draft_chat_nostream", "/v1/chat/completions", CHAT),
        ("detailed_comp_nostream", "/v1/completions", TEXT),
    ):
        request = {"max_tokens": 48, "temperature": 0, "ignore_eos": True, **body}
        answered = (await shared.post(path, json=request)).json()
        assert ordered(answered) == ordered(json.loads((WIRE / f"{name}.json").read_text())), name


async def test_without_speculation_replies_carry_no_metrics(bench: Bench) -> None:
    async with fake(bench, k=0) as client:
        recorded = events_of((WIRE / "none_chat_plain.sse").read_text())
        answered = events_of(await stream(client, "/v1/chat/completions", CHAT))
        assert [ordered(event) for event in answered[:2]] == [ordered(event) for event in recorded[:2]]
        whole = (await client.post("/v1/chat/completions", json={"max_tokens": 4, **CHAT})).json()
        assert ordered(whole) == ordered(json.loads((WIRE / "none_chat_nostream.json").read_text()))
        assert "spec_decode" not in (await client.get("/metrics")).text


ERRORS = [
    ("error_prompt_too_long", "/v1/completions", {"prompt": "word " * 9000}),
    (
        "error_prompt_too_long_chat_stream",
        "/v1/chat/completions",
        {"messages": [{"role": "user", "content": "a " * 9000}]},
    ),
    ("error_unknown_model", "/v1/completions", TEXT | {"model": "nope"}),
    ("error_max_tokens_too_large", "/v1/completions", TEXT | {"max_tokens": 99999}),
    ("error_max_tokens_zero", "/v1/completions", TEXT | {"max_tokens": 0}),
    ("error_stream_options_without_stream", "/v1/completions", TEXT | USAGE),
    ("error_temperature_negative", "/v1/completions", TEXT | {"temperature": -1}),
    ("error_empty_messages", "/v1/chat/completions", {"messages": []}),
    ("error_empty_prompt", "/v1/completions", {"prompt": ""}),
    ("error_token_out_of_vocab", "/v1/completions", {"prompt": [999999]}),
    ("error_not_found", "/v1/nothing", {}),
]


async def test_errors_have_the_words_of_recorded_ones(shared: httpx.AsyncClient) -> None:
    for name, path, body in ERRORS:
        response = await shared.post(path, json=body)
        recorded = json.loads((WIRE / f"{name}.json").read_text())
        answered = response.json()
        assert shape(answered) == shape(recorded), name
        if "error" in recorded:
            assert response.status_code == recorded["error"]["code"], name
            assert _without_numbers(answered) == _without_numbers(recorded), name
    assert (await shared.get("/v1/completions")).json() == json.loads((WIRE / "error_wrong_method.json").read_text())


def _without_numbers(tree: Any) -> Any:
    error = {**tree["error"], "message": re.sub(r"[\d.]+", "N", tree["error"]["message"]).replace("pair", "tiny")}
    return {"error": error}


async def test_facts_have_the_shape_of_recorded_ones(shared: httpx.AsyncClient) -> None:
    for name in ("models", "version"):
        path = "/v1/models" if name == "models" else "/version"
        assert ordered((await shared.get(path)).json()) == ordered(json.loads((WIRE / f"{name}.json").read_text()))
    for name, body in (
        ("tokenize", {"prompt": "the engine 42", "return_token_strs": True}),
        ("tokenize_chat", CHAT),
    ):
        answered = (await shared.post("/tokenize", json={"model": "tiny", **body})).json()
        assert ordered(answered) == ordered(json.loads((WIRE / f"{name}.json").read_text())), name
        assert answered["count"] == len(answered["tokens"])


async def test_tokenize_agrees_with_what_is_counted(shared: httpx.AsyncClient) -> None:
    for path, body in (("/v1/chat/completions", CHAT), ("/v1/completions", TEXT)):
        count = (await shared.post("/tokenize", json=body)).json()["count"]
        usage = (await shared.post(path, json={"max_tokens": 4, **body})).json()["usage"]
        assert usage["prompt_tokens"] == count


async def test_metrics_have_the_names_and_labels_of_recorded_ones(shared: httpx.AsyncClient) -> None:
    await stream(shared, "/v1/completions", TEXT)
    page = (await shared.get("/metrics")).text
    recorded = {_series(line) for line in METRICS.read_text().splitlines() if line.startswith("vllm:")}
    shown = [_series(line) for line in page.splitlines() if line.startswith("vllm:")]
    assert not [name for name in shown if name not in recorded and "_bucket" not in name and "cache_config" not in name]
    assert 'vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",model_name="M",position="3"}' in shown
    assert 'vllm:spec_decode_num_drafts_created{engine="0",model_name="M"}' in shown


def _series(line: str) -> str:
    return re.sub(r'model_name="[^"]*"', 'model_name="M"', line.rsplit(" ", 1)[0])


async def counters(client: httpx.AsyncClient) -> dict[str, float]:
    page = (await client.get("/metrics")).text
    return {
        name.split("{")[0].removeprefix("vllm:"): float(value)
        for name, value in (line.rsplit(" ", 1) for line in page.splitlines() if line.startswith("vllm:"))
        if "_bucket" not in name and "position" not in name and "reason" not in name
    }


async def test_counters_are_exact(bench: Bench) -> None:
    async with fake(bench, argv=("--max-model-len", "4096")) as client:
        before = await counters(client)
        texts = await asyncio.gather(
            *(stream(client, "/v1/completions", TEXT | USAGE | {"seed": n, "max_tokens": 40}) for n in range(5))
        )
        after = await counters(client)
    said = [events_of(text)[-1]["metrics"]["speculative_decoding"] for text in texts]
    change = {name: after[name] - before[name] for name in after}
    assert change["generation_tokens_total"] == 200
    assert change["spec_decode_num_drafts_total"] == sum(one["num_spec_steps"] for one in said)
    assert change["spec_decode_num_draft_tokens_total"] == 4 * change["spec_decode_num_drafts_total"]
    assert change["spec_decode_num_accepted_tokens_total"] == sum(one["num_accepted_draft_tokens"] for one in said)
    overshoot = 5 + change["spec_decode_num_drafts_total"] + change["spec_decode_num_accepted_tokens_total"] - 200
    assert 0 <= overshoot <= 5 * 3


async def test_greedy_text_is_the_same_with_and_without_speculation(bench: Bench) -> None:
    texts = []
    for k in (0, 5):
        async with fake(bench, k=k) as client:
            events = events_of(await stream(client, "/v1/completions", TEXT))
            texts.append("".join(event["choices"][0]["text"] for event in events))
    assert texts[0] == texts[1]
    assert len(texts[0].split()) == 48


async def test_acceptance_is_the_same_in_two_boots_and_follows_the_curve(bench: Bench) -> None:
    rates = []
    for _ in range(2):
        async with fake(bench, k=2, fake="acceptance=.8,.5 step_a_ms=0.2 step_b_ms=0") as client:
            await asyncio.gather(
                *(stream(client, "/v1/completions", {"prompt": f"{n} tell", "max_tokens": 300}) for n in range(8))
            )
            page = (await client.get("/metrics")).text
        drafts = float(re.findall(r"^vllm:spec_decode_num_drafts_total\S* (\S+)", page, re.M)[0])
        rates.append([float(value) / drafts for value in re.findall(r"^\S+per_pos_total{\S* (\S+)", page, re.M)])
    assert rates[0] == rates[1]
    assert rates[0] == pytest.approx([0.8, 0.5], abs=0.06)


async def test_a_prefix_that_was_seen_is_not_computed_again(bench: Bench) -> None:
    prompt = " ".join(f"word{n}" for n in range(100))
    async with fake(bench, argv=("--enable-prompt-tokens-details",)) as client:
        usages = [
            (await client.post("/v1/completions", json={"prompt": prompt, "max_tokens": 4, **extra})).json()["usage"]
            for extra in ({}, {}, {"cache_salt": "other"})
        ]
        page = await counters(client)
    cached = [usage["prompt_tokens_details"]["cached_tokens"] for usage in usages]
    assert cached[0] == cached[2] == 0
    assert usages[1]["prompt_tokens"] - 16 <= cached[1] < usages[1]["prompt_tokens"]
    assert page["prefix_cache_hits_total"] == cached[1]
    assert page["prefix_cache_queries_total"] == 3 * usages[0]["prompt_tokens"]


async def test_dying_in_mid_stream_ends_like_vllm(bench: Bench) -> None:
    async with fake(bench, fake="die_after_tokens=20") as client:
        text = await stream(client, "/v1/completions", TEXT)
        lines = [line for line in text.split("\n\n") if line]
        assert len(lines) > 3
        assert lines[-2:] == (WIRE / "dead_stream.sse").read_text().split("\n\n")[:2]
        assert (await client.get("/health")).status_code == 503
        assert (await client.get("/v1/models")).status_code == 200
        dead = await client.post("/v1/completions", json=TEXT)
        assert dead.status_code == 500
        assert dead.json() == json.loads((WIRE / "dead_completions_after.json").read_text())


async def test_a_cut_stream_has_no_end(bench: Bench) -> None:
    async with fake(bench, fake="cut_stream_after=10") as client:
        with pytest.raises(httpx.RemoteProtocolError, match="incomplete chunked read"):
            await stream(client, "/v1/completions", TEXT)


async def test_a_half_open_stream_says_nothing_more(bench: Bench) -> None:
    async with fake(bench, fake="half_open_after=10 only_request=2") as client:
        await stream(client, "/v1/completions", TEXT)
        with pytest.raises(httpx.ReadTimeout):
            await client.post("/v1/completions", json=TEXT | {"max_tokens": 48, "stream": True}, timeout=0.5)


@pytest.mark.parametrize(
    ("switches", "body", "status"),
    [
        ("no_token_ids=1", {"return_token_ids": True}, 400),
        ("no_continuous_usage=1", GROWTH | {"stream": True}, 400),
        ("no_continuous_usage=1", USAGE | {"stream": True}, 200),
    ],
)
async def test_what_an_older_server_refuses(bench: Bench, switches: str, body: dict[str, Any], status: int) -> None:
    async with fake(bench, fake=switches) as client:
        assert (await client.post("/v1/completions", json=TEXT | body)).status_code == status


async def test_other_faults(bench: Bench) -> None:
    async with fake(bench, fake="no_metrics=1 no_finish_reason=1 no_version=1") as client:
        assert (await client.get("/metrics")).status_code == 404
        assert (await client.get("/version")).status_code == 404
        events = events_of(await stream(client, "/v1/completions", TEXT))
        assert all(event["choices"][0]["finish_reason"] is None for event in events)


async def test_counters_that_restart(bench: Bench) -> None:
    async with fake(bench, fake="counters_restart_after=2") as client:
        await stream(client, "/v1/completions", TEXT)
        assert (await counters(client))["generation_tokens_total"] == 48
        await stream(client, "/v1/completions", TEXT)
        assert (await counters(client))["generation_tokens_total"] == 0


async def test_a_k_of_its_own_and_trimmed_drafts(bench: Bench) -> None:
    async with fake(bench, k=4, fake="k_live=2") as client:
        await stream(client, "/v1/completions", TEXT)
        page = await counters(client)
        assert page["spec_decode_num_draft_tokens_total"] == 2 * page["spec_decode_num_drafts_total"]
    async with fake(bench, k=4, fake="trim=1") as client:
        await stream(client, "/v1/completions", TEXT)
        page = await counters(client)
        assert page["spec_decode_num_draft_tokens_total"] < 4 * page["spec_decode_num_drafts_total"]


async def test_a_fault_of_one_boot_only(bench: Bench) -> None:
    switches = f"state={bench.folder / 'boots'} only_boot=2 no_metrics=1"
    found = []
    for _ in range(3):
        async with fake(bench, fake=switches) as client:
            found.append((await client.get("/metrics")).status_code)
    assert found == [200, 404, 200]


async def test_reasoning_and_half_characters(bench: Bench) -> None:
    async with fake(bench, fake="split_characters=1", argv=("--reasoning-parser", "x")) as client:
        thinking = {"chat_template_kwargs": {"enable_thinking": True}, "return_token_ids": True}
        events = events_of(await stream(client, "/v1/chat/completions", CHAT | thinking))[1:]
    deltas = [event["choices"][0]["delta"] for event in events]
    assert any("reasoning" in delta for delta in deltas)
    assert any("content" in delta for delta in deltas)
    assert sum(len(event["choices"][0]["token_ids"]) for event in events) == 48


async def test_a_client_that_hangs_up_frees_its_place(shared: httpx.AsyncClient) -> None:
    async with shared.stream(
        "POST", "/v1/completions", json=TEXT | {"max_tokens": 8000, "stream": True, "ignore_eos": True}
    ) as response:
        await anext(response.aiter_bytes())
    async with asyncio.timeout(5):
        while (await counters(shared))["num_requests_running"]:
            await asyncio.sleep(0.02)


async def test_unauthorised(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_KEY", "sk-very-secret-key")
    spec = fake_spec(argv=("--api-key", "sk-very-secret-key"), api_key_variable="FAKE_KEY")
    async with launched(spec, bench.setting()) as engine, httpx.AsyncClient(base_url=engine.base_url) as client:
        refused = await client.post("/v1/completions", json=TEXT)
        assert (refused.status_code, refused.json()) == (401, {"error": "Unauthorized"})
        assert (await client.get("/metrics")).status_code == 200


async def test_it_refuses_a_port_that_is_taken(bench: Bench) -> None:
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        spec = fake_spec(argv=("--port", str(holder.getsockname()[1])))
        with pytest.raises(Exception, match="Address already in use") as caught:
            async with launched(spec, bench.setting()):
                pytest.fail("it came up")
    assert "port is taken" in str(caught.value)
