"""What a recipe's simulation says of a configuration -> scenario and settings of the engine. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from harness.errors import InputError
from harness.recipe.spec import SimulatedSpec
from harness.records.cell import KnobValue
from harness.simulator.engine import EngineSettings
from harness.simulator.model import Scheduling, Speculation, require_speculation
from harness.simulator.scenario import Scenario
from harness.simulator.truth import load_truth

_DEFAULT = Scheduling()


def scenario_for(spec: SimulatedSpec, scenario: Scenario) -> Scenario:
    """Return the scenario on the truth of the configuration. Raises InputError: there is no such truth."""
    return replace(scenario, truth=load_truth(spec.truth))


def settings_for(spec: SimulatedSpec, scenario: Scenario) -> EngineSettings:
    """Return how the engine was started. Raises InputError: a value is outside the model's range."""
    inputs = _Inputs(spec.inputs)
    scheduler = inputs.text("confidence_scheduler", scenario.truth.confidence_scheduler)
    if scheduler not in ("off", "threshold"):
        raise InputError(
            f"confidence_scheduler {scheduler} cannot be simulated", hint="The model knows off, threshold."
        )
    speculation = Speculation(
        k=inputs.whole("num_speculative_tokens", 0),
        draft_sample_method=inputs.text("draft_sample_method", "probabilistic"),
        confidence_threshold=inputs.number("confidence_threshold", 0.0),
        confidence_scheduler="threshold" if scheduler == "threshold" else "off",
    )
    require_speculation(speculation)
    max_num_seqs = inputs.whole("max_num_seqs", scenario.truth.max_num_seqs or _DEFAULT.max_num_seqs)
    scheduling = Scheduling(
        max_num_seqs=max_num_seqs,
        max_batched_tokens=inputs.whole("max_num_batched_tokens", _DEFAULT.max_batched_tokens),
        long_prefill_tokens=inputs.whole("long_prefill_token_threshold", _DEFAULT.long_prefill_tokens),
        max_inflight_prefills=inputs.whole("max_inflight_prefills", _DEFAULT.max_inflight_prefills),
        capture_limit_tokens=_capture_limit(spec, scenario, max_num_seqs, speculation.k),
    )
    return EngineSettings(
        speculation=speculation,
        scheduling=scheduling,
        max_model_tokens=inputs.whole("max_model_len", scenario.truth.max_model_tokens),
        prefix_caching=inputs.whole("prefix_caching", 1) != 0,
    )


def _capture_limit(spec: SimulatedSpec, scenario: Scenario, max_num_seqs: int, k: int) -> int | None:
    if not scenario.truth.captures_graphs:
        return 0
    return None if spec.truncated_graphs else _wide_enough(max_num_seqs, k)


def _wide_enough(max_num_seqs: int, k: int) -> int:
    """A limit that keeps a graph for the widest step, however sizes are rounded."""
    return -(-max_num_seqs * (k + 1) // 8) * 8 + 8 * (k + 1)


class _Inputs:
    """Values of knobs by their model input; an InputError where one is of another type."""

    def __init__(self, values: Mapping[str, KnobValue]) -> None:
        self._values = values

    def number(self, name: str, default: float) -> float:
        value = self._values.get(name, default)
        if isinstance(value, str):
            raise InputError(f'{name} is "{value}", which the simulated engine cannot read as a number')
        return value

    def whole(self, name: str, default: int) -> int:
        return int(self.number(name, default))

    def text(self, name: str, default: str) -> str:
        return str(self._values.get(name, default))
