"""A sweep file, with what the command line sets -> Sweep. Errors say file, line and column."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from harness.errors import InputError
from harness.recipe.find import find_recipe
from harness.recipe.load import LoadedRecipe, load_recipe
from harness.records.metrics import METRICS
from harness.sweep.overrides import apply_overrides
from harness.sweep.schema import SweepFile
from harness.yaml_model import did_you_mean, validated
from harness.yaml_source import KeyPath, Source, raise_all, read_source

SECONDS = "seconds"
STATISTICS = ("mean", "median", "min", "max", "p50", "p90", "p95", "p99")
_USED_BY = {
    "compare": "ab",
    "objective": "ab, tune and nightly",
    "limits": "ab, tune and nightly",
    "tune": "tune",
    "nightly": "nightly",
}
_USED_INSIDE = {
    ("repeat", "max_launches"): "ab",
    ("repeat", "stop"): "ab",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class LaterKey:
    """A key that is checked now and used by other commands than plan and sweep."""

    key: str
    used_by: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """A sweep as loaded: what the file says, and where it says so."""

    file: SweepFile
    source: Source
    set_knobs: frozenset[str] = frozenset()  # knobs of --set, as written: they win over the file's

    @property
    def name(self) -> str:
        """What the sweep calls itself."""
        return self.file.sweep

    @property
    def sha256(self) -> str:
        """Of the file as it lies on the disk, without --set."""
        return self.source.sha256

    @property
    def replays_trace(self) -> bool:
        """Its load comes from a trace, not from load knobs."""
        return self.file.workload is not None

    @property
    def later_keys(self) -> tuple[LaterKey, ...]:
        """Keys of this file that plan and sweep only check, with the commands that use them."""
        data = self.source.data
        plain = [LaterKey(key=key, used_by=by) for key, by in _USED_BY.items() if key in data]
        inside = [
            LaterKey(key=f"{head}.{key}", used_by=by)
            for (head, key), by in _USED_INSIDE.items()
            if key in (data.get(head) or {})
        ]
        return tuple(plain + inside)


def load_sweep(path: Path, *, set_overrides: Sequence[str] = ()) -> Sweep:
    """Return the sweep in a file, with each KEY=VALUE of --set applied.

    Raises:
        InputError: the file cannot be read, or something in it or in --set is wrong. Knobs are checked
            later, against the recipe (cells.expand).
    """
    return sweep_from(read_source(path), set_overrides=set_overrides)


def sweep_from(source: Source, *, set_overrides: Sequence[str] = ()) -> Sweep:
    """Return the sweep in a source. Raises InputError."""
    overridden = apply_overrides(source, set_overrides)
    file = validated(SweepFile, overridden.source)
    raise_all(list(_problems(file, overridden.source)))
    return Sweep(file=file, source=overridden.source, set_knobs=overridden.knobs)


def with_source(sweep: Sweep, source: Source) -> Sweep:
    """Return the sweep with another source, checked again. Raises InputError."""
    file = validated(SweepFile, source)
    raise_all(list(_problems(file, source)))
    return replace(sweep, file=file, source=source)


def load_recipe_of(sweep: Sweep, *, start: Path | None = None) -> LoadedRecipe:
    """Return the recipe that a sweep names. Raises InputError at the sweep's line if there is none."""
    return load_recipe(find_recipe(sweep.file.recipe, where=sweep.source.where(("recipe",), value=True), start=start))


def _problems(file: SweepFile, source: Source) -> Iterator[InputError]:
    yield from _metric_problems(file, source)
    yield from _limit_problems(file, source)
    yield from _mix_problems(file.mix, source)
    yield from _name_problems(file, source)
    if file.repeat.max_launches is not None and file.repeat.max_launches < file.repeat.launches:
        path = ("repeat", "max_launches")
        yield source.error(path, f"max_launches is below launches, {file.repeat.launches}")
    for index, line in enumerate(file.exclude):
        if not line:
            yield source.error(("exclude", index), "an empty line would exclude everything")
    yield from _trace_problems(file, source)


