"""The batch loop: one step after the other at a known pace, counting what it does."""

from __future__ import annotations

import asyncio
import hashlib
import random
from collections.abc import Sequence
from dataclasses import dataclass, field

from . import bootlog
from .options import Options
from .tokens import EOS, Answer, is_symbolic

LAST_BREATH_S = 0.4  # between the engine's death and the end of the process: /health answers 503 in it


@dataclass(frozen=True)
class Batch:
    """What one step brought for one request."""

    tokens: tuple[int, ...]
    finish_reason: str | None = None
    error: bool = False


@dataclass
class Counters:
    """What /metrics shows. Histograms keep their observations."""

    drafts: int = 0
    draft_tokens: int = 0
    accepted: int = 0
    by_position: list[int] = field(default_factory=list)
    prompt_tokens: int = 0
    generation_tokens: int = 0
    cache_queries: int = 0
    cache_hits: int = 0
    finished: dict[str, int] = field(default_factory=dict)
    iterations: list[int] = field(default_factory=list)
    first_token_s: list[float] = field(default_factory=list)
    gaps_s: list[float] = field(default_factory=list)
    requests_s: list[float] = field(default_factory=list)


@dataclass
class Request:
    """One prompt on its way."""

    prompt: Sequence[int]
    max_tokens: int
    min_tokens: int
    ignore_eos: bool
    answer: Answer
    salt: str
    queue: asyncio.Queue[Batch] = field(default_factory=asyncio.Queue)
    made: int = 0
    cached: int = 0
    length: int = 0  # where EOS comes
    arrived_s: float = 0.0
    last_s: float = 0.0
    per_step: list[tuple[int, int]] = field(default_factory=list)  # accepted, drafted

    @property
    def done(self) -> bool:
        return self.made >= self.length


