"""Nights on the real engine: quiet ones are one fine series, and what changed behind its back is no quiet night.

About four minutes on two quiet cores, nearly all of it boots.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from harness.records.nightly import Night
from harness.stats.night import UNFIT
from harness.store.nights import read_nights

pytestmark = pytest.mark.engine
TRIES = 3
BOOT_S = 300.0  # two busy cores
HARNESS = (sys.executable, "-m", "harness")
LAUNCHED = """\
sweep: launched
recipe: vllm-cpu-tiny
knobs: {class: prose, context_tokens: 256, concurrency: 1, output_tokens: 96}
configurations:
  four: {num_speculative_tokens: 4}
repeat: {drafts: 200}
budget: {time: 15m}
"""
SERVED = """\
sweep: served
recipe: attach
knobs: {class: prose, context_tokens: 256, concurrency: 1, output_tokens: 96, cache: warm}
repeat: {drafts: 200}
budget: {time: 15m}
nightly: {engine: attach, idle_for: 1s, yield: true}
"""


def night(folder: Path, sweep: str, text: str, *arguments: str) -> tuple[int, str, str]:
    """Run one; exit code, the line of the morning, stderr."""
    (folder / f"{sweep}.yaml").write_text(text)
    command = [*HARNESS, "nightly", str(folder / f"{sweep}.yaml"), "--root", str(folder), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=1800, env=dict(os.environ))
    assert "Traceback" not in done.stderr, done.stderr
    return done.returncode, done.stdout, done.stderr


def nights(folder: Path, sweep: str) -> tuple[Night, ...]:
    return read_nights(folder / "results", sweep)


def quiet_night(folder: Path, sweep: str, text: str, *arguments: str) -> str:
    """Run nights until the machine was quiet in one; its line. Whatever else this machine does makes doubtful ones."""
    for _ in range(TRIES):
        code, line, said = night(folder, sweep, text, *arguments)
        newest = nights(folder, sweep)[-1]
        if code == 0:
            assert newest.is_valid
            return line
        assert code == 4, said
        assert set(newest.doubts) & set(UNFIT), said
    pytest.fail(f"no quiet night in {TRIES}")


@contextmanager
def serving(folder: Path, k: int) -> Iterator[str]:
    """A server that somebody started with ``k``; its address."""
    log = folder / f"server-{k}.log"
    with log.open("wb") as out:
        command = [*HARNESS, "engine", "up", "vllm-cpu-tiny", "--set", f"num_speculative_tokens={k}"]
        process = subprocess.Popen(command, stdout=out, stderr=out)
    try:
        until_s = time.monotonic() + BOOT_S
        while " serves " not in log.read_text():
            assert process.poll() is None and time.monotonic() < until_s, log.read_text()
            time.sleep(0.2)
        (line,) = [line for line in log.read_text().splitlines() if " serves " in line]
        yield next(word for word in line.split() if word.startswith("http://"))
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(60)


def test_two_quiet_nights_are_fine_and_of_one_series(tmp_path: Path) -> None:
    for _ in range(2):
        line = quiet_night(tmp_path, "launched", LAUNCHED)
        assert line.startswith("launched 20"), line
        assert len(line.splitlines()) == 1
    first, *_, second = nights(tmp_path, "launched")
    assert first.key == second.key
    for figure in ("seconds", "delivered_per_step", "step_s"):
        assert first.value(figure) == pytest.approx(second.value(figure), abs=0.3), "logarithms: of the same engine"
    assert first.kv_cache_tokens and first.boot_s


def test_another_k_behind_its_back_is_doubtful_with_the_reason(tmp_path: Path) -> None:
    with serving(tmp_path, 4) as url:
        quiet_night(tmp_path, "served", SERVED, "--set", f"url={url}")
    accept = ["baseline", "accept", "latest", "--name", "served", "--reason", "as it was set up", "--author", "owner"]
    subprocess.run([*HARNESS, *accept, "--root", str(tmp_path)], check=True, capture_output=True)
    with serving(tmp_path, 1) as url:
        code, line, said = night(tmp_path, "served", SERVED, "--set", f"url={url}")
    assert code == 4, said
    assert "num speculative tokens: 4 → 1" in line, line
