"""Rounds, order, identity and budget of a plan."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.records.cell import CellGroup, Configuration, LoadPoint, OutputLength
from harness.records.plan import Plan, PlannedComparison
from harness.run.cost import EngineCost, Expected, Fills, ModelledCost, predict_trial
from harness.run.plan import Budget, Identity, PlanRequest, make_plan
from harness.simulator.cell import CellLoad
from harness.simulator.engine import EngineSettings
from harness.simulator.model import Scheduling, Speculation
from harness.simulator.truth import load_truth
from harness.workload.spec import streams_for

COST = EngineCost(launch_s=30.0, prefill_tokens_per_s=2000.0, decode_tokens_per_s=50.0)


def load(context_tokens: int = 256, concurrency: int = 1, tokens: int = 128) -> LoadPoint:
    return LoadPoint(
        workload_class="prose",
        context_tokens=context_tokens,
        concurrency=concurrency,
        output=OutputLength(tokens=tokens),
    )


def request(*, depths: tuple[int, ...] = (0, 2, 4), rounds: int = 2, **changes: object) -> PlanRequest:
    loads = tuple(load(context, streams) for context in (256, 1024) for streams in (1, 4))
    groups = [
        CellGroup(configuration=Configuration(recipe="r", knobs={"num_speculative_tokens": k}), loads=loads)
        for k in depths
    ]
    base = Plan(sweep="s", recipe="r", seed=1, launches=())
    whole = PlanRequest(
        base=base,
        groups=groups,
        rounds=rounds,
        cost=COST,
        identity=Identity(recipe_sha256="a", rig_id="b"),
        budget=Budget(),
        most_speculative_tokens=max(depths),
    )
    return replace(whole, **changes)  # type: ignore[arg-type]


def test_every_configuration_is_launched_once_before_any_twice() -> None:
    plan = make_plan(request(rounds=3))
    rounds = [launch.round for launch in plan.launches]
    assert rounds == [1, 1, 1, 2, 2, 2, 3, 3, 3]
    for number in (1, 2, 3):
        ids = [each.configuration.configuration_id for each in plan.launches if each.round == number]
        assert len(set(ids)) == 3


def test_the_order_depends_on_the_seed_and_on_nothing_else() -> None:
    depths = tuple(range(8))
    orders = {
        seed: [
            launch.configuration.num_speculative_tokens
            for launch in make_plan(
                replace(request(depths=depths), base=Plan(sweep="s", recipe="r", seed=seed, launches=()))
            ).launches
        ]
        for seed in (1, 1, 2, 3)
    }
    again = make_plan(request(depths=depths))
    assert orders[1] == [launch.configuration.num_speculative_tokens for launch in again.launches]
    assert len({tuple(order) for order in orders.values()}) == 3
    assert orders[1][:8] != orders[1][8:], "each round has an order of its own"


def order_of(plan: Plan) -> str:
    """Its launches as letters, the first one A."""
    first = plan.launches[0].configuration
    return "".join("A" if launch.configuration == first else "B" for launch in plan.launches)


@pytest.mark.parametrize("seed", range(6))
def test_the_launches_of_two_arms_alternate(seed: int) -> None:
    two = request(depths=(0, 4), rounds=6)
    ids = [group.configuration.configuration_id for group in two.groups]
    compared = PlannedComparison(
        base_id=ids[0],
        candidate_id=ids[1],
        base_name="none",
        candidate_name="four",
        factors=("num_speculative_tokens",),
        max_launches=6,
        sequential=True,
        objective="seconds",
    )
    base = Plan(sweep="s", recipe="r", seed=seed, launches=(), comparison=compared)
    assert order_of(make_plan(replace(two, base=base))) == "ABBABAABABBA"[:8] + "ABBA"


def test_short_contexts_come_first_in_every_launch() -> None:
    for launch in make_plan(request()).launches:
        contexts = [trial.load.context_tokens for trial in launch.trials]
        assert contexts == sorted(contexts)


def test_more_rounds_keep_the_identity_of_what_is_done() -> None:
    once = {trial.trial_id for launch in make_plan(request(rounds=1)).launches for trial in launch.trials}
    twice = [trial.trial_id for launch in make_plan(request(rounds=2)).launches for trial in launch.trials]
    assert once < set(twice)
    assert len(twice) == len(set(twice)) == 2 * len(once)


def test_another_engine_or_rig_makes_other_trials() -> None:
    def ids(identity: Identity) -> set[str]:
        plan = make_plan(request(identity=identity))
        return {trial.trial_id for launch in plan.launches for trial in launch.trials}

    here = ids(Identity(recipe_sha256="a", rig_id="b"))
    assert here.isdisjoint(ids(Identity(recipe_sha256="x", rig_id="b")))
    assert here.isdisjoint(ids(Identity(recipe_sha256="a", rig_id="x")))


def test_done_trials_cost_nothing() -> None:
    first = make_plan(request(rounds=1)).launches[0]
    done = frozenset(trial.trial_id for trial in first.trials)
    plan = make_plan(request(rounds=1, done_trials=done))
    assert plan.launches[0].done
    assert plan.launches[0].predicted_s == 0
    assert all(not launch.done for launch in plan.launches[1:])


def test_a_budget_drops_launches_from_the_end() -> None:
    whole = make_plan(request(rounds=2))
    half_s = sum(launch.predicted_s for launch in whole.launches[:3])
    plan = make_plan(request(rounds=2, budget=Budget(time_s=half_s)))
    assert [launch.fits_budget for launch in plan.launches] == [True] * 3 + [False] * 3
    assert plan.predicted_s <= half_s


@given(
    context=st.integers(256, 131072),
    concurrency=st.integers(1, 64),
    tokens=st.integers(1, 4096),
    drafts=st.integers(1, 2000),
)
def test_a_bigger_cell_is_never_predicted_to_be_cheaper(
    context: int, concurrency: int, tokens: int, drafts: int
) -> None:
    def seconds(one: LoadPoint, wanted: int) -> float:
        return predict_trial(one, COST.of_round, streams_for(one, drafts=wanted, k=4)).wall_s

    warm = replace(load(context, concurrency, tokens), cache="warm")
    here = seconds(warm, drafts)
    assert 0 < here <= seconds(replace(warm, context_tokens=context * 2), drafts)
    assert here <= seconds(warm, drafts * 2)
    assert here <= seconds(replace(warm, concurrency=concurrency * 2), drafts * 2)


def test_a_fill_costs_a_prefill_of_its_prefix() -> None:
    warm = replace(load(16384, 4), cache="warm")
    shape = streams_for(warm, drafts=400, k=4)
    without = predict_trial(warm, COST.of_round, shape)
    filled = predict_trial(warm, COST.of_round, shape, fills=4)
    assert filled.wall_s - without.wall_s == pytest.approx(4 * ((16384 - 1024) / 2000 + 1 / 50))
    assert filled.ttft_s == without.ttft_s == pytest.approx(1024 / 2000 * 2.5)


def test_a_deep_cold_cell_is_not_warmed_up_at_its_depth() -> None:
    deep = load(131072)
    expected = predict_trial(deep, COST.of_round, streams_for(deep, drafts=400, k=4))
    assert expected.wall_s == pytest.approx(2 * 131072 / 2000, rel=0.1)


def test_the_model_of_a_configuration_predicts_its_cells() -> None:
    truth = load_truth("0731-anemll")
    settings = {
        k: EngineSettings(speculation=Speculation(k=k), scheduling=Scheduling(), max_model_tokens=1 << 20)
        for k in (0, 5)
    }
    deep = replace(load(131072, 6), workload_class="agentic")
    shape = streams_for(deep, drafts=400, k=5)
    drafting, plain = (predict_trial(deep, ModelledCost(truth, settings[k]).of_round, shape) for k in (5, 0))
    assert drafting.ttft_s == pytest.approx(282, rel=0.05), "as measured on the pair"
    assert plain.wall_s > drafting.wall_s


def test_a_cell_beyond_its_limit_says_what_it_would_take() -> None:
    plan = make_plan(request(rounds=1, budget=Budget(cell_s=35.0)))
    trials = [trial for launch in plan.launches for trial in launch.trials]
    cut = [trial for trial in trials if trial.uncut_s is not None]
    assert 0 < len(cut) < len(trials)
    assert all(trial.predicted_s == 35.0 < (trial.uncut_s or 0) for trial in cut)
    assert all(trial.predicted_s <= 35.0 for trial in trials)
    free = make_plan(request(rounds=1))
    assert [trial.uncut_s or trial.predicted_s for trial in trials] == [
        trial.predicted_s for launch in free.launches for trial in launch.trials
    ]


def test_a_configuration_with_a_model_of_its_own_is_predicted_by_it() -> None:
    wanted = request(rounds=1)
    slow = wanted.groups[0].configuration.configuration_id
    plan = make_plan(replace(wanted, predictions={slow: lambda load: Expected(100.0, 7.0)}))
    by_id = {launch.configuration.configuration_id: launch for launch in plan.launches}
    assert all(trial.ttft_s == 7.0 and trial.predicted_s > 300 for trial in by_id[slow].trials)
    assert all(launch.predicted_s < by_id[slow].predicted_s for launch in plan.launches if launch is not by_id[slow])


def test_a_conversation_costs_its_growing_prompts_and_finds_the_one_before() -> None:
    agent = replace(load(8192, 1, 256), workload_class="agentic", cache="warm")
    asked: list[CellLoad] = []

    def predict(one: CellLoad) -> Expected:
        asked.append(one)
        return COST.of_round(one)

    shape = streams_for(agent, drafts=400, k=4)
    expected = predict_trial(agent, predict, shape)

    first, later = asked[:2]
    assert shape.turns == 6
    assert (first.prompt_tokens, first.cached_tokens) == (8192, 8192 - 512)
    assert (later.prompt_tokens, later.cached_tokens) == (8192 + 3 * 768, 8192 + 2 * 768)
    assert expected.ttft_s == pytest.approx(768 / 2000)
    warmup_s = 2 * (512 / 2000 + 24 / 50)
    assert expected.wall_s == pytest.approx(1 + 512 / 2000 + 5 * 768 / 2000 + 6 * 256 / 50 + warmup_s)


def test_a_plan_says_how_far_conversations_grow() -> None:
    agents = [replace(load(context, 1, 256), workload_class="agentic", cache="warm") for context in (2048, 8192)]
    group = CellGroup(configuration=Configuration(recipe="r", knobs={}), loads=(*agents, load()))

    (note,) = make_plan(request(groups=[group])).notes
    assert note.endswith("grow turn by turn: 2048 to 2816, 8192 to 12032 tokens")
    assert make_plan(request()).notes == ()


def test_a_prefix_is_filled_once_in_a_launch() -> None:
    fills = Fills()
    warm = [replace(load(2048, streams), cache="warm") for streams in (2, 1, 6, 4)]
    assert [fills.needed(one) for one in warm] == [2, 0, 4, 0]
    shared = [replace(one, cache="shared") for one in warm]
    assert [fills.needed(one) for one in shared] == [1, 0, 0, 0]
    assert fills.needed(replace(warm[0], context_tokens=4096)) == 2
    assert fills.needed(load(2048, 6)) == 0, "a cold cell fills nothing"
