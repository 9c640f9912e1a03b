"""Configurations as parameters of a study, and back. The home of optuna is here and in the two modules beside."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution

from harness.records.cell import KnobValue
from harness.records.observation import Candidate, CellObservation, Observation


class Parameters:
    """The knobs that vary. A sampler that knows no rules may ask for what is no candidate: it is told so."""

    def __init__(self, candidates: Sequence[Candidate]) -> None:
        self._candidates = candidates
        self._values = _values(candidates)
        self._by_values = {self._key(one.knobs): one for one in candidates}
        self._off = next((one for one in candidates if one.num_speculative_tokens == 0), None)

    @property
    def distributions(self) -> dict[str, BaseDistribution]:
        """By knob: a range where values are numbers, so that samplers know their order; else choices."""
        return {name: _distribution(values) for name, values in self._values.items()}

    def of(self, candidate: Candidate) -> dict[str, Any]:
        """Return the parameters of a candidate; a knob that it does not have takes its first value."""
        return {name: candidate.knobs.get(name, values[0]) for name, values in self._values.items()}

    def candidate(self, asked: Mapping[str, Any]) -> Candidate | None:
        """Return the candidate that is meant, numbers moved to the nearest value; None where there is none such."""
        snapped = {name: _nearest(asked[name], values) for name, values in self._values.items()}
        if self._off is not None and snapped.get("num_speculative_tokens") == 0:
            return self._off
        return self._by_values.get(self._key(snapped))

    def _key(self, knobs: Mapping[str, Any]) -> tuple[Any, ...]:
        return tuple(knobs.get(name) for name in self._values)


def observation_from(stored: Mapping[str, Any]) -> Observation:
    """Return an observation as a trial holds it."""
    cells = {
        name: CellObservation(**{**cell, "survival": tuple(cell["survival"])}) for name, cell in stored["cells"].items()
    }
    return Observation(**{**stored, "cells": cells, "capture_sizes": tuple(stored.get("capture_sizes", ()))})


def _values(candidates: Sequence[Candidate]) -> dict[str, list[KnobValue]]:
    names = dict.fromkeys(name for one in candidates for name in one.knobs)
    found: dict[str, list[KnobValue]] = {}
    for name in names:
        values = list(dict.fromkeys(one.knobs[name] for one in candidates if name in one.knobs))
        if len(values) > 1:
            found[name] = sorted(values) if _are_numbers(values) else values
    return found


def _are_numbers(values: Sequence[KnobValue]) -> bool:
    return all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)


def _distribution(values: Sequence[KnobValue]) -> BaseDistribution:
    if not _are_numbers(values):
        return CategoricalDistribution(values)
    if all(isinstance(value, int) for value in values):
        return IntDistribution(int(values[0]), int(values[-1]))
    return FloatDistribution(float(values[0]), float(values[-1]))


def _nearest(asked: Any, values: Sequence[KnobValue]) -> KnobValue:
    if not _are_numbers(values):
        found: KnobValue = asked
        return found
    return min(values, key=lambda value: abs(float(value) - float(asked)))
