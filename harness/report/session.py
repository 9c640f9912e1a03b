"""What an engine says of its own drafts, where it counts them per launch: a table, and a line for the headline."""

from __future__ import annotations

from collections.abc import Mapping

from harness.records.launch import LaunchRecord
from harness.report.models import Column, Row, TableView
from harness.report.reading import Reading
from harness.stats.session_figures import session_figures
from harness.units import MISSING, format_change, format_number, format_rate, format_ratio, format_seconds


def drafts_table(reading: Reading) -> TableView | None:
    """Return a row for each launch that has such an account; None where none has."""
    launches = [launch for launch in reading.facts.launches if launch.speculation is not None]
    if not launches:
        return None
    return TableView(
        simulated=reading.facts.manifest.simulated,
        caption="What the engine says of its drafts, launch by launch",
        columns=(
            Column(label="configuration", numeric=False),
            Column(label="cycles"),
            Column(label="proposed"),
            Column(label="accepted"),
            Column(label="accepted behind the gate"),
            Column(label="accepted in a cycle"),
            Column(label="net saved"),
            Column(label="its own tokens/s"),
        ),
        rows=tuple(_row(reading, launch) for launch in launches),
        notes=(
            "Counts run over the whole launch, warm-up and canary included. Proposals are counted behind the "
            "confidence gate, so their share that is accepted rises with the gate and is no vLLM acceptance; "
            "net saved is the time against decoding without drafts, by the engine's own clock. They explain a verdict "
            "and never are one.",
            *_reasons(reading, launches),
        ),
    )


def account_words(reading: Reading) -> str:
    """Return how the engine explains the configuration that drafts best; "" where nothing is known."""
    for one in reading.facts.ranked:
        for launch in reading.facts.launches:
            if launch.configuration.configuration_id == one.configuration.configuration_id:
                values = session_figures(launch.speculation).values if launch.speculation else {}
                if values.get("net_saved_s") is not None:
                    return _account(reading.labels.configuration(one.configuration), values)
    return ""


def control_words(reading: Reading) -> str:
    """Return what the controls show; "" where there are none."""
    against = reading.reference_label
    said = [
        f"{reading.labels.configuration(one.configuration)} at {format_change(one.ratio)}"
        for one in reading.facts.controls
    ]
    return f"A control, which is never recommended, ran {', '.join(said)} against {against}." if said else ""


def _account(name: str, values: Mapping[str, float | None]) -> str:
    saved, cycles, ratio = (values.get(key) for key in ("net_saved_s", "draft_cycles", "gated_acceptance_ratio"))
    cost = "saved" if saved is not None and saved >= 0 else "cost"
    of_cycles = "" if cycles is None else f" over {_count(cycles)} cycles"
    accepted = "" if ratio is None else f", with {format_ratio(ratio)} accepted behind the confidence gate"
    return (
        f"By the engine's own account the drafts of {name} {cost} {format_seconds(abs(saved or 0.0))}"
        f"{of_cycles}{accepted}."
    )


def _row(reading: Reading, launch: LaunchRecord) -> Row:
    values = session_figures(launch.speculation).values if launch.speculation else {}
    return Row(
        values=(
            reading.labels.configuration(launch.configuration),
            _count(values.get("draft_cycles")),
            _count(values.get("proposed_tokens")),
            _count(values.get("accepted_tokens")),
            format_ratio(values.get("gated_acceptance_ratio")),
            format_number(values.get("accepted_per_cycle")),
            _signed_seconds(values.get("net_saved_s")),
            format_rate(values.get("engine_generation_tokens_per_s")),
        ),
        void=launch.outcome != "measured",
    )


def _reasons(reading: Reading, launches: list[LaunchRecord]) -> tuple[str, ...]:
    """Why figures are missing, each reason once."""
    found: dict[str, dict[str, None]] = {}
    for launch in launches:
        figures = session_figures(launch.speculation) if launch.speculation else None
        reason = figures.null_reasons.get("gated_acceptance_ratio") if figures else None
        if reason is not None:
            found.setdefault(reason, {})[reading.labels.configuration(launch.configuration)] = None
    return tuple(f"{', '.join(names)}: {reason}." for reason, names in found.items())


def _count(value: float | None) -> str:
    return MISSING if value is None else f"{value:.0f}"


def _signed_seconds(value: float | None) -> str:
    return MISSING if value is None else f"{'−' if value < 0 else ''}{format_seconds(abs(value))}"
