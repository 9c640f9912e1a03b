"""The recorder between a client and a server: what passes is untouched and at once, what is kept holds no key."""

from __future__ import annotations

import asyncio
import json
import signal
import stat
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import httpx
import pytest

from harness.client.recording import line_of
from harness.client.relay import Relay, Relayed, upstream_from
from harness.errors import InputError
from harness.workload.inspection import inspect_trace
from harness.workload.traces.entry import Entry
from harness.workload.traces.read import read_trace
from tests.cli.test_simulate import address_of
from tests.fakes.byte_server import ByteServer, Step, byte_server, chunk, chunked, reply
from tests.system.conftest import desk as desk
from tests.system.conftest import font_cache as font_cache
from tests.system.driver import Desk

Result = TypeVar("Result")
BODY = {"model": "m", "messages": [{"role": "user", "content": "How wide is the bay?"}], "stream": True, "api_key": "k"}
EVENTS = [
    b"data: " + json.dumps(event).encode() + b"\n\n"
    for event in (
        {"choices": [{"delta": {"role": "assistant", "content": ""}}]},
        {"choices": [{"delta": {"content": "Two "}}]},
        {"choices": [{"delta": {"content": "miles."}, "finish_reason": "stop"}]},
        {"choices": [], "usage": {"prompt_tokens": 11, "completion_tokens": 4}},
    )
] + [b"data: [DONE]\n\n"]
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\nx-own: kept\r\n\r\n"


def run(work: Coroutine[Any, Any, Result]) -> Result:
    return asyncio.run(asyncio.wait_for(work, 30))  # noqa: TID251 - nobody cancels it


@asynccontextmanager
async def recorded(*scripts: list[Step]) -> AsyncIterator[tuple[ByteServer, str, list[Relayed]]]:
    """A server behind a relay; yields the server, the relay's URL, and what it told."""
    told: list[Relayed] = []

    async def keep(relayed: Relayed) -> None:
        told.append(relayed)

    async with byte_server(*scripts) as server:
        relay = Relay(upstream_from(server.url), keep)
        port = await relay.listen("127.0.0.1", 0)
        try:
            yield server, f"http://127.0.0.1:{port}", told
        finally:
            await relay.aclose()


def entries_of(relayed: list[Relayed], tmp_path: Path) -> list[Entry]:
    lines = [line for each in relayed if (line := line_of(each, at_s=each.arrived_s)) is not None]
    path = tmp_path / "trace.jsonl"
    path.write_bytes(b"".join(line + b"\n" for line in lines))
    return [each for each in read_trace(path) if isinstance(each, Entry)]


def test_a_stream_goes_through_byte_by_byte_and_is_kept(tmp_path: Path) -> None:
    async def main() -> tuple[bytes, httpx.Response, bytes, list[Relayed]]:
        async with recorded([chunked(*EVENTS)]) as (server, url, told), httpx.AsyncClient() as http:
            answer = await http.post(
                f"{url}/v1/chat/completions?x=1", json=BODY, headers={"authorization": "Bearer secret-key"}
            )
            await asyncio.sleep(0)
            return server.requests[0], answer, answer.content, told

    request, answer, content, told = run(main())

    head, _, body = request.partition(b"\r\n\r\n")
    assert head.startswith(b"POST /v1/chat/completions?x=1 HTTP/1.1\r\n")
    assert b"authorization: Bearer secret-key" in head
    assert json.loads(body) == BODY
    assert content == b"".join(EVENTS)
    assert answer.status_code == 200
    line = line_of(told[0], at_s=5.0) or b""
    assert b"secret-key" not in line and b'"k"' not in line
    entry = entries_of(told, tmp_path)[0]
    assert entry.body["messages"] == BODY["messages"]
    assert (entry.prompt_tokens, entry.output_tokens, entry.answer_bytes) == (11, 4, len("Two miles."))


def test_nothing_is_held_back() -> None:
    async def main() -> tuple[list[bytes], bool]:
        script: list[Step] = [HEAD + chunk(EVENTS[0]), 0.5, chunk(EVENTS[1]), b"0\r\n\r\n"]
        async with recorded(script) as (_, url, told), httpx.AsyncClient() as http:
            pieces = []
            early = False
            async with http.stream("POST", f"{url}/v1/chat/completions", json=BODY) as answer:
                assert answer.headers["x-own"] == "kept"
                async for piece in answer.aiter_raw():
                    early = early or (not pieces and not told)
                    pieces.append(piece)
                    if len(pieces) == 1:
                        began_s = asyncio.get_running_loop().time()
            assert asyncio.get_running_loop().time() - began_s > 0.3  # the first piece came before the pause
            return pieces, early

    pieces, early = run(main())

    assert pieces == EVENTS[:2]
    assert early


def test_a_connection_carries_one_request_after_the_other(tmp_path: Path) -> None:
    usage = {"usage": {"prompt_tokens": 3, "completion_tokens": 2}}
    answer = {"choices": [{"message": {"role": "assistant", "content": "Yes."}}], **usage}

    async def main() -> tuple[int, list[Relayed]]:
        script: list[Step] = [reply(200, json.dumps(answer).encode())]
        limits = httpx.Limits(max_connections=1)
        async with recorded(script) as (server, url, told), httpx.AsyncClient(limits=limits) as http:
            for _ in range(3):
                assert (await http.post(f"{url}/v1/chat/completions", json=BODY)).json() == answer
            assert (await http.get(f"{url}/v1/models")).status_code == 200
            return server.connections, told

    connections, told = run(main())

    assert connections == 1
    assert [each.method for each in told][:3] == ["POST"] * 3
    assert [(each.output_tokens, each.answer_bytes) for each in entries_of(told, tmp_path)] == [(2, 4)] * 3


