"""How fast a trace is inspected and converted, on one core, and in how much memory.

    python -m benchmarks.workload_speed [--megabytes 2000] [--folder DIR]

Writes a trace of conversations from the packaged corpora, then measures each command in a process of its own. Fails if
one is slower than 100 MB/s of processor time or takes 300 MB.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from harness.workload.corpus import load_corpus

LEAST_MB_PER_S = 100.0
MOST_MEMORY_MB = 300.0
_SYSTEM_CHARACTERS = 1500


def write_trace(path: Path, megabytes: float, *, seed: int = 1) -> None:
    """Write conversations of 1 to 8 turns, in which each prompt holds all that was said before."""
    draw = random.Random(seed)
    texts = {name: "\n\n".join(load_corpus(name).passages) for name in ("prose", "code", "structured")}
    written = 0
    with path.open("w", encoding="utf-8") as stream:
        while written < megabytes * 1e6:
            text = texts[draw.choice(list(texts))]
            messages = [{"role": "system", "content": text[:_SYSTEM_CHARACTERS]}]
            for _ in range(draw.choice((1, 1, 2, 4, 8))):
                at = draw.randrange(len(text) - 10_000)
                question, answer = draw.randrange(100, 6000), draw.randrange(100, 2000)
                messages.append({"role": "user", "content": text[at : at + question]})
                body = {"model": "some-model", "messages": messages, "max_tokens": 256, "temperature": 0.6}
                written += stream.write(json.dumps(body, ensure_ascii=False) + "\n")
                messages.append({"role": "assistant", "content": text[at + 6000 : at + 6000 + answer]})


def measured(arguments: list[str], size: int) -> tuple[float, float, float]:
    """Run a command; return MB/s of its processor time, its memory in MB and its seconds."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began_s = time.perf_counter()
    program = (
        "import resource, sys; from harness.cli.main import cli; cli.main(sys.argv[1:], standalone_mode=False); "
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"
    )
    command = [sys.executable, "-c", program, "workload", *arguments]
    said = subprocess.run(command, check=True, text=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    took_s = time.perf_counter() - began_s
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return size / 1e6 / cpu_s, int(said.stdout.split()[-1]) / 1024, took_s


def main() -> int:
    """Measure, print a table, and return 1 where a limit is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=float, default=200.0)
    parser.add_argument("--folder", type=Path, help="where the trace is written; a temporary folder if left out")
    options = parser.parse_args()
    missed = False
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        trace, out = Path(folder) / "trace.jsonl", Path(folder) / "out.jsonl"
        write_trace(trace, options.megabytes)
        size = trace.stat().st_size
        print(f"{size / 1e6:.0f} MB\n{'command':<24}{'MB/s':>8}{'memory, MB':>14}{'seconds':>10}")
        for name, arguments in {
            "inspect": ["inspect", str(trace)],
            "convert": ["convert", str(trace), str(out), "--force"],
            "convert --sample 200": ["convert", str(trace), str(out), "--force", "--sample", "200"],
        }.items():
            rate, memory, took_s = measured(arguments, size)
            missed |= rate < LEAST_MB_PER_S or memory > MOST_MEMORY_MB
            print(f"{name:<24}{rate:>8.0f}{memory:>14.0f}{took_s:>10.1f}")
    print("a limit was missed" if missed else "within the limits: 100 MB/s, 300 MB")
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