def _metric_problems(file: SweepFile, source: Source) -> Iterator[InputError]:
    if file.objective != SECONDS and file.objective not in METRICS:
        hint = did_you_mean(file.objective, {SECONDS, *METRICS})
        yield source.error(("objective",), f'unknown objective "{file.objective}"', hint=hint)


def _limit_problems(file: SweepFile, source: Source) -> Iterator[InputError]:
    for name, limit in file.limits.items():
        metric, dot, statistic = name.partition(".")
        path = ("limits", name)
        if metric not in METRICS:
            yield source.error(path, f'unknown metric "{metric}"', hint=did_you_mean(metric, METRICS), value=False)
        elif dot and statistic not in STATISTICS:
            hint = did_you_mean(statistic, STATISTICS)
            yield source.error(path, f'unknown statistic "{statistic}"', hint=hint, value=False)
        if limit.at_most is None and limit.at_least is None:
            yield source.error(path, f"{name} has no bound", hint="Write at_most or at_least.")


def _mix_problems(mix: dict[str, Any] | None, source: Source) -> Iterator[InputError]:
    for knob, weights in (mix or {}).items():
        path: KeyPath = ("mix", knob)
        if knob == "by":
            if weights not in ("requests", "tokens"):
                yield source.error(path, "mix.by: expected requests or tokens")
            elif len(mix or {}) > 1:
                yield source.error(path, "mix.by takes all weights from the trace", value=False)
        elif not isinstance(weights, dict) or not weights:
            yield source.error(
                path, f"mix.{knob}: expected a weight for each value", hint="For example {code: 5, prose: 1}."
            )
        else:
            yield from _weight_problems(path, weights, source)


def _weight_problems(path: KeyPath, weights: dict[str, Any], source: Source) -> Iterator[InputError]:
    for value, weight in weights.items():
        if isinstance(weight, bool) or not isinstance(weight, int | float) or weight < 0:
            yield source.error((*path, value), f"the weight of {value} is no number from 0 up")
    if not any(weights.values()):
        yield source.error(path, "every weight is 0")


def _name_problems(file: SweepFile, source: Source) -> Iterator[InputError]:
    """A name that is used must be given, except `today`, which every operator has."""
    used: list[tuple[KeyPath, Any]] = [(("incumbent",), file.incumbent)]
    if file.compare is not None:
        used += [(("compare", "base"), file.compare.base), (("compare", "candidate"), file.compare.candidate)]
    if file.nightly is not None:
        used += [(("nightly", "configurations", at), name) for at, name in enumerate(file.nightly.configurations)]
    known = {"today", *file.configurations}
    for path, name in used:
        if isinstance(name, str) and name not in known:
            yield source.error(path, f'no configuration "{name}"', hint=did_you_mean(name, known))


def _trace_problems(file: SweepFile, source: Source) -> Iterator[InputError]:
    trace = file.workload
    if trace is None:
        if file.mix is not None and "by" in file.mix:
            yield source.error(("mix", "by"), "mix.by needs a trace", hint="Name one in `workload`.", value=False)
        return
    for knob in ("class", "context_tokens"):
        if knob in file.knobs:
            yield source.error(("knobs", knob), f"`{knob}` has no meaning beside a trace", value=False)
    yield from _trace_cache_problems(file, source)
    if trace.arrivals in ("constant", "poisson") and trace.rate_per_s is None:
        yield source.error(("workload", "arrivals"), f"{trace.arrivals} arrivals need rate_per_s")


def _trace_cache_problems(file: SweepFile, source: Source) -> Iterator[InputError]:
    written = file.knobs.get("cache", [])
    modes = written if isinstance(written, list) else [written]
    made = [mode for mode in modes if mode in ("warm", "shared")]
    if made:
        what = f"cache {made[0]} has no meaning beside a trace"
        hint = "as_recorded: conversations find their own prefixes. cold: nothing is reused."
        yield source.error(("knobs", "cache"), what, hint=hint)
