"""Comparisons through the real `harness ab` in virtual time: plan, launches, journal, figures, verdict, report."""

from __future__ import annotations

import contextlib
import io
import os
import tempfile
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import fmean

from harness.cli.comparing import book_for, stored_comparison
from harness.cli.loading import summaries_of
from harness.cli.main import main
from harness.records.verdict import Comparison
from harness.simulator.scenario import load_scenario
from harness.stats.arms import Stored, Wanted, side_of
from harness.stats.effect import within_sigma_ratio
from harness.stats.paired import SECONDS, paired
from harness.store.layout import resolve_run
from harness.store.reader import read_run

SWEEP = """\
sweep: two_levels
recipe: dspark-2x-spark
knobs:
  checkpoint: vision-exp
  image: anemll-0.1.1
  block_k: 1
  class: code
  context_tokens: 256
  concurrency: [1, 2]
  output_tokens: 64
  temperature: 0.6
repeat: {drafts: 120}
"""
_CACHE = "harness-two-levels"  # of texts, below the folder for temporary files


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One comparison to make."""

    base: str
    candidate: str
    launches: int
    sequential: bool
    measured_floor: bool  # by an A/A of six launches before it


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """What the command said, and how noisy its requests were."""

    comparison: Comparison
    exit_code: int
    within: dict[int, float]  # by concurrency
    prompts: int  # of each load


def said_by_command(asked: Asked, seeds: Sequence[int], pool: ProcessPoolExecutor) -> list[Said]:
    """Return what `harness ab` says with each seed."""
    return list(pool.map(partial(_run, asked), seeds))


def launch_sd() -> float:
    """Return how far launches lie apart in the scenario that the command rehearses."""
    return load_scenario("default", seed=1).noise.launch_sd


def _run(asked: Asked, seed: int) -> Said:
    os.environ["HARNESS_CACHE_DIR"] = str(Path(tempfile.gettempdir()) / f"{_CACHE}-{os.getpid()}")
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        (root / "two_levels.yaml").write_text(SWEEP)
        arms = ["--base", asked.base, "--candidate", asked.candidate]
        if asked.measured_floor:
            _ab(root, ["--base", asked.base, "--same"], seed=1_000_000 + seed)
        fixed = [] if asked.sequential else ["--fixed"]
        code = _ab(root, [*arms, *fixed, "--launches", str(asked.launches)], seed=seed)
        folder = resolve_run("latest", root=root, sweep="simulated_ab_two_levels")
        run = read_run(folder)
        cells = summaries_of(run)
        comparison = stored_comparison(folder, run, cells)
        assert comparison is not None and comparison.effect is not None
        assert bool(book_for(folder, run).entries) is asked.measured_floor
        within, prompts = _noise_within(Stored(run=run, cells=cells), comparison)
        return Said(comparison=comparison, exit_code=code, within=within, prompts=prompts)


def _ab(root: Path, arguments: list[str], *, seed: int) -> int:
    command = ["ab", str(root / "two_levels.yaml"), "--engine", "simulated", "--root", str(root), "--seed", str(seed)]
    with contextlib.redirect_stderr(io.StringIO()) as said:
        try:
            main([*command, *arguments])
        except SystemExit as ended:
            code = int(ended.code or 0)
    if code not in (0, 1, 4):
        raise RuntimeError(said.getvalue())
    return code


def _noise_within(stored: Stored, comparison: Comparison) -> tuple[dict[int, float], int]:
    """Of one request in a launch, by concurrency, and the number of prompts of a load."""
    arm = comparison.base
    side = side_of(stored, Wanted(name=arm.name, configuration_id=arm.configuration.configuration_id))
    found, prompts = {}, []
    for cell in comparison.cells:
        rows = side.rows(cell.load)
        tables = paired(SECONDS, cell.load, rows, rows)
        assert not isinstance(tables, str)
        found[cell.load.concurrency] = within_sigma_ratio([tables.base]) or 0.0
        prompts.append(tables.base.shape[1])
    return found, round(fmean(prompts))
