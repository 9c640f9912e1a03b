"""Samplers by name."""

from __future__ import annotations

import importlib.util

import optuna
from optuna.samplers import BaseSampler

from harness.errors import InputError

AUTO, GRID = "auto", "grid"
SAMPLERS = (AUTO, "tpe", "gp", GRID, "random", "cmaes", "nsga2")
_STARTUP_LAUNCHES = 5
_EXTRA = {"gp": "torch", "cmaes": "cmaes"}


def sampler_of(name: str, seed: int) -> BaseSampler:
    """Return a sampler of optuna. ``auto`` and ``grid`` put their own choices in line, and never use it.

    Raises:
        InputError: there is none of this name, or a package that it needs is not installed.
    """
    if name not in SAMPLERS:
        raise InputError(f'unknown sampler "{name}"', hint=f"Known: {', '.join(SAMPLERS)}.")
    package = _EXTRA.get(name)
    if package is not None and importlib.util.find_spec(package) is None:
        hint = f"pip install {package}, or leave the sampler to auto, which needs fewer launches anyway."
        raise InputError(f"the sampler {name} needs the package {package}", hint=hint)
    if name == "tpe":
        return optuna.samplers.TPESampler(seed=seed, n_startup_trials=_STARTUP_LAUNCHES)
    if name == "gp":
        return optuna.samplers.GPSampler(seed=seed, n_startup_trials=_STARTUP_LAUNCHES)
    if name == "cmaes":
        return optuna.samplers.CmaEsSampler(seed=seed, n_startup_trials=_STARTUP_LAUNCHES)
    if name == "nsga2":
        return optuna.samplers.NSGAIISampler(seed=seed, population_size=6)
    return optuna.samplers.RandomSampler(seed=seed)
