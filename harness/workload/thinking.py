"""How much a request reasons before it answers, and what max_tokens leaves for that beside the answer. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

OFF, ON = "off", "on"
# Tokens that an answer's budget is raised by, by effort. At max the September checkpoints spend 12,000 on a moderate
# prompt; an effort that nobody knows counts as a middling one.
RESERVE_TOKENS: Mapping[str, int] = {OFF: 0, "low": 1024, ON: 2048, "medium": 2048, "high": 4096, "max": 16_384}
_SWITCHES = ("thinking", "enable_thinking")
_NO_EFFORT = ("none", "off")


def reserve_tokens(effort: str) -> int:
    """Return what max_tokens leaves for reasoning, where nobody says how much."""
    return RESERVE_TOKENS.get(effort, RESERVE_TOKENS[ON])


def effort_of(body: Mapping[str, Any]) -> str:
    """Return how much a recorded request asks to reason: off where it does not say.

    What a server does by itself with a body that does not say is its own; nothing is added for it.
    """
    written = body.get("chat_template_kwargs")
    kwargs = written if isinstance(written, dict) else {}
    switches = [kwargs[name] for name in _SWITCHES if name in kwargs]
    switches += [body["think"]] if "think" in body else []
    if any(switch is False for switch in switches):
        return OFF
    effort = kwargs.get("reasoning_effort") or body.get("reasoning_effort")
    if isinstance(effort, str):
        return OFF if effort in _NO_EFFORT else effort
    return ON if any(switches) else OFF
