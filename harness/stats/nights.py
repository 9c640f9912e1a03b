"""What a night, the accepted baseline and the history say in the morning. Pure.

Three series are judged: the user's seconds, tokens per step, step time. Each has a gate (``stats.gate``: did this night
fall out of the baseline?) and change points (``stats.changepoint``: did it already move in the nights before?).
Everything else that was measured stands beside them and never judges.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from harness.records.nightly import Baseline, Night, NightVerdict
from harness.stats import gate
from harness.stats.attribution import Sides, cause
from harness.stats.baseline import CANARY_STEP_S, too_few
from harness.stats.beside import beside
from harness.stats.changepoint import LEAST_NIGHTS, WINDOW_NIGHTS, likely_change
from harness.stats.counting import counted, is_slow
from harness.stats.gate import pinned
from harness.stats.live_settings import with_setting_doubts
from harness.stats.morning import WORDS, Figure, Morning
from harness.stats.morning_words import notes, sentence
from harness.stats.new_series import new_series
from harness.stats.night import HEADLINE
from harness.stats.series import Series, across, marks, points, series_of

_RECENT_NIGHTS = 3  # a suspicion about older ones is settled by other nights


def judge_night(night: Night, history: Sequence[Night], baseline: Baseline | None) -> Morning:
    """Return what to say of a night.

    Args:
        night: tonight.
        history: earlier nights of the sweep, oldest first.
        baseline: accepted for this sweep; one of another key is another series, and does not judge.
    """
    night = with_setting_doubts(night, history, baseline)
    judged = _Judged.of(night, history, baseline)
    verdict = judged.verdict
    moved = judged.moved(verdict)
    begun = new_series(night, history) if judged.counts else None
    stands_beside = beside(night, judged.earlier, judged.accepted)
    return Morning(
        verdict=verdict,
        night=night,
        figures=judged.figures,
        sentence=sentence(
            verdict,
            night,
            judged.figures,
            judged.accepted,
            other=baseline if judged.accepted is None else None,
            begun=begun,
        ),
        cause=judged.cause(moved) if moved is not None else "",
        differences=judged.differences(moved),
        history=len(judged.earlier),
        notes=notes(night, baseline, stands_beside, begun, judged.slow_nights),
        nights=judged.all_nights[:-1],
        beside=stands_beside,
        series={name: points(name, judged.all_nights, judged.counting) for name in HEADLINE},
        changes=tuple(sorted((each for one in judged.figures for each in one.changes), key=lambda each: each.at)),
        new_series=begun,
    )


def wants_second_launch(night: Night, history: Sequence[Night], baseline: Baseline | None) -> str | None:
    """Return why a second launch in the same night would tell more; None where one is enough."""
    night = with_setting_doubts(night, history, baseline)
    if not night.is_valid:
        why = ", ".join(kind.replace("_", " ") for kind in night.doubts) or "not everything was measured"
        return f"the night is doubtful ({why})"
    judged = _Judged.of(night, history, baseline)
    out = [(WORDS[one.name], "below") for one in judged.figures if one.tripped]
    out += [(WORDS[one.name], "above") for one in judged.figures if one.risen]
    if out:
        return f"{' and '.join(f'{name} is {where}' for name, where in out)} what the baseline allows"
    suspicious = [WORDS[one.figure] for one in judged.series if _is_suspicious(one)]
    return f"{' and '.join(suspicious)} may have changed lately" if suspicious else None


def _is_suspicious(series: Series) -> bool:
    start = series.searched_from
    change = likely_change(series.values(start), series.launches(start))
    if change is None or not change.is_suspicious:
        return False
    return start + change.index >= len(series.nights) - 1 - _RECENT_NIGHTS


@dataclass(frozen=True, slots=True, kw_only=True)
class _Judged:
    """A night among those of its key."""

    night: Night
    all_nights: tuple[Night, ...]  # of its key, with it
    counting: tuple[Night, ...]  # those of them that count
    accepted: Baseline | None  # of its key
    series: tuple[Series, ...]
    figures: tuple[Figure, ...]

    @classmethod
    def of(cls, night: Night, history: Sequence[Night], baseline: Baseline | None) -> _Judged:
        nights = (*(one for one in history if one.key == night.key), night)
        counting = tuple(counted(nights))
        accepted = baseline if baseline is not None and baseline.key == night.key else None
        series = tuple(series_of(name, counting, accepted) for name in HEADLINE)
        before = next((one for one in reversed(counting) if one is not night), None)
        figures = tuple(_figure(one, night, before, accepted) for one in series)
        return cls(night=night, all_nights=nights, counting=counting, accepted=accepted, series=series, figures=figures)

    @property
    def counts(self) -> bool:
        return bool(self.counting) and self.counting[-1] is self.night

    @property
    def earlier(self) -> tuple[Night, ...]:
        return self.counting[:-1] if self.counts else self.counting

    @property
    def slow_nights(self) -> int:
        """In a row up to tonight, where they count."""
        if not self.counts:
            return 0
        fit = next((at for at, one in enumerate(reversed(self.all_nights)) if not is_slow(one)), len(self.all_nights))
        return fit

    @property
    def verdict(self) -> NightVerdict:
        if not self.counts:
            return "doubtful"
        if any(one.fell for one in self.figures):
            return "regressed"
        if any(one.tripped for one in self.figures):
            return "doubtful"  # one launch says so, and no other agrees
        if any(one.rose for one in self.figures):
            return "improved"
        if self.accepted is None:
            return "no baseline"
        return "no baseline" if too_few(self.accepted) and len(self.counting) < LEAST_NIGHTS else "fine"

    def moved(self, verdict: NightVerdict) -> tuple[Figure, Series] | None:
        """The first series that moved as the verdict says."""
        if verdict not in ("regressed", "improved"):
            return None
        pairs = zip(self.figures, self.series, strict=True)
        return next((one, of) for one, of in pairs if (one.fell if verdict == "regressed" else one.rose))

    def cause(self, moved: tuple[Figure, Series]) -> str:
        sides = {name: self._sides(name, moved) for name in ("delivered_per_step", "step_s")}
        return cause(sides["delivered_per_step"], sides["step_s"], self._canary(moved), slow_rig=is_slow(self.night))

    def differences(self, moved: tuple[Figure, Series] | None) -> tuple[str, ...]:
        """Of the facts: across the change, else since the night before."""
        if moved is not None and moved[0].change is not None:
            return across(moved[1].nights, moved[0].change.index)
        return across(self.all_nights, len(self.all_nights) - 1)

    def _sides(self, name: str, moved: tuple[Figure, Series]) -> Sides:
        split = self._split(moved)
        if split is None:
            assert self.accepted is not None  # the gate judged
            return Sides(before=self.accepted.values.get(name, ()), after=self.night.figures.get(name, ()))
        series = next(one for one in self.series if one.figure == name)
        start = max(0, split - WINDOW_NIGHTS)
        return Sides(
            before=series.values(start, split),
            after=series.values(split),
            before_launches=series.launches(start, split),
            after_launches=series.launches(split),
        )

    def _canary(self, moved: tuple[Figure, Series]) -> Sides:
        split = self._split(moved)
        if split is None:
            assert self.accepted is not None
            before = self.accepted.launch.get(CANARY_STEP_S, ())
            after: tuple[float, ...] = () if self.night.canary_step_s is None else (self.night.canary_step_s,)
        else:
            read = [one.canary_step_s for one in moved[1].nights]
            before = tuple(one for one in read[max(0, split - WINDOW_NIGHTS) : split] if one is not None)
            after = tuple(one for one in read[split:] if one is not None)
        return Sides(before=_speeds(before), after=_speeds(after))

    def _split(self, moved: tuple[Figure, Series]) -> int | None:
        """The first night after the change; None where the gate alone says that something moved."""
        figure = moved[0]
        if figure.change is None or (figure.change.log_ratio < 0) is not figure.fell:
            return None
        return figure.change.index


def _figure(series: Series, night: Night, before: Night | None, baseline: Baseline | None) -> Figure:
    name, change = series.figure, series.standing
    held = pinned(baseline.values.get(name, ()), name) if baseline else None
    launches = night.figures.get(name, ())
    earlier = before.figures.get(name, ()) if before is not None else ()
    return Figure(
        name=name,
        value=night.value(name),
        baseline=held,
        tripped=held is not None and any(gate.trips(one, held) for one in launches),
        risen=held is not None and any(gate.exceeds(one, held) for one in launches),
        regressed=held is not None and gate.regressed(launches, held, earlier),
        improved=held is not None and gate.improved(launches, held, earlier),
        change=change,
        since=series.nights[change.index].at[:10] if change else None,
        changes=marks(series),
    )


def _speeds(step_s: Sequence[float]) -> tuple[float, ...]:
    return tuple(-math.log(one) for one in step_s if one > 0)
