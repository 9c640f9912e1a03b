"""A whole run as records, with a known truth: step time and acceptance by k, streamed request by request."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

from harness.records.cell import Cell, Configuration, KnobValue, LoadPoint, OutputLength, Refusal
from harness.records.counters import CounterDelta
from harness.records.identity import content_id
from harness.records.journal import RunData
from harness.records.launch import BootFacts, CanaryReading, LaunchRecord, LiveIdentity
from harness.records.manifest import HostFacts, Manifest
from harness.records.plan import CollapsedConfigurations, Plan, PlannedLaunch, PlannedTrial
from harness.records.request import RequestRecord, TokenBatch
from harness.records.trial import ClientFacts, TrialRecord, WarmupFacts
from harness.report.facts import RunFacts, run_facts
from harness.stats.case import Limits
from harness.stats.cells import summarise_run
from tests.fakes.nodes import sampled

RECIPE = "vllm-cpu-tiny"
RUN_ID = "20261130-132811-laptop-4f2a9c"
OUTPUT_TOKENS = 256
FIRST_TOKEN_S_PER_PROMPT_TOKEN = 0.00031
KV_CACHE_TOKENS = 262_144


@dataclass(frozen=True, slots=True, kw_only=True)
class FakeRun:
    """What the journal of a run would hold."""

    manifest: Manifest
    plan: Plan
    launches: tuple[LaunchRecord, ...]
    trials: tuple[TrialRecord, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunShape:
    """What the fake run measures. The defaults are one round of a small sweep with some trouble in it."""

    tokens: tuple[int, ...] = (0, 1, 2, 4, 6, 10)
    concurrencies: tuple[int, ...] = (1, 4)
    contexts: tuple[int, ...] = (256, 1024)
    extra_knobs: tuple[dict[str, KnobValue], ...] = ({},)
    rounds: int = 1
    repeats: int = 2
    launch_noise_ratio: float = 0.01
    with_failure: bool = True
    with_refusal: bool = True
    with_doubts: bool = True
    simulated: bool = False
    sampled: bool = False  # on a pair whose nodes were read; the worker gets hot in the last launch
    seed: int = 7


def true_step_s(k: int, load: LoadPoint) -> float:
    """The step time that the fake engine has: grows with k, more so under concurrency."""
    slope = 0.11 if load.concurrency == 1 else 0.16
    return 0.0139 * (1 + 0.2 * (load.concurrency - 1)) * (1 + load.context_tokens / 8192) * (1 + slope * k)


def true_acceptance_by_position(k: int) -> tuple[float, ...]:
    """The chance that position i is accepted, unconditional."""
    chances, reached = [], 1.0
    for position in range(k):
        reached *= 0.78 * 0.97**position
        chances.append(reached)
    return tuple(chances)


def fake_run(shape: RunShape | None = None) -> FakeRun:
    """Return the records of a finished run of ``shape``."""
    shape = shape or RunShape()
    configurations = _configurations(shape)
    loads = _loads(shape)
    builder = _Builder(shape=shape, random=random.Random(shape.seed))
    launches: list[LaunchRecord] = []
    trials: list[TrialRecord] = []
    planned: list[PlannedLaunch] = []
    for round_number in range(1, shape.rounds + 1):
        for configuration in configurations:
            planned.append(_planned(configuration, loads, round_number, len(planned) + 1, shape))
            launch, measured = builder.launch(configuration, loads, round_number)
            launches.append(launch)
            trials.extend(measured)
    return FakeRun(
        manifest=_manifest(shape), plan=_plan(shape, tuple(planned)), launches=tuple(launches), trials=tuple(trials)
    )


def fake_data(shape: RunShape | None = None) -> RunData:
    """Return the same as it is read back from a run's folder."""
    run = fake_run(shape)
    return RunData(manifest=run.manifest, plan=run.plan, launches=run.launches, trials=run.trials)


