"""What two servers really differ in, read back from them: more than was asked for is no comparison. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from harness.records.launch import LaunchRecord

# Factors behind which many things change at once: what does is listed, not refused.
_WHOLE = ("image", "checkpoint", "checkout", "generation")
# What an engine works out from k itself, so that it cannot be kept equal between arms of unlike k.
_FOLLOWS_DEPTH = ("max_num_batched_tokens",)
_DEPTH = "num_speculative_tokens"


def live_differences(
    base: Sequence[LaunchRecord], candidate: Sequence[LaunchRecord], factors: Sequence[str]
) -> tuple[str, ...]:
    """Return what the arms differ in besides their factors, in words: "max_model_len: 8192 and 16384".

    Args:
        base: launches of one arm that came up.
        candidate: of the other.
        factors: knobs in which they are meant to differ.
    """
    first, second = _facts(base), _facts(candidate)
    explained = set(factors) | (set(_FOLLOWS_DEPTH) if _DEPTH in factors else set())
    return tuple(
        f"{name}: {first[name]} and {second[name]}"
        for name in first
        if name in second and first[name] != second[name] and not _is_explained(name, explained, first, second)
    )


def is_whole_factor(factors: Sequence[str]) -> bool:
    """Return whether a factor is a bundle, such as an image: what changes inside it belongs to it."""
    return any(name in _WHOLE for name in factors)


def _is_explained(name: str, explained: set[str], first: Mapping[str, str], second: Mapping[str, str]) -> bool:
    if not name.startswith(_SPECULATIVE):
        return name in explained
    return name.removeprefix(_SPECULATIVE) in explained


_SPECULATIVE = "speculative_config."


def _facts(launches: Sequence[LaunchRecord]) -> dict[str, str]:
    """Of the launches that came up; where they disagree among themselves, all that was seen."""
    seen: dict[str, dict[str, None]] = {}
    for launch in launches:
        for name, value in _of_launch(launch).items():
            seen.setdefault(name, {})[value] = None
    return {name: " or ".join(values) for name, values in seen.items()}


def _of_launch(launch: LaunchRecord) -> dict[str, str]:
    facts: dict[str, object | None] = {}
    if launch.live is not None:
        facts |= {
            "model": launch.live.model,
            "max_model_len": launch.live.max_model_len,
            "engine version": launch.live.engine_version,
        }
    if launch.boot is not None:
        facts["max_num_batched_tokens"] = launch.boot.max_num_batched_tokens
        for key, value in (launch.boot.speculative_config or {}).items():
            facts[f"{_SPECULATIVE}{key}"] = value
    for node in launch.nodes:
        facts[f"driver on {node.node}"] = node.driver_version
    return {name: str(value) for name, value in facts.items() if value is not None}
