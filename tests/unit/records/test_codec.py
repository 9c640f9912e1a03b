"""Records to JSON and back."""

from __future__ import annotations

import json
import math
from dataclasses import fields, replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harness.records.cell import Cell, Configuration, LoadPoint, OutputLength, Refusal
from harness.records.codec import from_json, to_json
from harness.records.counters import NO_COUNTERS, CounterDelta, CounterSnapshot
from harness.records.doubt import Doubt
from harness.records.launch import BootFacts, CanaryReading, LaunchRecord, LiveIdentity
from harness.records.manifest import HostFacts, Manifest
from harness.records.metrics import METRICS
from harness.records.plan import Plan, PlannedLaunch, PlannedTrial
from harness.records.request import RequestRecord, RequestSpeculation, TokenBatch
from harness.records.trial import ClientFacts, TrialRecord, WarmupFacts
from harness.records.workload import Prompt, StreamPlan

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
SECONDS = st.floats(allow_nan=False, allow_infinity=False)
KNOB = st.booleans() | st.integers(-(2**53), 2**53) | SECONDS | TEXT
CONFIGURATIONS = st.builds(Configuration, recipe=TEXT, knobs=st.dictionaries(TEXT, KNOB, max_size=4), name=TEXT)
RECORDS: tuple[type, ...] = (
    BootFacts,
    CanaryReading,
    Cell,
    ClientFacts,
    Configuration,
    CounterDelta,
    CounterSnapshot,
    Doubt,
    HostFacts,
    LaunchRecord,
    LiveIdentity,
    LoadPoint,
    Manifest,
    OutputLength,
    Plan,
    PlannedLaunch,
    PlannedTrial,
    Prompt,
    Refusal,
    RequestRecord,
    RequestSpeculation,
    StreamPlan,
    TokenBatch,
    TrialRecord,
    WarmupFacts,
)

st.register_type_strategy(float, SECONDS)
st.register_type_strategy(str, TEXT)
st.register_type_strategy(Configuration, CONFIGURATIONS)
SCENARIOS = st.none() | st.dictionaries(TEXT, KNOB | st.dictionaries(TEXT, KNOB, max_size=2), max_size=4)
st.register_type_strategy(Manifest, st.builds(Manifest, scenario=SCENARIOS))


@pytest.mark.parametrize("kind", RECORDS, ids=lambda kind: kind.__name__)
@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(data=st.data())
def test_a_record_comes_back_as_it_was(kind: type, data: st.DataObject) -> None:
    record: Any = data.draw(st.from_type(kind))

    text = to_json(record)

    assert "\n" not in text
    assert from_json(kind, text) == record


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_a_number_that_is_not_finite_is_refused_in_both_directions(number: float) -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        to_json(TokenBatch(at_s=number, tokens=1))

    with pytest.raises(ValueError, match="is no number of a record"):
        from_json(TokenBatch, json.dumps({"at_s": number, "tokens": 1}))


def test_the_word_alone_is_no_number() -> None:
    doubt = Doubt(kind="k", evidence="step time NaN, Infinity", remedy="-Infinity")

    assert from_json(Doubt, to_json(doubt)) == doubt


def test_a_missing_count_is_null_and_stays_missing() -> None:
    text = to_json(NO_COUNTERS)

    assert json.loads(text)["drafts"] is None
    assert from_json(CounterDelta, text).drafts is None


def test_text_stays_on_one_line_and_readable() -> None:
    text = to_json(Doubt(kind="k", evidence="é\n\u2028", remedy=""))

    assert text.splitlines()[0].startswith('{"kind":"k","evidence":"é\\n')
    assert len(text.split("\n")) == 1


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "null", '{"at_s": "soon", "tokens": 1}', '{"tokens": 1}', '{"at_s": 1, "tokens": 1.5}']
)
def test_what_is_no_record_is_a_value_error(text: str) -> None:
    with pytest.raises(ValueError):
        from_json(TokenBatch, text)


@pytest.mark.parametrize("kind", RECORDS, ids=lambda kind: kind.__name__)
def test_a_record_is_frozen_and_keyword_only(kind: Any) -> None:
    assert kind.__dataclass_params__.frozen
    assert all(field.kw_only for field in fields(kind))


def test_a_configuration_knows_its_k_and_its_label() -> None:
    named = Configuration(recipe="r", knobs={"num_speculative_tokens": 5}, name="mine")

    assert named.num_speculative_tokens == 5
    assert named.label == "mine"
    assert replace(named, name=None).label == "num_speculative_tokens=5"
    assert replace(named, name=None, knobs={}).label == "as it is"
    assert replace(named, knobs={}).num_speculative_tokens is None


def test_a_plan_counts_what_is_left() -> None:
    load = LoadPoint(workload_class="prose", context_tokens=256, concurrency=1, output=OutputLength(tokens=8))
    trials = tuple(PlannedTrial(trial_id=str(n), load=load, predicted_s=10, done=n == 0) for n in range(3))
    launch = PlannedLaunch(
        launch_key="a",
        ordinal=1,
        round=1,
        configuration=Configuration(recipe="r", knobs={}),
        trials=trials,
        predicted_launch_s=30,
    )
    done = replace(launch, trials=trials[:1])
    plan = Plan(sweep="s", recipe="r", seed=1, launches=(launch, done, replace(launch, fits_budget=False)))

    assert (launch.done, launch.predicted_s) == (False, 50)
    assert (done.done, done.predicted_s) == (True, 0)
    assert plan.predicted_s == 50
    assert len(plan.configurations) == 1


def test_each_metric_is_named_by_its_unit() -> None:
    suffixes: dict[str, tuple[str, ...]] = {
        "s": ("_s",),
        "tokens/s": ("_per_s",),
        "ratio": ("_ratio",),
        "tokens/step": ("_length", "_per_step"),
    }
    for name, metric in METRICS.items():
        assert metric.name == name
        assert metric.unit not in suffixes or name.endswith(suffixes[metric.unit])
