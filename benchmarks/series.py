"""Launches of two arms drawn by the simulator's noise law, as the tables that the statistics take."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from harness.records.verdict import NoiseFloor
from harness.simulator.noise import Noise, generator, launch_factor, step_factor
from harness.stats.effect import combined_logs

WITHIN_BY_CONCURRENCY = {1: 0.02, 2: 0.04, 4: 0.07, 6: 0.10}  # standard deviation of one request
PROMPTS = 32  # of each cell
PROMPT_SD = 0.2  # prompts differ, and the same ones are asked in both arms
FLOOR_LAUNCHES = 6
SLOW_SHARE, SLOW_FACTOR = 1 / 20, 1.5

Tables = list[NDArray[np.float64]]  # a table per concurrency: launches x prompts, minus the logarithm of seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Rig:
    """How noisy a rig is."""

    launch_sd: float
    slow: str = "none"  # seen: the canary sees a slow launch, which is voided and repeated; unseen: it counts
    tail_ratio: float = 0.02  # of the requests
    tail_factor: float = 1.5
    interaction_sd: float = 0.0  # of the effect, from prompt to prompt
    within: Mapping[int, float] = field(default_factory=lambda: dict(WITHIN_BY_CONCURRENCY))
    prompts: int = PROMPTS  # of each load

    @property
    def words(self) -> str:
        """For a table."""
        slow = {"none": "no slow launch", "seen": "slow launches seen", "unseen": "slow launches unseen"}[self.slow]
        return f"{self.launch_sd:.0%}, {slow}"


class Draw:
    """One comparison's randomness: every launch and request of it from streams of its own."""

    def __init__(self, rig: Rig, *, seed: int, name: str) -> None:
        self._rig = rig
        self._seed = seed
        self._name = name
        self._drawn = 0
        rng = generator(seed, name, "prompts")
        self._prompts = {c: PROMPT_SD * rng.standard_normal(rig.prompts) for c in rig.within}
        self._shifts = {c: rig.interaction_sd * rng.standard_normal(rig.prompts) for c in rig.within}

    def arm(self, launches: int, *, gain_ratio: float = 0.0) -> Tables:
        """Return the tables of an arm that is faster than the law by ``gain_ratio``."""
        rows = [self._launch(gain_ratio) for _ in range(launches)]
        return [np.stack([row[c] for row in rows]) for c in self._rig.within]

    def floor(self, launches: int = FLOOR_LAUNCHES) -> NoiseFloor:
        """Return the noise floor that an A/A of this rig would store for the total."""
        tables = self.arm(launches)
        totals = combined_logs(tables, np.ones(len(tables)), "sum")
        return NoiseFloor(sigma_ratio=float(totals.std(ddof=1)), degrees=launches - 1.0, source="stored")

    def _launch(self, gain_ratio: float) -> dict[int, NDArray[np.float64]]:
        rig, self._drawn = self._rig, self._drawn + 1
        key = f"{self._name}/{self._drawn}"
        rng = generator(self._seed, key, "requests")
        slow = rng.random() < SLOW_SHARE and rig.slow == "unseen"  # a seen one is drawn again: it is another launch
        noise = Noise(launch_sd=rig.launch_sd, tail_ratio=rig.tail_ratio, tail_factor=rig.tail_factor)
        launch = math.log(launch_factor(noise, seed=self._seed, launch_key=key) * (SLOW_FACTOR if slow else 1.0))
        gained = math.log1p(gain_ratio)
        row = {}
        for concurrency, within in rig.within.items():
            law = replace(noise, step_sd=within)
            rest = np.log([step_factor(law, rng) for _ in range(rig.prompts)])
            shift = self._shifts[concurrency] if gain_ratio else 0.0
            row[concurrency] = gained - launch - self._prompts[concurrency] - rest - shift
        return row


def true_floor(rig: Rig, *, degrees: float) -> NoiseFloor:
    """Return what an A/A of very many launches would find, with the degrees of one that was made."""
    plain = replace(rig, slow="none")
    many = Draw(plain, seed=99, name="truth").floor(4000)
    return NoiseFloor(sigma_ratio=many.sigma_ratio, degrees=degrees, source="stored")
