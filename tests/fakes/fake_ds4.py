"""A real process that speaks ds4-server's command line, HTTP and stderr, for tests that need an engine and no model.

    python tests/fakes/fake_ds4.py --model FILE --port N [--dspark --mtp-model FILE --dspark-confidence F] ...

What it says is written down from ds4's documentation and issues: one request at a time, an event for each token, those
of an accepted block close together, no /health, no /metrics, no /tokenize, nothing said of the tokens in an event, and
its draft statistics as one line on stderr when it ends. How fast each confidence is comes from a curve: rates relative
to no DSpark. FAKE_DS4="KEY=VALUE ..." chooses it:

    curve=gb10|m5       published rates by confidence; on gb10 nothing beats no DSpark, on m5 0.5 does
    stats=1|2|3|none    the generation of the statistics line
    flags=newer|older   --mtp-model, or --mtp
    cut=N               end within the statistics line, after N characters
    bypass=1            draft nothing for plain chat
    token_ms=N          time of a token without DSpark

A model file that holds "checkpoint=NAME" fits a support file that holds the same. Standard library only.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

CURVES = {
    # confidence: (speed against no DSpark, proposed and accepted tokens in a cycle)
    "gb10": {0.5: (0.567, 2.4, 1.1), 0.7: (0.650, 1.5, 0.9), 0.8: (0.797, 0.9, 0.6), 0.9: (0.838, 0.4, 0.3)}
    | {0.95: (0.834, 0.25, 0.2), 0.0: (0.45, 5.0, 1.4)},
    "m5": {0.5: (1.272, 3.6, 2.9), 0.7: (1.13, 2.0, 1.7), 0.8: (1.06, 1.0, 0.9), 0.9: (1.0, 0.4, 0.35)}
    | {0.95: (0.99, 0.2, 0.18), 0.0: (0.93, 5.0, 3.0)},
}
WITH_VALUE = {"-m": "model", "--model": "model", "-c": "ctx", "--ctx": "ctx", "--host": "host", "--port": "port"}
WITH_VALUE |= {"--dspark-confidence": "confidence", "--backend": "backend"}
SWITCHES = ("--dspark", "--dspark-strict", "--ssd-streaming", "--warm-weights")
TEMPLATE_TOKENS = 4


def say(line: str) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


def fail(line: str, code: int = 1) -> None:
    say(line)
    raise SystemExit(code)


@dataclass
class Options:
    """The command line."""

    values: dict[str, str]
    switches: set[str]
    wishes: dict[str, str]

    @property
    def drafts(self) -> bool:
        return "--dspark" in self.switches and "--dspark-strict" not in self.switches

    @property
    def token_s(self) -> float:
        return float(self.wishes.get("token_ms", "3")) / 1000

    @property
    def pace(self) -> tuple[float, float, float]:
        if not self.drafts or self.wishes.get("bypass"):
            return (0.97 if "--dspark-strict" in self.switches else 1.0, 0.0, 0.0)  # loading alone costs a little
        curve = CURVES[self.wishes.get("curve", "gb10")]
        return curve[float(self.values.get("confidence", "0.7"))]


def parse(arguments: list[str]) -> Options:
    wishes = dict(pair.split("=", 1) for pair in os.environ.get("FAKE_DS4", "").split())
    support = "--mtp" if wishes.get("flags") == "older" else "--mtp-model"
    values: dict[str, str] = {}
    switches: set[str] = set()
    words = iter(arguments)
    for word in words:
        name = "support" if word == support else WITH_VALUE.get(word)
        if word == "--help":
            print(f"Usage: ds4-server [options] {support} FILE {' '.join((*WITH_VALUE, *SWITCHES))} --cuda --metal")
            raise SystemExit(0)
        if name is not None:
            values[name] = next(words)
        elif word in SWITCHES:
            switches.add(word)
        else:
            fail(f"ds4-server: unknown option: {word}", 2)
    return Options(values, switches, wishes)


def load(options: Options) -> None:
    """Open the files, or say in ds4's words why not."""
    model = contents(options.values.get("model", "ds4flash.gguf"))
    support = options.values.get("support")
    if {"--dspark", "--dspark-strict"} & options.switches and support is None:
        fail("ds4: --dspark requires --mtp FILE")
    if support is not None and "--ssd-streaming" in options.switches:
        fail("ds4: --ssd-streaming is not compatible with --mtp yet")
    if support is not None:
        if contents(support) != model:
            fail("ds4: DSpark support model does not match the pinned DeepSeek V4 Flash checkpoint")
        say(f"ds4: DSpark support model detected: {support} (stages=3 block=5 markov_rank=256 missing=0 invalid=0)")