def fake_facts(shape: RunShape | None = None) -> RunFacts:
    """Return the same with its statistics, as a report takes it."""
    data = fake_data(shape)
    return run_facts(data, summarise_run(data.trials, data.launches, Limits()))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Builder:
    shape: RunShape
    random: random.Random

    def launch(
        self, configuration: Configuration, loads: tuple[LoadPoint, ...], round_number: int
    ) -> tuple[LaunchRecord, list[TrialRecord]]:
        launch_id = content_id([RUN_ID, configuration.configuration_id, round_number])
        k = configuration.num_speculative_tokens or 0
        if self.shape.with_failure and k == max(self.shape.tokens) + 4:
            return _failed_launch(configuration, launch_id, round_number, self.shape), []
        speed = 1 + self.random.gauss(0, self.shape.launch_noise_ratio)
        boot_s = self.random.uniform(23, 27)
        canary = CanaryReading(step_s=true_step_s(k, loads[0]) * speed, ttft_s=0.081)
        drift = 1.06 if self.shape.with_doubts and k == 6 else 1.004
        record = LaunchRecord(
            launch_id=launch_id,
            run_id=RUN_ID,
            round=round_number,
            attempt=1,
            configuration=configuration,
            started_at=f"2026-11-30T13:{28 + round_number:02d}:11+00:00",
            outcome="measured",
            ready_s=boot_s,
            total_s=boot_s + 71.0,
            boot=BootFacts(
                engine_version="0.32.0",
                kv_cache_tokens=KV_CACHE_TOKENS - 2048 * k,
                model_load_s=1.7,
                speculative_config={"method": "draft_model", "num_speculative_tokens": k} if k else None,
            ),
            live=LiveIdentity(
                model="tiny-target",
                max_model_len=4096,
                engine_version="0.32.0",
                num_speculative_tokens=k,
                proof=f"drafted / drafts = {k}" if k else "no speculation counters",
            ),
            canary_before=canary,
            canary_after=replace(canary, step_s=canary.step_s * drift),
            command=_command(k),
            environment={"VLLM_CPU_KVCACHE_SPACE": "1"},
            simulated=self.shape.simulated,
        )
        trials = [
            self.trial(record, load, repeat, speed) for load in loads for repeat in range(1, self.shape.repeats + 1)
        ]
        if self.shape.sampled:
            is_last = round_number == self.shape.rounds and k == max(self.shape.tokens)
            return sampled(record, trials, hot=is_last)
        return record, trials

    def trial(self, launch: LaunchRecord, load: LoadPoint, repeat: int, speed: float) -> TrialRecord:
        cell = Cell(configuration=launch.configuration, load=load)
        k = launch.configuration.num_speculative_tokens or 0
        step_s = true_step_s(k, load) * speed * (1 + self.random.gauss(0, 0.004))
        tally = _Tally(k=k)
        requests = self._requests(load, step_s, tally)
        doubtful = self.shape.with_doubts and k == 2 and load.concurrency == 4 and repeat == 1
        prompt_tokens = sum(request.prompt_tokens or 0 for request in requests)
        return TrialRecord(
            trial_id=content_id([launch.launch_id, load.load_id, repeat]),
            run_id=RUN_ID,
            launch_id=launch.launch_id,
            round=launch.round,
            repeat=repeat,
            cell=cell,
            workload_id=content_id(["prompts", load.load_id]),
            started_at=launch.started_at,
            requests=requests,
            counters=tally.delta(requests, prompt_tokens, cache_hits=prompt_tokens // 20 if doubtful else 0),
            client=ClientFacts(loop_lag_max_s=0.0008, cpu_ratio=0.04),
            warmup=WarmupFacts(requests=4, stable=True, change_ratio=0.012),
            jit_lines=("WARNING JIT compilation during inference: fused_kernel",)
            if self.shape.with_doubts and k == 10 and load.context_tokens == max(self.shape.contexts)
            else (),
            no_speculation=k == 0,
            simulated=self.shape.simulated,
        )

    def _requests(self, load: LoadPoint, step_s: float, tally: _Tally) -> tuple[RequestRecord, ...]:
        turns = 6 if load.concurrency == 1 else 2
        requests: list[RequestRecord] = []
        for stream in range(load.concurrency):
            free_s = 0.0  # a closed loop: the next request is sent when the last one has ended
            for turn in range(turns):
                requests.append(self._request(load, step_s, tally, place=(stream, turn), sent_s=free_s))
                free_s = requests[-1].closed_s or free_s
        return tuple(requests)

    def _request(
        self, load: LoadPoint, step_s: float, tally: _Tally, *, place: tuple[int, int], sent_s: float
    ) -> RequestRecord:
        stream, turn = place
        ttft_s = FIRST_TOKEN_S_PER_PROMPT_TOKEN * load.context_tokens * (1 + 0.3 * stream)
        batches = [TokenBatch(at_s=sent_s + ttft_s, tokens=1)]
        left = OUTPUT_TOKENS - 1
        while left > 0:
            delivered = min(left, 1 + tally.draft(self.random))
            left -= delivered
            batches.append(TokenBatch(at_s=batches[-1].at_s + step_s, tokens=delivered))
        return RequestRecord(
            prompt_id=content_id(["prompt", load.load_id, stream, turn]),
            stream=stream,
            turn=turn,
            scheduled_s=sent_s,
            sent_s=sent_s,
            closed_s=batches[-1].at_s + 0.0004,
            batches=tuple(batches),
            outcome="length",
            finish_reason="length",
            http_status=200,
            error=None,
            prompt_tokens=load.context_tokens,
            cached_tokens=0,
            output_tokens=OUTPUT_TOKENS,
            expected_prompt_tokens=load.context_tokens,
            token_count_source="token_ids",
            text_sha256=content_id(["text", load.load_id, stream, turn]),
            repeated_tail_ratio=0.01,
        )


@dataclass(slots=True, kw_only=True)
class _Tally:
    """The engine's own counters."""

    k: int
    drafts: int = 0
    accepted: int = 0
    by_position: list[int] | None = None

    def draft(self, source: random.Random) -> int:
        """One step: how many of k drafted tokens were accepted."""
        if not self.k:
            return 0
        if self.by_position is None:
            self.by_position = [0] * self.k
        self.drafts += 1
        accepted = 0
        while accepted < self.k and source.random() < 0.78 * 0.97**accepted:
            self.by_position[accepted] += 1
            accepted += 1
        self.accepted += accepted
        return accepted

    def delta(self, requests: tuple[RequestRecord, ...], prompt_tokens: int, *, cache_hits: int) -> CounterDelta:
        served = sum(request.output_tokens or 0 for request in requests)
        return CounterDelta(
            drafts=self.drafts if self.k else None,
            draft_tokens=self.drafts * self.k if self.k else None,
            accepted_tokens=self.accepted if self.k else None,
            accepted_by_position=tuple(self.by_position or ()) if self.k else None,
            prompt_tokens=prompt_tokens,
            generation_tokens=served,
            prefix_cache_queries=prompt_tokens,
            prefix_cache_hits=cache_hits,
            preemptions=0,
            iterations=None,
            requests_finished=len(requests),
            absent_because=None if self.k else "no speculation",
        )


def _command(k: int) -> tuple[str, ...]:
    command = ("python", "-m", "vllm.entrypoints.openai.api_server", "--model", "/models/tiny-target")
    if not k:
        return command
    return (*command, "--speculative-config", f'{{"method":"draft_model","num_speculative_tokens":{k}}}')


def _configurations(shape: RunShape) -> tuple[Configuration, ...]:
    tokens = (*shape.tokens, max(shape.tokens) + 4) if shape.with_failure else shape.tokens
    return tuple(
        Configuration(recipe=RECIPE, knobs={"num_speculative_tokens": k, **extra})
        for extra in shape.extra_knobs
        for k in tokens
    )


def _loads(shape: RunShape) -> tuple[LoadPoint, ...]:
    return tuple(
        LoadPoint(
            workload_class="prose",
            context_tokens=context,
            concurrency=concurrency,
            output=OutputLength(tokens=OUTPUT_TOKENS),
        )
        for context in shape.contexts
        for concurrency in shape.concurrencies
    )


def _failed_launch(configuration: Configuration, launch_id: str, round_number: int, shape: RunShape) -> LaunchRecord:
    return LaunchRecord(
        launch_id=launch_id,
        run_id=RUN_ID,
        round=round_number,
        attempt=1,
        configuration=configuration,
        started_at="2026-11-30T13:52:40+00:00",
        outcome="failed_to_boot",
        ready_s=None,
        total_s=9.4,
        reason="the engine ended with exit code 1 after 9.4 s",
        log_tail=(
            "(EngineCore pid=4141) ERROR 11-30 13:52:49 [core.py:1041] EngineCore failed to start.",
            "(EngineCore pid=4141) ValueError: num_speculative_tokens (14) exceeds the draft's 12 trained positions",
        ),
        simulated=shape.simulated,
    )


def _planned(
    configuration: Configuration, loads: tuple[LoadPoint, ...], round_number: int, ordinal: int, shape: RunShape
) -> PlannedLaunch:
    key = content_id([configuration.configuration_id, round_number])
    trials = tuple(
        PlannedTrial(trial_id=content_id([key, load.load_id, repeat]), load=load, predicted_s=8.5)
        for load in loads
        for repeat in range(1, shape.repeats + 1)
    )
    return PlannedLaunch(
        launch_key=key,
        ordinal=ordinal,
        round=round_number,
        configuration=configuration,
        trials=trials,
        predicted_launch_s=26.0,
    )


def _plan(shape: RunShape, planned: tuple[PlannedLaunch, ...]) -> Plan:
    refused = Configuration(recipe=RECIPE, knobs={"num_speculative_tokens": 32})
    refusal = Refusal(
        configuration=refused,
        because="the recipe allows up to 16: a longer draft than the capture size never boots",
        source="recipes/vllm-cpu-tiny/recipe.yaml",
        where="sweeps/laptop.yaml:9:36",
    )
    collapsed = CollapsedConfigurations(
        kept=planned[0].configuration,
        same_as=(Configuration(recipe=RECIPE, knobs={"num_speculative_tokens": 0, "draft_sample_method": "greedy"}),),
        because="draft_sample_method is inert without speculation",
    )
    return Plan(
        sweep="laptop",
        recipe=RECIPE,
        seed=shape.seed,
        launches=planned,
        refusals=(refusal,) if shape.with_refusal else (),
        collapsed=(collapsed,) if shape.with_refusal else (),
        excluded_cells=2,
        notes=("mix: read by ab, tune and nightly; this command measures every cell",),
        simulated=shape.simulated,
    )


def _manifest(shape: RunShape) -> Manifest:
    return Manifest(
        run_id=RUN_ID,
        sweep="laptop",
        sweep_sha256=content_id("sweep") * 5 + "abcd",
        sweep_file="laptop.yaml",
        recipe=RECIPE,
        recipe_sha256=content_id("recipe") * 5 + "abcd",
        harness_version="0.1.0",
        measuring_version=1,
        started_at="2026-11-30T13:28:11+00:00",
        seed=shape.seed,
        command=("harness", "sweep", "sweeps/laptop.yaml"),
        host=HostFacts(
            rig_id="simulated-laptop" if shape.simulated else "c0ffee123456",
            processor="AMD EPYC 9554",
            cores=2,
            memory_bytes=16 * 1024**3,
            accelerators=(),
            kernel="6.1.0-26-amd64",
            python="3.11.7",
        ),
        versions={"httpx": "0.28.1", "pydantic": "2.14.4", "scipy": "1.17.1"},
        simulated=shape.simulated,
    )
