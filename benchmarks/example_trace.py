"""Write sweeps/traces/example.jsonl.gz: 200 conversations of mixed traffic, made up from our corpora by a seed.

    python -m benchmarks.example_trace [OUT]

No real person or request is in it. It is small enough for a tiny engine with a context of 8,192 tokens.
"""

from __future__ import annotations

import gzip
import json
import math
import random
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from harness.workload.corpus import load_corpus

OUT = Path(__file__).parents[1] / "sweeps" / "traces" / "example.jsonl.gz"
CONVERSATIONS = 200
_SEED = 20
_RATE_PER_S = 2.0
_SYSTEM = "You are the assistant of a small library. Be brief, and say so where you do not know."
_TOOLS: list[dict[str, Any]] = [
    {
        "type": "function",
        "function": {
            "name": name,
            "description": says,
            "parameters": {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]},
        },
    }
    for name, says in (("read_file", "Return the text of a file."), ("list_folder", "Return the names in a folder."))
]
_ASKS = {
    "prose": "Go on with this story in the same voice.",
    "code": "Write one more function in the manner of these.",
    "structured": "Add two records of the same shape.",
}


def conversations(seed: int = _SEED) -> Iterator[dict[str, Any]]:
    """Yield the requests of all conversations, in the harness's own format."""
    draw = random.Random(seed)
    kinds = ["prose"] * 60 + ["code"] * 60 + ["structured"] * 40 + ["agentic"] * 40
    draw.shuffle(kinds)
    assert len(kinds) == CONVERSATIONS
    at_s = 0.0
    for number, kind in enumerate(kinds):
        at_s += -math.log(1 - draw.random()) / _RATE_PER_S
        turns = _agent(draw) if kind == "agentic" else _talk(draw, kind)
        begins_s = at_s
        for body, output in turns:
            yield {
                "harness_trace": 1,
                "body": body,
                "at_s": round(begins_s, 3),
                "session": f"c{number}",
                "class": kind,
                "output_tokens": output,
            }
            begins_s += 1.0 + 3.0 * draw.random()


def _talk(draw: random.Random, kind: str) -> Iterator[tuple[dict[str, Any], int]]:
    messages: list[dict[str, Any]] = [{"role": "system", "content": _SYSTEM}]
    for turn in range(draw.choice((1, 1, 1, 2, 3))):
        text = _passages(draw, kind, draw.choice((300, 700, 1500) if turn else (300, 1000, 2500)))
        messages = [*messages, {"role": "user", "content": f"{text}\n\n{_ASKS[kind]}"}]
        body: dict[str, Any] = {"messages": messages, "temperature": draw.choice((0.0, 0.6)), "top_p": 0.95}
        if kind == "structured" and draw.random() < 0.3:
            body["response_format"] = {"type": "json_object"}
        yield body, draw.choice((16, 24, 32, 48))
        messages = [*messages, {"role": "assistant", "content": _passages(draw, kind, 120)}]


def _agent(draw: random.Random) -> Iterator[tuple[dict[str, Any], int]]:
    """An agent reads a file or two: each turn holds all that was said and read before."""
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": _SYSTEM},
        {"role": "user", "content": "Find out why the count of books is off by one, and mend it."},
    ]
    for turn in range(draw.choice((2, 3, 4))):
        yield (
            {"messages": messages, "tools": _TOOLS, "tool_choice": "auto", "temperature": 0.6, "top_p": 0.95},
            draw.choice((16, 24, 32)),
        )
        arguments = json.dumps({"path": f"library/shelf_{draw.randrange(9)}.py"})
        call = {"id": f"call_{turn}", "type": "function", "function": {"name": "read_file", "arguments": arguments}}
        messages = [
            *messages,
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": f"call_{turn}", "content": _passages(draw, "code", 900)},
        ]


def _passages(draw: random.Random, kind: str, characters: int) -> str:
    passages = load_corpus(kind).passages
    text = ""
    while len(text) < characters:
        text += draw.choice(passages) + "\n\n"
    return text[:characters].rsplit(None, 1)[0]


def main() -> None:
    """Write the trace; the same bytes each time."""
    out = Path(sys.argv[1]) if len(sys.argv) > 1 else OUT
    lines = "".join(json.dumps(each, ensure_ascii=False, separators=(",", ":")) + "\n" for each in conversations())
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_bytes(gzip.compress(lines.encode(), 9, mtime=0))
    print(f"{lines.count(chr(10))} requests of {CONVERSATIONS} conversations in {out}")


if __name__ == "__main__":
    main()
