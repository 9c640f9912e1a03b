"""How much a step differs from its expected cost: between launches, within one, and now and then by a lot."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from hashlib import sha256

import numpy as np


@dataclass(frozen=True, slots=True, kw_only=True)
class Noise:
    """All multiplicative, so log-normal. Zero everywhere is an engine without noise."""

    launch_sd: float = 0.0  # of the log of a launch's own factor
    step_sd: float = 0.0  # of the log of a step's factor
    acceptance_sd: float = 0.0  # of a request's own shift of the log-odds: prompts differ
    tail_ratio: float = 0.0  # share of steps in the heavy tail
    tail_factor: float = 1.0  # how much longer a step of the tail takes, at the median


def generator(seed: int, *names: str) -> np.random.Generator:
    """Return a stream of randomness for ``names``: the same names give the same stream, in every process."""
    digest = sha256("\x1f".join(names).encode()).digest()
    return np.random.default_rng([seed, *np.frombuffer(digest[:16], dtype=np.uint32).tolist()])


def launch_factor(noise: Noise, *, seed: int, launch_key: str) -> float:
    """Return how much slower than expected a launch is, in all its steps."""
    return math.exp(noise.launch_sd * float(generator(seed, launch_key, "launch").standard_normal()))


def step_factor(noise: Noise, rng: np.random.Generator) -> float:
    """Return one step's factor. Draws from ``rng`` whatever the noise is, so that streams stay in step."""
    normal, uniform = float(rng.standard_normal()), float(rng.random())
    factor = math.exp(noise.step_sd * normal)
    return factor * (noise.tail_factor if uniform < noise.tail_ratio else 1.0)


def described(noise: Noise) -> dict[str, float]:
    """Return the noise for a manifest."""
    return asdict(noise)
