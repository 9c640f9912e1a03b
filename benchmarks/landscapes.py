"""Engines that do not exist, to search on: drawn at random around published ones, of eleven kinds."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from harness.records.observation import Candidate, CellObservation, Observation, SearchCell
from harness.search.model import value_of
from harness.search.space import Space
from harness.simulator.model import Speculation, StepLaw, StepLoad, step_law, step_s
from harness.simulator.noise import generator
from harness.simulator.truth import DraftQuality, StepCost, Truth, load_truth

KINDS = (
    *("interior", "shallow", "deep", "crossing", "tie", "confidence", "off"),
    *("infeasible", "collapse", "padding", "drift"),
)
LAUNCH_SD, CELL_SD = 0.03, 0.03
DRIFT_PER_LAUNCH = 0.004
DEPTHS = range(1, 13)
INCUMBENT_DEPTH, BLOCK = 5, 5
MAX_SEQS = 6
_CLASS = "code"
_DRAFTS = 600  # behind a survival curve
_CELLS = tuple(
    SearchCell(load_id=f"{context}x{c}", weight=weight, context_tokens=context, concurrency=c, output_tokens=256)
    for context, c, weight in (
        (256, 1, 0.25),
        (256, 6, 0.1),
        (2048, 1, 0.2),
        (2048, 4, 0.15),
        (8192, 1, 0.15),
        (8192, 4, 0.15),
    )
)


@dataclass(frozen=True, kw_only=True)
class Landscape:
    """One engine, with the configurations that it may be launched with."""

    name: str
    kind: str
    truth: Truth
    crashes: frozenset[int]  # depths that do not boot
    confidences: tuple[float, ...]  # (0.0,) is a space without that knob
    weights: tuple[float, ...]

    @cached_property
    def space(self) -> Space:
        """As the search sees it."""
        cells = tuple(replace(cell, weight=weight) for cell, weight in zip(_CELLS, self.weights, strict=True))
        block = BLOCK if self.truth.drafts.block_tokens else None
        candidates = [self._candidate(0, "probabilistic", 0.0)]
        candidates += [
            self._candidate(k, method, confidence)
            for k in DEPTHS
            for method in ("probabilistic", "greedy")
            for confidence in self.confidences
        ]
        reference = _name(INCUMBENT_DEPTH, "probabilistic", 0.0)
        return Space(candidates=tuple(candidates), cells=cells, reference_id=reference, block_tokens=block)

    @cached_property
    def true_values(self) -> Mapping[str, float]:
        """Of every configuration that boots."""
        found = {}
        for candidate in self.space.candidates:
            if candidate.num_speculative_tokens not in self.crashes:
                value = value_of(self.space.cells, self._true_cells(candidate))
                assert value is not None
                found[candidate.configuration_id] = value
        return found

    def regret(self, configuration_id: str) -> float:
        """How much slower a configuration is than the best: 0.02 is two percent."""
        return math.expm1(max(self.true_values.values()) - self.true_values[configuration_id])

    def launch(self, configuration_id: str, *, seed: int, number: int) -> Observation:
        """Launch a configuration, as the ``number``-th of a search."""
        candidate = self.space.candidate(configuration_id)
        if candidate.num_speculative_tokens in self.crashes:
            return Observation(configuration_id=configuration_id, booted=False, reason="crashed")
        rng = generator(seed, self.name, str(number))
        slow = LAUNCH_SD * rng.standard_normal() + (DRIFT_PER_LAUNCH * number if self.kind == "drift" else 0.0)
        cells = {}
        for name, cell in self._true_cells(candidate).items():
            factor = math.exp(slow + CELL_SD * rng.standard_normal())
            noisy = [
                float(np.clip(p + math.sqrt(p * (1 - p) / _DRAFTS) * rng.standard_normal(), 0, 1))
                for p in cell.survival
            ]
            survival = tuple(np.minimum.accumulate(noisy).tolist())
            tokens = 1.0 + sum(survival)
            step = cell.tpot_s * cell.tokens_per_step * factor
            cells[name] = CellObservation(
                ttft_s=cell.ttft_s * factor, tpot_s=step / tokens, tokens_per_step=tokens, survival=survival
            )
        sizes = _logged_sizes(candidate.num_speculative_tokens) if self.kind == "padding" else ()
        return Observation(configuration_id=configuration_id, booted=True, cells=cells, capture_sizes=sizes)

    def _candidate(self, k: int, method: str, confidence: float) -> Candidate:
        knobs: dict[str, int | float | str] = {"num_speculative_tokens": k}
        if k:
            knobs |= {"draft_sample_method": method, "confidence_threshold": confidence}
        return Candidate(
            configuration_id=_name(k, method, confidence) if k else "off",
            knobs=knobs,
            num_speculative_tokens=k,
            confidence_threshold=confidence if k else 0.0,
        )

    def _true_cells(self, candidate: Candidate) -> dict[str, CellObservation]:
        knobs = candidate.knobs
        confidence = float(knobs.get("confidence_threshold", 0.0))
        speculation = Speculation(
            k=candidate.num_speculative_tokens,
            draft_sample_method=str(knobs.get("draft_sample_method", "probabilistic")),
            confidence_threshold=confidence,
            confidence_scheduler="threshold" if confidence else "off",
        )
        return {cell.load_id: self._true_cell(speculation, cell) for cell in self.space.cells}

    def _true_cell(self, speculation: Speculation, cell: SearchCell) -> CellObservation:
        law = step_law(
            self.truth, speculation, workload_class=_CLASS, temperature=0.6, context_tokens=cell.context_tokens
        )
        load = StepLoad(
            speculation.k,
            cell.concurrency,
            cell.concurrency * (cell.context_tokens + 128),
            round(cell.concurrency * (1 + law.mean_drafted)),
        )
        limit = MAX_SEQS * (speculation.k + 1) if self.kind == "padding" else None
        seconds = step_s(self.truth.cost, load, capture_limit_tokens=limit)
        ttft_s = (0.3 + cell.context_tokens / 1900) * (cell.concurrency + 1) / 2
        return CellObservation(
            ttft_s=ttft_s, tpot_s=seconds / law.mean_tokens, tokens_per_step=law.mean_tokens, survival=_survival(law)
        )


def landscape(seed: int, *, confidences: Sequence[float] = (0.0,)) -> Landscape:
    """Return the landscape of a seed: its kind goes round, everything else is drawn."""
    kind = KINDS[seed % len(KINDS)]
    rng = generator(seed, "landscape")
    truth = _truth(kind, rng)
    depths = set(DEPTHS)
    crashes: set[int] = set()
    if kind == "infeasible":
        rule = int(rng.integers(3))
        crashes = {k for k in depths if (k % 3 and k != INCUMBENT_DEPTH, k > 7, k < 5)[rule]}
    weights = rng.dirichlet(np.full(len(_CELLS), 3.0))
    return Landscape(
        name=f"{kind}-{seed}",
        kind=kind,
        truth=truth,
        crashes=frozenset(crashes),
        confidences=tuple(confidences),
        weights=tuple(weights.tolist()),
    )


def _truth(kind: str, rng: np.random.Generator) -> Truth:
    published = load_truth("0731-anemll")
    cost = replace(
        published.cost,
        base_s=float(rng.uniform(0.02, 0.06)),
        experts_s=float(rng.uniform(0.05, 0.2)),
        experts_half_tokens=float(rng.uniform(40, 130)),
        compute_s_per_token=float(10 ** rng.uniform(-4.2, -3.1)),
        draft_s=float(rng.uniform(0.0, 0.008)),
        draft_s_per_position=float(10 ** rng.uniform(-3.3, -2.3)),
        confidence_sync_s=float(rng.uniform(0.0005, 0.003)),
        eager_ratio=1.14,
    )
    drafts = DraftQuality(
        log_odds={_CLASS: float(rng.uniform(0.5, 2.4))},
        log_odds_per_position=-float(rng.uniform(0.03, 0.35)),
        difficulty_sd=float(rng.uniform(0.0, 1.2)),
        greedy_log_odds=float(rng.normal(-0.1, 0.25)),
        log_odds_per_context_doubling=float(rng.uniform(-0.06, 0.02)),
        confidence_log_odds=float(rng.uniform(-0.3, 0.3)),
    )
    cost, drafts = _of_kind(kind, cost, drafts, rng)
    return replace(published, cost=cost, drafts=drafts, default_class=_CLASS)


def _of_kind(
    kind: str, cost: StepCost, drafts: DraftQuality, rng: np.random.Generator
) -> tuple[StepCost, DraftQuality]:
    if kind == "shallow":
        drafts = replace(drafts, log_odds={_CLASS: float(rng.uniform(-0.6, 0.3))}, log_odds_per_position=-0.4)
    elif kind == "deep":
        drafts = replace(drafts, log_odds={_CLASS: float(rng.uniform(2.4, 3.5))}, log_odds_per_position=-0.02)
        cost = replace(cost, draft_s_per_position=0.0004)
    elif kind == "crossing":
        cost = replace(cost, compute_s_per_token=float(rng.uniform(8e-4, 2e-3)), experts_half_tokens=300.0)
    elif kind == "tie":
        drafts = replace(drafts, greedy_log_odds=0.0)
    elif kind == "off":
        cost = replace(cost, verify_s_per_token=float(rng.uniform(0.02, 0.05)))
        drafts = replace(drafts, log_odds={_CLASS: float(rng.uniform(-0.5, 0.5))})
    elif kind == "collapse":
        beyond = -float(rng.uniform(0.8, 3.0))
        drafts = replace(drafts, block_tokens=BLOCK, beyond_block_log_odds=beyond)
        drafts = replace(drafts, log_odds={_CLASS: float(rng.uniform(1.5, 3.0))})
    elif kind == "drift":
        drafts = replace(drafts, log_odds_per_position=-0.15)
    return cost, drafts


def _survival(law: StepLaw) -> tuple[float, ...]:
    deepest = max(outcome.drafted for outcome in law.outcomes)
    pairs = list(zip(law.probabilities, law.outcomes, strict=True))
    return tuple(sum(p for p, outcome in pairs if outcome.accepted > position) for position in range(deepest))


def _logged_sizes(k: int) -> tuple[int, ...]:
    """What a boot log says of its graphs: before they are rounded to multiples of k + 1."""
    limit = MAX_SEQS * (k + 1)
    return (*(size for size in (1, 2, 4) if size <= limit), *range(8, limit + 1, 8))


def _name(k: int, method: str, confidence: float) -> str:
    return f"k{k}-{method}-{confidence:g}"
