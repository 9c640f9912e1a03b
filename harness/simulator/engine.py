"""The engine loop: requests in, batches of tokens out, one step after the other. Pure: time is an argument.

Continuous batching as vLLM does it: a step serves every decoding stream and what room there is for prompts; its length
is the model's. Everything random is a function of the scenario's seed, the launch and the content of a prompt, never of
the client's timing, so that equal runs are equal to the last byte.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from harness.simulator import faults as fault
from harness.simulator.counters import Counters, LaggingCounters
from harness.simulator.model import (
    Chunk,
    PromptState,
    Scheduling,
    Speculation,
    StepLoad,
    StepOutcome,
    plan_chunks,
    step_s,
)
from harness.simulator.noise import generator, launch_factor, step_factor
from harness.simulator.prefix import PrefixCache
from harness.simulator.request import Batch, Deliver, Job, Order, fate_of, new_job
from harness.simulator.scenario import Scenario

JIT_LINE = (
    "Triton kernel JIT compilation during inference: _simulated_kernel. This causes a latency spike; "
    "consider extending warmup to cover this shape/config."
)
_ROUNDING_S = 1e-9
_CAPTURE_STEP = 8
_LATE_S = 0.05  # a step that begins this late begins now; else where the one before ended, so that steps do not drift


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineSettings:
    """What the engine was started with."""

    speculation: Speculation
    scheduling: Scheduling
    max_model_tokens: int
    prefix_caching: bool = True
    block_tokens: int = 64


@dataclass(frozen=True, slots=True)
class _Step:
    begin_s: float
    end_s: float
    seconds: float
    decoding: tuple[tuple[Job, StepOutcome], ...]
    chunks: tuple[tuple[Job, Chunk], ...]


@dataclass(slots=True)
class Decoded:
    """What steps that only decode took and brought, since boot."""

    steps: int = 0
    seconds: float = 0.0
    tokens: int = 0
    context_tokens: int = 0  # summed over steps


class EngineLoop:
    """One boot of an engine. Whoever drives it calls ``advance`` at ``due_s`` and after each submit."""

    def __init__(
        self,
        scenario: Scenario,
        settings: EngineSettings,
        *,
        launch_key: str,
        log: Callable[[str], None] = lambda line: None,
    ) -> None:
        """Boot.

        Args:
            scenario: truth, noise and faults.
            settings: of the configuration.
            launch_key: equal launches are equal; give each boot of a run a key of its own.
            log: takes lines of the engine's log.
        """
        self.scenario = scenario
        self.settings = settings
        self.dead = False
        self.k = fault.live_k(scenario.faults, settings.speculation.k)
        self.speculation = replace(settings.speculation, k=self.k)
        self.counters = Counters(self.k)
        self._seen = LaggingCounters(self.counters, lag_s=scenario.faults.counter_lag_s)
        self._launch_key = launch_key
        self._log = log
        self._born_s = 0.0
        self._busy_s = 0.0
        self.counted_since_s = 0.0  # since ready
        self.decoded = Decoded()
        self._factor = launch_factor(scenario.noise, seed=scenario.seed, launch_key=launch_key)
        self._steps = generator(scenario.seed, launch_key, "steps")
        self._shapes: set[str] = set()
        self._cache = PrefixCache(
            block_tokens=settings.block_tokens,
            capacity_tokens=scenario.truth.kv_cache_tokens if settings.prefix_caching else 0,
        )
        self._cache_state = 0
        limits = (scenario.faults.capture_limit_tokens, settings.scheduling.capture_limit_tokens)
        default = settings.scheduling.max_num_seqs * (self.k + 1)
        self._capture_limit = next((limit for limit in limits if limit is not None), default)
        self._prompts: list[Job] = []  # whose first token is not there yet, oldest first
        self._decoding: list[Job] = []
        self._step: _Step | None = None
        self._foreign = 0

    def ready(self, now_s: float) -> None:
        """Begin to serve. All other times are of the same clock."""
        self._born_s = now_s

    @property
    def capture_sizes(self) -> tuple[int, ...]:
        """Step sizes with a captured graph, in tokens; () where the engine captures none."""
        limit = self._capture_limit
        return tuple(sorted({*range(_CAPTURE_STEP, limit + 1, _CAPTURE_STEP), limit} - {0}))

    @property
    def running(self) -> int:
        """Requests in the batch."""
        return len(self._decoding) + sum(job.started for job in self._prompts)

    @property
    def busy(self) -> bool:
        """Whether there is anything to do."""
        return self._step is not None or bool(self._prompts or self._decoding)

    def counters_seen(self, now_s: float) -> Counters:
        """Return what a scrape shows: the counters of as long ago as the scenario says."""
        return self._seen.seen(now_s)

    def submit(self, order: Order, now_s: float, deliver: Deliver) -> Job:
        """Take a request. ``deliver`` gets its batches from within ``advance``, the last one with a finish reason."""
        scenario = self.scenario
        if scenario.faults.ignores_length:
            order = replace(order, min_tokens=0, ignore_eos=False)
        fate = fate_of(order, scenario, self.speculation, launch_key=self._launch_key)
        job = new_job(order, fate, deliver, now_s=now_s, first_token_s=scenario.truth.cost.first_token_s)
        job.prompt_tokens += scenario.faults.template_tokens
        job.cut_after = fault.cut_after_tokens(
            scenario.faults,
            seed=scenario.seed,
            launch_key=self._launch_key,
            request_key=f"{order.key} {order.seed}",
            tokens=fate.output_tokens,
        )
        self._prompts.append(job)
        return job

    def abort(self, job: Job) -> None:
        """Forget a request whose client hung up. What was made stays counted; nothing counts the abort."""
        job.finished = True
        self._prompts = [each for each in self._prompts if each is not job]
        self._decoding = [each for each in self._decoding if each is not job]

    def due_s(self) -> float | None:
        """Return when ``advance`` has something to do; None: only after a submit."""
        if self.dead:
            return None
        times = [self._next_foreign_s()]
        if self._step is not None:
            times.append(self._step.end_s)
        elif self._decoding:
            times.append(self._born_s)
        else:
            times += [job.ready_s for job in self._prompts]
        return min((time for time in times if time is not None), default=None)

    def advance(self, now_s: float) -> None:
        """Do everything that is due: end a step, deliver what it brought, begin the next one."""
        if self.dead:
            return
        self._let_foreign_in(now_s)
        ended = self._step
        if ended is None:
            self._step = self._begin(now_s, now_s)
        elif now_s < ended.end_s - _ROUNDING_S:
            return
        else:
            self._end(ended, now_s)
            begin_s = ended.end_s if now_s - ended.end_s < _LATE_S else now_s
            if not self.dead:
                # Planned while the step before began, as asynchronous scheduling does; an idle engine plans at once.
                self._step = self._begin(begin_s, ended.begin_s) or self._begin(begin_s, now_s)
        self._note_queue(now_s)

    def die(self, now_s: float) -> None:
        """End the engine; every request gets an error."""
        self.dead = True
        self._step = None
        jobs, self._prompts, self._decoding = [*self._prompts, *self._decoding], [], []
        for job in jobs:
            job.finished = True
            job.deliver(Batch(now_s, 0, error=True))

    # A step.

    def _begin(self, begin_s: float, planned_s: float) -> _Step | None:
        decoding = tuple((job, job.next_step()) for job in self._decoding)
        chunks = self._chunks(len(decoding), planned_s)
        if not decoding and not chunks:
            return None
        load = StepLoad(
            self.k,
            len(decoding),
            sum(job.context_tokens for job, _ in decoding),
            sum(outcome.drafted + 1 for _, outcome in decoding),
            tuple(chunk for _, chunk in chunks),
        )
        seconds = self._seconds(load, begin_s)
        return _Step(begin_s, begin_s + seconds, seconds, decoding, chunks)

    def _chunks(self, decoding: int, planned_s: float) -> tuple[tuple[Job, Chunk], ...]:
        ready = [job for job in self._prompts if job.ready_s <= planned_s + _ROUNDING_S and self._fits(job)]
        for job in ready:
            if not job.started:
                self._look_up(job)
        states = [PromptState(job.prompt_tokens, job.cached, job.done) for job in ready]
        plan = plan_chunks(self.settings.scheduling, decoding=decoding, k=self.k, prompts=states)
        return tuple((job, chunk) for job, chunk in zip(ready, plan, strict=True) if chunk is not None)

    def _fits(self, job: Job) -> bool:
        if job.started:
            return True
        held = sum(each.context_tokens for each in self._decoding) + sum(
            each.prompt_tokens for each in self._prompts if each.started
        )
        return held + job.prompt_tokens <= self.scenario.truth.kv_cache_tokens

    def _look_up(self, job: Job) -> None:
        if not self.settings.prefix_caching or job.looked_at == self._cache_state:
            return
        job.looked_at = self._cache_state
        block = self.settings.block_tokens
        foisted = fault.cached_tokens(self.scenario.faults, job.prompt_tokens - 1) // block * block
        found = self._cache.look_up(job.order.prompt, salt=job.order.salt)
        found = int(found * (1 - self.scenario.faults.prefix_evicted_ratio)) // block * block
        job.cached = max(found, foisted)

    def _seconds(self, load: StepLoad, begin_s: float) -> float:
        scenario = self.scenario
        seconds = step_s(scenario.truth.cost, load, capture_limit_tokens=self._capture_limit)
        seconds *= self._factor * step_factor(scenario.noise, self._steps)
        seconds *= fault.slow_factor(
            scenario.faults,
            engine_s=begin_s - self._born_s,
            seed=scenario.seed,
            launch_key=self._launch_key,
        )
        return seconds + self._stall_s(load)

    def _stall_s(self, load: StepLoad) -> float:
        """What compiling costs at the first step of a shape: so many streams, so long a context to the power of two."""
        if self.scenario.faults.jit_stall is None:
            return 0.0
        longest = load.context_tokens // load.streams if load.streams else 0
        shape = f"{load.streams} streams of {longest.bit_length()} bits{' with prompts' if load.chunks else ''}"
        if shape in self._shapes:
            return 0.0
        self._shapes.add(shape)
        seconds = fault.stall_s(self.scenario.faults, shape=shape, seed=self.scenario.seed, launch_key=self._launch_key)
        if seconds > 0:
            self._log(JIT_LINE)
        return seconds

    def _end(self, step: _Step, now_s: float) -> None:
        self._step = None
        self._busy_s += step.seconds
        self._reset_counters()
        dies_after_s = self.scenario.faults.engine_dies_after_s
        if dies_after_s is not None and self._busy_s >= dies_after_s:
            self.die(now_s)
            return
        context_tokens = sum(job.context_tokens for job, _ in step.decoding)
        tokens = sum(self._decoded(job, outcome, now_s) for job, outcome in step.decoding if not job.finished)
        if not step.chunks:
            self.decoded.steps += 1
            self.decoded.seconds += step.seconds
            self.decoded.tokens += tokens
            self.decoded.context_tokens += context_tokens
        tokens += sum(self._prefilled(job, chunk, now_s) for job, chunk in step.chunks if not job.finished)
        if tokens:  # a step in the middle of a prompt brings nothing, and no engine counts it
            self.counters.iteration_tokens.observe(tokens)
        self._decoding = [job for job in self._decoding if not job.finished]

    def _reset_counters(self) -> None:
        after_s = self.scenario.faults.counters_reset_after_s
        if after_s is not None and self.counted_since_s == 0 and self._busy_s >= after_s:
            self.counted_since_s = self._busy_s
            self.counters = Counters(self.k)
            self._seen = LaggingCounters(self.counters, lag_s=self.scenario.faults.counter_lag_s)

    def _decoded(self, job: Job, outcome: StepOutcome, now_s: float) -> int:
        self.counters.count_draft(outcome.drafted, outcome.accepted)
        job.steps.append(outcome)
        self.counters.gap_s.observe(now_s - job.last_s)
        return self._deliver(job, outcome.accepted + 1, now_s)

    def _prefilled(self, job: Job, chunk: Chunk, now_s: float) -> int:
        job.done += chunk.tokens
        if job.cached + job.done < job.prompt_tokens:
            return 0
        counters = self.counters
        counters.prompt_tokens += job.prompt_tokens
        if self.settings.prefix_caching:
            counters.prefix_cache_queries += job.prompt_tokens
            counters.prefix_cache_hits += job.cached
        counters.first_token_s.observe(now_s - job.arrived_s)
        self._prompts = [each for each in self._prompts if each is not job]
        self._decoding.append(job)
        self._keep(job, job.order.prompt)
        return job.prompt_tokens + self._deliver(job, 1, now_s)

    def _deliver(self, job: Job, tokens: int, now_s: float) -> int:
        """Hand out what a step made. Accepted tokens past the end were counted, and are not sent."""
        output_tokens = job.fate.output_tokens
        tokens = min(tokens, output_tokens - job.made)
        job.made += tokens
        job.last_s = now_s
        self.counters.generation_tokens += tokens
        reason = None
        if job.made >= output_tokens:
            reason = "length" if output_tokens == job.order.max_tokens else "stop"
            self._finish(job, reason, now_s)
        cut = reason is None and job.cut_after is not None and job.made >= job.cut_after
        job.finished = job.finished or cut
        job.deliver(Batch(now_s, tokens, reason, cut=cut))
        return tokens

    def _finish(self, job: Job, reason: str, now_s: float) -> None:
        job.finished = True
        counters = self.counters
        counters.finished[reason] += 1
        counters.request_s.observe(now_s - job.arrived_s)
        counters.request_prompt_tokens.observe(job.prompt_tokens)
        counters.request_generation_tokens.observe(job.made)
        self._keep(job, job.order.prompt + job.fate.answer.text(0, job.made).encode())

    def _keep(self, job: Job, text: bytes) -> None:
        if self.settings.prefix_caching:
            self._cache.keep(text, salt=job.order.salt)
            self._cache_state += 1

    def _note_queue(self, now_s: float) -> None:
        counters = self.counters
        counters.running = self.running
        counters.waiting = len(self._prompts) + len(self._decoding) - counters.running
        counters.kv_tokens = sum(job.context_tokens for job in (*self._prompts, *self._decoding))
        self._seen.changed(now_s)

    # Somebody else's requests.

    def _next_foreign_s(self) -> float | None:
        foreign = self.scenario.faults.foreign_traffic
        return None if foreign is None else self._born_s + foreign.every_s * (self._foreign + 1)

    def _let_foreign_in(self, now_s: float) -> None:
        foreign = self.scenario.faults.foreign_traffic
        while foreign is not None and (next_s := self._next_foreign_s()) is not None and next_s <= now_s + _ROUNDING_S:
            self._foreign += 1
            text = f"foreign {self._foreign} ".encode().ljust(foreign.prompt_tokens * 4, b".")
            order = Order(
                prompt=text,
                key=f"foreign {self._foreign}",
                workload_class=self.scenario.truth.default_class,
                max_tokens=foreign.output_tokens,
                ignore_eos=True,
            )
            self.submit(order, next_s, lambda batch: None)
