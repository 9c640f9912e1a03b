"""The figures of a trial, from its facts: the formulas of every name in records.metrics. Pure.

Figures of a request (``ttft_s``, ``decode_tokens_per_s``, ``request_s``, token counts) are medians over the trial's
finished requests, so one stream that had to queue does not move them; ``worst_stream_tokens_per_s`` stands beside.
Figures of the trial (aggregates, drafts, preemptions) count all of it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from statistics import median

from harness.records.counters import NO_SPECULATION
from harness.records.imported import ImportedFigures
from harness.records.metrics import BY_POSITION, METRICS
from harness.records.request import RequestRecord
from harness.records.summary import TrialMetrics
from harness.records.trial import TrialRecord

NOTHING_DRAFTED = "nothing was drafted"
NO_REASONING = "no reasoning came before an answer: the first token is the answer's"
NO_EVENT_COUNTS = "the server does not tell how many tokens an event carries"


def trial_metrics(trial: TrialRecord) -> TrialMetrics:
    """Return every figure of a trial; what cannot be known is None, with a reason, never 0."""
    if trial.imported is not None:
        return _imported_metrics(trial.imported)
    requests = tuple(request for request in trial.requests if request.finished and request.batches)
    if not requests:
        reason = trial.failure or "no request finished"
        return TrialMetrics(
            values=dict.fromkeys(METRICS), by_position=None, null_reasons=dict.fromkeys((*METRICS, BY_POSITION), reason)
        )
    figures = {name: formula(trial, requests) for name, formula in _FORMULAS.items()}
    by_position = acceptance_by_position(trial)
    reasons = {name: figure.because for name, figure in figures.items() if isinstance(figure, Missing)}
    if isinstance(by_position, Missing):
        reasons[BY_POSITION] = by_position.because
    return TrialMetrics(
        values={name: _known(figures[name]) for name in METRICS},
        by_position=None if isinstance(by_position, Missing) else by_position,
        null_reasons=reasons,
    )


def _imported_metrics(imported: ImportedFigures) -> TrialMetrics:
    reason = f"not in the results of {imported.program}"
    missing = [name for name in (*METRICS, BY_POSITION) if name not in imported.values]
    return TrialMetrics(
        values={name: imported.values.get(name) for name in METRICS},
        by_position=None,
        null_reasons=dict.fromkeys(missing, reason),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Missing:
    """A figure that cannot be known, and why."""

    because: str


Figure = float | Missing
Requests = Sequence[RequestRecord]


def output_tokens(request: RequestRecord) -> int | None:
    """Return the tokens of a request: as the server's usage says, else the sum over its events, else None."""
    if request.output_tokens is not None:
        return request.output_tokens
    counts = [batch.tokens for batch in request.batches]
    return sum(count for count in counts if count is not None) if counts and None not in counts else None


def decode_tokens(request: RequestRecord) -> int | None:
    """Return the tokens after the first event; None without counts per event, since that event may carry several."""
    total = output_tokens(request)
    first = request.batches[0].tokens if request.batches else None
    return None if total is None or first is None else total - first


def decode_s(request: RequestRecord) -> float:
    """Return the seconds between the first and the last event that carried tokens."""
    return request.batches[-1].at_s - request.batches[0].at_s


def event_gaps_s(requests: Requests) -> list[float]:
    """Return the gaps between neighbouring events of one request, over all requests, sorted."""
    return sorted(
        later.at_s - earlier.at_s
        for request in requests
        for earlier, later in zip(request.batches, request.batches[1:], strict=False)
    )


def speculates(trial: TrialRecord) -> bool:
    """Return whether drafts were asked for; True where the sweep leaves that to the engine."""
    return not trial.no_speculation and trial.cell.configuration.num_speculative_tokens != 0


def acceptance_by_position(trial: TrialRecord) -> tuple[float, ...] | Missing:
    """Return accepted at each position / drafts, unconditional."""
    drafts = _drafts(trial)
    if isinstance(drafts, Missing):
        return drafts
    accepted = trial.counters.accepted_by_position
    if accepted is None:
        return Missing(because="the server does not count by position")
    return tuple(count / drafts for count in accepted)


def quantile(ordered: Sequence[float], share: float) -> float:
    """Return the quantile of sorted values, interpolated linearly between neighbours (Hyndman and Fan, type 7)."""
    position = share * (len(ordered) - 1)
    below = math.floor(position)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (position - below) * (ordered[above] - ordered[below])


def busy_s(intervals: Iterable[tuple[float, float]]) -> float:
    """Return the length of the union of intervals: time in which at least one stream was decoding."""
    total, covered_to = 0.0, -math.inf
    for start, end in sorted(intervals):
        total += max(0.0, end - max(start, covered_to))
        covered_to = max(covered_to, end)
    return total


# -- one function a figure ---------------------------------------------------------------------------------------------


def _ttft_s(_: TrialRecord, requests: Requests) -> Figure:
    return _median((_ttft(request) for request in requests), "no request has a send time")


