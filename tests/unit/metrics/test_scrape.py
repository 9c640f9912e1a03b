"""Scrapes over a transport that answers as told, in virtual time; and the recorded scrapes of real engines."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from harness.errors import EndpointError
from harness.metrics.exposition import parse
from harness.metrics.scrape import scrape, settled_after, snapshot_of
from harness.records.counters import CounterSnapshot
from tests.fakes.fake_clock import FakeClock

FIXTURES = Path(__file__).parents[2] / "fixtures" / "metrics"
pytestmark = pytest.mark.anyio
Handler = Callable[[httpx.Request], httpx.Response]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def _scrape(handler: Handler, *, key: str | None = None, url: str = "http://host:8000") -> CounterSnapshot | None:
    async with httpx.AsyncClient(transport=httpx.MockTransport(handler)) as http:
        return await scrape(http, url, key, FakeClock())


async def test_a_scrape_becomes_counts() -> None:
    text = (FIXTURES / "dspark_k5_c1_after.txt").read_text()
    snapshot = await _scrape(lambda _: httpx.Response(200, text=text))
    assert snapshot is not None
    assert snapshot.at_s == 100.0
    assert (snapshot.drafts, snapshot.draft_tokens, snapshot.accepted_tokens) == (1020, 5100, 2989)
    assert snapshot.accepted_by_position == (870, 718, 562, 474, 365)
    assert (snapshot.prompt_tokens, snapshot.generation_tokens) == (10921, 3936)
    assert (snapshot.prefix_cache_queries, snapshot.prefix_cache_hits) == (10921, 912)
    assert (snapshot.iterations, snapshot.requests_finished, snapshot.preemptions) == (562, 73, 0)
    assert (snapshot.requests_running, snapshot.requests_waiting, snapshot.kv_cache_usage_ratio) == (0, 0, 0.0)
    # This build has no process_start_time_seconds.
    assert snapshot.process_start_s == pytest.approx(1.796004428e9)


def test_without_speculation_its_counters_are_absent_and_not_zero() -> None:
    snapshot = snapshot_of(parse((FIXTURES / "cpu_none_after.txt").read_text()), at_s=1.0)
    assert snapshot is not None
    assert (snapshot.drafts, snapshot.draft_tokens, snapshot.accepted_by_position) == (None, None, None)
    assert snapshot.generation_tokens is not None and snapshot.generation_tokens > 0


def test_positions_are_ordered_by_number_and_not_by_line() -> None:
    name = "vllm:spec_decode_num_accepted_tokens_per_pos_total"
    lines = [f'{name}{{position="{i}",engine="{engine}"}} {100 - i}' for engine in (0, 1) for i in (10, 2, 0, 1)]
    snapshot = snapshot_of(parse("vllm:generation_tokens_total 1\n" + "\n".join(lines) + "\n"), at_s=1.0)
    assert snapshot is not None
    assert snapshot.accepted_by_position == (200, 198, 196, 0, 0, 0, 0, 0, 0, 0, 180)


@pytest.mark.parametrize("status", [404, 405, 501])
async def test_no_metrics_is_a_state(status: int) -> None:
    assert await _scrape(lambda _: httpx.Response(status)) is None


async def test_metrics_of_something_else_are_no_counters() -> None:
    assert await _scrape(lambda _: httpx.Response(200, text="python_info 1\n")) is None


@pytest.mark.parametrize("status", [401, 403, 500, 503, 302])
async def test_a_refusal_is_a_failure(status: int) -> None:
    with pytest.raises(EndpointError, match=str(status)):
        await _scrape(lambda _: httpx.Response(status))


async def test_a_web_page_is_a_failure() -> None:
    with pytest.raises(EndpointError, match="line 1 is not Prometheus text"):
        await _scrape(lambda _: httpx.Response(200, html="<html>"))


async def test_the_key_is_sent_and_never_told() -> None:
    seen: list[str] = []

    def refuse(request: httpx.Request) -> httpx.Response:
        seen.append(request.headers["authorization"])
        raise httpx.ConnectError("Bearer sk-secret", request=request)

    with pytest.raises(EndpointError) as caught:
        await _scrape(refuse, key="sk-secret")
    assert seen == ["Bearer sk-secret"]
    assert "sk-secret" not in str(caught.value)
    assert caught.value.__cause__ is None


async def test_a_password_in_the_address_is_not_shown() -> None:
    with pytest.raises(EndpointError) as caught:
        await _scrape(lambda _: httpx.Response(500), url="http://user:sk-secret@host:8000/")
    assert caught.value.where == "http://host:8000/metrics"


async def test_a_connection_that_was_closed_while_idle_is_tried_once_more() -> None:
    answers: Iterator[httpx.Response | None] = iter(
        [None, httpx.Response(200, text="vllm:generation_tokens_total 7\n")]
    )

    def flaky(request: httpx.Request) -> httpx.Response:
        answer = next(answers)
        if answer is None:
            raise httpx.RemoteProtocolError("Server disconnected", request=request)
        return answer

    snapshot = await _scrape(flaky)
    assert snapshot is not None and snapshot.generation_tokens == 7


class _Counting:
    """Scrapes that show these generation counts, the last one for ever."""

    def __init__(self, *counts: int | None, running: int = 0) -> None:
        self._counts = list(counts)
        self._running = running
        self.taken = 0

    async def __call__(self) -> CounterSnapshot | None:
        count = self._counts[min(self.taken, len(self._counts) - 1)]
        self.taken += 1
        return _snapshot(count, self._running) if count is not None else None


def _snapshot(generation: int, running: int = 0) -> CounterSnapshot:
    return CounterSnapshot(at_s=0.0, generation_tokens=generation, requests_running=running)


async def test_counters_that_agree_end_the_wait_at_once() -> None:
    take, clock = _Counting(164), FakeClock()
    result = await settled_after(take, clock, before=_snapshot(100), expected_tokens=64)
    assert result.settled and take.taken == 1 and clock.slept_s == []


async def test_counters_that_lag_are_waited_for() -> None:
    take = _Counting(100, 130, 164)
    result = await settled_after(take, FakeClock(), before=_snapshot(100), expected_tokens=64)
    assert result.settled and take.taken == 3
    assert result.snapshot == _snapshot(164)


async def test_counters_that_never_agree_are_given_up_in_clock_time() -> None:
    clock = FakeClock()
    result = await settled_after(_Counting(163), clock, before=_snapshot(100), expected_tokens=64, deadline_s=1.0)
    assert not result.settled and result.snapshot == _snapshot(163)
    assert sum(clock.slept_s) == pytest.approx(1.0, abs=0.05)


async def test_more_than_was_served_is_not_waited_for() -> None:
    take = _Counting(200)
    assert not (await settled_after(take, FakeClock(), before=_snapshot(100), expected_tokens=64)).settled
    assert take.taken == 1


async def test_after_an_aborted_stream_rest_ends_the_wait_and_proves_nothing() -> None:
    take = _Counting(120, 140, 140)
    result = await settled_after(take, FakeClock(), before=_snapshot(100), expected_tokens=None)
    assert not result.settled and take.taken == 3 and result.snapshot == _snapshot(140)


async def test_after_an_aborted_stream_a_busy_engine_is_waited_for_until_the_deadline() -> None:
    clock = FakeClock()
    result = await settled_after(_Counting(140, running=1), clock, before=_snapshot(100), expected_tokens=None)
    assert not result.settled
    assert sum(clock.slept_s) >= 1.9


async def test_without_counters_there_is_nothing_to_wait_for() -> None:
    result = await settled_after(_Counting(None), FakeClock(), before=None, expected_tokens=64)
    assert result.snapshot is None and not result.settled
