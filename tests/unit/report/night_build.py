"""Mornings of made-up nights: quiet ones, one with a step of 6 %, doubtful ones, and what stands beside them."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from functools import cache

import numpy as np

from harness.records.nightly import Baseline, Load, Night
from harness.stats.baseline import baseline_of
from harness.stats.morning import Morning
from harness.stats.nights import judge_night

FIRST_NIGHT = datetime(2026, 10, 23, 2, 0, tzinfo=UTC)
SECONDS_OF_A_REQUEST, TOKENS_PER_STEP, STEP_S = 2.31, 3.4, 0.0412
SWEEP = "laptop-nightly"
STEP = math.log(0.94)
LOAD: Load = {"class": "code", "cache": "cold", "context_tokens": 1024, "concurrency": 4}


def night(
    number: int,
    *,
    moved: float = 0.0,
    launches: int = 1,
    doubts: tuple[str, ...] = (),
    simulated: bool = False,
    facts: dict[str, str] | None = None,
) -> Night:
    """Return a night. ``moved`` is the logarithm by which a step is slower, and with it the user's seconds."""
    rng = np.random.default_rng([number, 11])
    noise = 0.008 * rng.standard_normal((launches, 3))
    step_s = STEP_S * math.exp(-moved - float(noise[0, 2]))
    return Night(
        run_id=f"2026{number:04}-nightly",
        sweep=SWEEP,
        at=(FIRST_NIGHT + timedelta(days=number)).isoformat(timespec="seconds"),
        key="k",
        figures={
            "seconds": tuple(float(one) + moved - math.log(SECONDS_OF_A_REQUEST) for one in noise[:, 0]),
            "delivered_per_step": tuple(0.4 * float(one) + math.log(TOKENS_PER_STEP) for one in noise[:, 1]),
            "step_s": tuple(float(one) + moved - math.log(STEP_S) for one in noise[:, 2]),
        },
        cells={"load-1": {"ttft_s": 0.31 * math.exp(0.4 * float(noise[0, 1])), "step_s": step_s}},
        loads={"load-1": LOAD},
        boot_s=25.0 + float(noise[0, 0]) * 20,
        kv_cache_tokens=262_144,
        doubts=doubts,
        canary_step_s=0.02 * math.exp(float(noise[0, 0])),
        facts=facts or {"spark-1 driver": "580.95" if number < 33 else "590.12", "harness": "0.1.0"},
        simulated=simulated,
    )


def history(count: int, *, step_at: int | None = None, simulated: bool = False) -> list[Night]:
    """Return earlier nights: every eleventh is doubtful, the night after a step was launched twice."""
    return [
        night(
            number,
            moved=STEP if step_at is not None and number >= step_at else 0.0,
            launches=2 if number == step_at else 1,
            doubts=("canary_moved",) if number % 11 == 8 else (),
            simulated=simulated,
        )
        for number in range(count)
    ]


def accepted(nights: list[Night], **changes: str) -> Baseline:
    """Return the baseline of the first fourteen nights."""
    said = {"name": "shipped", "author": "operator", "reason": "as shipped"} | changes
    return baseline_of(nights[:14], accepted_at="2026-11-06T09:00:00+00:00", **said)


@cache
def fine(*, simulated: bool = False) -> Morning:
    """A quiet night after 40 others."""
    before = history(40, simulated=simulated)
    return judge_night(night(40, simulated=simulated), before, accepted(before))


@cache
def regressed(*, simulated: bool = False) -> Morning:
    """Steps are slower by 6 % since the 34th night."""
    before = history(39, step_at=33, simulated=simulated)
    tonight = night(39, moved=STEP, launches=2, simulated=simulated)
    return judge_night(tonight, before, accepted(before))


@cache
def doubtful() -> Morning:
    """The rig was not itself."""
    before = history(40)
    return judge_night(night(40, doubts=("canary_moved",)), before, accepted(before))


@cache
def unaccepted() -> Morning:
    """Nobody has accepted anything, and nothing moved."""
    return judge_night(night(12), history(12), None)
