"""A request as the engine sees it, and all that is random about it, decided when it comes. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from harness.simulator import faults as fault
from harness.simulator.answer import Answer
from harness.simulator.model import Speculation, StepLaw, StepOutcome, outcome_of, step_law
from harness.simulator.noise import generator
from harness.simulator.scenario import Scenario
from harness.simulator.tokens import tokens_in
from harness.simulator.truth import Truth, class_like

_REASONING_SHARE = 3  # one token in so many, of an answer that reasons and was not told how much
_NATURAL_TOKENS = 600  # of an answer that may end by itself, half as much more or less


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What a client asks for."""

    prompt: bytes = field(repr=False)
    key: str  # what the answer depends on besides sampling
    workload_class: str
    max_tokens: int
    min_tokens: int = 0
    ignore_eos: bool = False
    temperature: float = 0.0
    seed: int | None = None
    salt: bytes = b""  # prompts of different salts share no prefix
    opening: str = ""  # how the answer begins
    reasoning_tokens: int | None = 0  # before the answer; None: a third of all


@dataclass(frozen=True, slots=True, kw_only=True)
class Fate:
    """What is decided about a request."""

    answer: Answer
    output_tokens: int  # reasoning included
    reasoning_tokens: int  # of them, the first ones
    law: StepLaw
    uniforms: tuple[float, ...]  # by output position: what is drafted there does not depend on where steps begin


class Batch(NamedTuple):
    """What one step brought for one request."""

    at_s: float
    tokens: int
    finish_reason: str | None = None
    error: bool = False  # the engine died
    cut: bool = False  # nothing follows, and nothing says so


Deliver = Callable[[Batch], None]


@dataclass(slots=True, eq=False, kw_only=True)
class Job:
    """A request on its way through the engine."""

    order: Order
    fate: Fate
    deliver: Deliver
    arrived_s: float
    ready_s: float  # when the scheduler sees it
    prompt_tokens: int
    cut_after: int | None = None  # tokens, where its stream is to end in the middle
    cached: int = 0  # tokens of the prompt that were in the prefix cache
    looked_at: int = -1  # state of the prefix cache when it was asked
    done: int = 0  # prompt tokens that were computed
    made: int = 0  # tokens of the answer
    last_s: float = 0.0  # when the last ones were made
    steps: list[StepOutcome] = field(default_factory=list)
    finished: bool = False

    @property
    def started(self) -> bool:
        """Whether a part of the prompt is computed."""
        return self.done > 0

    @property
    def context_tokens(self) -> int:
        """Tokens that it holds in the cache."""
        return (self.prompt_tokens if self.made else self.cached + self.done) + self.made

    def next_step(self) -> StepOutcome:
        """What its next decoding step does."""
        return outcome_at(self.fate, self.made)


def new_job(order: Order, fate: Fate, deliver: Deliver, *, now_s: float, first_token_s: float) -> Job:
    """Return a request that has just come."""
    return Job(
        order=order,
        fate=fate,
        deliver=deliver,
        arrived_s=now_s,
        ready_s=now_s + first_token_s,
        prompt_tokens=tokens_in(order.prompt),
        last_s=now_s,
    )


def fate_of(order: Order, scenario: Scenario, speculation: Speculation, *, launch_key: str) -> Fate:
    """Decide a request: a function of scenario, content and sampling, and of the launch only where a fault is.

    At temperature 0 the same text is drafted alike in every launch and for every k, as by a real engine, so that arms
    can be paired by prompt.
    """
    sampling = "greedy" if order.temperature <= 0 else f"seed {order.seed}"
    rng = generator(scenario.seed, order.key, sampling)
    shift = scenario.noise.acceptance_sd * float(rng.standard_normal())
    natural = max(
        round(_NATURAL_TOKENS * (0.5 + float(rng.random()))) + (order.reasoning_tokens or 0), order.min_tokens, 1
    )
    output_tokens = order.max_tokens if order.ignore_eos else min(order.max_tokens, natural)
    looping = fault.loops(
        scenario.faults, seed=scenario.seed, launch_key=launch_key, request_key=f"{order.key} {sampling}"
    )
    truth, workload_class = _truth_for(scenario, order.workload_class, shift, looping=looping)
    law = step_law(
        truth,
        speculation,
        workload_class=workload_class,
        temperature=order.temperature,
        context_tokens=tokens_in(order.prompt),
    )
    uniforms = tuple(map(float, rng.random(output_tokens + 1)))
    request_key = f"{order.key} {sampling}"
    if fault.says_other_text(scenario.faults, k=speculation.k, seed=scenario.seed, request_key=request_key):
        rng = generator(scenario.seed, request_key, f"other text at k {speculation.k}")
    answer = Answer(rng, opening=order.opening, loops=looping)
    reasoning = output_tokens // _REASONING_SHARE if order.reasoning_tokens is None else order.reasoning_tokens
    reasoning = min(reasoning, output_tokens)
    return Fate(answer=answer, output_tokens=output_tokens, reasoning_tokens=reasoning, law=law, uniforms=uniforms)


def outcome_at(fate: Fate, position: int) -> StepOutcome:
    """Return what a step that begins after ``position`` tokens does."""
    return outcome_of(fate.law, fate.uniforms[position])


def _truth_for(scenario: Scenario, workload_class: str, shift: float, *, looping: bool) -> tuple[Truth, str]:
    """The truth with the log-odds of this one request. A class that it does not know drafts like one that it does."""
    truth = scenario.truth
    name = class_like(truth, workload_class)
    own = scenario.faults.loop_log_odds if looping else truth.drafts.log_odds[name] + shift
    own += 0.0 if looping else scenario.faults.acceptance_log_odds
    return replace(truth, drafts=replace(truth.drafts, log_odds={name: own})), name
