"""Intervals that were tried and not taken, on the series of benchmarks.verdicts (docs/decisions/0008).

python -m benchmarks.alternatives --comparisons 400
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from functools import partial

import numpy as np
from scipy import stats

from benchmarks.series import Draw, Rig, Tables
from benchmarks.verdicts import MARGIN_RATIO, Table, share
from harness.records.verdict import NoiseFloor
from harness.stats.effect import Basis, combined_logs, weighted_effect

GAIN_RATIO = 0.074  # what plan calls detectable with two launches an arm at 2 %
RIGS = (Rig(launch_sd=0.02), Rig(launch_sd=0.03), Rig(launch_sd=0.02, slow="unseen"))
Interval = tuple[float, float, float]  # estimate, low, high


def by_prompts(base: Tables, candidate: Tables, floor: NoiseFloor) -> Interval:
    """Over prompts alone, launches averaged: what a paired test of requests does."""
    del floor
    differences = np.concatenate(
        [two.mean(axis=0) - one.mean(axis=0) for one, two in zip(base, candidate, strict=True)]
    )
    return _interval(
        _estimate(base, candidate), float(stats.sem(differences)), float(stats.t.isf(0.025, len(differences) - 1))
    )


def known_sigma(base: Tables, candidate: Tables, floor: NoiseFloor, *, degrees: float | None) -> Interval:
    """The variance of the stored A/A alone: with z as if it were known, or with t of its degrees."""
    se = floor.sigma_ratio * math.sqrt(2 / len(base[0]))
    critical = stats.norm.isf(0.025) if degrees is None else stats.t.isf(0.025, degrees)
    return _interval(_estimate(base, candidate), se, float(critical))


def arms_alone(base: Tables, candidate: Tables, floor: NoiseFloor) -> Interval:
    """Student's test over the launches of both arms, without any A/A."""
    del floor
    one, two = (combined_logs(arm, np.ones(len(arm)), "sum") for arm in (base, candidate))
    degrees = len(one) + len(two) - 2
    variance = (((one - one.mean()) ** 2).sum() + ((two - two.mean()) ** 2).sum()) / degrees
    se = math.sqrt(float(variance) * (1 / len(one) + 1 / len(two)))
    return _interval(float(two.mean() - one.mean()), se, float(stats.t.isf(0.025, degrees)))


def pooled(base: Tables, candidate: Tables, floor: NoiseFloor) -> Interval:
    """The one that is used."""
    effect = weighted_effect(base, candidate, [1 / len(base)] * len(base), basis=Basis(floor=floor))
    return effect.log_ratio, effect.low, effect.high


METHODS: dict[str, Callable[[Tables, Tables, NoiseFloor], Interval]] = {
    "prompts alone": by_prompts,
    "z, sigma of the A/A": partial(known_sigma, degrees=None),
    "t, sigma of the A/A": partial(known_sigma, degrees=5.0),
    "t over the arms' launches": arms_alone,
    "**t, A/A and both arms pooled**": pooled,
}


def alternatives(comparisons: int) -> Table:
    """Return alarms and detections of each method on the same series."""
    table = Table(
        title=f"What was tried, {comparisons} comparisons a row",
        head=(
            "launches differ by",
            "launches an arm",
            "interval",
            "off zero",
            "better or worse",
            f"finds {GAIN_RATIO:.1%}",
        ),
        judged=False,
    )
    for rig in RIGS:
        for launches in (2, 4):
            counts = {name: [0, 0, 0] for name in METHODS}
            for seed in range(comparisons):
                draw = Draw(rig, seed=seed, name=f"alternatives/{rig.words}/{launches}")
                floor, base = draw.floor(), draw.arm(launches)
                same, gained = draw.arm(launches), draw.arm(launches, gain_ratio=GAIN_RATIO)
                for name, method in METHODS.items():
                    equal, better = method(base, same, floor), method(base, gained, floor)
                    counts[name][0] += equal[1] > 0 or equal[2] < 0
                    counts[name][1] += _moved(equal)
                    counts[name][2] += _moved(better) and better[0] > 0
            for name, found in counts.items():
                table.add([rig.words, launches, name, *(share(one, comparisons) for one in found)])
    return table


def _estimate(base: Tables, candidate: Tables) -> float:
    one, two = (combined_logs(arm, np.ones(len(arm)), "sum").mean() for arm in (base, candidate))
    return float(two - one)


def _interval(estimate: float, se: float, critical: float) -> Interval:
    return estimate, estimate - critical * se, estimate + critical * se


def _moved(interval: Interval) -> bool:
    estimate, low, high = interval
    return (low > 0 or high < 0) and abs(estimate) >= math.log1p(MARGIN_RATIO)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--comparisons", type=int, default=400)
    print(alternatives(parser.parse_args().comparisons))


if __name__ == "__main__":
    main()
