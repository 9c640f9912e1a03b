"""What the command line costs: `harness --help`, a plan of 10,000 cells, and the memory of one 128K x 6 trial.

    python benchmarks/command_line.py [--runs 5]

Each figure is of a whole process, as a user would wait for it. Memory is the peak of the harness's own process while
it measures the stand-in engine of the tests (tests/fakes/fake_vllm.py) with six prompts of 131,072 tokens.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median

ROOT = Path(__file__).parents[1]
HARNESS = (sys.executable, "-m", "harness")

WIDE = """\
sweep: wide
recipe: vllm-local
knobs:
  model: tiny
  method: draft_model
  draft_model: draft
  num_speculative_tokens: {from: 1, to: 20, step: 1}
  max_num_seqs: {from: 1, to: 5, step: 1}
  context_tokens: {from: 256, to: 5056, step: 200}
  concurrency: {from: 1, to: 4, step: 1}
  output_tokens: 64
"""

DEEP = f"""\
sweep: deep
recipe: vllm-local
knobs:
  command: [["{sys.executable}", "{ROOT}/tests/fakes/fake_vllm.py"]]
  model: tiny
  method: draft_model
  draft_model: draft
  num_speculative_tokens: 4
  max_model_len: 140000
  context_tokens: 128K
  concurrency: 6
  output_tokens: 256
repeat: {{drafts: 400}}
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=5)
    runs = parser.parse_args().runs
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        (place / "wide.yaml").write_text(WIDE)
        (place / "deep.yaml").write_text(DEEP)
        help_s = [timed(["--help"], place) for _ in range(runs)]
        plan_s = [timed(["plan", "wide.yaml"], place) for _ in range(runs)]
        peak_bytes, deep_s = peak_memory(
            ["sweep", "deep.yaml", "--set", "env.FAKE_VLLM=prefill_tokens_per_s=1000000"], place
        )
    print("| what | median | worst | limit |\n|---|---|---|---|")
    print(row("`harness --help`", help_s, "0.4 s"))
    print(row("`harness plan` of 10,000 cells", plan_s, "2 s"))
    print(f"| memory of a 128K x 6 trial | {peak_bytes / 2**20:.0f} MiB | (a sweep of {deep_s:.0f} s) | 300 MB |")


def row(what: str, seconds: Sequence[float], limit: str) -> str:
    return f"| {what} | {median(seconds):.2f} s | {max(seconds):.2f} s | {limit} |"


def timed(arguments: Sequence[str], place: Path) -> float:
    start = time.perf_counter()
    subprocess.run([*HARNESS, *arguments], cwd=place, env=environment(place), check=True, capture_output=True)
    return time.perf_counter() - start


def peak_memory(arguments: Sequence[str], place: Path) -> tuple[int, float]:
    """Return the peak resident bytes of the harness's own process, and the seconds that it ran."""
    start = time.perf_counter()
    log = place / "deep.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [*HARNESS, *arguments], cwd=place, env=environment(place), stdout=output, stderr=output
        )
        peak = 0
        while process.poll() is None:
            peak = max(peak, high_water_bytes(process.pid))
            time.sleep(0.05)
    if process.returncode:
        sys.exit(log.read_text())
    return peak, time.perf_counter() - start


def high_water_bytes(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return next((1024 * int(line.split()[1]) for line in lines if line.startswith("VmHWM:")), 0)


def environment(place: Path) -> dict[str, str]:
    folders = {
        name: str(place / name.lower()) for name in ("HARNESS_STATE_DIR", "HARNESS_CACHE_DIR", "HARNESS_DATA_DIR")
    }
    return {**os.environ, **folders, "PYTHONPATH": str(ROOT)}


if __name__ == "__main__":
    main()
