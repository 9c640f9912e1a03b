"""A plan as text and a table: what will be launched, in which order, and what it costs."""

from __future__ import annotations

from harness.records.manifest import SIMULATED_MARK
from harness.records.plan import Plan, PlannedLaunch, PlannedTrial
from harness.report.design_view import design_lines
from harness.report.labels import Labels, counted
from harness.report.models import Column, Row, TableView
from harness.report.tuned_plan import search_line, search_lines
from harness.stats.overview import ASSUMED_LAUNCH_SIGMA_RATIO, smallest_visible_difference
from harness.units import format_ratio, format_seconds

MOST_ROWS = 60  # of a table on a screen
_MOST_DEAREST = 3


def plan_line(plan: Plan) -> str:
    if plan.tune is not None:
        return search_line(plan, plan.tune)
    todo = [launch for launch in plan.launches if not launch.done and launch.fits_budget]
    trials = sum(1 for launch in todo for trial in launch.trials if not trial.done)
    mark = f"{SIMULATED_MARK}: " if plan.simulated else ""
    parts = [counted(len(plan.configurations), "configuration"), counted(len(todo), "launch", "launches")]
    parts += [counted(trials, "trial"), f"about {format_seconds(plan.predicted_s)}"]
    done = sum(1 for launch in plan.launches for trial in launch.trials if trial.done)
    if done:
        parts.append(f"{counted(done, 'trial')} done already")
    unfit = sum(1 for launch in plan.launches if not launch.fits_budget)
    if unfit:
        parts.append(f"{counted(unfit, 'launch', 'launches')} beyond the budget")
    return f"{mark}{plan.sweep} on {plan.recipe}: {', '.join(parts)}"


_ON_SUSPICION = "only if the first looks bad"


def planned_launches(plan: Plan, labels: Labels) -> TableView:
    launches = [launch for launch in plan.launches if plan.tune is None or launch.round == 1]
    shown = launches[:MOST_ROWS]
    rows = tuple(
        Row(
            values=(
                str(launch.ordinal),
                labels.configuration(launch.configuration),
                str(launch.round),
                str(len(launch.trials)),
                format_seconds(launch.predicted_launch_s),
                format_seconds(sum(trial.predicted_s for trial in launch.trials if not trial.done)),
                _state(launch) or (_ON_SUSPICION if plan.nightly and launch.round > 1 else ""),
            ),
            void=launch.done or not launch.fits_budget,
        )
        for launch in shown
    )
    more = len(launches) - len(shown)
    return TableView(
        caption="What may be launched" if plan.tune else f"Launches, in this order (seed {plan.seed})",
        columns=(
            Column(label="#"),
            Column(label="configuration", numeric=False),
            Column(label="round", detail=True),
            Column(label="trials"),
            Column(label="boot"),
            Column(label="measure"),
            Column(label="state", numeric=False),
        ),
        rows=rows,
        notes=(f"and {counted(more, 'more launch', 'more launches')}",) if more else (),
        simulated=plan.simulated,
    )


def _state(launch: PlannedLaunch) -> str:
    if launch.done:
        return "done"
    if not launch.trials:
        return "cells come from the trace"
    if not launch.fits_budget:
        return "does not fit the budget"
    done = sum(1 for trial in launch.trials if trial.done)
    return f"{len(launch.trials) - done} trials left" if done else ""


def visible_lines(plan: Plan) -> tuple[str, ...]:
    """What differences the plan can show, or what a search has time for."""
    if plan.tune is not None:
        return search_lines(plan, plan.tune)
    if plan.nightly is not None:
        return (f"Judged by the nights before, and by the baseline {plan.nightly.baseline} where one is accepted.",)
    return design_lines(plan.design) if plan.design is not None else (_visible_line(plan),)


def _visible_line(plan: Plan) -> str:
    if plan.attached:
        return "A server that runs already is one boot: differences between boots cannot be seen."
    per_configuration = [launch.configuration.configuration_id for launch in plan.launches if launch.fits_budget]
    if not per_configuration:
        return "Nothing is left to launch."
    launches = min(per_configuration.count(one) for one in set(per_configuration))
    least = format_ratio(smallest_visible_difference(launches))
    sigma = format_ratio(ASSUMED_LAUNCH_SIGMA_RATIO)
    return (
        f"With {counted(launches, 'launch', 'launches')} of each configuration, differences from about {least} on can "
        f"be seen, if boots differ by {sigma} (standard deviation)."
    )


def cost_lines(plan: Plan, labels: Labels) -> tuple[str, ...]:
    """What the dearest cells cost, and which ones budget.cell will end before they are measured."""
    dearest: dict[str, PlannedTrial] = {}
    for trial in (trial for launch in plan.launches for trial in launch.trials if not trial.done):
        known = dearest.get(trial.load.load_id)
        if known is None or _whole_s(trial) > _whole_s(known):
            dearest[trial.load.load_id] = trial
    ordered = sorted(dearest.values(), key=_whole_s, reverse=True)
    lines = []
    if ordered:
        mark = f"{SIMULATED_MARK}: " if plan.simulated else ""
        cells = "; ".join(_cost(trial, labels) for trial in ordered[:_MOST_DEAREST])
        lines.append(f"{mark}Dearest cells of a launch: {cells}")
    cut = [trial for trial in ordered if trial.uncut_s is not None]
    if cut:
        named = "; ".join(labels.load(trial.load) for trial in cut[:_MOST_DEAREST])
        more = f" and {len(cut) - _MOST_DEAREST} more" if len(cut) > _MOST_DEAREST else ""
        lines.append(
            f"budget.cell ends after {format_seconds(cut[0].predicted_s)}, before {named}{more} can be measured: leave "
            "out what is not worth its time, or allow more"
        )
    return tuple(lines)


def _whole_s(trial: PlannedTrial) -> float:
    return trial.predicted_s if trial.uncut_s is None else trial.uncut_s


def _cost(trial: PlannedTrial, labels: Labels) -> str:
    ttft = f" (time to first token {format_seconds(trial.ttft_s)})" if trial.ttft_s is not None else ""
    return f"{labels.load(trial.load)}: {format_seconds(_whole_s(trial))}{ttft}"
