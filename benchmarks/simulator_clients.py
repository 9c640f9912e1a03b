"""What other clients measure on `harness simulate`, beside what the simulated engine was told to be.

    python benchmarks/simulator_clients.py --vllm-python ENV/bin/python --tokenizer FOLDER [--llama-benchy PROGRAM]

The engine is vllm-cpu-tiny without noise, k = 4. Each client sends prompts of its own making; the engine's own counters
say how long they were and how many drafts were accepted, so that what the step model makes of those prompts is known.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from statistics import mean, median

import httpx

from harness.metrics.exposition import parse
from harness.metrics.scrape import snapshot_of
from harness.records.counters import CounterSnapshot
from harness.simulator.cell import CellLoad, expected_cell
from harness.simulator.model import Scheduling, Speculation, StepLoad, step_s
from harness.simulator.truth import load_truth

TRUTH = load_truth("vllm-cpu-tiny")
K, MODEL = 4, "tiny"
TOKENS, PROMPT_TOKENS, REQUESTS = 128, 512, 12
BOOK = Path(__file__).parents[1] / "harness" / "workload" / "corpora"
_BENCH = """
import argparse
from vllm.benchmarks import serve
parser = argparse.ArgumentParser()
serve.add_cli_args(parser)
serve.main(parser.parse_args())
"""


@dataclass(frozen=True)
class Measured:
    """What a client says. None where it does not."""

    ttft_s: float
    step_s: float | None
    decode_tokens_per_s: float
    acceptance_length: float | None = None


@contextmanager
def simulated(concurrency: int) -> Iterator[str]:
    """A fresh `harness simulate`; yields its address."""
    options = ["--recipe", "vllm-cpu-tiny", "--set", f"num_speculative_tokens={K}", "--scenario", "quiet"]
    options += ["--set", f"max_num_seqs={max(concurrency, 1)}", "--port", "0", "--model", MODEL, "--quiet"]
    command = [sys.executable, "-m", "harness", "simulate", *options]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        found = re.search(r"http://\S+", process.stderr.readline())
        assert found, "it did not come up"
        try:
            yield found[0]
        finally:
            process.terminate()


@contextmanager
def book() -> Iterator[str]:
    """The packaged prose on a port of its own, since llama-benchy cuts its prompts from a book at an address."""
    handler = partial(SimpleHTTPRequestHandler, directory=str(BOOK))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}/prose.txt"
        finally:
            server.shutdown()


def counters(base_url: str) -> CounterSnapshot:
    """What the engine has counted since it was started."""
    snapshot = snapshot_of(parse(httpx.get(f"{base_url}/metrics").text, where=base_url), at_s=0.0)
    assert snapshot is not None
    return snapshot


def vllm_bench(python: Path, tokenizer: Path, base_url: str, concurrency: int, folder: Path) -> Measured:
    """Run `vllm bench serve` with random prompts."""
    arguments = {
        "backend": "openai",
        "base-url": base_url,
        "endpoint": "/v1/completions",
        "model": MODEL,
        "tokenizer": str(tokenizer),
        "dataset-name": "random",
        "random-input-len": str(PROMPT_TOKENS),
        "random-output-len": str(TOKENS),
        "num-prompts": str(REQUESTS),
        "max-concurrency": str(concurrency),
        "temperature": "0",
        "result-dir": str(folder),
        "result-filename": "bench.json",
    }
    flags = ["--ignore-eos", "--disable-tqdm", "--save-result", "--save-detailed"]
    command = [str(python), "-c", _BENCH, *flags]
    command += [word for name, value in arguments.items() for word in (f"--{name}", value)]
    _run(command, HF_HUB_OFFLINE="1", VLLM_NO_USAGE_STATS="1")
    result = json.loads((folder / "bench.json").read_text())
    assert (result["completed"], result["failed"]) == (REQUESTS, 0), result
    gaps = [gap for each in result["itls"] for gap in each]
    rates = [(TOKENS - 1) / sum(each) for each in result["itls"]]
    return Measured(mean(result["ttfts"]), median(gaps), mean(rates), result.get("spec_decode_acceptance_length"))


def llama_benchy(program: Path, tokenizer: Path, base_url: str, concurrency: int, folder: Path) -> Measured:
    """Run llama-benchy as it comes, its check of the model's sanity included."""
    result_file = folder / "benchy.json"
    with book() as address:
        arguments = ["--base-url", f"{base_url}/v1", "--model", MODEL, "--tokenizer", str(tokenizer)]
        arguments += ["--pp", str(PROMPT_TOKENS), "--tg", str(TOKENS), "--exact-tg", "--concurrency", str(concurrency)]
        arguments += ["--book-url", address, "--latency-mode", "none", "--extra-body", "temperature=0"]
        arguments += ["--exit-on-first-fail", "--format", "json", "--save-result", str(result_file)]
        _run([str(program), *arguments], HF_HUB_OFFLINE="1", HOME=str(folder))
    (result,) = json.loads(result_file.read_text())["benchmarks"]
    return Measured(result["e2e_ttft"]["mean"] / 1000, None, result["tg_req_throughput"]["mean"])


