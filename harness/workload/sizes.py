"""Sizes of recorded requests: estimates where nobody counted, and the buckets that a result is broken down by."""

from __future__ import annotations

import bisect
from collections.abc import Mapping
from typing import Any

from harness.workload.traces.chat import Texts, bytes_of, tools_bytes
from harness.workload.traces.entry import Entry

BYTES_PER_TOKEN = 4  # of text: 3 to 5 in the vocabularies of today
MESSAGE_TOKENS = 4  # of a chat template, per message
IMAGE_TOKENS = 1024  # of a picture: a guess, engines differ by a factor of four
DEFAULT_OUTPUT_TOKENS = 256  # of an answer about which nothing is known
BUCKETS = (256, 1024, 4096, 16_384, 65_536, 262_144, 1_048_576)  # prompt tokens, the upper end of each


def prompt_tokens(entry: Entry, texts: Texts) -> int:
    """Return the length of a prompt: as recorded, else an estimate from its size."""
    if entry.prompt_tokens:
        return entry.prompt_tokens
    messages = entry.body.get("messages")
    count = len(messages) if isinstance(messages, list) else 1
    size = bytes_of(texts.parts) + tools_bytes(entry.body)
    return max(1, size // BYTES_PER_TOKEN + count * MESSAGE_TOKENS + texts.images * IMAGE_TOKENS)


def output_tokens(entry: Entry) -> int:
    """Return the length of an answer: as recorded, else from its text, else the limit it had, else a usual one."""
    if entry.output_tokens is not None:
        return entry.output_tokens
    if entry.answer_bytes:
        return max(1, entry.answer_bytes // BYTES_PER_TOKEN)
    return limit_tokens(entry.body) or DEFAULT_OUTPUT_TOKENS


def limit_tokens(body: Mapping[str, Any]) -> int | None:
    """Return the longest answer that a body allows, or None."""
    for key in ("max_completion_tokens", "max_tokens"):
        limit = body.get(key)
        if isinstance(limit, int) and not isinstance(limit, bool) and limit > 0:
            return limit
    return None


def bucket_of(tokens: int) -> int:
    """Return the upper end of the bucket that a length falls into; beyond the last one, the length itself."""
    at = bisect.bisect_left(BUCKETS, tokens)
    return BUCKETS[at] if at < len(BUCKETS) else tokens
