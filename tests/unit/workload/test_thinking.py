"""How much a recorded body asks to reason, and the reserve that goes with it."""

from __future__ import annotations

from typing import Any

import pytest

from harness.workload.thinking import effort_of, reserve_tokens


@pytest.mark.parametrize(
    ("body", "effort"),
    [
        ({}, "off"),
        ({"chat_template_kwargs": {"thinking": True}}, "on"),
        ({"chat_template_kwargs": {"enable_thinking": True, "reasoning_effort": "max"}}, "max"),
        ({"chat_template_kwargs": {"thinking": False}, "reasoning_effort": "high"}, "off"),
        ({"chat_template_kwargs": None, "reasoning_effort": "low"}, "low"),
        ({"chat_template_kwargs": "nonsense"}, "off"),
        ({"reasoning_effort": "none"}, "off"),
        ({"reasoning_effort": None}, "off"),
        ({"think": True}, "on"),
        ({"think": False}, "off"),
    ],
)
def test_what_a_body_asks_for(body: dict[str, Any], effort: str) -> None:
    assert effort_of(body) == effort


def test_more_effort_has_a_larger_reserve() -> None:
    assert reserve_tokens("off") == 0
    reserves = [reserve_tokens(effort) for effort in ("off", "low", "on", "high", "max")]
    assert reserves == sorted(set(reserves))
    assert reserve_tokens("an effort that nobody knows") == reserve_tokens("on")
