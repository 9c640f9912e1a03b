"""What `tune` adds to a plan: every configuration as a candidate, once for the search and again to confirm. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from harness.errors import InputError
from harness.recipe.rules import check
from harness.recipe.schema import Recipe
from harness.records.cell import NUM_SPECULATIVE_TOKENS, CellGroup, Configuration, KnobValue, Refusal
from harness.records.identity import content_id
from harness.records.observation import Candidate
from harness.records.plan import Plan
from harness.records.trial import MEASURING_VERSION
from harness.records.tune import PlannedTune
from harness.run.arms import asked_limits
from harness.run.plan import Identity
from harness.stats.reserve import most_confirming, most_searched
from harness.sweep.cells import Expansion
from harness.sweep.load import Sweep, with_source

DEFAULT_MOST_LAUNCHES = 8
NO_SPECULATION = "no_speculation"
_MOST_NAMED = 3  # refused configurations of one rule
OBJECTIVES = ("seconds", "decode_tokens_per_s", "ttft_s")
_CONFIDENCE, _SCHEDULER = "confidence_threshold", "confidence_scheduler"


@dataclass(frozen=True, slots=True, kw_only=True)
class TuneWish:
    """What the command line says of a search."""

    sampler: str | None = None  # None: as the sweep says
    max_launches: int | None = None
    study: str | None = None


def with_no_speculation(sweep: Sweep, recipe: Recipe) -> Sweep:
    """Return the sweep with a configuration that does not speculate: the question that comes before every other."""
    knob = recipe.launch_knobs.get(NUM_SPECULATIVE_TOKENS)
    named = sweep.file.configurations
    if knob is None or NO_SPECULATION in named or any(_is_off(one) for one in named.values()):
        return sweep
    axis = sweep.file.knobs.get(NUM_SPECULATIVE_TOKENS)
    if axis == 0 or (isinstance(axis, list) and 0 in axis):
        return sweep
    place = sweep.source.where(("knobs",))
    path = ("configurations", NO_SPECULATION) if named else ("configurations",)
    value: object = {NUM_SPECULATIVE_TOKENS: 0} if named else {NO_SPECULATION: {NUM_SPECULATIVE_TOKENS: 0}}
    return with_source(sweep, sweep.source.with_value(path, value, place))


def planned_tune(
    sweep: Sweep,
    recipe: Recipe,
    expansion: Expansion,
    groups: Sequence[CellGroup],
    wish: TuneWish | None,
    *,
    identity: Identity,
) -> PlannedTune | None:
    """Return how the search is led; None where nothing is searched.

    Args:
        sweep: as loaded.
        recipe: the one that it names.
        expansion: of the sweep.
        groups: its configurations with their loads, those of a trace worked out.
        wish: of the command line.
        identity: of engine and rig.

    Raises:
        InputError: there is nothing to search, or it cannot be led by that objective.
    """
    if wish is None:
        return None
    where = sweep.source.where(("knobs",))
    if len(groups) < 2:
        raise _empty(groups, expansion.refusals, where)
    if sweep.file.objective not in OBJECTIVES:
        what = f"a search cannot be led by {sweep.file.objective}"
        hint = f"objective may be {', '.join(OBJECTIVES)}; bounds on other figures go into limits."
        raise InputError(what, where=sweep.source.where(("objective",), value=True), hint=hint)
    asked = sweep.file.tune
    reference = reference_of(recipe, groups, expansion.incumbent)
    fingerprint = _fingerprint(sweep, groups, identity)
    return PlannedTune(
        sampler=wish.sampler or (asked.sampler if asked else "auto"),
        max_launches=wish.max_launches or (asked.max_launches if asked else None) or DEFAULT_MOST_LAUNCHES,
        confirm_best=asked.confirm.best if asked else 2,
        confirm_launches=asked.confirm.launches if asked else 3,
        reference_id=reference.configuration_id,
        objective=sweep.file.objective,
        study=wish.study or f"{sweep.name}-{fingerprint}",
        fingerprint=fingerprint,
        limits=asked_limits(sweep),
    )


def _empty(groups: Sequence[CellGroup], refusals: Sequence[Refusal], where: str) -> InputError:
    left = ", ".join(group.configuration.label for group in groups) or "nothing"
    refused = [one for one in refusals if not one.loads]
    if not refused:
        hint = "Give a launch knob a list or a range of values."
        return InputError(f"the search space is empty: {left} is all there is", where=where, hint=hint)
    labels: dict[str, list[str]] = {}
    for one in refused:
        labels.setdefault(one.because, []).append(one.configuration.label)
    reasons = "\n  ".join(f"{'; '.join(of[:_MOST_NAMED])}: {because}" for because, of in labels.items())
    what = f"the search space is empty: every configuration but {left} is refused"
    return InputError(what, where=where, hint=reasons)


def most_launches(plan: Plan) -> int:
    """Return how many launches a plan comes to, of a search at the most."""
    tune = plan.tune
    if tune is None:
        return len(plan.launches)
    return most_searched(plan, tune) + most_confirming(plan, tune)


def reference_of(recipe: Recipe, groups: Sequence[CellGroup], incumbent: Configuration | None) -> Configuration:
    """Return what gains are over: the incumbent, else what the recipe ships, else the first that speculates."""
    configurations = [group.configuration for group in groups]
    if incumbent is not None:
        for one in configurations:
            if one.configuration_id == incumbent.configuration_id:
                return one
    shipped = recipe.launch_defaults

    def unlike(one: Configuration) -> int:
        return sum(shipped.get(name, value) != value for name, value in one.knobs.items())

    speculating = [one for one in configurations if one.num_speculative_tokens != 0]
    return min(speculating or configurations, key=unlike)


def candidates_of(recipe: Recipe, groups: Sequence[CellGroup]) -> tuple[Candidate, ...]:
    """Return the configurations as the search sees them: knobs that vary, as they take effect."""
    effective = {group.configuration.configuration_id: check(recipe, group.configuration).effective for group in groups}
    varying = _varying(effective)
    return tuple(_candidate(name, knobs, varying) for name, knobs in effective.items())


def _candidate(configuration_id: str, effective: Mapping[str, KnobValue], varying: Sequence[str]) -> Candidate:
    k = effective.get(NUM_SPECULATIVE_TOKENS, 0)
    depth = k if isinstance(k, int) else 0
    threshold = effective.get(_CONFIDENCE, 0.0)
    counts = effective.get(_SCHEDULER, "threshold") == "threshold"
    return Candidate(
        configuration_id=configuration_id,
        knobs={name: effective[name] for name in varying if name in effective},
        num_speculative_tokens=depth,
        confidence_threshold=float(threshold) if counts and isinstance(threshold, int | float) else 0.0,
    )


def _varying(effective: Mapping[str, Mapping[str, KnobValue]]) -> list[str]:
    names = dict.fromkeys(name for knobs in effective.values() for name in knobs)
    return [name for name in names if len({knobs.get(name) for knobs in effective.values()}) > 1]


def _fingerprint(sweep: Sweep, groups: Sequence[CellGroup], identity: Identity) -> str:
    """Of the space, the engine as launched, the rig, the workload and how it is judged.

    A study of one tells nothing of another. An image is a knob, and so in it; the version that an engine says it has
    is known after a launch only, and kept beside each launch.
    """
    file = sweep.file
    loads = sorted({load.load_id for group in groups for load in group.loads})
    names = sorted(group.configuration.configuration_id for group in groups)
    judged = [file.objective, repr(file.mix), repr(file.limits), MEASURING_VERSION]
    return content_id([names, loads, judged, identity.recipe_sha256, identity.rig_id])


def _is_off(knobs: Mapping[str, object]) -> bool:
    return knobs.get(NUM_SPECULATIVE_TOKENS) == 0
