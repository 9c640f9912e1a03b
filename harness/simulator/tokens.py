"""The simulated engine's tokenizer: four bytes of UTF-8 are a token. Pure.

So a prompt of any length is counted in no time, any count can be hit exactly, and equal text is equal tokens wherever
a conversation quotes it, which is all that a prefix cache asks for. A prompt is held as bytes, four to a token, whether
it came as text or as token ids.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

import numpy as np

from harness.workload.classes import CONTENT_CLASSES
from harness.workload.nonce import without_nonce

TOKEN_BYTES = 4
VOCABULARY = 129_280
PICTURE_TOKENS = 256  # of any picture
_PICTURES = ("image_url", "input_image", "image")
_BEGIN, _END = b"<s> ", b"<e> "  # one token each, like the roles
_ROLES: Mapping[str, bytes] = {"system": b"<y> ", "user": b"<u> ", "assistant": b"<a> ", "tool": b"<o> "}
_THINK = b"<t> "
_KNOWN = {"capital of France": " Paris."}
_END_BYTES = 4096  # of a prompt: enough to tell what it is, and what will be answered
_WORDS = [f" {a}{b}{c}" for a in "bdfgklmnprst" for b in "aeiou" for c in "dlmnrst"]


def tokens_in(prompt: bytes) -> int:
    """Return how many tokens a prompt has."""
    return -(-len(prompt) // TOKEN_BYTES)


def token_ids(prompt: bytes) -> list[int]:
    """Return the ids of a prompt."""
    padded = prompt + b"\0" * (-len(prompt) % TOKEN_BYTES)
    ids: list[int] = (np.frombuffer(padded, dtype="<u4") % VOCABULARY).tolist()
    return ids


def prompt_of_ids(ids: Sequence[int]) -> bytes:
    """Return a prompt that came as token ids."""
    return np.asarray(ids, dtype="<u4").tobytes()


def chat_prompt(
    messages: Sequence[Mapping[str, object]], *, generation_prompt: bool = True, thinking: bool = False
) -> bytes:
    """Return a conversation under the chat template: a begin token, and a role and an end token around each message."""
    parts = [_BEGIN]
    for message in messages:
        role = _ROLES.get(str(message.get("role")), _ROLES["user"])
        parts += [role, *_pictures_of(message), text_of_message(message).encode("utf-8", errors="surrogatepass"), _END]
    if generation_prompt:
        parts += [_ROLES["assistant"], _THINK] if thinking else [_ROLES["assistant"]]
    return b"".join(parts)


def text_of_message(message: Mapping[str, object]) -> str:
    """Return the text of a message, whose content may be a list of parts."""
    content = message.get("content") or ""
    if isinstance(content, list):
        return "".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    return str(content)


def _pictures_of(message: Mapping[str, object]) -> list[bytes]:
    """Return the tokens of a message's pictures: so many each, whatever the size, and others for another picture."""
    content = message.get("content")
    parts = [part for part in content if isinstance(part, dict)] if isinstance(content, list) else []
    pictures = [part for part in parts if part.get("type") in _PICTURES]
    digests = [hashlib.sha256(repr(part).encode("utf-8", errors="surrogatepass")).digest() for part in pictures]
    return [digest * (PICTURE_TOKENS * TOKEN_BYTES // len(digest)) for digest in digests]


def word(index: int) -> str:
    """Return what a token of an answer reads as: a word of three letters that no language has."""
    return _WORDS[index % len(_WORDS)]


def opening_for(text: str) -> str:
    """Return how the answer begins: right where a tool asks it to see whether a model is sane, else with anything."""
    return next((answer for question, answer in _KNOWN.items() if question in text), "")


def content_key(text: str) -> bytes:
    """Return what an answer depends on: the end of the prompt, without a head that is there to be unique."""
    content = without_nonce(text) if text.startswith("Label: ") else text
    return hashlib.sha256(content[-_END_BYTES:].encode("utf-8", errors="surrogatepass")).digest()


def content_class_of(text: str) -> str:
    """Return the content class of a prompt.

    A prompt of this tool ends in its class's instruction. Others are judged by what they end in: code, records and
    agents' transcripts have marks that prose lacks.
    """
    end = text[-_END_BYTES:].rstrip()
    for name, content_class in CONTENT_CLASSES.items():
        if end.endswith(content_class.instruction):
            return name
    if "<tool_call>" in end or '"tool_calls"' in end:
        return "agentic"
    words = end.split()
    if len(words) >= 64 and len(set(words)) <= len(words) // 5:
        return "repetitive"
    return _by_marks(end)


def _by_marks(end: str) -> str:
    size = max(len(end), 1)
    if sum(end.count(mark) for mark in '{}[]":') / size > 0.08:
        return "structured"
    lines = [line.strip() for line in end.splitlines()]
    code = sum(
        line.startswith(("def ", "class ", "import ", "from ", "return ", "if ", "#include", "//")) for line in lines
    )
    if code >= 3 or sum(end.count(mark) for mark in "(){};=_") / size > 0.06:
        return "code"
    return "prose"
