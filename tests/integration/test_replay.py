"""What is sent equals what was recorded: each format through a loopback server that keeps what it got."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import httpx
import pytest

from harness.client.endpoint import Endpoint
from harness.client.load import LoadResult, run_closed_loop
from harness.client.openai import PreparedRequest
from harness.client.recorded import count_recorded, prepare_recorded
from harness.client.transport import StampedTransport
from harness.errors import InputError
from harness.recipe.find import find_recipe
from harness.recipe.load import load_recipe
from harness.records.cell import LoadPoint
from harness.records.codec import to_json
from harness.records.workload import StreamPlan
from harness.run.bench import Bench
from harness.run.recorded_streams import RecordedStreams
from harness.run.replaying import ReplayedLoads, read_replay, replayed_loads
from harness.sweep.cells import expand
from harness.sweep.load import Sweep, load_sweep
from harness.workload.traces.entry import Entry
from harness.workload.traces.read import read_trace
from tests.fakes.byte_server import byte_server, reply

FIXTURES = Path(__file__).parents[1] / "fixtures" / "traces"
WITH_TEXT = [
    "openai.jsonl",
    "openai_batch.jsonl",
    "sharegpt.json",
    "vllm_custom.jsonl",
    "aiperf.jsonl",
    "litellm.jsonl",
    "litellm_spend.csv",
    "litellm_spend.jsonl",
    "langfuse.jsonl",
    "langfuse.csv",
    "harness.jsonl",
]
ADDED = {"model", "stream", "stream_options", "seed", "cache_salt", "return_token_ids", "min_tokens", "ignore_eos"}
LENGTH = {"max_tokens", "max_completion_tokens"}
ANSWER = (
    b"".join(
        b"data: " + json.dumps(event).encode() + b"\n\n"
        for event in (
            {"choices": [{"delta": {"role": "assistant", "content": ""}}]},
            {"choices": [{"delta": {"content": "word"}, "token_ids": [7]}]},
            {"choices": [{"delta": {}, "finish_reason": "length"}]},
            {"choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 1}},
        )
    )
    + b"data: [DONE]\n\n"
)


@dataclass(kw_only=True)
class Counter:
    """As much of a bench as streams need."""

    endpoint: Endpoint
    per_byte: float = 0.25
    counted: list[dict[str, Any]] = field(default_factory=list)

    async def count_recorded(self, body: dict[str, Any]) -> int:
        self.counted.append(body)
        return max(1, int(len(json.dumps(body)) * self.per_byte))

    async def count_tokens(self, text: str) -> int:
        return 5 + len(text) // 4


def sweep_of(tmp_path: Path, trace: Path, workload: str = "", knobs: str = "concurrency: 2") -> Sweep:
    path = tmp_path / "sweep.yaml"
    lines = f"sweep: mine\nrecipe: vllm-cpu-tiny\nworkload: {{trace: {trace}, arrivals: closed{workload}}}\n"
    path.write_text(f"{lines}knobs: {{num_speculative_tokens: [0, 2], {knobs}}}\n")
    return load_sweep(path)


def loads_of(sweep: Sweep) -> ReplayedLoads:
    replay = read_replay(sweep)
    assert replay is not None
    return replayed_loads(sweep, expand(sweep, load_recipe(find_recipe(sweep.file.recipe)).recipe).groups, replay)


def endpoint_at(url: str, **more: Any) -> Endpoint:
    return Endpoint(base_url=url, model="served", token_count_source="token_ids", **more)


async def plans_of(
    replayed: ReplayedLoads, endpoint: Endpoint, **more: Any
) -> list[tuple[LoadPoint, tuple[StreamPlan, ...]]]:
    source = RecordedStreams(cast(Bench, Counter(endpoint=endpoint, **more)), replayed, seed=1)
    loads = replayed.groups[0].loads
    return [(load, await source.streams(load, salt=f"salt-{at}")) for at, load in enumerate(loads)]


def prepared(endpoint: Endpoint, streams: Sequence[StreamPlan]) -> list[list[PreparedRequest]]:
    return [
        [
            prepare_recorded(endpoint, prompt, stream=stream, turn=turn, seed=11)
            for turn, prompt in enumerate(plan.prompts)
        ]
        for stream, plan in enumerate(streams)
    ]


def replayed_bodies(sweep: Sweep) -> tuple[list[dict[str, Any]], list[LoadResult]]:
    """Send all cells of the first configuration to a server; return what it got, as JSON."""

    async def main() -> tuple[list[dict[str, Any]], list[LoadResult]]:
        async with byte_server([reply(200, ANSWER, kind="text/event-stream")]) as server:
            endpoint, transport = endpoint_at(server.url), StampedTransport()
            results = [
                await run_closed_loop(transport, prepared(endpoint, streams), read_timeout_s=10)
                for _, streams in await plans_of(loads_of(sweep), endpoint)
            ]
            await transport.aclose()
            return [json.loads(request.partition(b"\r\n\r\n")[2]) for request in server.requests], results

    return asyncio.run(main())


def plain(body: Mapping[str, Any]) -> str:
    """What must not change, with the order of its keys."""
    return json.dumps({name: value for name, value in body.items() if name not in ADDED | LENGTH})


@pytest.mark.parametrize("name", WITH_TEXT)
def test_what_is_sent_is_what_was_recorded(name: str, tmp_path: Path) -> None:
    recorded = [each for each in read_trace(FIXTURES / name) if isinstance(each, Entry) and each.text == "whole"]
    sweep = sweep_of(tmp_path, FIXTURES / name, ", no_text: {fill: prose}")

    sent, results = replayed_bodies(sweep)

    own = [body for body in sent if plain(body) in {plain(entry.body) for entry in recorded}]
    assert sorted(map(plain, own)) == sorted(plain(entry.body) for entry in recorded)
    assert all(request.outcome == "length" for result in results for request in result.requests)
    assert all(body["model"] == "served" and body["stream"] is True for body in sent)
    for entry in recorded:
        twin = next(body for body in own if plain(body) == plain(entry.body))
        if entry.output_tokens is not None:
            assert twin["max_tokens"] == entry.output_tokens


def test_pictures_tools_and_thinking_pass_untouched(tmp_path: Path) -> None:
    sent, _ = replayed_bodies(sweep_of(tmp_path, FIXTURES / "openai.jsonl"))
    recorded = [json.loads(line) for line in (FIXTURES / "openai.jsonl").read_text().splitlines()]

    picture = next(body for body in sent if isinstance(body.get("messages", [{}])[0].get("content"), list))
    agent = next(body for body in sent if "tools" in body)
    assert picture["messages"] == recorded[1]["messages"]
    for key in ("messages", "tools", "tool_choice", "parallel_tool_calls", "reasoning_effort", "chat_template_kwargs"):
        assert agent[key] == recorded[2][key]
    schema = next(body for body in sent if "response_format" in body)
    assert "ignore_eos" not in schema and "min_tokens" not in schema  # a grammar decides where it ends
    assert next(body for body in sent if "prompt" in body)["prompt"] == "Once upon a time"


def test_the_sweep_may_say_otherwise(tmp_path: Path) -> None:
    knobs = "concurrency: 1, temperature: 0.3, top_p: 0.8, thinking: low, output_tokens: {natural: 40}"

    sent, _ = replayed_bodies(sweep_of(tmp_path, FIXTURES / "openai.jsonl", knobs=knobs))

    for body in sent:
        assert (body["temperature"], body["top_p"], body["max_tokens"]) == (0.3, 0.8, 40 + 1024)
        assert body["reasoning_effort"] == "low"
        assert body["chat_template_kwargs"]["thinking"] is True
        assert "min_tokens" not in body


def test_a_recorded_effort_has_a_reserve_of_its_own(tmp_path: Path) -> None:
    knobs = "concurrency: 1, output_tokens: {natural: 40}"

    sent, _ = replayed_bodies(sweep_of(tmp_path, FIXTURES / "openai.jsonl", knobs=knobs))

    lengths = {body.get("reasoning_effort"): body["max_tokens"] for body in sent}
    assert lengths == {None: 40, "high": 40 + 4096}


def test_recorded_lengths_hold_the_reasoning_already(tmp_path: Path) -> None:
    def lengths(knobs: str) -> list[int]:
        sent, _ = replayed_bodies(sweep_of(tmp_path, FIXTURES / "openai.jsonl", knobs=knobs))
        return sorted(body["max_tokens"] for body in sent)

    assert lengths("concurrency: 1, thinking: high") == lengths("concurrency: 1")


def test_a_key_in_a_body_is_not_sent(tmp_path: Path) -> None:
    trace = tmp_path / "trace.jsonl"
    body = {
        "messages": [{"role": "user", "content": "A quiet day."}],
        "api_key": "sk-secret",
        "extra_headers": {"authorization": "Bearer sk-secret"},
        "metadata": {"user": "somebody"},
        "user": "somebody",
        "stream": False,
    }
    trace.write_text(json.dumps(body) + "\n")

    sent, _ = replayed_bodies(sweep_of(tmp_path, trace))

    assert set(sent[0]) <= {"messages"} | ADDED | LENGTH
    assert sent[0]["messages"] == body["messages"]


def test_turns_of_a_conversation_go_in_order_through_one_stream(tmp_path: Path) -> None:
    replayed = loads_of(sweep_of(tmp_path, FIXTURES / "sharegpt.json"))
    plans = asyncio.run(plans_of(replayed, endpoint_at("http://nowhere")))

    lengths = [
        [len(json.loads(prompt.recorded.body)["messages"]) for prompt in stream.prompts if prompt.recorded]
        for _, streams in plans
        for stream in streams
    ]
    assert sorted(lengths) == [[1], [2, 4]]


def test_salts_keep_cells_apart_and_cold_requests_too(tmp_path: Path) -> None:
    def salts(cache: str) -> list[str]:
        sweep = sweep_of(tmp_path, FIXTURES / "sharegpt.json", knobs=f"concurrency: 1, cache: {cache}")
        plans = asyncio.run(plans_of(loads_of(sweep), endpoint_at("http://nowhere")))
        prompts = [prompt for _, streams in plans for stream in streams for prompt in stream.prompts]
        return [prompt.recorded.salt for prompt in prompts if prompt.recorded]

    assert set(salts("as_recorded")) == {"salt-0"}
    assert len(set(salts("cold"))) == len(salts("cold")) == 3


def test_what_is_longer_than_the_model_takes_is_left_out(tmp_path: Path) -> None:
    replayed = loads_of(sweep_of(tmp_path, FIXTURES / "vllm_custom.jsonl"))
    all_of_it = asyncio.run(plans_of(replayed, endpoint_at("http://nowhere", max_model_len=400)))
    nothing = asyncio.run(plans_of(replayed, endpoint_at("http://nowhere", max_model_len=40)))

    assert sum(len(stream.prompts) for _, streams in all_of_it for stream in streams) == 2
    assert [streams for _, streams in nothing] == [()]


def test_lengths_are_filled_from_a_named_class_and_marked(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"3 entries have no whole text \(line 1, 2, 3\)") as caught:
        loads_of(sweep_of(tmp_path, FIXTURES / "mooncake.jsonl"))
    assert caught.value.where is not None and "sweep.yaml:3" in caught.value.where

    replayed = loads_of(sweep_of(tmp_path, FIXTURES / "mooncake.jsonl", ", no_text: {fill: code}"))
    plans = asyncio.run(plans_of(replayed, endpoint_at("http://nowhere")))

    texts = {}
    for load, streams in plans:
        assert load.recorded is not None
        assert load.recorded.synthetic_class == load.workload_class == "code"
        for prompt in (prompt for stream in streams for prompt in stream.prompts if prompt.recorded):
            body = json.loads(prompt.recorded.body) if prompt.recorded else {}
            texts[len(body["messages"][0]["content"]) // 4] = body["messages"][0]["content"]
    short, first, second = (texts[length] for length in sorted(texts))
    assert sorted(texts) == pytest.approx([600, 1200, 1700], rel=0.01)
    assert second.startswith(first[: 2 * 4 * 512])  # two blocks are the same, and part of the third
    assert short[:100] != first[:100]


def test_records_of_a_replay_hold_no_text(tmp_path: Path) -> None:
    replayed = loads_of(sweep_of(tmp_path, FIXTURES / "openai.jsonl"))
    _, results = replayed_bodies(sweep_of(tmp_path, FIXTURES / "openai.jsonl"))

    written = "".join(to_json(group) for group in replayed.groups)
    written += "".join(to_json(request) for result in results for request in result.requests)
    for word in ("river", "boat", "Once upon"):
        assert word not in written


def test_a_mix_by_requests_or_tokens_is_of_the_whole_trace(tmp_path: Path) -> None:
    replayed = loads_of(sweep_of(tmp_path, FIXTURES / "openai.jsonl", ", sample: {sessions: 2, seed: 1}"))
    whole = loads_of(sweep_of(tmp_path, FIXTURES / "openai.jsonl"))

    assert sum(whole.weights.values()) == pytest.approx(1.0)
    assert 0 < sum(replayed.weights.values()) < 1
    assert len(replayed.groups[0].loads) < len(whole.groups[0].loads)


def test_recorded_arrivals_are_due_when_they_came(tmp_path: Path) -> None:
    trace = tmp_path / "trace.jsonl"
    times = (100.0, 100.05, 100.2)
    trace.write_text(
        "".join(
            json.dumps({"timestamp": at_s, "messages": [{"role": "user", "content": f"At {at_s}."}], "max_tokens": 1})
            + "\n"
            for at_s in times
        )
    )
    sweep = sweep_of(tmp_path, trace)
    text = Path(sweep.source.name).read_text().replace("arrivals: closed", "arrivals: recorded, speed: 0.5")
    Path(sweep.source.name).write_text(text)

    sent, results = replayed_bodies(load_sweep(Path(sweep.source.name)))

    requests = sorted(results[0].requests, key=lambda request: request.scheduled_s)
    assert [request.scheduled_s for request in requests] == pytest.approx([0.0, 0.1, 0.4])
    for request in requests:
        assert request.sent_s is not None
        assert request.scheduled_s <= request.sent_s + 1e-9 < request.scheduled_s + 0.2
    assert [body["messages"][0]["content"] for body in sent] == [f"At {at_s}." for at_s in times]


def test_a_prompt_is_counted_as_the_server_counts_it() -> None:
    async def main() -> tuple[int | None, int | None, dict[str, Any]]:
        body = {"messages": [{"role": "user", "content": "x"}], "tools": [{"type": "function"}], "temperature": 1}
        counts = reply(200, b'{"count": 42}')
        refuses = reply(200, b"{}")
        async with byte_server([counts], [refuses]) as server, httpx.AsyncClient() as http:
            first = await count_recorded(http, endpoint_at(server.url), body)
            second = await count_recorded(http, endpoint_at(server.url), body)
            return first, second, json.loads(server.requests[0].partition(b"\r\n\r\n")[2])

    first, second, asked = asyncio.run(main())

    assert (first, second) == (42, None)
    assert asked == {
        "model": "served",
        "messages": [{"role": "user", "content": "x"}],
        "tools": [{"type": "function"}],
        "add_generation_prompt": True,
    }