def _time_to_answer_s(_: TrialRecord, requests: Requests) -> Figure:
    if not any(_reasons_first(request) for request in requests):
        return Missing(because=NO_REASONING)
    answered = [request for request in requests if request.answer_tokens != 0]
    return _median((_time_to_answer(request) for request in answered), "no request has a token of an answer")


def _decode_tokens_per_s(_: TrialRecord, requests: Requests) -> Figure:
    if any(decode_tokens(request) is None for request in requests):
        return Missing(because=NO_EVENT_COUNTS)
    return _median((_decode_rate([request]) for request in requests), "a rate needs two events with tokens")


def _tpot_s(trial: TrialRecord, requests: Requests) -> Figure:
    rate = _decode_tokens_per_s(trial, requests)
    return rate if isinstance(rate, Missing) else 1 / rate


def _aggregate_tokens_per_s(trial: TrialRecord, _: Requests) -> Figure:
    served = tuple(request for request in trial.requests if request.batches and request.sent_s is not None)
    counts = [output_tokens(request) for request in served]
    if not served or None in counts:
        return Missing(because="the server does not tell how many tokens a request brought")
    start_s = min(request.sent_s for request in served if request.sent_s is not None)
    return _rate(sum(count or 0 for count in counts), _last_token_s(served) - start_s)


def _decode_aggregate_tokens_per_s(trial: TrialRecord, _: Requests) -> Figure:
    served = tuple(request for request in trial.requests if request.batches)
    counts = [output_tokens(request) for request in served]
    # Only what came before the window is taken off: the first event of each stream, not of each of its requests.
    firsts = [min(turns, key=lambda request: request.batches[0].at_s).batches[0].tokens for turns in _streams(served)]
    if None in counts or None in firsts:
        return Missing(because=NO_EVENT_COUNTS)
    tokens = sum(count or 0 for count in counts) - sum(count or 0 for count in firsts)
    return _rate(tokens, _last_token_s(served) - min(request.batches[0].at_s for request in served))


def _worst_stream_tokens_per_s(_: TrialRecord, requests: Requests) -> Figure:
    if any(decode_tokens(request) is None for request in requests):
        return Missing(because=NO_EVENT_COUNTS)
    rates = [rate for turns in _streams(requests) if (rate := _decode_rate(turns)) is not None]
    return min(rates) if rates else Missing(because="a rate needs two events with tokens")


def _prefill_tokens_per_s(trial: TrialRecord, requests: Requests) -> Figure:
    nothing_cached = trial.counters.prefix_cache_hits == 0
    uncached = [_uncached_tokens(request, nothing_cached=nothing_cached) for request in requests]
    if None in uncached:
        return Missing(because="the server does not tell how much of each prompt was in its cache")
    rates = (
        tokens / seconds
        for request, tokens in zip(requests, uncached, strict=True)
        if tokens and (seconds := _ttft(request))
    )
    return _median(rates, "the whole prompt was in the cache")


def _inter_chunk(share: float) -> Callable[[TrialRecord, Requests], Figure]:
    def figure(_: TrialRecord, requests: Requests) -> Figure:
        gaps = event_gaps_s(requests)
        return quantile(gaps, share) if gaps else Missing(because="a gap needs two events with tokens")

    return figure


def _acceptance_ratio(trial: TrialRecord, _: Requests) -> Figure:
    drafts = _drafts(trial)
    if isinstance(drafts, Missing):
        return drafts
    accepted, drafted = trial.counters.accepted_tokens, trial.counters.draft_tokens
    return (
        Missing(because="the server does not count drafted tokens")
        if accepted is None or not drafted
        else (accepted / drafted)
    )


def _acceptance_length(trial: TrialRecord, _: Requests) -> Figure:
    drafts = _drafts(trial)
    if isinstance(drafts, Missing):
        return drafts
    accepted = trial.counters.accepted_tokens
    return Missing(because="the server does not count accepted tokens") if accepted is None else 1 + accepted / drafts


def _delivered_per_step(trial: TrialRecord, _: Requests) -> Figure:
    drafts = _drafts(trial)
    if isinstance(drafts, Missing):
        return drafts
    served = tuple(request for request in trial.requests if request.batches)
    counts = [output_tokens(request) for request in served]
    if None in counts:
        return Missing(because="the server does not tell how many tokens a request brought")
    # The first token of a request comes out of its prefill, not out of a draft.
    return (sum(count or 0 for count in counts) - len(served)) / drafts


def _step_s(trial: TrialRecord, requests: Requests) -> Figure:
    if not speculates(trial):
        return _tpot_s(trial, requests)
    drafts = _drafts(trial)
    if isinstance(drafts, Missing):
        return _tpot_s(trial, requests) if drafts.because == NO_SPECULATION else drafts
    return sum(decode_s(request) for request in trial.requests if request.batches) / drafts


