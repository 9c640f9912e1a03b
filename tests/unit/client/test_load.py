"""The closed loop against servers whose schedule is known: what comes back must be what was sent."""

import asyncio
import gc
import time
from collections.abc import Callable, Coroutine
from typing import Any

import httpx
import pytest

from harness.client.endpoint import Endpoint, probe
from harness.client.load import LoadResult, run_closed_loop
from harness.client.openai import PreparedRequest, prepare
from harness.client.transport import StampedTransport
from harness.records.cell import LoadPoint, OutputLength
from harness.records.trial import ClientFacts
from harness.records.workload import Prompt
from tests.fakes.byte_server import ByteServer, Step, byte_server, chunked, reply
from tests.fakes.recorded import captured
from tests.fakes.truth_process import TruthProcess, truth_process

# Wide enough for a busy machine; what an idle one does is in benchmarks/client_fidelity.py.
TOLERANCE_S = 0.03


def load(concurrency: int, tokens: int) -> LoadPoint:
    output = OutputLength(tokens=tokens)
    return LoadPoint(workload_class="test", context_tokens=8, concurrency=concurrency, output=output)


def requests_for(endpoint: Endpoint, streams: int, tokens: int, turns: int = 1) -> list[list[PreparedRequest]]:
    """Stream i sends prompts of i + 1 words, so that the log of the server tells them apart."""
    return [
        [
            prepare(
                endpoint,
                Prompt(text=" ".join(["w"] * (stream + 1)), tokens=stream + 1),
                load(streams, tokens),
                stream=stream,
                turn=turn,
                seed=turn,
            )
            for turn in range(turns)
        ]
        for stream in range(streams)
    ]


def measure(
    url: str, *, streams: int = 1, tokens: int = 20, turns: int = 1, timeout_s: float = 10.0, real_time: bool = True
) -> LoadResult:
    async def main() -> LoadResult:
        transport = StampedTransport()
        async with httpx.AsyncClient(transport=transport) as http:
            endpoint = await probe(http, url, None)
            requests = requests_for(endpoint, streams, tokens, turns)
            return await run_closed_loop(
                transport, requests, read_timeout_s=timeout_s, prewarm=transport.prewarm, real_time=real_time
            )

    return asyncio.run(main())


def log_of(truth: TruthProcess, streams: int) -> list[dict[str, Any]]:
    """The log without the probe, in the order of the streams."""
    return sorted(truth.stop()[-streams:], key=lambda entry: int(entry["prompt_tokens"]))


@pytest.mark.parametrize("steps", ["3", "3,1,6,2,4"])
def test_first_token_rate_and_acceptance_come_back(steps: str) -> None:
    with truth_process("--ttft-us", "60000", "--step-us", "15000", "--steps", steps) as truth:
        result = measure(truth.url, streams=6, tokens=40)
        log = log_of(truth, 6)
    assert not result.aborted
    assert [record.stream for record in result.requests] == list(range(6))
    for record, entry in zip(result.requests, log, strict=True):
        assert record.outcome == "length"
        assert record.sent_s is not None and record.sent_s >= record.scheduled_s == 0.0
        assert [batch.tokens for batch in record.batches] == entry["tokens"]
        assert record.output_tokens == 40
        stamps = [batch.at_s for batch in record.batches]
        sent_ns = entry["sent_ns"]
        true_ttft_s = (sent_ns[0] - entry["received_ns"]) / 1e9
        assert stamps[0] - record.sent_s == pytest.approx(true_ttft_s, abs=TOLERANCE_S)
        assert stamps[0] - record.sent_s >= true_ttft_s  # never before it was sent
        for stamp_s, true_ns in zip(stamps, sent_ns, strict=True):
            assert stamp_s + result.epoch_s == pytest.approx(true_ns / 1e9, abs=TOLERANCE_S)
    assert result.client.loop_lag_max_s is not None
    assert result.client.cpu_ratio is not None and 0 < result.client.cpu_ratio < 1.5
    assert result.window_s >= max(record.closed_s or 0.0 for record in result.requests)