class Engine:
    """Admits requests and steps while there are any."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.counters = Counters(by_position=[0] * options.k)
        self.waiting: list[Request] = []
        self.running: list[Request] = []
        self.dead = False
        self.ended = asyncio.Event()
        self.started_at = 0.0  # of the counters, wall clock; set by the exposition
        self._work = asyncio.Event()
        self._blocks: set[bytes] = set()
        self._generated = 0
        self._requests = 0
        self._curve = self._curves()

    def submit(self, prompt: Sequence[int], body: dict[str, object], *, max_tokens: int) -> Request:
        """Queue a request; its batches appear on its queue, the last one with a finish reason."""
        self._requests += 1
        if self.options.fault("jit_at_request") == str(self._requests):
            bootlog.jit_line()
        request = Request(
            prompt=prompt,
            max_tokens=max_tokens,
            min_tokens=int(body.get("min_tokens") or 0),  # type: ignore[call-overload]
            ignore_eos=bool(body.get("ignore_eos")),
            answer=self._answer(prompt, body),
            salt=str(body.get("cache_salt") or ""),
            arrived_s=asyncio.get_running_loop().time(),
        )
        request.length = self._length(request)
        self.waiting.append(request)
        self._work.set()
        return request

    def abort(self, request: Request) -> None:
        """The client hung up: what was made stays counted."""
        for queue in (self.waiting, self.running):
            if request in queue:
                queue.remove(request)

    async def run(self) -> None:
        """Step as long as there is work. Steps follow each other without drift."""
        loop = asyncio.get_running_loop()
        due_s = loop.time()
        while not self.dead:
            if not self.running and not self.waiting:
                self._work.clear()
                await self._work.wait()
                due_s = loop.time()
            admitted = self._admit()
            due_s = max(due_s, loop.time() - 0.002) + self._duration_s(admitted)
            await asyncio.sleep(due_s - loop.time())
            self._step(admitted, loop.time())

    async def die_with(self, core: asyncio.subprocess.Process) -> None:
        """Notice the EngineCore's death, as the API server does."""
        await core.wait()
        await self.die()

    async def die(self) -> None:
        if self.dead:
            return
        self.dead = True
        bootlog.engine_died()
        for request in (*self.running, *self.waiting):
            request.queue.put_nowait(Batch((), error=True))
        self.running.clear()
        self.waiting.clear()
        await asyncio.sleep(LAST_BREATH_S)
        self.ended.set()

    async def foreign_traffic(self) -> None:
        """Count what somebody else is served."""
        rate = self.options.number("foreign_tokens_per_s", 0.0)
        while rate:
            await asyncio.sleep(0.05)
            self.counters.generation_tokens += round(rate * 0.05)
            self.counters.prompt_tokens += round(rate * 0.05)

    def _answer(self, prompt: Sequence[int], body: dict[str, object]) -> Answer:
        greedy = not float(body.get("temperature") or 0.0)  # type: ignore[arg-type]
        sampling = "greedy" if greedy else str(body.get("seed", random.random()))
        key = f"{self.options.switches.get('seed', '0')} {sampling}"
        loop, split = bool(self.options.fault("loop")), bool(self.options.fault("split_characters"))
        return Answer(prompt, key, loop=loop, split=split)

    def _length(self, request: Request) -> int:
        if request.ignore_eos:
            return request.max_tokens
        mean = self.options.number("natural_tokens", 60)
        natural = round(mean * (0.5 + request.answer.chance("length")))
        return min(request.max_tokens, max(natural, request.min_tokens, 1))

    def _admit(self) -> list[Request]:
        room = self.options.max_num_seqs - len(self.running)
        admitted, self.waiting = self.waiting[:room], self.waiting[room:]
        for request in admitted:
            request.cached = self._look_up(request)
            self.counters.cache_queries += len(request.prompt)
            self.counters.cache_hits += request.cached
        return admitted

    def _look_up(self, request: Request) -> int:
        """Tokens of whole blocks that an earlier prompt with the same beginning left; the last token is computed."""
        if not self.options.prefix_caching:
            return 0
        size, hits, unbroken = self.options.block_size, 0, True
        digest = hashlib.sha256(request.salt.encode())
        for start in range(0, len(request.prompt) - size + 1, size):
            digest.update(repr(list(request.prompt[start : start + size])).encode())
            unbroken = unbroken and digest.digest() in self._blocks
            hits += size if unbroken else 0
            self._blocks.add(digest.digest())
        return min(hits, (len(request.prompt) - 1) // size * size)

    def _duration_s(self, admitted: list[Request]) -> float:
        number = self.options.number
        streams = len(self.running) + len(admitted)
        step_ms = number("step_a_ms", 3.0) + number("step_b_ms", 0.5) * self.options.k
        step_ms += number("step_stream_ms", 0.2) * (streams - 1)
        uncached = sum(len(request.prompt) - request.cached for request in admitted)
        stall_s = 0.2 if self.options.fault("jit_at_request") == str(self._requests) and admitted else 0.0
        return (step_ms / 1000 + uncached / number("prefill_tokens_per_s", 100000.0)) * self.options.slowness + stall_s

    def _step(self, admitted: list[Request], now_s: float) -> None:
        scheduled = 0
        for request in self.running:
            scheduled += self._decode(request, now_s)
        for request in admitted:
            scheduled += self._prefill(request, now_s)
        self.counters.iterations.append(scheduled)
        self.running = [request for request in (*self.running, *admitted) if not request.done]
        limit = self.options.fault("die_after_tokens")
        if limit and self._generated >= int(limit):
            asyncio.get_running_loop().create_task(self.die())

    def _prefill(self, request: Request, now_s: float) -> int:
        self.counters.prompt_tokens += len(request.prompt)
        self.counters.first_token_s.append(now_s - request.arrived_s)
        self._deliver(request, 1, now_s)
        return len(request.prompt) - request.cached + 1

    def _decode(self, request: Request, now_s: float) -> int:
        drafted = self._drafted(request)
        accepted = request.answer.accepted(request.made, self._curve[is_symbolic(request.prompt)], drafted)
        if self.options.fault("loop") and self.options.drafts_rarely:
            accepted = drafted
        if drafted:
            self.counters.drafts += 1
            self.counters.draft_tokens += drafted
            self.counters.accepted += accepted
            for place in range(accepted):
                self.counters.by_position[place] += 1
            request.per_step.append((accepted, drafted))
        self.counters.gaps_s.append(now_s - request.last_s)
        return self._deliver(request, 1 + accepted, now_s)

    def _drafted(self, request: Request) -> int:
        k = self.options.k
        if self.options.drafts_rarely:
            return min(k, request.length - request.made) if self.options.fault("loop") and request.made > 8 else 0
        if self.options.fault("trim") and k:
            return 1 + int(request.answer.chance("trim", request.made) * k)
        return k

    def _deliver(self, request: Request, count: int, now_s: float) -> int:
        count = min(count, request.length - request.made)  # accepted tokens beyond the end are counted, not sent
        tokens = [request.answer.token(request.made + place) for place in range(count)]
        request.made += count
        request.last_s = now_s
        self._generated += count
        self.counters.generation_tokens += count
        finish = None
        if request.done:
            stopped = not request.ignore_eos and request.length < request.max_tokens
            finish = "stop" if stopped else "length"
            tokens[-1] = EOS if stopped else tokens[-1]
            self._finish(request, finish, now_s)
        request.queue.put_nowait(Batch(tuple(tokens), finish))
        return count

    def _finish(self, request: Request, reason: str, now_s: float) -> None:
        self.counters.finished[reason] = self.counters.finished.get(reason, 0) + 1
        self.counters.requests_s.append(now_s - request.arrived_s)
        limit = self.options.fault("counters_restart_after")
        if limit and sum(self.counters.finished.values()) >= int(limit):
            self.counters = Counters(by_position=[0] * self.options.k)
            self.started_at = 0.0

    def _curves(self) -> dict[bool, list[float]]:
        """Acceptance by position, of prose (False) and of symbols (True)."""
        given = self.options.switches.get("acceptance")
        prose = [float(share) for share in given.split(",")] if given else [0.85 ** (i + 1) for i in range(64)]
        of_code = self.options.switches.get("code_acceptance")
        return {
            False: prose,
            True: [float(share) for share in of_code.split(",")] if of_code else [p * p for p in prose],
        }
