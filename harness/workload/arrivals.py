"""When the requests of recorded conversations are due. Pure, and the same in every arm for a seed."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from harness.records.cell import Arrivals

Times = Sequence[float | None]  # of the turns of one conversation, in seconds of any origin; None: not recorded
Due = list[float | None]  # since the window begins; None: once the turn before has ended


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrivalPlan:
    """How a trace is replayed in time."""

    arrivals: Arrivals = "closed"
    rate_per_s: float | None = None  # conversations that begin, for constant and Poisson arrivals
    speed: float = 1.0  # recorded gaps are divided by it
    idle_s: float | None = None  # longer pauses are cut to this, in recorded time
    seed: int = 1


def due_times(conversations: Sequence[Times], plan: ArrivalPlan) -> list[Due]:
    """Return when each turn of each conversation is due.

    Closed: never; a stream sends its next request when the former has ended. Recorded: as they came, with pauses of the
    whole traffic cut where it slept for longer than ``idle_s``. Constant and Poisson: conversations begin at the rate,
    and their turns follow at their recorded distance, where that is known.

    A turn is sent when it is due and the turn before it has ended, whichever comes last.
    """
    if plan.arrivals == "closed":
        return [[None] * len(times) for times in conversations]
    if plan.arrivals == "recorded":
        return _recorded(conversations, plan)
    assert plan.rate_per_s is not None  # sweep.load asks for it
    starts = [start_s / plan.rate_per_s for start_s in _starts(len(conversations), plan)]
    return [_following(times, start_s, plan) for times, start_s in zip(conversations, starts, strict=True)]


def _recorded(conversations: Sequence[Times], plan: ArrivalPlan) -> list[Due]:
    known = sorted({at_s for times in conversations for at_s in times if at_s is not None})
    moved: dict[float, float] = {}
    now_s, former_s = 0.0, known[0] if known else 0.0
    for at_s in known:
        gap_s = at_s - former_s
        now_s += (gap_s if plan.idle_s is None else min(gap_s, plan.idle_s)) / plan.speed
        moved[at_s], former_s = now_s, at_s
    return [[None if at_s is None else moved[at_s] for at_s in times] for times in conversations]


def _starts(count: int, plan: ArrivalPlan) -> list[float]:
    """Beginnings at one a second on average; the first at once."""
    starts, now = [], 0.0
    for index in range(count):
        starts.append(now)
        now += 1.0 if plan.arrivals == "constant" else -math.log(1.0 - _uniform(plan.seed, index))
    return starts


def _following(times: Times, start_s: float, plan: ArrivalPlan) -> Due:
    due: Due = [start_s]
    for former_s, at_s in pairwise(times):
        before = due[-1]
        if former_s is None or at_s is None or before is None:
            due.append(None)
            continue
        gap_s = max(0.0, at_s - former_s)
        due.append(before + (gap_s if plan.idle_s is None else min(gap_s, plan.idle_s)) / plan.speed)
    return due[: len(times)]


def _uniform(seed: int, index: int) -> float:
    """A number from 0 up to 1, the same on every machine."""
    digest = hashlib.sha256(f"{seed}\x1farrival\x1f{index}".encode()).digest()
    return int.from_bytes(digest[:6], "big") / 2**48
