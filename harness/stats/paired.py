"""Trials as tables of logarithms: a row per launch, a column per prompt that every launch answered. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from harness.records.cell import LoadPoint
from harness.records.metrics import METRICS
from harness.records.request import RequestRecord
from harness.records.summary import TrialMetrics
from harness.records.trial import TrialRecord
from harness.stats.effect import Table
from harness.stats.summary import decode_s, decode_tokens, output_tokens

SECONDS = "seconds"  # what one request takes the user
PromptKey = tuple[str, int, int]  # prompt, stream, turn: the same in every arm
Lengths = Mapping[PromptKey, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """A trial that counts, with its figures."""

    trial: TrialRecord
    metrics: TrialMetrics
    doubt_kinds: frozenset[str] = frozenset()


Rows = Sequence[Measured]  # of one arm: one a launch, all of the same load


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """Both arms of one figure of one load."""

    base: Table
    candidate: Table


def paired(metric: str, load: LoadPoint, base: Rows, candidate: Rows) -> Pair | str:
    """Return both arms' tables of a figure, signed so that higher is better, or why there are none.

    By prompt where a request tells it alone, else one column for the whole trial.

    Args:
        metric: ``seconds``, or a name of records.metrics.
        load: of the trials.
        base: a trial per launch.
        candidate: the same.
    """
    if not base or not candidate:
        missing = "base" if not base else "candidate"
        return f"no valid trial of the {missing}"
    sign = 1.0 if metric in _HIGHER else -1.0
    read = _by_prompt(metric, load, (*base, *candidate))
    if read is not None:
        tables = _prompt_tables(read, base, candidate)
        if not isinstance(tables, str):
            return Pair(base=sign * tables.base, candidate=sign * tables.candidate)
    arms = [[_trial_value(metric, load, one) for one in arm] for arm in (base, candidate)]
    if any(value is None or value <= 0 for arm in arms for value in arm):
        return _why_missing(metric, (*base, *candidate))
    logs = [sign * np.log(np.array(arm, dtype=float))[:, None] for arm in arms]
    return Pair(base=logs[0], candidate=logs[1])


def request_seconds(request: RequestRecord, tokens: float) -> float | None:
    """Return what ``tokens`` of an answer take its user: time to first token, then decode (design section 2).

    A shorter answer is not a faster one, so the length is given: the same for every arm.
    """
    if request.sent_s is None or not request.batches:
        return None
    ttft_s = request.batches[0].at_s - request.sent_s
    if tokens <= 1:
        return ttft_s
    decoded = decode_tokens(request)
    if decoded:
        return ttft_s + (tokens - 1) * decode_s(request) / decoded
    # Without counts per event: only an answer of that very length tells what it takes.
    return request.batches[-1].at_s - request.sent_s if output_tokens(request) == tokens else None


_HIGHER = {name for name, metric in METRICS.items() if metric.higher_is_better} | {
    "delivered_per_step",
    "acceptance_length",
    "acceptance_ratio",
}


def _by_prompt(metric: str, load: LoadPoint, rows: Rows) -> Callable[[RequestRecord], float | None] | None:
    """How one request tells the figure; None where only the whole trial does."""
    if metric == SECONDS:
        lengths = _lengths(load, rows)
        return lambda request: request_seconds(request, lengths[_key(request)])
    if metric == "ttft_s":
        return lambda request: request_seconds(request, 1)
    if metric == "decode_tokens_per_s":
        return _rate
    if metric in ("delivered_per_step", "step_s") and _events_are_steps(rows):
        return _delivered if metric == "delivered_per_step" else _step_s
    return None


def _prompt_tables(read: Callable[[RequestRecord], float | None], base: Rows, candidate: Rows) -> Pair | str:
    values = [[_values(read, one.trial) for one in arm] for arm in (base, candidate)]
    launches = [row for arm in values for row in arm]
    common = [key for key in launches[0] if all(key in row for row in launches[1:])]
    if not common:
        return "no prompt was answered in every launch"
    tables = [np.log(np.array([[row[key] for key in common] for row in arm])) for arm in values]
    return Pair(base=tables[0], candidate=tables[1])


def _values(read: Callable[[RequestRecord], float | None], trial: TrialRecord) -> dict[PromptKey, float]:
    found = {_key(request): read(request) for request in trial.requests if request.finished and request.batches}
    return {key: value for key, value in found.items() if value is not None and value > 0}


def _lengths(load: LoadPoint, rows: Rows) -> Lengths:
    """How long each answer is taken to be: as asked, or over all launches of both arms where length is natural."""
    counts: dict[PromptKey, list[int]] = {}
    for one in rows:
        for request in one.trial.requests:
            tokens = output_tokens(request)
            if request.finished and tokens:
                counts.setdefault(_key(request), []).append(tokens)
    exact = not load.output.natural and load.recorded is None
    lengths = {key: float(load.output.tokens) if exact else sum(of) / len(of) for key, of in counts.items()}
    return _Known(lengths, default=float(load.output.tokens))


class _Known(dict[PromptKey, float]):
    """Lengths, with a default for answers whose tokens nobody counted."""

    def __init__(self, lengths: Mapping[PromptKey, float], *, default: float) -> None:
        super().__init__(lengths)
        self._default = default

    def __missing__(self, key: PromptKey) -> float:
        return self._default


def _events_are_steps(rows: Rows) -> bool:
    return all(one.trial.events == "steps" and "events_merged" not in one.doubt_kinds for one in rows)


def _key(request: RequestRecord) -> PromptKey:
    return (request.prompt_id, request.stream, request.turn)


def _rate(request: RequestRecord) -> float | None:
    tokens, seconds = decode_tokens(request), decode_s(request)
    return tokens / seconds if tokens and seconds > 0 else None


def _delivered(request: RequestRecord) -> float | None:
    tokens, steps = decode_tokens(request), len(request.batches) - 1
    return tokens / steps if tokens and steps > 0 else None


def _step_s(request: RequestRecord) -> float | None:
    steps, seconds = len(request.batches) - 1, decode_s(request)
    return seconds / steps if steps > 0 and seconds > 0 else None


def _trial_value(metric: str, load: LoadPoint, one: Measured) -> float | None:
    """Of the whole trial: where no prompt is common, as between engines that count tokens differently."""
    if metric == SECONDS:
        ttft_s, rate = one.metrics.values.get("ttft_s"), one.metrics.values.get("decode_tokens_per_s")
        return ttft_s + (load.output.tokens - 1) / rate if ttft_s is not None and rate else None
    value = one.metrics.values.get(metric)
    if value is None and metric in ("delivered_per_step", "acceptance_length") and one.trial.no_speculation:
        return 1.0  # a step without a draft brings one token, which is a definition and no measurement
    return value


def _why_missing(metric: str, rows: Rows) -> str:
    name = "decode_tokens_per_s" if metric == SECONDS else metric
    reasons = {one.metrics.null_reasons.get(name) for one in rows}
    return "; ".join(sorted(reason for reason in reasons if reason)) or "nothing above 0 was measured"


def geometric_mean(table: Table, *, higher_is_better: bool) -> float:
    """Return the figure itself from its signed logarithms."""
    return math.exp(float(table.mean()) * (1 if higher_is_better else -1))


def is_higher_better(metric: str) -> bool:
    """Return the sign with which ``paired`` returns a figure."""
    return metric in _HIGHER
