"""One scrape of /metrics as a CounterSnapshot, and waiting until the counters hold what was served."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import httpx

from harness.errors import EndpointError
from harness.metrics.exposition import Exposition, parse
from harness.records.clock import Clock
from harness.records.counters import CounterSnapshot

SCRAPE_TIMEOUT_S = 10.0
# Each count under the names that engines and their versions give it, newest first. The first that exists is used.
SERIES: dict[str, tuple[str, ...]] = {
    "drafts": ("vllm:spec_decode_num_drafts_total",),
    "draft_tokens": ("vllm:spec_decode_num_draft_tokens_total",),
    "accepted_tokens": ("vllm:spec_decode_num_accepted_tokens_total",),
    "accepted_by_position": ("vllm:spec_decode_num_accepted_tokens_per_pos_total",),
    "prompt_tokens": ("vllm:prompt_tokens_total",),
    "generation_tokens": ("vllm:generation_tokens_total",),
    "prefix_cache_queries": ("vllm:prefix_cache_queries_total", "vllm:gpu_prefix_cache_queries_total"),
    "prefix_cache_hits": ("vllm:prefix_cache_hits_total", "vllm:gpu_prefix_cache_hits_total"),
    "preemptions": ("vllm:num_preemptions_total",),
    "iterations": ("vllm:iteration_tokens_total_count",),
    "requests_finished": ("vllm:request_success_total",),
    "requests_running": ("vllm:num_requests_running",),
    "requests_waiting": ("vllm:num_requests_waiting",),
    "kv_cache_usage_ratio": ("vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc"),
    # A server with several API processes has no process_* series; the counters' own birth serves as well.
    "process_start_s": ("process_start_time_seconds", "vllm:generation_tokens_created"),
}

Scrape = Callable[[], Awaitable[CounterSnapshot | None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled:
    """The last scrape of a trial. ``settled`` is False where nothing proves that it holds all of it."""

    snapshot: CounterSnapshot | None
    settled: bool


async def scrape(
    http: httpx.AsyncClient, base_url: str, api_key: str | None, clock: Clock, *, timeout_s: float = SCRAPE_TIMEOUT_S
) -> CounterSnapshot | None:
    """Return what the engine has counted; None where it has no /metrics, or none with an engine's counters.

    Raises:
        EndpointError: the server does not answer, refuses (401, 403, 5xx), or answers with something else.
    """
    where = f"{_without_userinfo(base_url)}/metrics"
    response = await _get(http, f"{base_url.rstrip('/')}/metrics", api_key, timeout_s, where)
    at_s = clock.now_s()
    if response.status_code in (404, 405, 501):
        return None
    _require_success(response.status_code, where)
    return snapshot_of(parse(response.text, where=where), at_s=at_s)


def snapshot_of(exposition: Exposition, *, at_s: float) -> CounterSnapshot | None:
    """Return the counters in a scrape; None if it holds not one of an engine's."""
    if not any(exposition.samples(name) for key in _COUNTS for name in SERIES[key]):
        return None
    return CounterSnapshot(
        at_s=at_s,
        accepted_by_position=_by_position(exposition),
        kv_cache_usage_ratio=exposition.highest(_series(exposition, "kv_cache_usage_ratio")),
        process_start_s=exposition.highest(_series(exposition, "process_start_s")),
        **{key: _count(exposition, key) for key in _COUNTS},
    )


async def settled_after(
    take: Scrape,
    clock: Clock,
    *,
    before: CounterSnapshot | None,
    expected_tokens: int | None,
    deadline_s: float = 2.0,
    poll_s: float = 0.02,
) -> Settled:
    """Scrape after the streams have ended until the counters hold what was served.

    Args:
        take: one scrape.
        before: the scrape before the trial.
        expected_tokens: output tokens of the trial. None where nobody can know them (a stream was aborted): then two
            equal scrapes in a row with nothing in flight end the wait, and the result says that it is not settled.
        deadline_s: after this the last scrape is returned as it is.
    """
    until_s = clock.now_s() + deadline_s
    previous: CounterSnapshot | None = None
    while True:
        snapshot = await take()
        served = _served(before, snapshot)
        if served is None:
            return Settled(snapshot=snapshot, settled=False)
        if expected_tokens is not None and served >= expected_tokens:
            # More than expected is somebody else's; waiting does not take it away.
            return Settled(snapshot=snapshot, settled=served == expected_tokens)
        if clock.now_s() >= until_s or (expected_tokens is None and _at_rest(previous, snapshot)):
            return Settled(snapshot=snapshot, settled=False)
        previous = snapshot
        await clock.sleep(poll_s)


_COUNTS = tuple(key for key in SERIES if key not in ("accepted_by_position", "kv_cache_usage_ratio", "process_start_s"))


async def _get(http: httpx.AsyncClient, url: str, api_key: str | None, timeout_s: float, where: str) -> httpx.Response:
    headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
    try:
        try:
            return await http.get(url, headers=headers, timeout=timeout_s)
        except (httpx.RemoteProtocolError, httpx.ReadError):
            # A server may close a kept-alive connection just as it is used again.
            return await http.get(url, headers=headers, timeout=timeout_s)
    except httpx.HTTPError as error:
        raise EndpointError(
            f"no answer: {type(error).__name__}", where=where, hint="Is the engine still running? See its log."
        ) from None  # the chained error holds the request, and the request holds the key


def _require_success(status: int, where: str) -> None:
    if status in (401, 403):
        raise EndpointError(
            f"HTTP {status}", where=where, hint="The server asks for a key: set the API key variable of the recipe."
        )
    if status != 200:
        raise EndpointError(f"HTTP {status}", where=where, hint="See the engine's log.")


def _without_userinfo(base_url: str) -> str:
    url = httpx.URL(base_url)
    return str(url.copy_with(username=None, password=None)).rstrip("/") if url.userinfo else base_url.rstrip("/")


def _series(exposition: Exposition, key: str) -> str:
    names = SERIES[key]
    return next((name for name in names if exposition.samples(name)), names[0])


def _count(exposition: Exposition, key: str) -> int | None:
    total = exposition.total(_series(exposition, key))
    return None if total is None else round(total)


def _by_position(exposition: Exposition) -> tuple[int, ...] | None:
    name = _series(exposition, "accepted_by_position")
    totals = exposition.total_by(name, "position")
    if not totals:
        return None
    try:
        by_position = {int(position): round(count) for position, count in totals.items()}
    except ValueError:
        raise EndpointError(f"{name} has a position that is no number", where=exposition.where) from None
    return tuple(by_position.get(position, 0) for position in range(max(by_position) + 1))


def _served(before: CounterSnapshot | None, after: CounterSnapshot | None) -> int | None:
    if before is None or after is None or after.generation_tokens is None:
        return None
    return after.generation_tokens - (before.generation_tokens or 0)


def _at_rest(previous: CounterSnapshot | None, snapshot: CounterSnapshot | None) -> bool:
    if previous is None or snapshot is None:
        return False
    unchanged = previous.generation_tokens == snapshot.generation_tokens
    return unchanged and not snapshot.requests_running and not snapshot.requests_waiting
