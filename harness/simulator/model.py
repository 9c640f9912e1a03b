"""What a simulated engine does in one step: which prompt chunks run, how long it takes, how many tokens come out.

Pure and seeded: no clock, and randomness only as uniform numbers that the caller draws. A decode step of c streams
costs ``a(c, context) + b(c) k``: the drafter's own time per position, and for each position of each stream one more
token to verify. Since b grows with c, the best k falls as concurrency rises. (b also falls a little with c (k + 1), as
fewer experts are left that the step does not read anyway.)
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from statistics import NormalDist
from typing import Literal, NamedTuple

from harness.errors import InputError
from harness.simulator.truth import DraftQuality, StepCost, Truth, log_odds_of

ConfidenceScheduler = Literal["off", "threshold"]
_NORMAL = NormalDist()


@dataclass(frozen=True, slots=True, kw_only=True)
class Speculation:
    """How the engine was told to speculate; k = 0 is no speculation."""

    k: int
    draft_sample_method: str = "probabilistic"
    confidence_threshold: float = 0.0
    confidence_scheduler: ConfidenceScheduler = "off"  # with "off" the threshold has no effect

    @property
    def threshold(self) -> float:
        """The threshold in effect; 0 keeps every drafted token."""
        return self.confidence_threshold if self.confidence_scheduler == "threshold" else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Scheduling:
    """How the engine was told to schedule."""

    max_num_seqs: int = 6
    max_batched_tokens: int = 8192
    long_prefill_tokens: int = 1024  # a prompt above this is long, and runs in chunks of this size; 0: none is long
    max_inflight_prefills: int = 1  # of long prompts
    capture_limit_tokens: int | None = None  # None: max_num_seqs * (k + 1); 0: no graphs


class PromptState(NamedTuple):
    """A request that has not finished its prompt."""

    prompt_tokens: int
    cached_tokens: int  # found in the prefix cache
    done_tokens: int  # computed so far, cached ones not counted


class Chunk(NamedTuple):
    """A part of one prompt in one step."""

    tokens: int
    context_tokens: int  # of the same prompt, before this chunk


class StepLoad(NamedTuple):
    """What one step has to do."""

    k: int
    streams: int  # that decode
    context_tokens: int  # of all decoding streams together
    verified_tokens: int  # the streams' own and their drafted tokens; streams * (k + 1) if nothing trims
    chunks: tuple[Chunk, ...] = ()


class StepOutcome(NamedTuple):
    """What one stream's step did."""

    drafted: int  # drafted tokens that were verified
    accepted: int  # of them; the step brings accepted + 1 tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class StepLaw:
    """The distribution of one stream's step: what can happen, and the cumulated probabilities."""

    outcomes: tuple[StepOutcome, ...]
    cumulated: tuple[float, ...]

    @property
    def mean_tokens(self) -> float:
        """Tokens per step, the engine's own included."""
        return 1.0 + sum(p * outcome.accepted for p, outcome in zip(self.probabilities, self.outcomes, strict=True))

    @property
    def mean_drafted(self) -> float:
        """Verified draft tokens per step."""
        return sum(p * outcome.drafted for p, outcome in zip(self.probabilities, self.outcomes, strict=True))

    @property
    def probabilities(self) -> tuple[float, ...]:
        """Of each outcome."""
        return tuple(high - low for low, high in zip((0.0, *self.cumulated), self.cumulated, strict=False))


def plan_chunks(
    scheduling: Scheduling, *, decoding: int, k: int, prompts: Sequence[PromptState]
) -> tuple[Chunk | None, ...]:
    """Return what each unfinished prompt gets in the next step, oldest first; None: it waits.

    Decoding streams are served first. Long prompts run in chunks, few at a time; short ones pass them as long as the
    step has room. Each prompt holds one of the engine's slots once it has started, and so does each decoding stream.
    """
    budget = scheduling.max_batched_tokens - decoding * (k + 1)
    slots = scheduling.max_num_seqs - decoding
    inflight = 0
    plan: list[Chunk | None] = []
    for prompt in prompts:
        left = max(prompt.prompt_tokens - prompt.cached_tokens - prompt.done_tokens, 1)
        is_long = 0 < scheduling.long_prefill_tokens < prompt.prompt_tokens - prompt.cached_tokens
        gated = is_long and inflight >= scheduling.max_inflight_prefills
        tokens = min(left, scheduling.long_prefill_tokens if is_long else left, budget)
        if gated or slots <= 0 or tokens <= 0:
            plan.append(None)
            continue
        inflight += is_long
        slots -= 1
        budget -= tokens
        plan.append(Chunk(tokens, prompt.cached_tokens + prompt.done_tokens))
    return tuple(plan)


