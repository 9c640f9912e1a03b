"""Text of users, engines and models on its way to a page or a screen: no control codes, and escaped for its medium."""

from __future__ import annotations

import re

# Terminal control sequences: CSI with its parameters, OSC up to its end, and two-character escapes.
_ESCAPE_SEQUENCE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-_]?)")
# C0, DEL and C1 but tab and newline, and the characters that reorder a line.
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")
_MARKDOWN = re.compile(r"([\\`*\[\]<>|~$])")
_OUTER_UNDERSCORE = re.compile(r"(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])")
_ADDRESS = re.compile(r"\w+://\S+|\b\d{1,3}(?:\.\d{1,3}){3}\b(?::\d+)?")
_PATH = re.compile(r"(?<![\w/])(?:~|\.{1,2})?/(?:[\w.@+-]+/)*([\w.@+-]+)/?")


def clean(text: str) -> str:
    """Return the text without control codes, so that a log line cannot move a cursor or turn a line around."""
    return _CONTROL.sub("", _ESCAPE_SEQUENCE.sub("", text))


def one_line(text: str) -> str:
    """Return clean text on one line."""
    return " ".join(clean(text).split())


def escape_markdown(text: str) -> str:
    """Return the text so that Markdown, tables included, shows it as it is."""
    escaped = _MARKDOWN.sub(r"\\\1", one_line(text).replace("&", "&amp;"))
    return _OUTER_UNDERSCORE.sub(r"\\_", escaped)


def without_places(text: str) -> str:
    """Return the text without addresses, and with paths cut to their last part: it may be posted."""
    return _PATH.sub(r"\1", _ADDRESS.sub("…", text))
