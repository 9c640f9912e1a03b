"""A trace in a sweep: the cells that it makes, their weights, and what a trial of one sends."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

from harness.errors import InputError
from harness.records.cell import CellGroup, LoadPoint, OutputLength, RecordedLoad
from harness.records.identity import content_id
from harness.sweep.load import Sweep
from harness.sweep.load_knobs import AS_RECORDED
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


def replayed_loads(sweep: Sweep, groups: Sequence[CellGroup], replay: Replay) -> ReplayedLoads:
    """Return the cells of each configuration: those of the trace, under each combination of the load knobs."""
    conversations: dict[str, tuple[Conversation, ...]] = {}
    weights: dict[str, float] = {}
    made: dict[LoadPoint, tuple[LoadPoint, ...]] = {}
    for group in groups:
        for template in group.loads:
            if template not in made:
                made[template] = tuple(_cells(template, replay, conversations, weights, _weight_by(sweep)))
    return ReplayedLoads(
        groups=tuple(replace(group, loads=_each_once(made, group.loads)) for group in groups),
        conversations=conversations,
        arrivals=replay.wishes.arrivals,
        fill=replay.wishes.fill,
        weights=weights,
        notes=_notes(replay),
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
        output_tokens=sum(turn.output_tokens if exact else output.tokens for turn in turns),
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


def _notes(replay: Replay) -> tuple[str, ...]:
    requests = sum(len(conversation.turns) for conversation in replay.conversations)
    notes = [f"{requests} requests of {len(replay.conversations)} conversations are replayed, each cell by itself"]
    if replay.left_out:
        notes.append(f"{replay.left_out} entries of the trace cannot be replayed: harness workload inspect says why")
    missing = [kind for kind in replay.weights if kind not in replay.kinds]
    if missing:
        notes.append(f"the sample has nothing of {len(missing)} kinds of traffic that the trace has")
    return tuple(notes)
