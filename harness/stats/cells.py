"""Cells over their trials, and a whole run as cells. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from statistics import median

from harness.records.cell import NUM_SPECULATIVE_TOKENS, Cell
from harness.records.doubt import Doubt
from harness.records.launch import LaunchRecord
from harness.records.metrics import BY_POSITION, METRICS
from harness.records.summary import CellSummary, TrialMetrics, TrialSummary
from harness.records.trial import TrialRecord
from harness.stats.case import Limits
from harness.stats.checks import cell_doubts, doubts
from harness.stats.summary import speculates, trial_metrics


def summarise_run(
    trials: Sequence[TrialRecord], launches: Sequence[LaunchRecord], limits: Limits
) -> tuple[CellSummary, ...]:
    """Return one summary per cell that has a trial, in the order in which they were first measured.

    The rate without speculation under the same load, where the run has one, is the physical reference for the others.
    """
    by_launch = {launch.launch_id: launch for launch in launches}
    # Not by trial_id: a trial that failed and was measured again after a resume is there twice.
    measured = [(trial, trial_metrics(trial)) for trial in trials]
    baselines = _baselines(measured)
    cells: dict[str, tuple[Cell, list[TrialSummary]]] = {}
    for trial, metrics in measured:
        found = doubts(
            trial,
            metrics,
            by_launch.get(trial.launch_id),
            limits,
            no_speculation_tokens_per_s=baselines.get(trial.cell.load.load_id),
        )
        cells.setdefault(trial.cell.cell_id, (trial.cell, []))[1].append(_trial_summary(trial, metrics, found))
    return tuple(cell_summary(cell, summaries, limits, by_launch) for cell, summaries in cells.values())


def valid_trial_ids(cells: Sequence[CellSummary]) -> frozenset[str]:
    """Return what need not be measured again: trials that are not void."""
    return frozenset(trial.trial_id for cell in cells for trial in cell.valid_trials)


def cell_summary(
    cell: Cell, trials: Sequence[TrialSummary], limits: Limits, launches: Mapping[str, LaunchRecord] | None = None
) -> CellSummary:
    """Return a cell over its trials: median and range over those that are not void. ``launches`` is by launch id."""
    valid = [trial for trial in trials if not trial.void]
    values: dict[str, float | None] = {}
    spread: dict[str, tuple[float, float]] = {}
    for name in METRICS:
        known = [value for trial in valid if (value := trial.metrics.values[name]) is not None]
        values[name] = median(known) if known else None
        if known:
            spread[name] = (min(known), max(known))
    by_position = _median_by_position([trial.metrics for trial in valid])
    drafts = [count for trial in valid if (count := trial.metrics.values["drafts"]) is not None]
    launch_ids = dict.fromkeys(trial.launch_id for trial in valid)
    own = cell_doubts(
        trials=valid,
        drafts_in_all=sum(drafts) if drafts else None,
        limits=limits,
        launches=[launches[launch_id] for launch_id in launch_ids if launches and launch_id in launches],
        load=cell.load,
    )
    return CellSummary(
        cell=cell,
        values=values,
        spread=spread,
        by_position=by_position,
        null_reasons=_null_reasons(trials, values, by_position),
        doubts=_each_once([doubt for trial in _not_made_good(trials) for doubt in trial.doubts] + list(own)),
        trials=tuple(trials),
        launches=len(launch_ids),
        drafts_in_all=round(sum(drafts)) if drafts else None,
    )


def cell_document(summary: CellSummary) -> dict[str, object]:
    """Return a cell as one flat JSON object: launch knobs, load knobs, figures, then what stands behind them."""
    cell, load = summary.cell, summary.cell.load
    return {
        "configuration": cell.configuration.label,
        NUM_SPECULATIVE_TOKENS: None,
        **cell.configuration.knobs,
        **load.columns,
        **summary.values,
        BY_POSITION: _list(summary.by_position),
        "launches": summary.launches,
        "drafts_in_all": summary.drafts_in_all,
        "trials": [_trial_document(trial) for trial in summary.trials],
        "spread": {name: list(bounds) for name, bounds in summary.spread.items()},
        "null_reasons": summary.null_reasons,
        "doubts": [asdict(doubt) for doubt in summary.doubts],
        "simulated": any(trial.simulated for trial in summary.trials),
        "cell_id": cell.cell_id,
        "configuration_id": cell.configuration.configuration_id,
    }


def _trial_summary(trial: TrialRecord, metrics: TrialMetrics, found: tuple[Doubt, ...]) -> TrialSummary:
    return TrialSummary(
        trial_id=trial.trial_id,
        launch_id=trial.launch_id,
        round=trial.round,
        repeat=trial.repeat,
        metrics=metrics,
        doubts=found,
        simulated=trial.simulated,
    )


def _baselines(measured: Sequence[tuple[TrialRecord, TrialMetrics]]) -> dict[str, float]:
    """The decode rate without speculation by load: the best trial, since a ceiling must not be too low."""
    best: dict[str, float] = {}
    for trial, metrics in measured:
        rate = metrics.values["decode_tokens_per_s"]
        if rate is not None and not speculates(trial):
            load_id = trial.cell.load.load_id
            best[load_id] = max(rate, best.get(load_id, 0.0))
    return best


def _median_by_position(metrics: Sequence[TrialMetrics]) -> tuple[float, ...] | None:
    known = [figures.by_position for figures in metrics if figures.by_position is not None]
    if not known:
        return None
    longest = max(len(shares) for shares in known)
    return tuple(median(shares[i] for shares in known if i < len(shares)) for i in range(longest))


def _null_reasons(
    trials: Sequence[TrialSummary], values: Mapping[str, float | None], by_position: tuple[float, ...] | None
) -> dict[str, str]:
    missing = [name for name, value in values.items() if value is None]
    if by_position is None:
        missing.append(BY_POSITION)
    valid = [trial for trial in trials if not trial.void]
    if not valid:
        kinds = sorted({doubt.kind for trial in trials for doubt in trial.doubts if doubt.void})
        return dict.fromkeys(missing, f"no valid trial: {', '.join(kinds) or 'none was measured'}")
    reasons = {name: {trial.metrics.null_reasons.get(name) for trial in valid} for name in missing}
    return {name: "; ".join(sorted(text for text in texts if text)) for name, texts in reasons.items()}


def _not_made_good(trials: Sequence[TrialSummary]) -> list[TrialSummary]:
    """Without void trials that were measured again and then held: what spoke against them is settled."""
    held = {trial.trial_id for trial in trials if not trial.void}
    return [trial for trial in trials if not (trial.void and trial.trial_id in held)]


def _each_once(found: Sequence[Doubt]) -> tuple[Doubt, ...]:
    return tuple(dict.fromkeys(found))


def _trial_document(trial: TrialSummary) -> dict[str, object]:
    return {
        "trial_id": trial.trial_id,
        "launch_id": trial.launch_id,
        "round": trial.round,
        "repeat": trial.repeat,
        "void": trial.void,
        **trial.metrics.values,
        BY_POSITION: _list(trial.metrics.by_position),
        "null_reasons": trial.metrics.null_reasons,
        "doubts": [asdict(doubt) for doubt in trial.doubts],
    }


def _list(values: tuple[float, ...] | None) -> list[float] | None:
    return None if values is None else list(values)
