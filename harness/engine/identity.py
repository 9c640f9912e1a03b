"""What really runs, read back from the server: its model, its version, and k proved from its counters."""

from __future__ import annotations

from collections.abc import Awaitable
from dataclasses import dataclass
from typing import Protocol

from harness.engine.running import Engine
from harness.errors import WrongConfigurationError
from harness.recipe.spec import LaunchSpec
from harness.records.clock import Clock
from harness.records.counters import CounterSnapshot
from harness.records.launch import LiveIdentity

_ROUNDS = 3  # short requests to send until the engine has drafted
_SETTLE_S = 2.0
_POLL_S = 0.05


class CounterProbe(Protocol):
    """Reads the engine's counters once; None where it exports none."""

    def __call__(self) -> Awaitable[CounterSnapshot | None]: ...


class DraftProbe(Protocol):
    """Sends one short request and waits for its end, so that the engine drafts."""

    def __call__(self) -> Awaitable[None]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Probes:
    """How the engine is asked; passed in, since other packages know how to."""

    counters: CounterProbe
    draft: DraftProbe
    clock: Clock


@dataclass(frozen=True, slots=True, kw_only=True)
class ProvedTokens:
    """k as the counters show it, and how that was seen."""

    num_speculative_tokens: int | None
    proof: str


async def read_identity(engine: Engine, probes: Probes) -> LiveIdentity:
    """Return what runs. Sends a few short requests where the engine speculates."""
    async with engine.endpoint() as endpoint:
        version = await endpoint.version()
    facts = engine.boot_facts()
    proved = await prove_tokens(probes, may_be_trimmed=engine.spec.k_may_be_trimmed)
    return LiveIdentity(
        model=engine.model,
        max_model_len=engine.max_model_len,
        engine_version=version or (facts.engine_version if facts else None),
        num_speculative_tokens=proved.num_speculative_tokens,
        proof=proved.proof,
    )


def require_configuration(live: LiveIdentity, spec: LaunchSpec) -> None:
    """Refuse an engine whose k is another one than the configuration asks for. An unproved k passes.

    Raises:
        WrongConfigurationError: k differs.
    """
    wanted, found = spec.num_speculative_tokens, live.num_speculative_tokens
    if wanted is None or found is None or wanted == found:
        return
    raise WrongConfigurationError(
        f"wrong configuration: the engine runs num_speculative_tokens = {found}, not {wanted} ({live.proof})",
        where=spec.recipe,
        hint="Another server may hold the port, or the recipe passes k in a way that this engine ignores.",
    )


async def prove_tokens(probes: Probes, *, may_be_trimmed: bool) -> ProvedTokens:
    """Return k from counters: drafted / drafts, and the highest position label + 1; both must agree.

    Where drafts may be trimmed (ngram, confidence), the labels alone decide and drafted / drafts may lie below.
    """
    before = await probes.counters()
    if before is None or not _has_counters(before):
        return ProvedTokens(num_speculative_tokens=None, proof="not proved: the server exports no counters")
    if before.drafts is None:
        return ProvedTokens(num_speculative_tokens=0, proof="the server counts, and has no counter of drafts")
    for _ in range(_ROUNDS):
        await probes.draft()
        after = await _after_drafting(before, probes)
        if after is not None:
            return _proved(before, after, may_be_trimmed=may_be_trimmed)
    return _without_drafts(before)


async def _after_drafting(before: CounterSnapshot, probes: Probes) -> CounterSnapshot | None:
    until_s = probes.clock.now_s() + _SETTLE_S
    while True:
        after = await probes.counters()
        if after is not None and after.drafts is not None and after.drafts > (before.drafts or 0):
            return after
        generated = None if after is None else after.generation_tokens
        if probes.clock.now_s() > until_s or (generated or 0) > (before.generation_tokens or 0):
            return None  # it has answered without drafting
        await probes.clock.sleep(_POLL_S)


def _proved(before: CounterSnapshot, after: CounterSnapshot, *, may_be_trimmed: bool) -> ProvedTokens:
    drafts = (after.drafts or 0) - (before.drafts or 0)
    drafted = (after.draft_tokens or 0) - (before.draft_tokens or 0)
    labels = None if after.accepted_by_position is None else len(after.accepted_by_position)
    seen = f"{drafted} drafted in {drafts} drafts" + ("" if labels is None else f", positions 0 to {labels - 1}")
    if may_be_trimmed and labels is not None:
        return ProvedTokens(num_speculative_tokens=labels, proof=seen)
    whole = drafted // drafts if drafted % drafts == 0 else None
    if whole is None or (labels is not None and labels != whole):
        return ProvedTokens(num_speculative_tokens=labels, proof=f"{seen}; drafts are trimmed")
    return ProvedTokens(num_speculative_tokens=whole, proof=seen)


def _without_drafts(snapshot: CounterSnapshot) -> ProvedTokens:
    if not snapshot.accepted_by_position:
        return ProvedTokens(num_speculative_tokens=None, proof="not proved: nothing was drafted")
    labels = len(snapshot.accepted_by_position)
    return ProvedTokens(num_speculative_tokens=labels, proof=f"positions 0 to {labels - 1}; nothing was drafted yet")


def _has_counters(snapshot: CounterSnapshot) -> bool:
    return any(value is not None for value in (snapshot.drafts, snapshot.generation_tokens, snapshot.prompt_tokens))