def test_a_body_in_chunks_and_one_that_waits_for_a_word(tmp_path: Path) -> None:
    async def pieces() -> AsyncIterator[bytes]:
        content = json.dumps(BODY).encode()
        for at in range(0, len(content), 7):
            yield content[at : at + 7]

    async def main() -> list[Relayed]:
        async with recorded([reply(200, b"{}")]) as (_, url, told), httpx.AsyncClient() as http:
            await http.post(f"{url}/v1/chat/completions", content=pieces())
            host, port = url.removeprefix("http://").split(":")
            reader, writer = await asyncio.open_connection(host, int(port))
            content = json.dumps(BODY).encode()
            writer.write(
                b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nexpect: 100-continue\r\n"
                + f"content-length: {len(content)}\r\n\r\n".encode()
            )
            assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 100")
            writer.write(content)
            assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200")
            writer.close()
            return told

    told = run(main())

    assert [json.loads(each.body or b"") for each in told] == [BODY, BODY]
    assert len(entries_of(told, tmp_path)) == 2


def test_what_fails_is_counted_and_holds_no_text(tmp_path: Path) -> None:
    async def main() -> list[Relayed]:
        scripts: list[list[Step]] = [
            [reply(400, b'{"error": {"message": "How wide is the bay? no"}}')],
            [HEAD + chunk(EVENTS[0]), "reset"],
        ]
        async with recorded(*scripts) as (_, url, told), httpx.AsyncClient() as http:
            assert (await http.post(f"{url}/v1/chat/completions", json=BODY)).status_code == 400
            with pytest.raises(httpx.TransportError):
                await http.post(f"{url}/v1/chat/completions", json=BODY)
            await until(lambda: len(told) == 2)
            return told

    told = run(main())

    lines = [line_of(each, at_s=1.0) or b"" for each in told]
    assert all(b"failed" in line and b"bay" not in line for line in lines)
    assert entries_of(told, tmp_path) == []
    assert inspect_trace(tmp_path / "trace.jsonl").unreplayable[0].count == 2


def test_a_client_that_goes_away_takes_its_request_with_it() -> None:
    async def main() -> list[Relayed]:
        on_and_on: list[Step] = [HEAD, *([0.02, chunk(EVENTS[1])] * 1000)]
        async with recorded(on_and_on) as (server, url, told):
            async with httpx.AsyncClient() as http, http.stream("POST", f"{url}/v1/completions", json=BODY):
                pass
            await asyncio.wait_for(server.closed.wait(), 5)  # noqa: TID251 - nobody cancels it
            await until(lambda: bool(told))
            return told

    assert [each.complete for each in run(main())] == [False]


def test_a_server_that_is_not_there_is_said_to_the_client() -> None:
    async def main() -> httpx.Response:
        async def keep(relayed: Relayed) -> None:
            raise AssertionError("nothing was relayed")

        relay = Relay(upstream_from("http://127.0.0.1:9"), keep)
        port = await relay.listen("127.0.0.1", 0)
        async with httpx.AsyncClient() as http:
            answer = await http.post(f"http://127.0.0.1:{port}/v1/chat/completions", json=BODY)
        await relay.aclose()
        return answer

    answer = run(main())

    assert answer.status_code == 502
    assert "does not answer" in answer.text


@pytest.mark.parametrize("url", ["nowhere", "ftp://x", "http://", "http://x:y"])
def test_an_upstream_that_is_none(url: str) -> None:
    with pytest.raises(InputError):
        upstream_from(url)


def test_the_v1_of_an_upstream_is_what_clients_send() -> None:
    assert upstream_from("https://host/api/v1/").path == "/api"
    assert upstream_from("https://host").named == b"host"
    assert upstream_from("http://[::1]:8000/v1").named == b"[::1]:8000"


def test_the_command_records_a_simulated_engine(desk: Desk, tmp_path: Path) -> None:
    engine = desk.start(
        "simulate", "--port", "0", "--recipe", "vllm-cpu-tiny", "--model", "tiny", "--scenario", "quiet"
    )
    engine.wait_for_text("Ctrl-C")
    out = tmp_path / "trace.jsonl"
    recorder = desk.start(
        "workload", "record", "--listen", "0", "--upstream", address_of(engine.said), "--out", str(out)
    )
    recorder.wait_for_text("Ctrl-C")
    asked = {"model": "tiny", "messages": BODY["messages"], "max_tokens": 8, "ignore_eos": True, "stream": True}

    with httpx.stream(
        "POST",
        f"{address_of(recorder.said)}/v1/chat/completions",
        json=asked,
        headers={"authorization": "Bearer secret-key"},
        timeout=20,
    ) as answer:
        assert b"[DONE]" in b"".join(answer.iter_bytes())
    recorder.process.send_signal(signal.SIGINT)

    assert recorder.process.wait(10) == 0
    assert "1 requests" in recorder.said
    assert stat.S_IMODE(out.stat().st_mode) == 0o600
    assert "secret-key" not in out.read_text() + recorder.said
    entry = next(each for each in read_trace(out) if isinstance(each, Entry))
    assert entry.body == {"model": "tiny", "messages": BODY["messages"], "max_tokens": 8, "ignore_eos": True}
    again = desk.run("workload", "record", "--upstream", "http://127.0.0.1:9", "--out", str(out))
    assert again.code == 2 and "--append" in again.err
    engine.process.send_signal(signal.SIGINT)
    engine.process.wait(10)


async def until(reached: Callable[[], bool]) -> None:
    async def wait() -> None:
        while not reached():
            await asyncio.sleep(0.005)

    waiting: Awaitable[None] = wait()
    await asyncio.wait_for(waiting, 10)  # noqa: TID251 - nobody cancels it