def _iteration_s(trial: TrialRecord, _: Requests) -> Figure:
    """Busy time is the union of the streams' [first token, last token]; iterations that only prefill count below it.

    So with long cold prompts it reads low, by the share of prefill iterations.
    """
    iterations = trial.counters.iterations
    if not iterations:
        return Missing(because=trial.counters.absent_because or "the server does not count iterations")
    spans = ((request.batches[0].at_s, request.batches[-1].at_s) for request in trial.requests if request.batches)
    return busy_s(spans) / iterations


def _counted(name: str) -> Callable[[TrialRecord, Requests], Figure]:
    def figure(trial: TrialRecord, _: Requests) -> Figure:
        count: int | None = getattr(trial.counters, name)
        return float(count) if count is not None else Missing(because=_no_counter(trial))

    return figure


def _drafts_figure(trial: TrialRecord, _: Requests) -> Figure:
    if not speculates(trial):
        return Missing(because=NO_SPECULATION)
    return _counted("drafts")(trial, ())


def _per_request(
    read: Callable[[RequestRecord], float | None], because: str
) -> Callable[[TrialRecord, Requests], Figure]:
    def figure(_: TrialRecord, requests: Requests) -> Figure:
        return _median((read(request) for request in requests), because)

    return figure


_FORMULAS: dict[str, Callable[[TrialRecord, Requests], Figure]] = {
    "ttft_s": _ttft_s,
    "time_to_answer_s": _time_to_answer_s,
    "decode_tokens_per_s": _decode_tokens_per_s,
    "tpot_s": _tpot_s,
    "aggregate_tokens_per_s": _aggregate_tokens_per_s,
    "decode_aggregate_tokens_per_s": _decode_aggregate_tokens_per_s,
    "worst_stream_tokens_per_s": _worst_stream_tokens_per_s,
    "prefill_tokens_per_s": _prefill_tokens_per_s,
    "inter_chunk_p50_s": _inter_chunk(0.50),
    "inter_chunk_p95_s": _inter_chunk(0.95),
    "inter_chunk_max_s": _inter_chunk(1.0),
    "acceptance_ratio": _acceptance_ratio,
    "acceptance_length": _acceptance_length,
    "delivered_per_step": _delivered_per_step,
    "step_s": _step_s,
    "iteration_s": _iteration_s,
    "drafts": _drafts_figure,
    "output_tokens": _per_request(output_tokens, "the server does not tell how many tokens a request brought"),
    "prompt_tokens": _per_request(lambda request: request.prompt_tokens, "the server does not count prompt tokens"),
    "cached_tokens": _per_request(lambda request: request.cached_tokens, "the server does not report cached tokens"),
    "preemptions": _counted("preemptions"),
    "request_s": _per_request(lambda request: _request_s(request), "no request has a send time"),
}


# -- parts -------------------------------------------------------------------------------------------------------------


def _known(figure: Figure) -> float | None:
    return None if isinstance(figure, Missing) else float(figure)


def _drafts(trial: TrialRecord) -> int | Missing:
    """The denominator of everything about acceptance."""
    if not speculates(trial):
        return Missing(because=NO_SPECULATION)
    drafts = trial.counters.drafts
    if drafts is None:
        return Missing(because=_no_counter(trial))
    return drafts if drafts > 0 else Missing(because=NOTHING_DRAFTED)


def _no_counter(trial: TrialRecord) -> str:
    return trial.counters.absent_because or "the server does not count this"


def _ttft(request: RequestRecord) -> float | None:
    return None if request.sent_s is None else request.batches[0].at_s - request.sent_s


def _reasons_first(request: RequestRecord) -> bool:
    if request.first_answer_s is None:
        return request.answer_tokens == 0
    return request.first_answer_s > request.batches[0].at_s


def _time_to_answer(request: RequestRecord) -> float | None:
    if request.sent_s is None or request.first_answer_s is None:
        return None
    return request.first_answer_s - request.sent_s


def _request_s(request: RequestRecord) -> float | None:
    return None if request.sent_s is None else request.batches[-1].at_s - request.sent_s


def _decode_rate(requests: Requests) -> float | None:
    tokens = sum(decode_tokens(request) or 0 for request in requests)
    seconds = sum(decode_s(request) for request in requests)
    return tokens / seconds if tokens > 0 and seconds > 0 else None


def _uncached_tokens(request: RequestRecord, *, nothing_cached: bool) -> int | None:
    if request.prompt_tokens is None:
        return None
    if request.cached_tokens is not None:
        return request.prompt_tokens - request.cached_tokens
    return request.prompt_tokens if nothing_cached else None


def _streams(requests: Requests) -> list[list[RequestRecord]]:
    streams: dict[int, list[RequestRecord]] = {}
    for request in requests:
        streams.setdefault(request.stream, []).append(request)
    return list(streams.values())


def _last_token_s(requests: Requests) -> float:
    return max(request.batches[-1].at_s for request in requests)


def _rate(tokens: int, seconds: float) -> Figure:
    if tokens <= 0 or seconds <= 0:
        return Missing(because="a rate needs two events with tokens")
    return tokens / seconds


def _median(values: Iterable[float | None], because: str) -> Figure:
    known = [value for value in values if value is not None]
    return median(known) if known else Missing(because=because)
