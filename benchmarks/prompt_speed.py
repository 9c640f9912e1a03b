"""How fast the prompts of a sweep are built on a real engine's tokenizer, and in how many counts.

    python -m benchmarks.prompt_speed [--sweep sweeps/vision_exp.yaml] [--url http://127.0.0.1:8000]

Without --url it launches the recipe vllm-cpu-tiny: its /tokenize counts texts of any length, whatever the model takes.
Nothing is generated. Every prompt of every cell is built as a launch builds it, warm-up rounds included, with no texts
kept from before. Fails above 60 s, or above 3 counts a prompt.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import httpx

from harness.client.endpoint import Endpoint, count_tokens
from harness.engine.clock import SystemClock
from harness.engine.launch import LaunchSetting, launched
from harness.engine.registry import Registry
from harness.engine.shell import LocalShell
from harness.recipe.build import build_launch
from harness.recipe.find import find_recipe, places_for
from harness.recipe.load import load_recipe
from harness.records.cell import NUM_SPECULATIVE_TOKENS, Configuration, LoadPoint
from harness.records.workload import Prompt
from harness.run.bench import Bench
from harness.run.streams import LEAST_ROUNDS, Prompts
from harness.sweep.cells import expand
from harness.sweep.load import load_sweep
from harness.workload.fitting import tolerance_tokens
from harness.workload.spec import StreamShape, promised_tokens, streams_for

MOST_S = 60.0
MOST_COUNTS_PER_PROMPT = 3.0
SWEEP = Path("sweeps/vision_exp.yaml")
_RECIPE = "vllm-cpu-tiny"
_WARMUP_ROUNDS = LEAST_ROUNDS


@dataclass(kw_only=True)
class CountingBench:
    """As much of a bench as prompts need: what counts tokens, and how often it was asked."""

    http: httpx.AsyncClient
    endpoint: Endpoint
    tokenizer_id: str = "measured"
    calls: int = 0
    counting_s: float = 0.0

    async def count_tokens(self, text: str, *, thinking: str = "off") -> int:
        """Count, as the server does."""
        began_s = time.perf_counter()
        tokens = await count_tokens(self.http, self.endpoint, text, thinking=thinking)
        self.calls += 1
        self.counting_s += time.perf_counter() - began_s
        return tokens


@dataclass(frozen=True, kw_only=True)
class Built:
    """What it took."""

    prompts: int
    tokens: int
    counts: int
    took_s: float
    counting_s: float  # of it, waiting for the server
    worst_off: float  # furthest from the asked length, as a share of what is allowed


def cells_of(sweep_file: Path) -> list[tuple[LoadPoint, StreamShape]]:
    """Return the loads of a sweep, short ones first as a launch has them, and how many prompts each sends."""
    sweep = load_sweep(sweep_file)
    groups = expand(sweep, load_recipe(find_recipe(sweep.file.recipe)).recipe).groups
    most_k = max(int(group.configuration.knobs.get(NUM_SPECULATIVE_TOKENS, 0)) for group in groups)
    loads = {load.load_id: load for group in groups for load in group.loads}
    ordered = sorted(loads.values(), key=lambda load: (load.context_tokens, load.load_id))
    return [(load, streams_for(load, drafts=sweep.file.repeat.drafts, k=most_k)) for load in ordered]


async def build_all(bench: CountingBench, cells: list[tuple[LoadPoint, StreamShape]]) -> Built:
    """Build every prompt of a launch."""
    source = Prompts(cast(Bench, bench), cache=None, seed=1, launch_id="speed")
    prompts: list[tuple[Prompt, int]] = []
    began_s = time.perf_counter()
    for number, (load, shape) in enumerate(cells):
        made = await source.for_trial(load, shape, name=str(number))
        rounds = [await made.warmup_round(each) for each in range(_WARMUP_ROUNDS)]
        prompts += [
            (prompt, promised_tokens(load, turn))
            for stream in made.streams
            for turn, prompt in enumerate(stream.prompts)
        ]
        prompts += [(prompt, 0) for streams in rounds for stream in streams for prompt in stream.prompts]
        prompts += [(prompt, 0) for prompt in made.fills]
    took_s = time.perf_counter() - began_s
    return Built(
        prompts=len(prompts),
        tokens=sum(prompt.tokens for prompt, _ in prompts),
        counts=bench.calls,
        took_s=took_s,
        counting_s=bench.counting_s,
        worst_off=max(abs(prompt.tokens - asked) / tolerance_tokens(asked) for prompt, asked in prompts if asked),
    )


@asynccontextmanager
async def bench_at(url: str | None, folder: Path) -> AsyncIterator[CountingBench]:
    """Hold a server's tokenizer ready: that at ``url``, else that of an engine launched for it."""
    async with httpx.AsyncClient(trust_env=False) as http:
        if url is not None:
            models = (await http.get(f"{url}/v1/models")).json()
            yield CountingBench(http=http, endpoint=Endpoint(base_url=url, model=models["data"][0]["id"]))
            return
        spec = build_launch(
            load_recipe(find_recipe(_RECIPE)),
            Configuration(recipe=_RECIPE, knobs={NUM_SPECULATIVE_TOKENS: 0}),
            places_for(_RECIPE),
        )
        setting = LaunchSetting(
            run_id="prompt-speed",
            launch_id="prompt-speed",
            log_path=folder / "engine.log",
            shell=LocalShell(),
            clock=SystemClock(),
            on_event=lambda event: None,
            registry=Registry(directory=folder / "launches"),
        )
        async with launched(spec, setting) as engine:
            yield CountingBench(http=http, endpoint=Endpoint(base_url=engine.base_url, model="tiny"))


async def measure(sweep_file: Path, url: str | None = None) -> Built:
    """Build the prompts of a sweep once, and say what it took."""
    with tempfile.TemporaryDirectory() as folder:
        async with bench_at(url, Path(folder)) as bench:
            await bench.count_tokens("the first count of a server is its slowest")
            bench.calls, bench.counting_s = 0, 0.0
            return await build_all(bench, cells_of(sweep_file))


def main() -> int:
    """Measure, print, and return 1 where a limit is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sweep", type=Path, default=SWEEP)
    parser.add_argument("--url", help="of a running server with /tokenize, without /v1")
    options = parser.parse_args()
    built = asyncio.run(measure(options.sweep, options.url))
    per_prompt = built.counts / built.prompts
    print(f"{built.prompts} prompts of {built.tokens / 1e6:.1f} million tokens in {built.took_s:.1f} s")
    print(f"{built.counts} counts, {per_prompt:.2f} a prompt; the server took {built.counting_s:.1f} s of the time")
    print(f"the furthest from its length is off by {built.worst_off:.0%} of what is allowed")
    return int(built.took_s > MOST_S or per_prompt > MOST_COUNTS_PER_PROMPT or built.worst_off > 1)


if __name__ == "__main__":
    sys.exit(main())
