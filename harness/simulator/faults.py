"""What can go wrong on a pair, as a scenario switches it on. Pure: the engine loop asks, these functions answer.

None of them depends on the client: the same engine time and load give the same fault.
"""

from __future__ import annotations

from dataclasses import dataclass

from harness.simulator.noise import generator


@dataclass(frozen=True, slots=True, kw_only=True)
class JitStall:
    """A kernel compiles while requests run: the first step of a shape takes this much longer."""

    stall_s: float
    share_of_shapes: float = 1.0  # of (streams, context) shapes that were never compiled


@dataclass(frozen=True, slots=True, kw_only=True)
class SlowState:
    """One node is in a hidden slow power state: every step takes longer, and clocks look normal."""

    factor: float = 1.5
    share_of_launches: float = 1.0
    from_s: float = 0.0  # of engine time
    until_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Throttling:
    """Steps get longer as the machine heats up, by ``ratio_per_hour`` and at most ``max_ratio``."""

    ratio_per_hour: float
    max_ratio: float = 0.3


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignTraffic:
    """Somebody else uses the server: a request of theirs arrives at a fixed interval."""

    every_s: float
    prompt_tokens: int = 512
    output_tokens: int = 128


@dataclass(frozen=True, slots=True, kw_only=True)
class Faults:
    """All off unless a scenario says otherwise."""

    jit_stall: JitStall | None = None
    slow_state: SlowState | None = None
    throttling: Throttling | None = None
    foreign_traffic: ForeignTraffic | None = None
    prefix_hit_ratio: float = 0.0  # of a prompt's tokens, in cells that should be cold
    prefix_evicted_ratio: float = 0.0  # of the tokens that should be in the prefix cache
    template_tokens: int = 0  # that the chat template puts into a prompt, and the tokenizer's endpoint does not count
    ignores_length: bool = False  # answers end where they like, whatever was asked for
    cut_share: float = 0.0  # of requests whose stream ends in the middle, without a word
    counters_reset_after_s: float | None = None  # of engine time with work to do: they begin at 0 again
    counter_lag_s: float = 0.0  # counters show what was true so long ago
    stale_k: int | None = None  # the worker kept an old container: this k is live, whatever was asked for
    engine_dies_after_s: float | None = None  # of engine time with work to do
    loop_share: float = 0.0  # of requests whose text falls into a repetition loop
    loop_log_odds: float = 3.5  # of drafts in such a loop: nearly all are accepted
    acceptance_log_odds: float = 0.0  # of every draft: prompts of another template, or another drafter
    other_text_share: float = 0.0  # of requests whose text is another one where drafts are made: a broken verifier
    capture_limit_tokens: int | None = None  # graphs captured for fewer tokens than asked for


def slow_factor(faults: Faults, *, engine_s: float, seed: int, launch_key: str) -> float:
    """Return what the slow state and throttling make of a step at ``engine_s`` seconds after ready."""
    factor = 1.0
    slow = faults.slow_state
    if slow is not None and _hits(slow.share_of_launches, seed, launch_key, "slow state"):
        ended = slow.until_s is not None and engine_s >= slow.until_s
        factor *= 1.0 if ended or engine_s < slow.from_s else slow.factor
    if faults.throttling is not None:
        ratio = faults.throttling.ratio_per_hour * engine_s / 3600
        factor *= 1 + min(ratio, faults.throttling.max_ratio)
    return factor


def stall_s(faults: Faults, *, shape: str, seed: int, launch_key: str) -> float:
    """Return how long the first step of ``shape`` in a launch stalls; 0 where it was compiled before."""
    stall = faults.jit_stall
    if stall is None or not _hits(stall.share_of_shapes, seed, launch_key, f"stall {shape}"):
        return 0.0
    return stall.stall_s


def loops(faults: Faults, *, seed: int, launch_key: str, request_key: str) -> bool:
    """Return whether a request's text falls into a loop."""
    return _hits(faults.loop_share, seed, launch_key, f"loop {request_key}")


def says_other_text(faults: Faults, *, k: int, seed: int, request_key: str) -> bool:
    """Return whether drafts change what a request is answered."""
    return k > 0 and _hits(faults.other_text_share, seed, "other text", request_key)


def cut_after_tokens(faults: Faults, *, seed: int, launch_key: str, request_key: str, tokens: int) -> int | None:
    """Return after how many tokens of an answer of ``tokens`` its stream ends; None where it ends as it should."""
    hit = _hits(faults.cut_share, seed, launch_key, f"cut {request_key}")
    return max(1, tokens // 2) if hit else None


def live_k(faults: Faults, asked_k: int) -> int:
    """Return the k that runs."""
    return asked_k if faults.stale_k is None else faults.stale_k


def cached_tokens(faults: Faults, prompt_tokens: int) -> int:
    """Return how many tokens of a prompt that nobody sent before come from the cache nevertheless."""
    return int(prompt_tokens * faults.prefix_hit_ratio)


def _hits(share: float, seed: int, *names: str) -> bool:
    return share >= 1 or (share > 0 and float(generator(seed, *names).random()) < share)