def step_s(cost: StepCost, load: StepLoad, *, capture_limit_tokens: int | None = None) -> float:
    """Return the seconds of one step, before noise and faults.

    Args:
        cost: the engine's constants.
        load: what the step does. A step without streams and chunks costs nothing.
        capture_limit_tokens: the widest step that CUDA graphs were captured for, as asked for; None: as wide as needed.
    """
    prefill_tokens = sum(chunk.tokens for chunk in load.chunks)
    if not load.streams and not prefill_tokens:
        return 0.0
    tokens, ratio = float(load.verified_tokens + prefill_tokens), 1.0
    if not load.chunks:
        width = graph_tokens(load.verified_tokens, k=load.k, capture_limit_tokens=capture_limit_tokens)
        tokens, ratio = (tokens, cost.eager_ratio) if width is None else (float(width), 1.0)
    seconds = cost.base_s
    seconds += cost.experts_s * tokens / (tokens + cost.experts_half_tokens)
    seconds += cost.compute_s_per_token * max(0.0, tokens - cost.overlapped_tokens)
    seconds += cost.context_s_per_token * load.context_tokens
    for chunk in load.chunks:
        seconds += cost.attention_s_per_token2 * chunk.tokens * (chunk.context_tokens + chunk.tokens / 2)
    seconds += cost.chunk_s_per_token2 * prefill_tokens**2
    if load.k and load.streams:
        seconds += cost.draft_s + cost.draft_s_per_position * load.k
        seconds += cost.draft_context_s_per_token * load.k * load.context_tokens
        seconds += cost.verify_s_per_token * (load.verified_tokens - load.streams)
        if load.verified_tokens < load.streams * (load.k + 1):
            seconds += cost.confidence_sync_s
    return seconds * ratio


