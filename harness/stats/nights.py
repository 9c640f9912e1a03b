"""A run of ``nightly`` as a night; and what a night, the baseline and the history say in the morning. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np

from harness.records.identity import content_id
from harness.records.journal import RunData
from harness.records.launch import LaunchRecord
from harness.records.nightly import Baseline, Night, NightVerdict
from harness.records.trial import MEASURING_VERSION
from harness.stats.arms import Stored, Wanted, side_of, weights_over
from harness.stats.changepoint import Change, change_points, likely_change
from harness.stats.compare import Question, Side, complete
from harness.stats.effect import combined_logs
from harness.stats.gate import Pinned, pinned, regressed, trips
from harness.stats.paired import SECONDS, paired

HEADLINE = (SECONDS, "delivered_per_step", "step_s")  # the series that gate: more would gate by chance
WORDS = {SECONDS: "the user's seconds", "delivered_per_step": "tokens per step", "step_s": "step time"}
_ASIDE = ("ttft_s", "worst_stream_tokens_per_s", "decode_tokens_per_s")
# What makes a night unfit: the rig was not itself, or the figures are not those of the workload.
_UNFIT = ("canary_moved", "slow_boot", "node_throttled", "node_power_changed", "foreign_traffic", "jit_in_window")
_KV_RATIO = 0.02


def night_of(stored: Stored, configuration_id: str) -> Night:
    """Return what a run measured of one configuration."""
    run = stored.run
    side = side_of(stored, Wanted(name="", configuration_id=configuration_id))
    loads = {one.trial.cell.load.load_id: one.trial.cell.load for one in side.trials.values()}
    weights = weights_over(run.plan.weights, tuple(loads.values())) if run.plan else {}
    question = Question(loads=tuple(loads.values()), weights=weights)
    whole = complete(side, question)
    launches = [launch for launch in run.launches if launch.configuration.configuration_id == configuration_id]
    doubts = {kind for one in side.trials.values() for kind in one.doubt_kinds if kind in _UNFIT}
    return Night(
        run_id=run.manifest.run_id,
        sweep=run.manifest.sweep,
        at=run.manifest.started_at,
        key=_key(run, whole),
        figures={name: _values(name, whole, question) for name in HEADLINE},
        cells=_cells(stored, configuration_id),
        boot_s=_median([launch.ready_s for launch in launches]),
        kv_cache_tokens=next((one.boot.kv_cache_tokens for one in launches if one.boot), None),
        failed_launches=sum(launch.outcome in ("failed_to_boot", "wrong_configuration", "died") for launch in launches),
        doubts=tuple(sorted(doubts)),
        facts=_facts(run, launches),
        simulated=run.manifest.simulated,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One headline series and how the night stands in it."""

    name: str
    value: float | None
    baseline: Pinned | None
    tripped: bool
    regressed: bool  # every launch of the night trips the gate, of which there are two
    change: Change | None  # a change point that is new tonight or stands unaccepted
    since: str | None  # the date of the first night after it

    @property
    def log_ratio(self) -> float | None:
        """Against the baseline."""
        return None if self.value is None or self.baseline is None else self.value - self.baseline.center


@dataclass(frozen=True, slots=True, kw_only=True)
class Morning:
    """What to say of a night."""

    verdict: NightVerdict
    night: Night
    figures: tuple[Figure, ...]
    sentence: str
    cause: str  # which of acceptance and step time moved; "" where nothing did
    differences: tuple[str, ...]  # of the facts, across the change
    history: int  # valid nights of this series
    notes: tuple[str, ...]


def judge_night(night: Night, history: Sequence[Night], baseline: Baseline | None) -> Morning:
    """Return what to say of a night.

    Args:
        night: tonight.
        history: earlier nights of the sweep, oldest first.
        baseline: accepted for this sweep; one of another key is another series, and does not judge.
    """
    series = [one for one in history if one.key == night.key and one.is_valid]
    accepted = baseline if baseline is not None and baseline.key == night.key else None
    figures = tuple(_figure(name, night, series, accepted) for name in HEADLINE)
    verdict = _verdict(night, figures, accepted)
    cause = _cause(figures) if verdict in ("regressed", "improved") else ""
    changed = next((one for one in figures if one.change is not None), None)
    return Morning(
        verdict=verdict,
        night=night,
        figures=figures,
        sentence=_sentence(verdict, night, figures, accepted),
        cause=cause,
        differences=_differences(series, night, changed),
        history=len(series),
        notes=_notes(night, history, baseline),
    )


