"""k from counters. The engine is scripted: each request that is sent moves its counters."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest

from harness.engine.identity import Probes, ProvedTokens, prove_tokens, require_configuration
from harness.errors import WrongConfigurationError
from harness.recipe.spec import BootPatterns, LaunchSpec
from harness.records.cell import Configuration
from harness.records.counters import CounterSnapshot
from harness.records.launch import LiveIdentity
from tests.fakes.fake_clock import FakeClock

pytestmark = pytest.mark.anyio


@dataclass
class ScriptedEngine:
    """Drafts ``drafted`` tokens in ``drafts`` drafts per request, ``settles_after`` scrapes late."""

    snapshot: CounterSnapshot | None
    drafts: int = 5
    drafted: int = 20
    settles_after: int = 0
    sent: int = 0
    scrapes: int = field(default=0)

    async def counters(self) -> CounterSnapshot | None:
        self.scrapes += 1
        if self.snapshot is None or self.snapshot.drafts is None or self.scrapes <= 1 + self.settles_after:
            return self.snapshot
        return replace(
            self.snapshot,
            drafts=self.snapshot.drafts + self.sent * self.drafts,
            draft_tokens=(self.snapshot.draft_tokens or 0) + self.sent * self.drafted,
            generation_tokens=(self.snapshot.generation_tokens or 0) + self.sent * 8,
        )

    async def draft(self) -> None:
        self.sent += 1


def counters(labels: int | None, drafts: int | None = 100) -> CounterSnapshot:
    return CounterSnapshot(
        at_s=0.0,
        drafts=drafts,
        draft_tokens=None if drafts is None else 7 * drafts,  # what was before proves nothing
        accepted_by_position=None if labels is None else (0,) * labels,
        generation_tokens=500,
    )


async def prove(engine: ScriptedEngine, *, may_be_trimmed: bool = False) -> ProvedTokens:
    probes = Probes(counters=engine.counters, draft=engine.draft, clock=FakeClock())
    return await prove_tokens(probes, may_be_trimmed=may_be_trimmed)


async def test_ratio_and_labels_agree() -> None:
    proved = await prove(ScriptedEngine(counters(labels=4)))

    assert proved.num_speculative_tokens == 4
    assert proved.proof == "20 drafted in 5 drafts, positions 0 to 3"


async def test_counters_that_come_late_are_waited_for() -> None:
    engine = ScriptedEngine(counters(labels=4), settles_after=6)

    assert (await prove(engine)).num_speculative_tokens == 4
    assert engine.sent == 1


async def test_no_counter_of_drafts_is_no_speculation() -> None:
    engine = ScriptedEngine(counters(labels=None, drafts=None))

    assert (await prove(engine)).num_speculative_tokens == 0
    assert engine.sent == 0


@pytest.mark.parametrize("snapshot", [None, CounterSnapshot(at_s=0.0)])
async def test_no_counters_prove_nothing(snapshot: CounterSnapshot | None) -> None:
    proved = await prove(ScriptedEngine(snapshot))

    assert proved.num_speculative_tokens is None
    assert "not proved" in proved.proof


async def test_trimmed_drafts_are_read_from_the_labels() -> None:
    proved = await prove(ScriptedEngine(counters(labels=5), drafts=6, drafted=17), may_be_trimmed=True)

    assert proved.num_speculative_tokens == 5


async def test_an_engine_that_trims_unasked_is_told() -> None:
    proved = await prove(ScriptedEngine(counters(labels=5), drafts=6, drafted=17))

    assert proved.num_speculative_tokens == 5
    assert "drafts are trimmed" in proved.proof


async def test_an_engine_that_never_drafts_is_asked_three_times() -> None:
    engine = ScriptedEngine(counters(labels=5), drafts=0, drafted=0)
    proved = await prove(engine, may_be_trimmed=True)

    assert engine.sent == 3
    assert proved.num_speculative_tokens == 5
    assert "nothing was drafted" in proved.proof


SPEC = LaunchSpec(
    recipe="fake",
    configuration=Configuration(recipe="fake", knobs={}),
    style="local_process",
    argv=("x",),
    environment={},
    working_directory=None,
    base_url=None,
    served_model=None,
    api_key_variable=None,
    preparation=(),
    boot=BootPatterns(),
    ready_timeout_s=1.0,
    stop_timeout_s=1.0,
    expected_launch_s=1.0,
    num_speculative_tokens=4,
)


def live(k: int | None) -> LiveIdentity:
    return LiveIdentity(model="m", max_model_len=1, engine_version=None, num_speculative_tokens=k, proof="counters")


def test_another_k_is_refused() -> None:
    with pytest.raises(WrongConfigurationError, match=r"num_speculative_tokens = 3, not 4 \(counters\)"):
        require_configuration(live(3), SPEC)
    with pytest.raises(WrongConfigurationError):
        require_configuration(live(0), SPEC)


def test_what_was_asked_for_and_what_cannot_be_known_passes() -> None:
    require_configuration(live(4), SPEC)
    require_configuration(live(None), SPEC)
    require_configuration(live(9), replace(SPEC, num_speculative_tokens=None))
