"""What a warm agentic cell sends, through a loopback server that keeps it: fills, warm-up, then growing prompts."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, cast

import pytest

from harness.client.endpoint import Endpoint
from harness.client.load import run_closed_loop
from harness.client.openai import prepare
from harness.client.transport import StampedTransport
from harness.records.cell import LoadPoint, OutputLength
from harness.records.workload import StreamPlan
from harness.run.bench import Bench
from harness.run.streams import MOST_WARMUP_ROUNDS, Prompts, RoomError
from harness.workload.spec import promised_tokens, streams_for
from tests.fakes.byte_server import byte_server, reply
from tests.fakes.tokenizers import FakeTokenizer, by_pieces

LOAD = LoadPoint(
    workload_class="agentic", context_tokens=2048, concurrency=2, output=OutputLength(tokens=100), cache="warm"
)
SHAPE = streams_for(LOAD, drafts=250, k=4)
ANSWER = (
    b"".join(
        b"data: " + json.dumps(event).encode() + b"\n\n"
        for event in (
            {"choices": [{"delta": {"content": "word"}, "token_ids": [7]}]},
            {"choices": [{"delta": {}, "finish_reason": "length"}]},
            {"choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 1}},
        )
    )
    + b"data: [DONE]\n\n"
)


@dataclass(kw_only=True)
class Counter:
    """As much of a bench as prompts need."""

    endpoint: Endpoint
    tokenizer_id: str = "t"
    counted: FakeTokenizer = field(default_factory=lambda: FakeTokenizer(by_pieces))

    async def count_tokens(self, text: str, *, thinking: str = "off") -> int:
        del thinking
        return await self.counted(text)


def prompts_for(endpoint: Endpoint, *, launch_id: str = "launch") -> Prompts:
    return Prompts(cast(Bench, Counter(endpoint=endpoint)), cache=None, seed=1, launch_id=launch_id)


async def sent_texts(streams: Sequence[StreamPlan]) -> list[str]:
    """Send the streams, one after the other; return the texts that a server got."""
    async with byte_server([reply(200, ANSWER, kind="text/event-stream")]) as server:
        endpoint, transport = (
            Endpoint(base_url=server.url, model="m", token_count_source="token_ids"),
            StampedTransport(),
        )
        for number, plan in enumerate(streams):
            requests = [
                prepare(endpoint, prompt, LOAD, stream=number, turn=turn, seed=1)
                for turn, prompt in enumerate(plan.prompts)
            ]
            result = await run_closed_loop(transport, [requests], read_timeout_s=10)
            assert all(request.outcome == "length" for request in result.requests)
        await transport.aclose()
        bodies: list[dict[str, Any]] = [json.loads(each.partition(b"\r\n\r\n")[2]) for each in server.requests]
    assert all(len(body["messages"]) == 1 for body in bodies)
    return [body["messages"][0]["content"] for body in bodies]


def test_each_turn_that_is_sent_begins_with_the_whole_prompt_before_it() -> None:
    async def main() -> None:
        made = await prompts_for(Endpoint(base_url="http://unused", model="m")).for_trial(LOAD, SHAPE, name="t")
        assert SHAPE.turns == 5
        for number, plan in enumerate(made.streams):
            texts = await sent_texts([plan])
            assert len(texts) == SHAPE.turns
            assert [prompt.tokens for prompt in plan.prompts] == [promised_tokens(LOAD, turn) for turn in range(5)]
            for former, later in pairwise(texts):
                assert later.startswith(f"{former}\n\nAssistant: ")
            (fill,) = await sent_texts([StreamPlan(prompts=(made.fills[number],))])
            assert texts[0][: len(fill) // 2] == fill[: len(fill) // 2]
            for round_number in range(MOST_WARMUP_ROUNDS):
                warmup = (await made.warmup_round(round_number))[number]
                (short,) = await sent_texts([warmup])
                assert short[: len(fill) // 2] == fill[: len(fill) // 2]
                assert not any(text.startswith(short) or short.startswith(text) for text in texts)

    asyncio.run(main())


def test_arms_send_the_same_conversations_under_other_heads() -> None:
    async def main() -> None:
        endpoint = Endpoint(base_url="http://unused", model="m")
        one, two = [
            await prompts_for(endpoint, launch_id=launch_id).for_trial(LOAD, SHAPE, name="t")
            for launch_id in ("a", "b")
        ]
        for former, later in zip(one.streams, two.streams, strict=True):
            assert [prompt.prompt_id for prompt in former.prompts] == [prompt.prompt_id for prompt in later.prompts]
            assert not {prompt.text for prompt in former.prompts} & {prompt.text for prompt in later.prompts}

    asyncio.run(main())


def test_a_conversation_that_outgrows_the_model_is_refused_with_its_lengths() -> None:
    longest = promised_tokens(LOAD, SHAPE.turns - 1)
    fits = Endpoint(base_url="http://unused", model="m", max_model_len=longest + 100)
    short = Endpoint(base_url="http://unused", model="m", max_model_len=longest + 99)

    asyncio.run(prompts_for(fits).for_trial(LOAD, SHAPE, name="t"))
    with pytest.raises(
        RoomError, match=f"begins with 2048 tokens ends with a prompt of {longest} .*takes {longest + 99}"
    ):
        asyncio.run(prompts_for(short).for_trial(LOAD, SHAPE, name="t"))
