"""Nights drawn by the simulator's noise law and judged as the command does, with a second launch where it is wanted."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from statistics import median

import numpy as np

from benchmarks.series import PROMPT_SD, PROMPTS, WITHIN_BY_CONCURRENCY
from harness.records.nightly import Baseline, Night
from harness.simulator.noise import Noise, generator, launch_factor, step_factor
from harness.stats.baseline import baseline_of
from harness.stats.counting import counted
from harness.stats.effect import combined_logs
from harness.stats.gate import BASELINE_NIGHTS
from harness.stats.morning import Morning
from harness.stats.night import HEADLINE
from harness.stats.nights import judge_night, wants_second_launch
from harness.stats.paired import SECONDS

TOKENS, STEP = "delivered_per_step", "step_s"
NIGHTS = 90
FROM = 45  # the night from which something is different
TOKENS_SD = 0.07  # of one request's tokens per step: drawing alone gives 2.0 in 27.7 steps (scenarios/default.yaml)
BAD_SHARE, BAD_FACTOR = 0.02, 1.5
TAIL_RATIO, TAIL_FACTOR = 0.02, 1.5  # as in the proof of verdicts
CANARY_S, CANARY_SD = 0.03, 0.01  # its step time, and what one reading of it adds to the launch
FIRST = datetime(2026, 1, 1, 2, tzinfo=UTC)
Moves = Callable[[int], Mapping[str, float]]  # night -> logarithms by which tokens per step and step time moved


def nothing(_: int) -> Mapping[str, float]:
    """No night moves."""
    return {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """From a night on, a figure is another one."""

    figure: str
    log_ratio: float
    night: int

    def __call__(self, night: int) -> Mapping[str, float]:
        return {self.figure: self.log_ratio} if night >= self.night else {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """From a night on, a figure moves a little every night."""

    figure: str
    per_night: float
    night: int

    def __call__(self, night: int) -> Mapping[str, float]:
        return {self.figure: self.per_night * max(0, night - self.night + 1)}


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """A rig and what happens to it."""

    launch_sd: float
    bad: str = "seen"  # none; seen: the canary marks every boot of a bad night; unseen: it counts
    bad_share: float = BAD_SHARE
    slow_nights: tuple[int, int] = (0, 0)  # from, to: every boot is slow, and the canary sees it
    moves: Moves = nothing
    rig_moves: bool = False  # what moves the step time moves the canary too
    nights: int = NIGHTS
    rolling: bool = False  # the last fourteen nights are accepted anew every night, which nobody should do


@dataclass(slots=True)
class Drawn:
    """The nights of one world and seed: any launch of any night can be drawn, always the same."""

    world: World
    seed: int
    prompts: dict[int, np.ndarray[tuple[int], np.dtype[np.float64]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        rng = generator(self.seed, "prompts")
        self.prompts = {c: PROMPT_SD * rng.standard_normal(PROMPTS) for c in WITHIN_BY_CONCURRENCY}

    def night(self, number: int, launches: int) -> Night:
        """Return a night that was launched so often."""
        drawn = [self._launch(number, launch) for launch in range(launches)]
        canaries = [CANARY_S * math.exp(-one.pop("canary")) for one in drawn]
        slow = self.is_slow(number)
        return Night(
            run_id=f"run-{number:04}",
            sweep="small",
            at=(FIRST + timedelta(days=number)).isoformat(),
            key="series",
            figures={name: tuple(one[name] for one in drawn) for name in HEADLINE},
            canary_step_s=median(canaries),
            doubts=("slow_boot",) if slow and self.world.bad != "unseen" else (),
            simulated=True,
        )

    def _launch(self, number: int, launch: int) -> dict[str, float]:
        world, key = self.world, f"night {number} launch {launch}"
        noise = Noise(launch_sd=world.launch_sd, tail_ratio=TAIL_RATIO, tail_factor=TAIL_FACTOR)
        slow = BAD_FACTOR if self.is_slow(number) else 1.0
        factor = math.log(launch_factor(noise, seed=self.seed, launch_key=key) * slow)
        moved = world.moves(number)
        rng = generator(self.seed, key, "requests")
        seconds, tokens, steps = [], [], []
        for concurrency, within in WITHIN_BY_CONCURRENCY.items():
            law = replace(noise, step_sd=within)
            rest = np.log([step_factor(law, rng) for _ in range(PROMPTS)])
            step = moved.get(STEP, 0.0) - factor - rest
            drafted = moved.get(TOKENS, 0.0) + TOKENS_SD * rng.standard_normal(PROMPTS)
            steps.append(step[None, :])
            tokens.append(drafted[None, :])
            seconds.append((step + drafted - self.prompts[concurrency])[None, :])
        ones = np.ones(len(WITHIN_BY_CONCURRENCY))
        whole = {SECONDS: combined_logs(seconds, ones, "sum")}
        whole |= {TOKENS: combined_logs(tokens, ones, "mean"), STEP: combined_logs(steps, ones, "mean")}
        rig = moved.get(STEP, 0.0) if world.rig_moves else 0.0
        canary = rig - factor + CANARY_SD * float(rng.standard_normal())
        return {name: float(values[0]) for name, values in whole.items()} | {"canary": canary}

    def is_slow(self, number: int) -> bool:
        """Whether every boot of a night is slow."""
        first, last = self.world.slow_nights
        if first <= number < last:
            return True
        if self.world.bad == "none":
            return False
        return float(generator(self.seed, f"night {number}", "bad").random()) < self.world.bad_share


def mornings(world: World, seed: int) -> list[Morning]:
    """Return every night of a series as the command would have judged it."""
    begun = _begun(replace(world, moves=nothing, rig_moves=False, slow_nights=(0, 0)), seed)
    series = _Played(
        drawn=Drawn(world, seed), history=list(begun.history), said=list(begun.said), baseline=begun.baseline
    )
    series.play(FROM, world.nights)
    return series.said


@dataclass(slots=True)
class _Played:
    """Nights so far."""

    drawn: Drawn
    history: list[Night] = field(default_factory=list)
    said: list[Morning] = field(default_factory=list)
    baseline: Baseline | None = None

    def play(self, first: int, end: int) -> None:
        for number in range(first, end):
            night = self.drawn.night(number, 1)
            if wants_second_launch(night, self.history, self.baseline):
                night = self.drawn.night(number, 2)
            self.said.append(judge_night(night, self.history, self.baseline))
            self.history.append(night)
            if self.baseline is None or self.drawn.world.rolling:
                self.baseline = _accepted(self.history)


@lru_cache(maxsize=4)
def _begun(world: World, seed: int) -> _Played:
    """The nights before anything happens, which worlds have in common."""
    series = _Played(drawn=Drawn(world, seed))
    series.play(0, min(FROM, world.nights))
    return series


def _accepted(history: Sequence[Night]) -> Baseline | None:
    known = counted(history)[-BASELINE_NIGHTS:]
    if len(known) < BASELINE_NIGHTS:
        return None
    return baseline_of(known, name="shipped", author="nobody", reason="proof", accepted_at=known[-1].at)