def wants_second_launch(night: Night, history: Sequence[Night], baseline: Baseline | None) -> str | None:
    """Return why a second launch in the same night would tell more; None where one is enough."""
    if not night.is_valid:
        return f"the night is doubtful ({', '.join(night.doubts) or 'not everything was measured'})"
    morning = judge_night(night, history, baseline)
    tripped = [WORDS[one.name] for one in morning.figures if one.tripped]
    if tripped:
        return f"{' and '.join(tripped)} fell out of the baseline"
    series = [one for one in history if one.key == night.key and one.is_valid]
    for name in HEADLINE:
        change = likely_change(*_series(name, [*series, night]))
        if change is not None and change.is_suspicious and change.index >= len(series) - _RECENT_NIGHTS:
            return f"{WORDS[name]} may have changed lately"
    return None


_RECENT_NIGHTS = 3


def _figure(name: str, night: Night, series: Sequence[Night], baseline: Baseline | None) -> Figure:
    value = night.value(name)
    held = pinned(baseline.values.get(name, ())) if baseline else None
    launches = night.figures.get(name, ())
    nights = [*series, night] if night.is_valid else list(series)
    values, weights = _series(name, nights)
    changes = [one for one in change_points(values, weights) if _is_open(one, nights, baseline)]
    change = changes[-1] if changes else None
    return Figure(
        name=name,
        value=value,
        baseline=held,
        tripped=held is not None and any(trips(one, held) for one in launches),
        regressed=held is not None and regressed(launches, held),
        change=change,
        since=nights[change.index].at[:10] if change else None,
    )


def _series(name: str, nights: Sequence[Night]) -> tuple[list[float], list[float]]:
    known = [(value, float(len(one.figures[name]))) for one in nights if (value := one.value(name)) is not None]
    return [value for value, _ in known], [weight for _, weight in known]


def _is_open(change: Change, nights: Sequence[Night], baseline: Baseline | None) -> bool:
    """Not yet accepted: the baseline is of nights before it."""
    return baseline is None or nights[change.index].run_id not in baseline.run_ids


def _verdict(night: Night, figures: Sequence[Figure], baseline: Baseline | None) -> NightVerdict:
    if not night.is_valid:
        return "doubtful"
    if any(one.regressed for one in figures if one.name == SECONDS):
        return "regressed"
    change = next((one.change for one in figures if one.name == SECONDS), None)
    if change is not None and change.log_ratio < 0:
        return "regressed"
    if any(one.tripped for one in figures if one.name == SECONDS):
        return "doubtful"  # one launch says so and the other does not
    if baseline is None:
        return "no baseline"
    return "improved" if change is not None else "fine"


def _cause(figures: Sequence[Figure]) -> str:
    """What moved: text or drafter, kernels or clocks (pytorch/helion issue 2976 has the pattern)."""
    moved = {one.name: _moved(one) for one in figures}
    tokens, step = moved["delivered_per_step"], moved["step_s"]
    if tokens and not step:
        return "acceptance moved and step time did not: look at the prompts, the chat template, the drafter"
    if step and not tokens:
        return "step time moved and acceptance did not: look at clocks, drivers, kernels, the image"
    if step and tokens:
        return "acceptance and step time both moved: look at what changed in image or checkpoint"
    return "neither acceptance nor step time moved by itself: look at prefill and queueing (time to first token)"


def _moved(one: Figure) -> bool:
    size = one.change.log_ratio if one.change is not None else one.log_ratio
    return size is not None and abs(size) >= math.log(1.03) and (one.change is not None or one.tripped)