def contents(path: str) -> str:
    try:
        return Path(path).read_text()
    except OSError as error:
        fail(f"ds4: cannot open model '{path}': {error.strerror}")
        raise AssertionError("unreachable") from error


@dataclass
class Session:
    """What is counted until the process ends."""

    cycles: int = 0
    proposed: int = 0
    accepted: int = 0
    full: int = 0
    missed: int = 0
    undrafted: int = 0
    tokens: int = 0
    busy_s: float = 0.0
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    owed: float = 0.0  # fractions of a token that cycles have not accepted yet
    promised: float = 0.0

    def cycle(self, options: Options) -> int:
        """Tokens of the next cycle."""
        _, proposed, accepted = options.pace
        if not proposed:
            return 1
        self.promised += proposed
        drafted = min(5, int(self.promised))
        self.promised -= drafted
        self.owed += accepted
        kept = min(drafted, int(self.owed))
        self.owed -= kept
        self.cycles += 1
        self.proposed += drafted
        self.accepted += kept
        self.full += bool(drafted) and kept == drafted
        self.missed += bool(drafted) and not kept
        self.undrafted += not drafted
        return 1 + kept

    def stats(self, options: Options) -> str:
        generation = options.wishes.get("stats", "3")
        rate = 100 * self.accepted / self.proposed if self.proposed else 0.0
        average = self.accepted / self.cycles if self.cycles else 0.0
        partial = max(self.cycles - self.full - self.missed - self.undrafted, 0)
        line = (
            f"ds4: DSpark stats cycles={self.cycles} first_tokens={self.cycles} proposed={self.proposed} "
            f"accepted_draft={self.accepted} accept_rate={rate:.2f}% avg_accept={average:.3f} full={self.full} "
            f"partial={partial} miss_first={self.missed} no_draft={self.undrafted} no_room=0 invalid=0"
        )
        spent, saved = self.busy_s * 1000, self.accepted * options.token_s * 1000
        net = (self.tokens * options.token_s - self.busy_s) * 1000
        if generation == "1":
            return f"{line} time_ms propose=0.100 verify={spent:.3f} verify_layer={spent:.3f} replay=0.000"
        if generation == "3":
            line += " direct_full=0 direct_partial=0 scheduler_skips=0 tail_skips=0 verifier_unavailable=0 errors=0"
            line += " fallbacks=0 exact2_attempts=0"
        else:
            line += " scheduler_skips=0 draft_len_hist=1:10,2:6 accepted_len_hist=0:72,1:6"
        return (
            f"{line} time_ms propose=0.1 verify={spent:.1f} verify_layer={spent:.1f} replay=0.0 "
            f"spec_total={spent:.1f} target=0.0 saved={saved:.1f} net_saved={net:.1f}"
        )


