"""A judged night in sentences. Up is better: speed, tokens per step, steps per second. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from harness.records.nightly import Baseline, Night, NightVerdict
from harness.stats.baseline import KV_CACHE_TOKENS, too_few
from harness.stats.beside import BesideFigure
from harness.stats.gate import Pinned
from harness.stats.morning import WORDS, Figure
from harness.stats.new_series import NewSeries
from harness.stats.paired import SECONDS


def sentence(
    verdict: NightVerdict,
    night: Night,
    figures: Sequence[Figure],
    baseline: Baseline | None,
    *,
    other: Baseline | None = None,
    begun: NewSeries | None = None,
) -> str:
    """Return the night in one sentence.

    Args:
        verdict: on it.
        night: tonight.
        figures: the three series.
        baseline: of its series.
        other: accepted, and of another series.
        begun: where the series is new.
    """
    if verdict == "doubtful":
        main = next(one for one in figures if one.name == SECONDS)
        return f"doubtful night{_size(main, baseline)}: {_why_doubtful(night, figures)}; it is not judged"
    if verdict == "no baseline":
        return _no_baseline(baseline, other, begun)
    if verdict == "fine":
        main = next(one for one in figures if one.name == SECONDS)
        return f"nothing moved{_size(main, baseline)}"
    moved = [one for one in figures if (one.fell if verdict == "regressed" else one.rose)]
    since = min((one.since for one in moved if one.since), default=None)
    when = f" since {since}" if since else ""
    return f"{verdict}{when}: {'; '.join(_moved(one, night, baseline) for one in moved)}"


def notes(
    night: Night, baseline: Baseline | None, beside: Iterable[BesideFigure], begun: NewSeries | None, slow_nights: int
) -> tuple[str, ...]:
    """Return what else a reader should know.

    Args:
        night: tonight.
        baseline: of any series.
        beside: what stands beside the headline.
        begun: where the series is new.
        slow_nights: how many nights in a row, with this one, had slow boots only and count for that.
    """
    found = []
    if baseline is not None and night.is_complete and baseline.key != night.key:
        found.append(f"{baseline.name} is of another rig, engine or workload: a new series begins")
    if begun is not None:
        found.append(_begun(begun))
    if baseline is not None and baseline.key == night.key and (few := too_few(baseline)):
        found.append(few)
    if slow_nights:
        found.append(f"every boot of the last {slow_nights} nights was slow by its canary: slow is what the rig is now")
    if night.left_out:
        kinds = ", ".join(_plain(kind) for kind in night.left_out)
        found.append(f"figures are of the launches that were fit; another one was left out ({kinds})")
    if night.failed_launches:
        found.append("1 launch failed" if night.failed_launches == 1 else f"{night.failed_launches} launches failed")
    found += [
        f"KV cache tokens changed by {one.ratio - 1:+.1%} against {_whose(one)}"
        for one in beside
        if one.name == KV_CACHE_TOKENS and one.moved and one.ratio is not None
    ]
    return tuple(found)


def percent(log_ratio: float) -> str:
    """Return a logarithm of a ratio as a change with sign."""
    rounded = round(math.expm1(log_ratio) * 100, 1)
    return f"{rounded + 0.0:+.1f} %"  # no minus before a zero


def _size(one: Figure, baseline: Baseline | None) -> str:
    if one.log_ratio is None or baseline is None:
        return ""
    return f" ({WORDS[one.name]} {percent(one.log_ratio)} against {baseline.name})"


def _no_baseline(baseline: Baseline | None, other: Baseline | None, begun: NewSeries | None) -> str:
    if baseline is not None:
        return f"measured; {too_few(baseline) or 'the history is too short'}"
    if other is None:
        return "measured; no baseline is accepted yet"
    what = f"measured as a new series, which {other.name} does not judge"
    if begun is None:
        return what
    changed = "; ".join(begun.differences[:_MOST_DIFFERENCES])
    sizes = ", ".join(f"{WORDS[name]} {percent(size)}" for name, size in begun.log_ratios.items())
    work = "" if begun.same_work else ", of other prompts or cells"
    return f"{what}: {changed or 'what it is has changed'} ({sizes} against the nights before{work})"


def _why_doubtful(night: Night, figures: Sequence[Figure]) -> str:
    if night.doubts:
        return ", ".join(_plain(kind) for kind in night.doubts)
    missing = [WORDS[one.name] for one in figures if one.value is None]
    if missing:
        why = f" ({', '.join(_plain(kind) for kind in night.void)})" if night.void else ""
        return f"{' and '.join(missing)} could not be measured{why}"
    fell = [one for one in figures if one.tripped]
    names = " and ".join(WORDS[one.name] for one in fell)
    if all(len(night.figures[one.name]) < 2 for one in fell):
        return f"one launch fell out of the baseline ({names}), and no second one says the same"
    return f"its launches disagree about {names}"


def _moved(one: Figure, night: Night, baseline: Baseline | None) -> str:
    name, change = WORDS[one.name], one.change
    if change is not None and (change.log_ratio < 0 or not one.regressed):
        interval = f"({percent(change.low)} … {percent(change.high)})"
        drift = f", drifting by {percent(change.per_night)} a night" if change.shape == "drift" else ""
        return f"{name} {percent(change.log_ratio)} {interval}{drift}"
    against = f" against {baseline.name}" if baseline else ""
    size = "" if one.log_ratio is None else f" {percent(one.log_ratio)}{against}"
    launches = len(night.figures.get(one.name, ()))
    who = _WHO.get(launches, f"all {launches} launches of this night")
    where = "below what the baseline allows" if one.regressed else "above what the baseline explains"
    return f"{name}{size}, {who} {where} ({_limit(one.baseline, one.regressed)})"


_MOST_DIFFERENCES = 3
_WHO = {1: "this night and the one before it", 2: "both launches of this night"}


def _limit(baseline: Pinned | None, below: bool) -> str:
    limit = 0.0 if baseline is None else baseline.limit_log
    return percent(-limit if below else limit)


def _begun(begun: NewSeries) -> str:
    sizes = ", ".join(f"{WORDS[name]} {percent(size)}" for name, size in begun.log_ratios.items())
    nights = "1 night" if begun.nights == 1 else f"{begun.nights} nights"
    caveat = "" if begun.same_work else " (of other prompts or cells: not the same work)"
    changed = f"; what changed: {'; '.join(begun.differences)}" if begun.differences else ""
    return f"against the {nights} before this series, up to {begun.last_at[:10]}: {sizes}{caveat}{changed}"


def _whose(one: BesideFigure) -> str:
    return "the baseline" if one.against == "baseline" else "the nights before"


def _plain(kind: str) -> str:
    return kind.replace("_", " ")