def told(snapshot: CounterSnapshot, concurrency: int) -> Measured:
    """What the step model makes of prompts of the length that was served, at the acceptance that was counted."""
    finished = snapshot.requests_finished or 1
    prompt_tokens = round((snapshot.prompt_tokens or 0) / finished)
    speculation, scheduling = Speculation(k=K), Scheduling(max_num_seqs=max(concurrency, 1), capture_limit_tokens=4096)
    load = CellLoad(
        prompt_tokens=prompt_tokens,
        output_tokens=TOKENS,
        concurrency=concurrency,
        workload_class="prose",
        temperature=0.0,
    )
    cell = expected_cell(TRUTH, speculation, scheduling, load)
    context = concurrency * (prompt_tokens + TOKENS // 2)
    step = step_s(TRUTH.cost, StepLoad(K, concurrency, context, concurrency * (K + 1)), capture_limit_tokens=4096)
    length = 1 + (snapshot.accepted_tokens or 0) / (snapshot.drafts or 1)
    return Measured(cell.ttft_s, step, length / step, length)


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--vllm-python", type=Path, help="the interpreter of an environment with vLLM")
    parser.add_argument("--llama-benchy", type=Path, help="the program")
    parser.add_argument("--tokenizer", type=Path, required=True, help="a folder with a Hugging Face tokenizer")
    options = parser.parse_args(arguments)
    clients = {
        "vllm bench serve": (options.vllm_python, vllm_bench),
        "llama-benchy": (options.llama_benchy, llama_benchy),
    }
    print(f"{'client':18} {'streams':>7} {'':9} {'ttft ms':>8} {'step ms':>8} {'tok/s':>7} {'length':>7}")
    for name, (program, measure) in clients.items():
        for concurrency in (1, 4) if program else ():
            with tempfile.TemporaryDirectory() as folder, simulated(concurrency) as base_url:
                measured = measure(program, options.tokenizer, base_url, concurrency, Path(folder))
                expected = told(counters(base_url), concurrency)
            for kind, row in (("told", expected), ("measured", measured)):
                print(f"{name:18} {concurrency:>7} {kind:9} {_row(row)}", flush=True)


def _row(row: Measured) -> str:
    step = "-" if row.step_s is None else f"{1000 * row.step_s:.2f}"
    length = "-" if row.acceptance_length is None else f"{row.acceptance_length:.2f}"
    return f"{1000 * row.ttft_s:>8.1f} {step:>8} {row.decode_tokens_per_s:>7.1f} {length:>7}"


def _run(command: list[str], **variables: str) -> None:
    done = subprocess.run(command, env=os.environ | variables, capture_output=True, text=True, timeout=300)
    if done.returncode != 0:
        raise SystemExit(f"{command[0]} failed:\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}")


if __name__ == "__main__":
    main(sys.argv[1:])
