"""Run facts to a report view: all rounding, wording and order are decided here and below, and nothing is drawn."""

from __future__ import annotations

from harness.records.cell import Configuration
from harness.records.launch import FAILED
from harness.records.metrics import BY_POSITION, METRICS
from harness.records.verdict import Comparison
from harness.report.best import EngineVariables, best_env
from harness.report.check_view import check_views
from harness.report.comparison import comparison_headline, comparison_view, named
from harness.report.curves import figures
from harness.report.facts import RunFacts
from harness.report.headline import headline
from harness.report.labels import counted, words
from harness.report.models import (
    BestConfiguration,
    FailureView,
    Headline,
    NextStep,
    NullReason,
    RefusalView,
    ReportView,
)
from harness.report.night import night_headline, night_view
from harness.report.night_next import night_step
from harness.report.provenance import definitions, provenance, public_command, rig_line
from harness.report.reading import Reading, read
from harness.report.session import drafts_table
from harness.report.tables import cells_table, configurations_table, launches_table, overview_table
from harness.report.timeline import timeline
from harness.report.tuned import called, tuned_headline, tuned_view


def report_view(facts: RunFacts, *, variables: EngineVariables | None = None) -> ReportView:
    """Return what a report of this run says.

    Args:
        facts: the run.
        variables: by which the recipe's scripts read a configuration, for best.env (see best.best_env).
    """
    reading = read(facts)
    comparison = named(facts.comparison, reading.labels) if facts.comparison else None
    night = night_view(facts.night.mornings, facts.night.baseline) if facts.night else None
    found = night_headline(night, _night_step(facts)) if night else _headline(reading, comparison)
    compared = comparison if comparison else _leading(reading)
    return ReportView(
        title=f"{facts.manifest.sweep} on {facts.manifest.recipe}",
        sweep_hash=facts.manifest.sweep_sha256[:12],
        public_command=public_command(facts.manifest.command),
        simulated=facts.manifest.simulated,
        headline=found,
        rig_line=rig_line(reading),
        facts_line=_facts_line(facts),
        cells=cells_table(reading),
        configurations=configurations_table(reading),
        launches=launches_table(reading),
        overview=overview_table(reading),
        drafts=drafts_table(reading),
        failures=_failures(reading),
        refusals=_refusals(reading),
        collapsed=_collapsed(reading),
        doubts=reading.doubts,
        null_reasons=_null_reasons(facts),
        notes=(*facts.plan.notes, *facts.notes),
        provenance=provenance(reading),
        definitions=definitions(reading),
        figures=figures(reading),
        timeline=timeline(reading),
        best=None if night or (comparison and comparison.same) else _best(reading, found, variables),
        comparison=comparison_view(compared, reading.labels, facts.noise) if compared else None,
        tuned=tuned_view(reading) if facts.plan.tune else None,
        checks=check_views(reading),
        night=night,
    )


def _headline(reading: Reading, comparison: Comparison | None) -> Headline:
    if reading.facts.plan.tune is not None:
        return tuned_headline(reading)
    return comparison_headline(comparison, reading.facts) if comparison else headline(reading)


def _night_step(facts: RunFacts) -> NextStep | None:
    if facts.night is None or facts.plan.nightly is None:
        return None
    return night_step(facts.night.mornings[0][1], facts.manifest, facts.plan.nightly.baseline)


def _leading(reading: Reading) -> Comparison | None:
    """Of a search, the finalist that is shown cell by cell."""
    found = reading.facts.tuned
    if found is None or not found.comparisons:
        return None
    return called(found.pick or found.comparisons[0], reading)


def _facts_line(facts: RunFacts) -> str:
    trials = sum(len(cell.valid_trials) for cell in facts.cells)
    void = sum(len(cell.trials) for cell in facts.cells) - trials
    measured = sum(1 for launch in facts.launches if launch.outcome == "measured")
    parts = [
        counted(len(facts.cells), "cell"),
        counted(trials, "trial") + (f" and {void} void" if void else ""),
        counted(measured, "launch", "launches"),
        f"begun {facts.manifest.started_at}",
    ]
    return " · ".join(parts)


def _failures(reading: Reading) -> tuple[FailureView, ...]:
    return tuple(
        FailureView(
            configuration=reading.labels.configuration(launch.configuration),
            outcome=words(launch.outcome),
            reason=launch.reason or "no reason was recorded",
            log_tail=launch.log_tail,
        )
        for launch in reading.facts.launches
        if launch.outcome in FAILED
    )


def _refusals(reading: Reading) -> tuple[RefusalView, ...]:
    return tuple(
        RefusalView(
            configuration=reading.labels.configuration(refusal.configuration),
            because=refusal.because,
            source=refusal.source or "",
            where=refusal.where or "",
        )
        for refusal in reading.facts.plan.refusals
    )


def _collapsed(reading: Reading) -> tuple[RefusalView, ...]:
    def names(configurations: tuple[Configuration, ...]) -> str:
        return "; ".join(configuration.label for configuration in configurations)

    return tuple(
        RefusalView(
            configuration=f"{names(same.same_as)} is the server of {reading.labels.configuration(same.kept)}",
            because=same.because,
            source="",
            where="",
        )
        for same in reading.facts.plan.collapsed
    )


def _null_reasons(facts: RunFacts) -> tuple[NullReason, ...]:
    """Missing figures by their reason; those that miss for the same one, in the same cells, stand together."""
    cells: dict[tuple[str, str], set[str]] = {}
    for summary in facts.cells:
        for metric, reason in summary.null_reasons.items():
            cells.setdefault((metric, reason), set()).add(summary.cell.cell_id)
    together: dict[tuple[str, frozenset[str]], list[str]] = {}
    for name in (*METRICS, BY_POSITION):
        for (metric, reason), where in cells.items():
            if metric == name:
                together.setdefault((reason, frozenset(where)), []).append(name)
    return tuple(
        NullReason(metric=_metric_words(names), reason=reason, cells=counted(len(where), "cell"))
        for (reason, where), names in together.items()
    )


def _metric_words(names: list[str]) -> str:
    if len(names) > len(METRICS):
        return "every figure"
    return "; ".join(METRICS[name].label if name in METRICS else words(name) for name in names)


def _best(reading: Reading, found: Headline, variables: EngineVariables | None) -> BestConfiguration | None:
    searched = reading.facts.plan.tune is not None
    configuration = reading.pick if searched else reading.best.configuration if reading.best else None
    if configuration is None:
        return None
    return BestConfiguration(
        label=reading.labels.configuration(configuration),
        configuration=configuration,
        standing=found.standing,
        env=best_env(reading, configuration, found.result, variables=variables),
    )