def test_where_time_is_not_real_the_client_does_not_watch_itself() -> None:
    with truth_process("--ttft-us", "1000", "--step-us", "1000") as truth:
        result = measure(truth.url, real_time=False)
    assert result.client == ClientFacts()
    assert result.requests[0].outcome == "length"


def test_a_role_event_that_comes_early_is_no_token() -> None:
    with truth_process("--role-us", "1000", "--ttft-us", "80000", "--step-us", "5000") as truth:
        record = measure(truth.url).requests[0]
    assert record.sent_s is not None
    assert record.batches[0].tokens == 1
    assert record.batches[0].at_s - record.sent_s >= 0.08


def test_a_slow_first_byte_is_all_time_to_first_token() -> None:
    with truth_process("--ttft-us", "700000", "--step-us", "2000") as truth:
        record = measure(truth.url, tokens=10).requests[0]
    assert record.sent_s is not None
    assert record.batches[0].at_s - record.sent_s == pytest.approx(0.7, abs=TOLERANCE_S)
    assert record.batches[-1].at_s - record.batches[0].at_s < 0.1


def test_line_separators_in_the_text_change_no_count() -> None:
    with truth_process("--ttft-us", "2000", "--step-us", "1000", "--word", "a\u2028b\u2029") as truth:
        record = measure(truth.url).requests[0]
    assert sum(batch.tokens or 0 for batch in record.batches) == record.output_tokens == 20
    assert record.outcome == "length"


@pytest.mark.parametrize(
    ("fault", "outcome"),
    [
        ("--reset-after-events", "broken_stream"),
        ("--error-after-events", "error_event"),
        ("--hang-after-events", "timeout"),
    ],
)
def test_a_stream_that_fails_in_the_middle_keeps_what_came(fault: str, outcome: str) -> None:
    with truth_process("--ttft-us", "10000", "--step-us", "10000", fault, "5") as truth:
        result = measure(truth.url, streams=3, tokens=60, timeout_s=0.5)
    assert [record.outcome for record in result.requests] == [outcome] * 3
    for record in result.requests:
        assert [batch.tokens for batch in record.batches] == [1, 3, 1, 6, 2]
        assert record.output_tokens is None
        assert record.error
        assert record.closed_s is not None and record.closed_s >= record.batches[-1].at_s


def test_each_stream_sends_its_next_request_when_the_former_ended() -> None:
    with truth_process("--ttft-us", "5000", "--step-us", "2000") as truth:
        result = measure(truth.url, streams=3, tokens=10, turns=3)
    assert [(record.stream, record.turn) for record in result.requests] == [(s, t) for s in range(3) for t in range(3)]
    for former, later in zip(result.requests, result.requests[1:], strict=False):
        if later.stream == former.stream:
            assert former.closed_s is not None and later.sent_s is not None
            assert former.closed_s <= later.scheduled_s <= later.sent_s
            assert later.sent_s - former.closed_s < TOLERANCE_S


def test_all_streams_start_together_once_every_connection_is_there() -> None:
    with truth_process("--ttft-us", "50000", "--step-us", "1000") as truth:
        result = measure(truth.url, streams=64, tokens=5)
    assert max(record.sent_s or 9.0 for record in result.requests) < 0.1
    assert all(record.outcome == "length" for record in result.requests)


def run(main: Coroutine[Any, Any, LoadResult]) -> LoadResult:
    async def checked() -> LoadResult:
        result = await asyncio.wait_for(main, 20)  # noqa: TID251 - nobody cancels it
        left = asyncio.all_tasks() - {asyncio.current_task()}
        assert not left, left
        return result

    return asyncio.run(checked())


def endpoint_at(url: str) -> Endpoint:
    return Endpoint(base_url=url, model="pair", token_count_source="token_ids")


