"""Configurations as parameters of a study, and back."""

from __future__ import annotations

import json
from dataclasses import asdict

from hypothesis import given
from hypothesis import strategies as st

from harness.records.cell import KnobValue
from harness.records.observation import Candidate, CellObservation, Observation
from harness.search.parameters import Parameters, observation_from
from tests.unit.search.spaces import candidate

VALUES: dict[str, st.SearchStrategy[KnobValue]] = {
    "method": st.sampled_from(["greedy", "probabilistic"]),
    "threshold": st.sampled_from([0.0, 0.3, 0.6]),
    "flag": st.booleans(),
    "seqs": st.sampled_from([2, 4, 16]),
}


@st.composite
def candidates(draw: st.DrawFn) -> list[Candidate]:
    """Some configurations of the same knobs; those that do not speculate have fewer."""
    names = draw(st.lists(st.sampled_from(sorted(VALUES)), unique=True))
    rows = draw(
        st.lists(st.tuples(st.integers(1, 10), st.fixed_dictionaries({n: VALUES[n] for n in names})), min_size=1)
    )
    found = [candidate(k, **knobs) for k, knobs in rows]
    if draw(st.booleans()):
        found.append(candidate(0))
    return list({one.configuration_id: one for one in found}.values())


@given(candidates())
def test_parameters_of_a_candidate_lead_back_to_it(found: list[Candidate]) -> None:
    parameters = Parameters(found)
    for one in found:
        assert parameters.candidate(parameters.of(one)) is one


@given(candidates())
def test_parameters_lie_within_their_distributions_and_survive_a_database(found: list[Candidate]) -> None:
    parameters = Parameters(found)
    for name, distribution in parameters.distributions.items():
        for one in found:
            value = parameters.of(one)[name]
            inside = distribution.to_internal_repr(value)
            assert distribution._contains(inside)
            assert distribution.to_external_repr(inside) == value


@given(candidates(), st.data())
def test_whatever_a_sampler_proposes_is_a_candidate_or_none(found: list[Candidate], data: st.DataObject) -> None:
    parameters = Parameters(found)
    values = {name: [parameters.of(one)[name] for one in found] for name in parameters.distributions}
    asked = {name: data.draw(st.sampled_from(of)) for name, of in values.items()}
    meant = parameters.candidate(asked)
    assert meant is None or meant in found


def test_a_number_between_two_values_is_the_nearest() -> None:
    found = [candidate(k) for k in (0, 3, 5, 9)]
    assert Parameters(found).candidate({"num_speculative_tokens": 6}) is found[2]
    assert Parameters(found).candidate({"num_speculative_tokens": 1}) is found[0]


def test_without_speculation_other_knobs_mean_nothing() -> None:
    found = [candidate(5, method="greedy"), candidate(5, method="probabilistic"), candidate(0)]
    asked = {"num_speculative_tokens": 0, "method": "probabilistic"}
    assert Parameters(found).candidate(asked) is found[2]


def test_a_combination_that_the_rules_refuse_is_none() -> None:
    found = [candidate(3, block=1), candidate(6, block=0)]
    assert Parameters(found).candidate({"num_speculative_tokens": 3, "block": 0}) is None


FIGURES = st.floats(min_value=1e-6, max_value=1e3)
CELLS = st.builds(
    CellObservation,
    ttft_s=FIGURES,
    tpot_s=FIGURES,
    tokens_per_step=FIGURES,
    survival=st.lists(st.floats(0, 1), max_size=10).map(tuple),
)


@given(
    st.builds(
        Observation,
        configuration_id=st.text(min_size=1),
        booted=st.booleans(),
        cells=st.dictionaries(st.text(min_size=1), CELLS, max_size=3),
        reason=st.none() | st.text(),
        slo_excess=st.dictionaries(st.text(min_size=1), st.floats(-1, 10), max_size=2),
        capture_sizes=st.lists(st.integers(1, 512), max_size=4).map(tuple),
    )
)
def test_an_observation_survives_a_database(one: Observation) -> None:
    assert observation_from(json.loads(json.dumps(asdict(one)))) == one


def test_one_that_an_older_version_stored_named_no_graphs() -> None:
    stored = asdict(Observation(configuration_id="a", booted=False))
    del stored["capture_sizes"]
    assert observation_from(stored).capture_sizes == ()
