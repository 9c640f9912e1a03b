"""Ask an engine a few fixed prompts at temperature 0, so that arms can be compared by what they say."""

from __future__ import annotations

import json
import zlib

from harness.client.digest import repeated_tail_ratio
from harness.client.openai import Sent
from harness.client.stream import delivered_text, delivered_token_ids
from harness.records.cell import LoadPoint, OutputLength
from harness.records.sanity import GreedyAnswer
from harness.records.workload import Prompt, StreamPlan
from harness.run.bench import Bench

# Without a nonce, unlike every other prompt: the same bytes in every launch. Of several kinds, and none with an answer
# of a few words. Changing one makes answers of older runs incomparable, and nothing else.
PROMPTS = (
    "Explain to a new colleague how a lighthouse is kept through a winter, step by step.",
    "Write a Python function that merges two sorted lists into one, with a docstring and comments.",
    "List the months of the year in JSON, each with its number of days and one festival.",
    "Describe a walk along a river in early spring, as a traveller would write it in a letter.",
    "Write a bash script that finds the ten largest files below a folder, and explain each line.",
    "What speaks for and against heating a house with wood? Answer in full sentences.",
)
_ANSWER_TOKENS = 48
_LOAD = LoadPoint(
    workload_class="prose",
    context_tokens=1,
    concurrency=1,  # streams beside it would change how sums round
    output=OutputLength(tokens=_ANSWER_TOKENS, natural=True),  # past its natural end a text is all near ties
    temperature=0.0,
)


async def read_greedy(bench: Bench) -> tuple[GreedyAnswer, ...]:
    """Return the answers that finished. Raises EndpointError if nobody accepts."""
    plan = StreamPlan(prompts=tuple(Prompt(text=text, tokens=0, counted=False) for text in PROMPTS))
    result = await bench.replay(bench.prepared([plan], _LOAD, seed=0), _LOAD)
    finished = {(request.stream, request.turn) for request in result.requests if request.finished}
    return tuple(_answer(sent) for sent in result.sent if (sent.prepared.stream, sent.prepared.turn) in finished)


def _answer(sent: Sent) -> GreedyAnswer:
    assert sent.exchange is not None  # it finished
    token_ids = delivered_token_ids(sent.exchange)
    pieces = token_ids or tuple(zlib.crc32(word.encode()) for word in _words(sent))
    return GreedyAnswer(
        prompt_id=sent.prepared.prompt.prompt_id,
        pieces=pieces,
        unit="token" if token_ids else "word",
        repeated_tail_ratio=repeated_tail_ratio(pieces),
    )


def _words(sent: Sent) -> list[str]:
    assert sent.exchange is not None
    return "\n".join(delivered_text(sent.exchange)).encode("utf-8", errors="replace").decode().split()


def is_greedy(sent: Sent) -> bool:
    """Whether a recorded request is sent at temperature 0."""
    recorded = sent.prepared.prompt.recorded
    if recorded is None:
        return False
    wanted = recorded.temperature
    return (json.loads(recorded.body).get("temperature") if wanted is None else wanted) == 0