def test_a_dying_engine_ends_the_window_at_once() -> None:
    async def main() -> LoadResult:
        head = chunked(b'data: {"choices":[{"index":0,"text":"a","token_ids":[1]}]}\n\n', end=False)
        async with byte_server([head, "hang"]) as server, StampedTransport() as transport:
            abort = asyncio.Event()
            dying = asyncio.create_task(_abort_once_served(server, 4, abort))
            requests = requests_for(endpoint_at(server.url), 4, 10, turns=2)
            result = await run_closed_loop(transport, requests, read_timeout_s=60, abort=abort)
            await dying
            return result

    result = run(main())
    assert result.aborted
    assert [(record.outcome, record.turn) for record in result.requests] == [("cancelled", 0)] * 4
    assert [len(record.batches) for record in result.requests] == [1] * 4
    assert result.window_s < 5


async def _abort_once_served(server: ByteServer, requests: int, abort: asyncio.Event) -> None:
    while len(server.requests) < requests:
        await asyncio.sleep(0.01)
    await asyncio.sleep(0.1)  # the bytes are written: what is ready to be read is read before this ends
    abort.set()


def test_an_abort_that_never_comes_changes_nothing() -> None:
    async def main() -> LoadResult:
        script: list[Step] = [captured("vllm-cpu/draft_chat_tokenids"), "close"]
        async with byte_server(script) as server, StampedTransport() as transport:
            requests = requests_for(endpoint_at(server.url), 2, 48)
            return await run_closed_loop(transport, requests, read_timeout_s=5, abort=asyncio.Event())

    result = run(main())
    assert not result.aborted
    assert [record.output_tokens for record in result.requests] == [48, 48]


def test_cancelling_the_loop_cancels_everything_and_restores_the_collector() -> None:
    async def main() -> None:
        async with byte_server(["hang"]) as server, StampedTransport() as transport:
            requests = requests_for(endpoint_at(server.url), 3, 10)
            task = asyncio.create_task(run_closed_loop(transport, requests, read_timeout_s=60))
            while len(server.requests) < 3:
                await asyncio.sleep(0.001)
            assert not gc.isenabled()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert gc.isenabled()

    asyncio.run(asyncio.wait_for(main(), 20))  # noqa: TID251 - nobody cancels it


def test_a_connection_that_fails_does_not_hold_up_the_others() -> None:
    async def main() -> LoadResult:
        async with byte_server([b""]) as gone:
            dead = endpoint_at(gone.url)
        async with byte_server([reply(500, b"{}")]) as server, StampedTransport() as transport:
            streams = [requests_for(dead, 1, 10)[0], requests_for(endpoint_at(server.url), 2, 10)[1]]
            return await run_closed_loop(transport, streams, read_timeout_s=5)

    result = run(main())
    assert [(record.outcome, record.sent_s is None) for record in result.requests] == [
        ("refused", True),
        ("refused", False),
    ]
    assert result.requests[0].error is not None and "Connect call failed" in result.requests[0].error


def test_no_streams_at_all() -> None:
    async def main() -> LoadResult:
        async with StampedTransport() as transport:
            return await run_closed_loop(transport, [[], []], read_timeout_s=5)

    assert run(main()).requests == ()


class BusyTransport(httpx.AsyncBaseTransport):
    """Blocks the event loop before it sends, as a client does that parses while it measures."""

    def __init__(self, inner: StampedTransport, block: Callable[[], None]) -> None:
        self._inner = inner
        self._block = block

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        response = await self._inner.handle_async_request(request)
        self._block()
        return response


def test_a_blocked_loop_shows_as_lag() -> None:
    async def main() -> LoadResult:
        async with byte_server([reply(200, b"{}")]) as server, StampedTransport() as inner:
            transport = BusyTransport(inner, lambda: time.sleep(0.2))
            requests = requests_for(endpoint_at(server.url), 1, 10, turns=2)
            return await run_closed_loop(transport, requests, read_timeout_s=5)

    result = run(main())
    assert result.client.loop_lag_max_s is not None and result.client.loop_lag_max_s > 0.15
