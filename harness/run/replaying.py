"""A trace in a sweep: the cells that it makes, their weights, and what a trial of one sends."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

from harness.errors import InputError
from harness.recipe.rules import check
from harness.recipe.schema import Recipe
from harness.records.cell import CellGroup, LoadPoint, OutputLength, RecordedLoad, Refusal
from harness.records.identity import content_id
from harness.sweep.exclusion import CellRules
from harness.sweep.load import Sweep
from harness.sweep.load_knobs import AS_RECORDED, OUTPUT_TOKENS
from harness.sweep.points import Load, LoadSet
from harness.sweep.schema import Trace
from harness.workload.arrivals import ArrivalPlan, due_times
from harness.workload.replay import Conversation, Replay, ReplayWishes, load_replay, typical
from harness.workload.sampling import Sample, require_strata

_SAMPLING = ("temperature", "top_p", "thinking")
_SERVER_DEFAULT = 1.0  # temperature and top_p of a body that names none
_ALL_CONVERSATIONS = 2**31


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayedLoads:
    """A sweep's groups with the cells of its trace, and the conversations of each."""

    groups: tuple[CellGroup, ...]
    conversations: Mapping[str, tuple[Conversation, ...]]  # by load id
    arrivals: ArrivalPlan
    fill: str | None
    weights: Mapping[str, float]  # by load id: the share of the whole trace, of requests or as `mix` says
    notes: tuple[str, ...]
    refusals: tuple[Refusal, ...] = ()  # cells of the trace that the recipe does not let through


def read_replay(sweep: Sweep) -> Replay | None:
    """Return what a sweep replays; None where it makes its prompts. Raises InputError at the sweep's line."""
    trace = sweep.file.workload
    if trace is None:
        return None
    try:
        return load_replay(_wishes(sweep, trace))
    except InputError as error:
        where = sweep.source.where(("workload", "trace"), value=True)
        what = f"{error.where}: {error.what}" if error.where else error.what
        raise InputError(what, where=where, hint=error.hint) from error


def replayed_loads(
    sweep: Sweep, groups: Sequence[CellGroup], replay: Replay, *, recipe: Recipe | None = None
) -> ReplayedLoads:
    """Return the cells of each configuration: those of the trace, under each combination of the load knobs.

    Args:
        sweep: as loaded.
        groups: of its expansion, whose loads are patterns.
        replay: the trace.
        recipe: whose rules about cells hold for those of the trace too; None: none do.

    Raises:
        InputError: the rules leave nothing to measure, or `on_refused` is stop.
    """
    conversations: dict[str, tuple[Conversation, ...]] = {}
    weights: dict[str, float] = {}
    made: dict[LoadPoint, tuple[LoadPoint, ...]] = {}
    for group in groups:
        for template in group.loads:
            if template not in made:
                made[template] = tuple(_cells(template, replay, conversations, weights, _weight_by(sweep)))
    found = [replace(group, loads=_each_once(made, group.loads)) for group in groups]
    allowed, refusals, warnings = (found, (), ()) if recipe is None else _allowed(sweep, recipe, found)
    return ReplayedLoads(
        groups=tuple(allowed),
        conversations=conversations,
        arrivals=replay.wishes.arrivals,
        fill=replay.wishes.fill,
        weights=weights,
        notes=(*_notes(replay), *warnings),
        refusals=refusals,
    )


def _wishes(sweep: Sweep, trace: Trace) -> ReplayWishes:
    sample = trace.sample
    count = None if sample is None else sample.sessions or sample.requests or _ALL_CONVERSATIONS
    return ReplayWishes(
        path=_place(trace.trace, Path(sweep.source.name)),
        format_name=trace.format,
        where={name: _patterns(value) for name, value in trace.where.items()},
        sample=Sample(conversations=count, seed=sample.seed, by=require_strata(sample.by))
        if sample is not None and count is not None
        else None,
        split=trace.sessions == "split",
        fill=trace.no_text["fill"] if isinstance(trace.no_text, dict) else None,
        arrivals=ArrivalPlan(
            arrivals=trace.arrivals,
            rate_per_s=trace.rate_per_s,
            speed=trace.speed,
            idle_s=trace.idle.at_most if trace.idle is not None else None,
            seed=sample.seed if sample is not None else 1,
        ),
    )


def _place(written: str, sweep_file: Path) -> Path:
    """Beside the sweep file, as its other paths; else from the current directory."""
    path = Path(written).expanduser()
    beside = sweep_file.parent / path
    return beside if beside.exists() else path


def _patterns(value: Any) -> tuple[str, ...]:
    return tuple(str(each) for each in (value if isinstance(value, list) else [value]))


def _weight_by(sweep: Sweep) -> str:
    return str((sweep.file.mix or {}).get("by") or "requests")


def _cells(
    template: LoadPoint,
    replay: Replay,
    conversations: dict[str, tuple[Conversation, ...]],
    weights: dict[str, float],
    weight_by: str,
) -> list[LoadPoint]:
    found = []
    in_all = sum(getattr(weight, weight_by) for weight in replay.weights.values())
    for kind in replay.kinds:
        members = replay.of_kind(kind)
        load = _load(template, kind, members, replay)
        conversations[load.load_id] = members
        weight = replay.weights.get(kind)
        weights[load.load_id] = getattr(weight, weight_by) / in_all if weight is not None and in_all else 0.0
        found.append(load)
    return found