def graph_tokens(tokens: int, *, k: int, capture_limit_tokens: int | None) -> int | None:
    """Return the width of the captured graph that runs ``tokens``; None: wider than all, so no graph.

    vLLM captures 1, 2, 4 and the multiples of 8 up to the limit, each rounded up to a multiple of k + 1 and dropped if
    that passes the largest of them. A limit that is no multiple of 8 loses its last graph: 42 becomes 40.
    """
    if capture_limit_tokens is None:
        capture_limit_tokens = -(-tokens // 8) * 8 + 8 * (k + 1)
    for width in _captured(k, capture_limit_tokens):
        if width >= tokens:
            return width
    return None


def acceptance(
    truth: Truth, speculation: Speculation, *, workload_class: str, temperature: float, context_tokens: int = 0
) -> tuple[float, ...]:
    """Return how likely each drafted position is accepted, given that all before it were: k numbers, none if k is 0."""
    law = step_law(
        truth, speculation, workload_class=workload_class, temperature=temperature, context_tokens=context_tokens
    )
    reached, curve = 1.0, []
    for position in range(speculation.k):
        pairs = zip(law.probabilities, law.outcomes, strict=True)
        passed = sum(probability for probability, outcome in pairs if outcome.accepted > position)
        curve.append(passed / reached if reached > 0 else 0.0)
        reached = passed
    return tuple(curve)


def step_law(
    truth: Truth, speculation: Speculation, *, workload_class: str, temperature: float, context_tokens: int = 0
) -> StepLaw:
    """Return what one stream's step may do. Raises InputError: the truth does not know the workload class."""
    at_first = log_odds_of(truth, workload_class) + _shift(
        truth.drafts, speculation, temperature=temperature, context_tokens=context_tokens
    )
    log_odds = _log_odds(truth.drafts, round(at_first, 9), speculation.k)
    return law_of(
        log_odds, truth.drafts.difficulty_sd, speculation.threshold, confidence_shift=truth.drafts.confidence_log_odds
    )


@lru_cache(maxsize=4096)
def law_of(
    log_odds: tuple[float, ...], difficulty_sd: float, threshold: float, *, confidence_shift: float = 0.0
) -> StepLaw:
    """Return the law of drafts of these log-odds.

    Args:
        log_odds: of each position, given that all before it were accepted.
        difficulty_sd: of a step's own shift of them all.
        threshold: the longest prefix is verified whose survival, as the confidence head sees it, is this or more.
        confidence_shift: by how much the head is too sure, in log-odds.
    """
    weights: dict[StepOutcome, float] = {}
    for shift, weight in _difficulties(difficulty_sd):
        survival = _survival(log_odds, shift)
        seen = survival if confidence_shift == 0 else _survival(log_odds, shift + confidence_shift)
        kept = sum(reached >= threshold for reached in seen)
        bounds = [1.0, *survival[:kept], 0.0]
        for accepted in range(kept + 1):
            outcome = StepOutcome(kept, accepted)
            weights[outcome] = weights.get(outcome, 0.0) + weight * (bounds[accepted] - bounds[accepted + 1])
    total = sum(weights.values())
    cumulated = tuple(accumulate(weight / total for weight in weights.values()))
    return StepLaw(outcomes=tuple(weights), cumulated=cumulated)


def _survival(log_odds: tuple[float, ...], shift: float) -> list[float]:
    chances = [_logistic(each + shift) for each in log_odds]
    return list(accumulate(chances, lambda left, right: left * right))


def outcome_of(law: StepLaw, uniform: float) -> StepOutcome:
    """Return what happens in a step, for a number that is uniform in [0, 1)."""
    index = bisect_right(law.cumulated, uniform)
    return law.outcomes[min(index, len(law.outcomes) - 1)]


def require_speculation(speculation: Speculation) -> None:
    """Raises InputError: k or the threshold is outside its range."""
    if speculation.k < 0:
        raise InputError(f"num_speculative_tokens is {speculation.k}: it cannot be negative")
    if not 0 <= speculation.confidence_threshold <= 1:
        raise InputError(f"confidence_threshold is {speculation.confidence_threshold}: it lies between 0 and 1")


def _shift(drafts: DraftQuality, speculation: Speculation, *, temperature: float, context_tokens: int) -> float:
    """What the draft method, temperature, depth and context add to the log-odds."""
    shift = drafts.log_odds_per_temperature * max(0.0, temperature - drafts.flat_temperature)
    if speculation.draft_sample_method == "greedy" and temperature > 0:
        shift += drafts.greedy_log_odds
    if drafts.block_tokens is not None and speculation.k > drafts.block_tokens:
        shift += drafts.beyond_block_log_odds
    doublings = math.log2(max(context_tokens, drafts.context_floor_tokens) / drafts.context_floor_tokens)
    return shift + drafts.log_odds_per_context_doubling * doublings


def _log_odds(drafts: DraftQuality, at_first: float, k: int) -> tuple[float, ...]:
    """Of each position, given that all before it were accepted."""
    block = k if drafts.block_tokens is None else drafts.block_tokens
    return tuple(
        at_first
        + drafts.log_odds_per_position * position
        + drafts.outside_log_odds_per_position * max(0, position + 1 - block)
        for position in range(k)
    )


@lru_cache(maxsize=512)
def _captured(k: int, limit_tokens: int) -> tuple[int, ...]:
    sizes = [size for size in (1, 2, 4) if size <= limit_tokens] + list(range(8, limit_tokens + 1, 8))
    if not sizes:
        return ()
    rounded = {-(-size // (k + 1)) * (k + 1) for size in sizes}
    return tuple(sorted(size for size in rounded if size <= sizes[-1]))


def _difficulties(sd: float) -> list[tuple[float, float]]:
    """A normal law in 15 equally likely parts: their middles, and their weights."""
    if sd == 0:
        return [(0.0, 1.0)]
    parts = 15
    return [(sd * _NORMAL.inv_cdf((part + 0.5) / parts), 1 / parts) for part in range(parts)]


def _logistic(log_odds: float) -> float:
    return 1 / (1 + math.exp(-log_odds))