class Server:
    """Answers on one port."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.session = Session()
        self.requests = 0

    async def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await self.answer(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()  # ds4 answers one request on a connection

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        method, path, _ = head.split(" ", 2)
        lengths = [line.split(":")[1] for line in head.lower().splitlines() if line.startswith("content-length:")]
        body = await reader.readexactly(int(lengths[0])) if lengths else b""
        if (method, path) == ("GET", "/v1/models"):
            card = {"id": "deepseek-v4-flash", "object": "model", "owned_by": "ds4.c"}
            card |= {"context_length": int(self.options.values.get("ctx", "32768"))}
            await plain(writer, 200, {"object": "list", "data": [card]})
        elif (method, path) == ("POST", "/v1/chat/completions"):
            await self.chat(writer, json.loads(body))
        else:
            await plain(writer, 404, {"error": {"message": "not found", "type": "invalid_request_error"}})

    async def chat(self, writer: asyncio.StreamWriter, wish: dict[str, Any]) -> None:
        prompt = " ".join(message["content"] for message in wish["messages"])
        prompt_tokens = len(prompt.split()) + TEMPLATE_TOKENS
        assert wish.get("think") in (False, None), "tests ask for plain answers"
        self.requests += 1
        async with self.session.lock:
            await asyncio.sleep(prompt_tokens * 2e-5)
            most = int(wish["max_tokens"])
            usage = {"prompt_tokens": prompt_tokens, "completion_tokens": most, "total_tokens": prompt_tokens + most}
            usage["prompt_tokens_details"] = {"cached_tokens": 0, "cache_write_tokens": prompt_tokens}
            if not wish.get("stream"):
                choice = {"index": 0, "message": {"role": "assistant", "content": "word"}, "finish_reason": "length"}
                await plain(writer, 200, {"object": "chat.completion", "choices": [choice], "usage": usage})
                return
            await self.stream(writer, most, usage if (wish.get("stream_options") or {}).get("include_usage") else None)

    async def stream(self, writer: asyncio.StreamWriter, most: int, usage: dict[str, Any] | None) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n")
        writer.write(chunk({"role": "assistant"}))
        began = due = time.monotonic()
        writer.write(chunk({"content": "word 0 "}))
        made = 1
        while made < most:
            tokens = min(self.session.cycle(self.options), most - made)
            due += tokens * self.options.token_s / self.options.pace[0]
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            for number in range(made, made + tokens):
                writer.write(chunk({"content": f"word {number} "}))
            await writer.drain()
            made += tokens
        self.session.tokens += made - 1
        took = time.monotonic() - began
        self.session.busy_s += took
        if took > 0:
            rate = (made - 1) / took
            speed = f"chunk={rate:.2f} t/s avg={rate:.2f} t/s {took:.3f}s"
            say(f"ds4-server: chat ctx=0..{made} gen={made} decoding {speed}")
        writer.write(chunk({}, finish="length"))
        if usage is not None:
            writer.write(b"data: " + json.dumps({"choices": [], "usage": usage}).encode() + b"\n\n")
        writer.write(b"data: [DONE]\n\n")
        await writer.drain()


def chunk(delta: dict[str, Any], finish: str | None = None) -> bytes:
    tree = {"object": "chat.completion.chunk", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}
    return b"data: " + json.dumps(tree).encode() + b"\n\n"


async def plain(writer: asyncio.StreamWriter, status: int, tree: dict[str, Any]) -> None:
    body = json.dumps(tree).encode()
    head = f"HTTP/1.1 {status} OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n"
    writer.write(head.encode() + b"Connection: close\r\n\r\n" + body)
    await writer.drain()


async def main() -> int:
    options = parse(sys.argv[1:])
    load(options)
    host, port = options.values.get("host", "127.0.0.1"), int(options.values.get("port", "8000"))
    server = Server(options)
    try:
        listening = await asyncio.start_server(server.connected, host, port)
    except OSError as error:
        fail(f"ds4-server: failed to listen on {host}:{port}: {os.strerror(error.errno or 0)}")
    say(f"ds4-server: listening on http://{host}:{port}")
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    await stop.wait()
    listening.close()
    say("ds4-server: shutting down")
    if "support" in options.values and options.wishes.get("stats") != "none":
        line = server.session.stats(options)
        if "cut" in options.wishes:
            sys.stderr.write(line[: int(options.wishes["cut"])])
            return 1
        say(line)
        if options.wishes.get("stats", "3") == "3":
            say("ds4: DSpark detail block=5 stages=3")
    return 0


if __name__ == "__main__":
    raise SystemExit(asyncio.run(main()))
