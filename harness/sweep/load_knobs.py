"""The knobs of the load, which every engine shares: no restart is needed to change one. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, cast

from harness.recipe.knob import Knob, shown
from harness.recipe.schema import Recipe
from harness.records.cell import CacheMode, KnobValue, LoadPoint, OutputLength
from harness.workload.classes import CONTENT_CLASSES
from harness.workload.thinking import OFF, reserve_tokens

AS_RECORDED = "as_recorded"
LoadValue = KnobValue | OutputLength
BY_EFFORT = "by_effort"
OUTPUT_TOKENS = "output_tokens"
THINKING_TOKENS = "thinking_tokens"
FROM_TRACE: dict[str, LoadValue] = dict.fromkeys(
    ("cache", OUTPUT_TOKENS, "temperature", "top_p", "thinking"), AS_RECORDED
)  # what a sweep of a trace leaves open

LOAD_KNOBS: dict[str, Knob] = {
    "class": Knob(
        help=f"What the text is about: {', '.join(CONTENT_CLASSES)}.",
        type="choice",
        scope="load",
        values=tuple(CONTENT_CLASSES),
        default="prose",
    ),
    "context_tokens": Knob(
        help="Prompt length in tokens, chat template included; K = 1024.",
        type="int",
        scope="load",
        at_least=1,
        default=256,
    ),
    "concurrency": Knob(help="Streams at a time.", type="int", scope="load", at_least=1, default=1),
    "cache": Knob(
        help="cold: nothing is reused. warm: each stream's own prefix is cached. shared: one prefix for all.",
        type="choice",
        scope="load",
        values=("cold", "warm", "shared", AS_RECORDED),
        default="cold",
    ),
    OUTPUT_TOKENS: Knob(
        help="Exact answer length in tokens, or {natural: N}: at most N.",
        type="int",
        scope="load",
        at_least=1,
        default=256,
    ),
    "temperature": Knob(help="Sampling temperature, always sent.", type="float", scope="load", at_least=0, default=0.0),
    "top_p": Knob(
        help="Nucleus sampling, always sent; 1 is off.", type="float", scope="load", at_least=0, at_most=1, default=1.0
    ),
    "thinking": Knob(
        help="Whether the model reasons before it answers, always sent.",
        type="choice",
        scope="load",
        values=("off", "on", "low", "medium", "high", "max"),
        default="off",
    ),
    THINKING_TOKENS: Knob(
        help="Where the model reasons: what is added to output_tokens, so that reasoning does not eat the answer.",
        type="int",
        scope="load",
        at_least=0,
        default=BY_EFFORT,
    ),
}


def load_knobs_of(recipe: Recipe) -> dict[str, Knob]:
    """Return the load knobs as a recipe narrows them: its allowed values and defaults."""
    return LOAD_KNOBS | {name: knob for name, knob in recipe.knobs.items() if knob.scope == "load"}


def read_load_value(name: str, knob: Knob, raw: Any) -> LoadValue:
    """Return one value of a load knob in its one form. Raises ValueError that says what is allowed."""
    if raw == AS_RECORDED:
        return AS_RECORDED
    if name == THINKING_TOKENS and raw == BY_EFFORT:
        return BY_EFFORT
    if name == OUTPUT_TOKENS:
        return _output_length(knob, raw)
    return knob.read(raw)


def load_point(values: Mapping[str, LoadValue]) -> LoadPoint:
    """Return the load point of one value for every load knob."""
    plain = cast(Mapping[str, Any], values)
    return LoadPoint(
        workload_class=plain["class"],
        context_tokens=plain["context_tokens"],
        concurrency=plain["concurrency"],
        output=_with_reserve(plain[OUTPUT_TOKENS], plain["thinking"], plain[THINKING_TOKENS]),
        cache=cast(CacheMode, plain["cache"]),
        temperature=plain["temperature"],
        top_p=plain["top_p"],
        thinking=plain["thinking"],
    )


def _with_reserve(output: Any, thinking: str, tokens: int | str) -> Any:
    """Recorded lengths hold the reasoning already; recorded efforts are looked at request by request."""
    if output == AS_RECORDED or thinking == OFF:
        return output
    if tokens == BY_EFFORT:
        tokens = 0 if thinking == AS_RECORDED else reserve_tokens(thinking)
    return replace(output, reserve_tokens=tokens)


def _output_length(knob: Knob, raw: Any) -> OutputLength:
    if not isinstance(raw, dict):
        return OutputLength(tokens=cast(int, knob.read(raw)))
    if set(raw) != {"natural"}:
        raise ValueError(f"expected a number of tokens or {{natural: N}}, not keys {shown(', '.join(raw))}")
    return OutputLength(tokens=cast(int, knob.read(raw["natural"])), natural=True)
