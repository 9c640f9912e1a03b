"""Figures of what an engine says of a launch's drafts (records.speculation). They explain; they never judge. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from statistics import median

from harness.records.counters import NO_SPECULATION
from harness.records.speculation import BYPASSED, SpeculationStats


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionFigures:
    """Every figure, None where it cannot be known; then ``null_reasons`` says why."""

    values: dict[str, float | None]
    null_reasons: dict[str, str] = field(default_factory=dict)


_Figure = float | str  # a number, or why there is none


def session_figures(stats: SpeculationStats) -> SessionFigures:
    """Return the figures of one launch.

    ``gated_acceptance_ratio`` is accepted / proposed behind the confidence gate. It is another figure than
    acceptance_ratio, which counts every drafted token: a stricter gate raises it while the engine gets slower.
    """
    figures = {name: formula(stats) for name, formula in _FORMULAS.items()}
    return SessionFigures(
        values={name: None if isinstance(figure, str) else figure for name, figure in figures.items()},
        null_reasons={name: figure for name, figure in figures.items() if isinstance(figure, str)},
    )


def _count(name: str) -> Callable[[SpeculationStats], _Figure]:
    def figure(stats: SpeculationStats) -> _Figure:
        absent = _absent(stats)
        return stats.counts.get(name, f"this build prints no {name}") if absent is None else absent

    return figure


def _gated_acceptance_ratio(stats: SpeculationStats) -> _Figure:
    if (absent := _absent(stats)) is not None:
        return absent
    if stats.bypassed:
        return BYPASSED
    accepted, proposed = stats.counts.get("accepted_draft"), stats.counts.get("proposed")
    if accepted is None or proposed is None:
        return stats.ratios.get("accept_rate", "this build prints neither proposed and accepted_draft nor accept_rate")
    return accepted / proposed if proposed else "nothing was proposed behind the confidence gate"


def _accepted_per_cycle(stats: SpeculationStats) -> _Figure:
    if (absent := _absent(stats)) is not None:
        return absent
    if stats.bypassed:
        return BYPASSED
    accepted, cycles = stats.counts.get("accepted_draft"), stats.counts.get("cycles")
    if accepted is None or not cycles:
        return stats.ratios.get("avg_accept", "this build prints neither cycles and accepted_draft nor avg_accept")
    return accepted / cycles


def _net_saved_s(stats: SpeculationStats) -> _Figure:
    if (absent := _absent(stats)) is not None:
        return absent
    if stats.bypassed:
        return BYPASSED
    return stats.times_s.get("net_saved", "this build prints no net_saved")


def _rate(name: str) -> Callable[[SpeculationStats], _Figure]:
    def figure(stats: SpeculationStats) -> _Figure:
        rates: tuple[float, ...] = getattr(stats, name)
        return median(rates) if rates else "the log has no line with this rate"

    return figure


def _absent(stats: SpeculationStats) -> str | None:
    return stats.absent_because if stats.asked else NO_SPECULATION


_FORMULAS: dict[str, Callable[[SpeculationStats], _Figure]] = {
    "draft_cycles": _count("cycles"),
    "proposed_tokens": _count("proposed"),
    "accepted_tokens": _count("accepted_draft"),
    "gated_acceptance_ratio": _gated_acceptance_ratio,
    "accepted_per_cycle": _accepted_per_cycle,
    "net_saved_s": _net_saved_s,
    "engine_generation_tokens_per_s": _rate("generation_tokens_per_s"),
    "engine_prefill_tokens_per_s": _rate("prefill_tokens_per_s"),
}
