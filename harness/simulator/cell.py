"""What a cell is expected to measure: the step model run with average tokens per step, without noise or faults.

For calibration, and for a plan that must say what a cell costs. A cell's requests are sent at once, a moment apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from harness.simulator.model import (
    Chunk,
    PromptState,
    Scheduling,
    Speculation,
    StepLaw,
    StepLoad,
    plan_chunks,
    step_law,
    step_s,
)
from harness.simulator.truth import Truth

_APART_S = 0.002  # between the requests of one cell: a client does not send them in the same instant


@dataclass(frozen=True, slots=True, kw_only=True)
class CellLoad:
    """One cell as a client sends it."""

    prompt_tokens: int
    output_tokens: int
    concurrency: int
    workload_class: str
    temperature: float = 0.6
    cached_tokens: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Stream:
    """One request's expected times, in seconds since it was sent."""

    ttft_s: float
    decode_s: float
    output_tokens: int

    @property
    def decode_tokens_per_s(self) -> float:
        """Tokens after the first per second."""
        return (self.output_tokens - 1) / self.decode_s


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedCell:
    """A cell's expected measurements."""

    streams: tuple[Stream, ...]
    wall_s: float

    @property
    def ttft_s(self) -> float:
        """The median over streams."""
        return median(stream.ttft_s for stream in self.streams)

    @property
    def decode_tokens_per_s(self) -> float:
        """Per stream, the median over streams."""
        return median(stream.decode_tokens_per_s for stream in self.streams)


def expected_cell(truth: Truth, speculation: Speculation, scheduling: Scheduling, load: CellLoad) -> ExpectedCell:
    """Return what the cell is expected to measure. Raises InputError: the truth does not know the workload class."""
    law = step_law(
        truth,
        speculation,
        workload_class=load.workload_class,
        temperature=load.temperature,
        context_tokens=load.prompt_tokens,
    )
    engine = _Engine(truth, speculation, scheduling, load, law)
    while engine.unfinished:
        engine.step()
    return ExpectedCell(
        streams=tuple(request.stream(truth.cost.first_token_s, load.output_tokens) for request in engine.requests),
        wall_s=engine.now_s,
    )


@dataclass(slots=True)
class _Request:
    sent_s: float
    prompt: PromptState
    first_s: float | None = None
    last_s: float | None = None
    tokens: float = 0.0

    def stream(self, first_token_s: float, output_tokens: int) -> Stream:
        if self.first_s is None or self.last_s is None:
            raise ValueError("the request has not finished")
        return Stream(
            ttft_s=self.first_s - self.sent_s + first_token_s,
            decode_s=max(self.last_s - self.first_s, 1e-9),
            output_tokens=output_tokens,
        )


class _Engine:
    """Plans each step one step ahead, as vLLM's asynchronous scheduling does: who comes later waits for the next."""

    def __init__(
        self, truth: Truth, speculation: Speculation, scheduling: Scheduling, load: CellLoad, law: StepLaw
    ) -> None:
        self.cost, self.k, self.scheduling, self.load, self.law = truth.cost, speculation.k, scheduling, load, law
        prompt = PromptState(load.prompt_tokens, load.cached_tokens, 0)
        self.requests = [_Request(_APART_S * index, prompt) for index in range(load.concurrency)]
        self.now_s, self.seen_s = 0.0, 0.0
        self.target_tokens = load.output_tokens + _overshoot(law)
        limit = scheduling.capture_limit_tokens
        self.capture_limit = scheduling.max_num_seqs * (self.k + 1) if limit is None else limit

    @property
    def unfinished(self) -> bool:
        return any(request.last_s is None for request in self.requests)

    def step(self) -> None:
        decoding = [request for request in self.requests if request.first_s is not None and request.last_s is None]
        waiting = [request for request in self.requests if request.first_s is None and request.sent_s <= self.seen_s]
        plan = plan_chunks(
            self.scheduling, decoding=len(decoding), k=self.k, prompts=[request.prompt for request in waiting]
        )
        chunks = [(request, chunk) for request, chunk in zip(waiting, plan, strict=True) if chunk is not None]
        seconds = step_s(
            self.cost,
            self._step_load(decoding, [chunk for _, chunk in chunks]),
            capture_limit_tokens=self.capture_limit,
        )
        started_s, self.seen_s = self.now_s, max(self.now_s, self.seen_s)
        self.now_s += seconds
        for request in decoding:
            self._decode(request, started_s, seconds)
        for request, chunk in chunks:
            self._prefill(request, chunk)
        if not seconds:
            self._wait()

    def _wait(self) -> None:
        """Nothing is planned: plan again at once, with all that have arrived, or wait for the next."""
        arrives_s = min(request.sent_s for request in self.requests if request.first_s is None)
        self.now_s = self.seen_s = max(self.now_s, arrives_s)

    def _step_load(self, decoding: Sequence[_Request], chunks: Sequence[Chunk]) -> StepLoad:
        context = sum(request.prompt.prompt_tokens + request.tokens for request in decoding)
        verified = round(len(decoding) * (1 + self.law.mean_drafted))
        return StepLoad(self.k, len(decoding), round(context), verified, tuple(chunks))

    def _decode(self, request: _Request, started_s: float, seconds: float) -> None:
        left = self.target_tokens - request.tokens
        if left <= self.law.mean_tokens:
            request.last_s = started_s + seconds * left / self.law.mean_tokens
        request.tokens += self.law.mean_tokens

    def _prefill(self, request: _Request, chunk: Chunk) -> None:
        prompt = request.prompt._replace(done_tokens=request.prompt.done_tokens + chunk.tokens)
        request.prompt = prompt
        if prompt.done_tokens + prompt.cached_tokens >= prompt.prompt_tokens:
            request.first_s, request.tokens = self.now_s, 1.0
            if self.load.output_tokens <= 1:
                request.last_s = self.now_s


def _overshoot(law: StepLaw) -> float:
    """Tokens of the last step past the end, on average: half the mean of squares over the mean, by renewal theory."""
    pairs = list(zip(law.probabilities, law.outcomes, strict=True))
    squares = sum(probability * (1 + outcome.accepted) ** 2 for probability, outcome in pairs)
    return (squares / law.mean_tokens - 1) / 2
