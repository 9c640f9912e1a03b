"""Which content class a recorded prompt is like: a guess from its shape, so that a result can be broken down by it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from harness.workload.classes import CONTENT_CLASSES, VISION
from harness.workload.traces.chat import Texts
from harness.workload.traces.entry import Entry

NO_TEXT = "no text"

_LOOKED_AT = 3000  # characters at the end of the prompt: what the answer goes on from
_LEAST_LETTERS = 16
_BEGINNINGS = (
    *(
        "def ",
        "class ",
        "import ",
        "from ",
        "#include",
        "func ",
        "fn ",
        "public ",
        "private ",
        "const ",
        "let ",
        "var ",
    ),
    *("return", "if (", "for (", "} ", "async ", "```", "//", "elif ", "else:", "try:", "except ", "self.", "@"),
)
_ENDS = (";", "{", "}", "):", ");", "=>", "](", ",)", "()", "])", "})", ")")
_CODE_LINES_RATIO = 0.3
_JSON_KEYS_RATIO = 0.35


def class_of_entry(entry: Entry, texts: Texts) -> str:
    """Return the content class of an entry: as the trace says, else a guess; NO_TEXT where there is nothing to tell."""
    if entry.workload_class is not None and entry.workload_class in CONTENT_CLASSES:
        return entry.workload_class
    return class_of(entry.body, texts) if entry.text == "whole" else NO_TEXT


def class_of(body: Mapping[str, Any], texts: Texts) -> str:
    """Return the content class of a body, by name.

    Pictures make it vision, and tools or their results agentic. Else the end of the text decides: JSON or a demand for
    it is structured, lines that look like a source file are code, and everything else is prose.
    """
    if texts.images:
        return VISION
    if body.get("tools") or body.get("functions") or _has_tool_messages(body):
        return "agentic"
    if isinstance(body.get("response_format"), dict) and body["response_format"].get("type") != "text":
        return "structured"
    return class_of_text(texts.parts[-1] if texts.parts else "")


def class_of_text(text: str) -> str:
    """Return the content class of the end of a text."""
    end = text[-_LOOKED_AT:]
    if len(end) < _LEAST_LETTERS:
        return "prose"
    lines = end.split("\n")
    if end.count('":') >= max(1, _JSON_KEYS_RATIO * len(lines)) and (len(lines) > 3 or _is_json(text)):
        return "structured"
    code = sum(line.lstrip().startswith(_BEGINNINGS) or line.rstrip().endswith(_ENDS) for line in lines)
    return "code" if code >= max(2, _CODE_LINES_RATIO * len(lines)) else "prose"


def _is_json(text: str) -> bool:
    if len(text) > _LOOKED_AT or text.lstrip()[:1] not in ("{", "["):
        return False
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _has_tool_messages(body: Mapping[str, Any]) -> bool:
    messages = body.get("messages") or ()
    return any(message.get("role") in ("tool", "function") or message.get("tool_calls") for message in messages)
