"""What a search says of itself, as notes that its report repeats beside the result."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence

from harness.records.plan import Plan
from harness.records.tune import CUT_SHORT, KNOWN_BEFORE, LIMIT_BROKEN, NOT_LAUNCHED, SEARCH_ENDED, PlannedTune
from harness.report.labels import counted, labels_of
from harness.report.tuned_plan import search_lines
from harness.search.model import Belief
from harness.units import format_change, format_ratio, format_seconds

_MOST_NAMED = 3  # configurations that were not launched


def known_words(ages_s: Sequence[float], study: str) -> list[str]:
    """Return how many launches earlier searches made, and how long ago."""
    if not ages_s:
        return []
    youngest, oldest = format_seconds(min(ages_s)), format_seconds(max(ages_s))
    old = youngest if youngest == oldest else f"between {youngest} and {oldest}"
    launches = counted(len(ages_s), "launch", "launches")
    return [f"{KNOWN_BEFORE}: {launches} of the study {study}, {old} old; not made again"]


def time_words(plan: Plan, tune: PlannedTune) -> list[str]:
    """Return what of the budget is kept to confirm."""
    return [f"{line[0].lower()}{line[1:].removesuffix('.')}" for line in search_lines(plan, tune)]


def ended_words(because: str | None, *, cut_because: str | None, shares: Mapping[str, float]) -> list[str]:
    """Return why the search ended, and what moved the objective."""
    why = f"{CUT_SHORT}: {cut_because}" if cut_because else f"{SEARCH_ENDED}: {because}"
    knobs = ", ".join(f"{name} {share * 100:.0f} %" for name, share in shares.items())
    return [why, *([f"what moved the objective, as far as so few launches can tell: {knobs}"] if knobs else [])]


def unlaunched_words(plan: Plan, known: Mapping[str, Belief], launched: Collection[str]) -> list[str]:
    """Return what is believed of those that were not launched, the most promising first."""
    left = [one for one in plan.configurations if one.configuration_id not in launched]
    if not left:
        return []
    left.sort(key=lambda one: -known[one.configuration_id].mean)
    labels = labels_of(plan.configurations, ())
    named = [
        f"{one.name or labels.configuration(one)} at {format_change(math.exp(belief.mean))}, give or take "
        f"{format_ratio(belief.sd)}"
        for one in left[:_MOST_NAMED]
        for belief in (known[one.configuration_id],)
    ]
    more = len(left) - len(named)
    rest = f"; {counted(more, 'other promises', 'others promise')} less" if more else ""
    return [f"{NOT_LAUNCHED}, and expected {'; '.join(named)}{rest}"]


def limit_words(
    plan: Plan, known: Mapping[str, Belief], broken: Mapping[str, Mapping[str, float]], *, reference_id: str
) -> list[str]:
    """Return which would have been finalists, and which limits they break."""
    labels = {one.configuration_id: one.label for one in plan.configurations}
    return [
        f"{LIMIT_BROKEN}: {labels[name]} promises {format_change(math.exp(known[name].mean))}, but breaks "
        + " and ".join(f"the limit {limit} by {format_ratio(excess)}" for limit, excess in over.items())
        for name, over in broken.items()
        if known[name].mean > 0 and name != reference_id
    ]
