"""Bounds of a sweep against what was measured: a candidate that breaks one is never better. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import fmean
from typing import Literal

from harness.records.cell import LoadPoint
from harness.records.request import RequestRecord
from harness.records.verdict import AskedLimit, BrokenLimit
from harness.stats.paired import Measured, request_seconds
from harness.stats.summary import decode_s, decode_tokens, quantile
from harness.units import format_number

_PERCENT = 100
_QUANTILES = {"median": 0.5, "min": 0.0, "max": 1.0}


def broken_limits(
    limits: Sequence[AskedLimit],
    loads: Sequence[LoadPoint],
    base: Callable[[LoadPoint], Sequence[Measured]],
    candidate: Callable[[LoadPoint], Sequence[Measured]],
) -> tuple[BrokenLimit, ...]:
    """Return every bound that an arm does not keep, load by load.

    Args:
        limits: of the sweep.
        loads: to look at.
        base: the trials of a load.
        candidate: the same of the other arm.
    """
    found = []
    arms: tuple[tuple[Literal["base", "candidate"], Callable[[LoadPoint], Sequence[Measured]]], ...] = (
        ("base", base),
        ("candidate", candidate),
    )
    for limit in limits:
        for name, rows in arms:
            for load in loads:
                value = statistic_of(limit, rows(load))
                bound = None if value is None else _bound(limit, value)
                if value is not None and bound is not None:
                    found.append(BrokenLimit(limit=limit.name, bound=bound, value=value, load=load, arm=name))
    return tuple(found)


def statistic_of(limit: AskedLimit, rows: Sequence[Measured]) -> float | None:
    """Return the statistic over requests, or over trials where only a trial has the figure; None: not measured."""
    values = _request_values(limit.metric, rows)
    if not values:
        trials = [one.metrics.values.get(limit.metric) for one in rows]
        values = [value for value in trials if value is not None]
    if not values:
        return None
    if limit.statistic == "mean":
        return fmean(values)
    share = _QUANTILES.get(limit.statistic)
    return quantile(sorted(values), float(limit.statistic[1:]) / _PERCENT if share is None else share)


def _bound(limit: AskedLimit, value: float) -> str | None:
    if limit.at_most is not None and value > limit.at_most:
        return f"at most {format_number(limit.at_most)}"
    if limit.at_least is not None and value < limit.at_least:
        return f"at least {format_number(limit.at_least)}"
    return None


def _request_values(metric: str, rows: Sequence[Measured]) -> list[float]:
    read = _BY_REQUEST.get(metric)
    if read is None:
        return []
    requests = [request for one in rows for request in one.trial.requests if request.finished and request.batches]
    return [value for request in requests if (value := read(request)) is not None]


def _rate(request: RequestRecord) -> float | None:
    tokens, seconds = decode_tokens(request), decode_s(request)
    return tokens / seconds if tokens and seconds > 0 else None


def _tpot_s(request: RequestRecord) -> float | None:
    rate = _rate(request)
    return 1 / rate if rate else None


def _request_s(request: RequestRecord) -> float | None:
    return None if request.sent_s is None else request.batches[-1].at_s - request.sent_s


_BY_REQUEST: dict[str, Callable[[RequestRecord], float | None]] = {
    "ttft_s": lambda request: request_seconds(request, 1),
    "decode_tokens_per_s": _rate,
    "tpot_s": _tpot_s,
    "request_s": _request_s,
}
