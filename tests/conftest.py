"""What holds for every test."""

from __future__ import annotations

from hypothesis import settings

# A busy machine is no failure: time is judged by benchmarks, not by hypothesis.
settings.register_profile("harness", deadline=None)
settings.load_profile("harness")
