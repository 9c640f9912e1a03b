"""What to do after a night that asks for a decision: the command that accepts what is normal now. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from harness.records.manifest import Manifest
from harness.report.models import NextStep
from harness.report.night_words import moved_figures
from harness.stats.gate import LEAST_NIGHTS
from harness.stats.morning import Morning

_ROOT = "--root"


def night_step(morning: Morning, manifest: Manifest, baseline_name: str) -> NextStep | None:
    """Return how to accept the nights of a series; None where nothing is to be decided, or there are too few of them.

    Args:
        morning: of the configuration that decides.
        manifest: of the night's run.
        baseline_name: that the sweep's nights are held against.
    """
    if morning.verdict == "no baseline":
        if morning.history + 1 < LEAST_NIGHTS:
            return None
        because = f"If these {morning.history + 1} nights are normal, accept them: later ones are held against them."
        return _step(because, manifest, baseline_name, ())
    since = min((one.since for one in moved_figures(morning) if one.since is not None), default=None)
    if since is None:
        return None
    because = "Once the cause is known and this is what is normal from now on, accept it."
    return _step(because, manifest, baseline_name, ("--since", since))


def _step(because: str, manifest: Manifest, name: str, since: Sequence[str]) -> NextStep:
    words = ["harness", "baseline", "accept", manifest.run_id, "--name", name, *since, "--reason", "WHY"]
    return NextStep(because=because, command=shlex.join([*words, *_root(manifest.command)]), time="a second")


def _root(command: Sequence[str]) -> list[str]:
    """Where the run's own command kept its results."""
    for at, word in enumerate(command):
        if word == _ROOT and at + 1 < len(command):
            return [_ROOT, command[at + 1]]
        if word.startswith(f"{_ROOT}="):
            return [word]
    return []