def _load(template: LoadPoint, kind: tuple[str, int], members: Sequence[Conversation], replay: Replay) -> LoadPoint:
    turns = [turn for conversation in members for turn in conversation.turns]
    bodies = [turn.body or {} for turn in turns]
    plan = replay.wishes.arrivals
    knobs = cast(Mapping[str, Any], {name: getattr(template, name) for name in _SAMPLING})
    output = template.output
    exact = cast(Any, output) == AS_RECORDED
    prompt_tokens = sum(turn.prompt_tokens for turn in turns)
    closed = plan.arrivals == "closed"
    recorded = RecordedLoad(
        workload_id=content_id([[turn.content for turn in conversation.turns] for conversation in members]),
        arrivals=plan.arrivals,
        as_recorded=(
            *(name for name in _SAMPLING if knobs[name] == AS_RECORDED),
            *(["output_tokens"] if exact else []),
        ),
        conversations=len(members),
        requests=len(turns),
        prompt_tokens=prompt_tokens,
        output_tokens=sum(turn.output_tokens if exact else output.most_tokens for turn in turns),
        reused_ratio=round(sum(turn.prompt_tokens * turn.reused_ratio for turn in turns) / prompt_tokens, 6)
        if template.cache == AS_RECORDED
        else 0.0,
        span_s=round(_span_s(members, plan), 3),
        rate_per_s=plan.rate_per_s if plan.arrivals in ("constant", "poisson") else None,
        synthetic_class=replay.wishes.fill if any(turn.body is None for turn in turns) else None,
    )
    return replace(
        template,
        workload_class=kind[0],
        context_tokens=kind[1],
        concurrency=min(template.concurrency, len(members)) if closed else len(members),
        output=OutputLength(tokens=max(turn.output_tokens for turn in turns), natural=True) if exact else output,
        temperature=_number(knobs["temperature"], [body.get("temperature") for body in bodies]),
        top_p=_number(knobs["top_p"], [body.get("top_p") for body in bodies]),
        recorded=recorded,
    )


def _number(knob: Any, recorded: Sequence[Any]) -> float:
    if knob != AS_RECORDED:
        return float(knob)
    return typical([each if isinstance(each, int | float) else None for each in recorded], _SERVER_DEFAULT)


def _span_s(members: Sequence[Conversation], plan: ArrivalPlan) -> float:
    times = due_times([[turn.at_s for turn in conversation.turns] for conversation in members], plan)
    return max((due_s for due in times for due_s in due if due_s is not None), default=0.0)


def _each_once(
    made: Mapping[LoadPoint, tuple[LoadPoint, ...]], templates: Sequence[LoadPoint]
) -> tuple[LoadPoint, ...]:
    return tuple({load.load_id: load for template in templates for load in made[template]}.values())


def _allowed(
    sweep: Sweep, recipe: Recipe, groups: Sequence[CellGroup]
) -> tuple[list[CellGroup], tuple[Refusal, ...], tuple[str, ...]]:
    """Leave out the cells that a rule is against: pictures for a model that takes text, a cache that garbles."""
    rules, where = CellRules(recipe), sweep.source.where(("workload", "trace"), value=True)
    kept: list[CellGroup] = []
    refusals: list[Refusal] = []
    warnings: dict[str, None] = {}
    for number, group in enumerate(groups):
        values = [Load(point=load, values=load.columns | {OUTPUT_TOKENS: load.output}) for load in group.loads]
        against: set[int] = set()
        effective = check(recipe, group.configuration).effective
        for rule, indices in rules.refused(effective, LoadSet(key=number, loads=tuple(values))):
            if rule.level == "warn":
                warnings[f"{group.configuration.label}: {rule.because}"] = None
                continue
            loads = tuple(group.loads[at] for at in sorted(indices - against))
            against |= indices
            if loads:
                refusals.append(
                    Refusal(
                        configuration=group.configuration,
                        because=rule.because,
                        source=rule.source,
                        where=where,
                        loads=loads,
                    )
                )
        left = tuple(load for at, load in enumerate(group.loads) if at not in against)
        kept += [replace(group, loads=left)] if left else []
    if refusals and (not kept or sweep.file.on_refused == "stop"):
        reasons = "\n  ".join({refusal.because: None for refusal in refusals})
        what = "cells of the trace are refused before anything is launched"
        raise InputError(what if kept else f"all {what}", where=where, hint=reasons)
    return kept, tuple(refusals), tuple(warnings)


def _notes(replay: Replay) -> tuple[str, ...]:
    requests = sum(len(conversation.turns) for conversation in replay.conversations)
    notes = [f"{requests} requests of {len(replay.conversations)} conversations are replayed, each cell by itself"]
    if replay.left_out:
        notes.append(f"{replay.left_out} entries of the trace cannot be replayed: harness workload inspect says why")
    missing = [kind for kind in replay.weights if kind not in replay.kinds]
    if missing:
        notes.append(f"the sample has nothing of {len(missing)} kinds of traffic that the trace has")
    return tuple(notes)