def _sentence(verdict: NightVerdict, night: Night, figures: Sequence[Figure], baseline: Baseline | None) -> str:
    main = next(one for one in figures if one.name == SECONDS)
    against = f" against {baseline.name}" if baseline else ""
    size = "" if main.log_ratio is None else f" ({_percent(main.log_ratio)}{against})"
    if verdict == "doubtful":
        why = ", ".join(kind.replace("_", " ") for kind in night.doubts) or "its launches disagree"
        return f"doubtful night{size}: {why}; it is not judged"
    if verdict == "no baseline":
        return "measured; there is no accepted baseline for this rig and engine yet"
    if verdict == "fine":
        return f"nothing moved{size}"
    change = main.change
    if change is None:
        return f"regressed{size}: both launches of this night are below what the baseline allows"
    how = f"drifting by {_percent(change.per_night)} a night" if change.shape == "drift" else _percent(change.log_ratio)
    return f"{verdict} since {main.since}: {how} ({_percent(change.low)} … {_percent(change.high)})"


def _percent(log_ratio: float) -> str:
    return f"{math.expm1(log_ratio) * 100:+.1f} %"


def _differences(series: Sequence[Night], night: Night, changed: Figure | None) -> tuple[str, ...]:
    """Facts that differ between the nights on both sides of a change, else between last night and this one."""
    nights = [*series, night]
    if len(nights) < 2:
        return ()
    at = changed.change.index if changed is not None and changed.change is not None else len(nights) - 1
    before, after = nights[max(0, at - 1)].facts, nights[min(at, len(nights) - 1)].facts
    return tuple(
        f"{name}: {before[name]} → {after[name]}" for name in before if name in after and before[name] != after[name]
    )


def _notes(night: Night, history: Sequence[Night], baseline: Baseline | None) -> tuple[str, ...]:
    notes = []
    if baseline is not None and baseline.key != night.key:
        notes.append(f"{baseline.name} is of another rig, engine or workload: a new series begins")
    if night.failed_launches:
        notes.append(f"{night.failed_launches} launches failed")
    last = next((one for one in reversed(history) if one.key == night.key), None)
    if last is not None and last.kv_cache_tokens and night.kv_cache_tokens:
        ratio = night.kv_cache_tokens / last.kv_cache_tokens - 1
        if abs(ratio) > _KV_RATIO:
            notes.append(f"KV cache tokens changed by {ratio:+.1%} since {last.at[:10]}")
    return tuple(notes)


def _values(name: str, whole: Side, question: Question) -> tuple[float, ...]:
    loads = [load for load in question.loads if question.weight(load)]
    tables = [paired(name, load, whole.rows(load), whole.rows(load)) for load in loads]
    known = [table.base for table in tables if not isinstance(table, str)]
    if not known or len(known) < len(loads):
        return ()
    weights = np.array([question.weight(load) for load in loads])
    return tuple(combined_logs(known, weights, "sum" if name == SECONDS else "mean").tolist())


def _key(run: RunData, side: Side) -> str:
    manifest = run.manifest
    versions = sorted({launch.live.engine_version or "" for launch in run.launches if launch.live})
    models = sorted({launch.live.model for launch in run.launches if launch.live})
    workloads = sorted({one.trial.workload_id for one in side.trials.values()})
    what = [manifest.recipe, manifest.host.rig_id, versions, models, workloads]
    return content_id([*what, side.arm.configuration.configuration_id, MEASURING_VERSION])


def _cells(stored: Stored, configuration_id: str) -> dict[str, dict[str, float]]:
    return {
        cell.cell.load.load_id: {
            name: value for name in (*_ASIDE, "acceptance_length", "step_s") if (value := cell.values.get(name))
        }
        for cell in stored.cells
        if cell.cell.configuration.configuration_id == configuration_id and not cell.void
    }


def _facts(run: RunData, launches: Sequence[LaunchRecord]) -> dict[str, str]:
    facts = {"harness": run.manifest.harness_version, "recipe": run.manifest.recipe_sha256[:12]}
    facts["kernel"] = run.manifest.host.kernel
    for launch in launches[:1]:
        if launch.live is not None:
            facts["engine"] = launch.live.engine_version or "unknown"
        for node in launch.nodes:
            facts |= {f"{node.node} driver": str(node.driver_version), f"{node.node} kernel": str(node.kernel)}
            facts |= {f"{node.node} image {name}": image[:19] for name, image in node.images.items()}
            if node.temperature_c is not None:
                facts[f"{node.node} temperature"] = f"{node.temperature_c:.0f} °C"
    return facts


def _median(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return median(known) if known else None
