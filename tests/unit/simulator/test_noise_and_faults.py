"""Noise and faults: seeded, of the size that was asked for, and off unless switched on."""

from __future__ import annotations

from math import log
from statistics import mean, stdev

import pytest

from harness.simulator.faults import (
    Faults,
    JitStall,
    SlowState,
    Throttling,
    cached_tokens,
    live_k,
    loops,
    slow_factor,
    stall_s,
)
from harness.simulator.noise import Noise, generator, launch_factor, step_factor


def share_of(hits: list[bool]) -> float:
    return sum(hits) / len(hits)


class TestNoise:
    def test_the_same_names_give_the_same_numbers_in_every_process(self) -> None:
        assert generator(7, "launch 1", "steps").random() == pytest.approx(0.6813, abs=0.0001)
        assert generator(7, "launch 1", "steps").random() != generator(7, "launch 2", "steps").random()
        assert generator(7, "a", "b").random() != generator(7, "ab").random()
        assert generator(7, "a").random() != generator(8, "a").random()

    def test_launches_differ_by_what_was_asked_for(self) -> None:
        factors = [log(launch_factor(Noise(launch_sd=0.024), seed=1, launch_key=str(key))) for key in range(400)]
        assert mean(factors) == pytest.approx(0, abs=0.004)
        assert stdev(factors) == pytest.approx(0.024, rel=0.12)

    def test_steps_differ_by_what_was_asked_for_with_a_tail(self) -> None:
        rng = generator(1, "steps")
        factors = [step_factor(Noise(step_sd=0.02, tail_ratio=0.05, tail_factor=3.0), rng) for _ in range(4000)]
        tail = [factor > 2 for factor in factors]
        assert share_of(tail) == pytest.approx(0.05, abs=0.012)
        assert stdev(log(factor) for factor in factors if factor < 2) == pytest.approx(0.02, rel=0.1)

    def test_no_noise_changes_nothing_but_draws_alike(self) -> None:
        quiet, noisy = generator(1, "x"), generator(1, "x")
        assert step_factor(Noise(), quiet) == 1.0
        step_factor(Noise(step_sd=0.1, tail_ratio=0.5), noisy)
        assert quiet.random() == noisy.random()
        assert launch_factor(Noise(), seed=1, launch_key="a") == 1.0


class TestFaults:
    def test_all_are_off_by_default(self) -> None:
        off = Faults()
        assert slow_factor(off, engine_s=1e6, seed=0, launch_key="a") == 1.0
        assert stall_s(off, shape="4 x 8192", seed=0, launch_key="a") == 0.0
        assert not loops(off, seed=0, launch_key="a", request_key="r")
        assert live_k(off, 6) == 6
        assert cached_tokens(off, 8192) == 0

    def test_a_slow_node_slows_some_launches_for_as_long_as_it_lasts(self) -> None:
        faults = Faults(slow_state=SlowState(factor=1.5, share_of_launches=0.33, from_s=60, until_s=120))
        slow = [slow_factor(faults, engine_s=90, seed=3, launch_key=str(key)) == 1.5 for key in range(300)]
        assert share_of(slow) == pytest.approx(0.33, abs=0.08)
        key = str(slow.index(True))
        assert [slow_factor(faults, engine_s=at, seed=3, launch_key=key) for at in (59, 60, 120)] == [1.0, 1.5, 1.0]

    def test_throttling_grows_to_its_limit(self) -> None:
        faults = Faults(throttling=Throttling(ratio_per_hour=0.1, max_ratio=0.15))
        factors = [slow_factor(faults, engine_s=hours * 3600, seed=0, launch_key="a") for hours in (0, 1, 5)]
        assert factors == pytest.approx([1.0, 1.1, 1.15])

    def test_a_stall_hits_a_shape_or_not_in_a_whole_launch(self) -> None:
        faults = Faults(jit_stall=JitStall(stall_s=8.0, share_of_shapes=0.3))
        stalls = [stall_s(faults, shape=str(shape), seed=0, launch_key="a") for shape in range(200)]
        assert stalls == [stall_s(faults, shape=str(shape), seed=0, launch_key="a") for shape in range(200)]
        assert share_of([each == 8.0 for each in stalls]) == pytest.approx(0.3, abs=0.1)

    def test_the_others(self) -> None:
        faults = Faults(stale_k=5, prefix_hit_ratio=0.25, loop_share=1.0)
        assert live_k(faults, 9) == 5
        assert cached_tokens(faults, 8192) == 2048
        assert loops(faults, seed=0, launch_key="a", request_key="r")
