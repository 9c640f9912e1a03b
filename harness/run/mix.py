"""The weights of a plan's cells: what part of the user's requests each stands for. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from math import prod

from harness.errors import InputError
from harness.records.cell import LoadPoint
from harness.sweep.axes import Weights
from harness.sweep.load_knobs import OUTPUT_TOKENS, LoadValue


def cell_weights(
    loads: Collection[LoadPoint], written: Weights, *, by_trace: Mapping[str, float] | None, where: str | None = None
) -> dict[str, float]:
    """Return the weight of each cell, 1 in all; empty where the sweep weighs nothing.

    Args:
        loads: of the plan.
        written: of `mix`, by knob and value; multiplied.
        by_trace: by load id, where `mix` takes them from a trace.
        where: the mix stands.

    Raises:
        InputError: every cell would count nothing.
    """
    if not written and by_trace is None:
        return {}
    traced = {load.load_id: 1.0 if by_trace is None else by_trace[load.load_id] for load in loads}
    found = {load.load_id: traced[load.load_id] * _weight(load, written) for load in loads}
    total = sum(found.values())
    if not total:
        hint = "Weigh a value that the sweep measures."
        raise InputError("the mix leaves no cell any weight", where=where, hint=hint)
    return {name: weight / total for name, weight in found.items()}


def _weight(load: LoadPoint, written: Weights) -> float:
    return prod(weights.get(_value(load, knob), 1.0) for knob, weights in written.items())


def _value(load: LoadPoint, knob: str) -> LoadValue:
    return load.output if knob == OUTPUT_TOKENS else load.columns[knob]
