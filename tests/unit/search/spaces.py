"""Small search spaces, and what launches of them showed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from harness.records.cell import KnobValue
from harness.records.observation import Candidate, CellObservation, Observation, SearchCell
from harness.search.space import Space


def candidate(k: int, **knobs: KnobValue) -> Candidate:
    name = "-".join([f"k{k}", *(f"{key}={value}" for key, value in sorted(knobs.items()))])
    return Candidate(configuration_id=name, knobs={"num_speculative_tokens": k, **knobs}, num_speculative_tokens=k)


def cells(count: int = 2) -> tuple[SearchCell, ...]:
    return tuple(
        SearchCell(load_id=f"l{at}", weight=1 / count, context_tokens=256 << at, concurrency=1, output_tokens=100.0)
        for at in range(count)
    )


def space(
    depths: Sequence[int] = (0, 3, 5, 7, 9), *, reference: int = 5, block_tokens: int | None = None, count: int = 2
) -> Space:
    return Space(
        candidates=tuple(candidate(k) for k in depths),
        cells=cells(count),
        reference_id=candidate(reference).configuration_id,
        block_tokens=block_tokens,
    )


def observed(
    one: Candidate,
    *,
    gain: float = 1.0,
    booted: bool = True,
    excess: Mapping[str, float] | None = None,
    count: int = 2,
    drafting_ratio: float = 1.0,
) -> Observation:
    """A launch whose step costs 40 ms and 2 ms for each drafted token, at an acceptance of .8; times ``gain``.

    Steps without a draft cost what they do without speculation.
    """
    if not booted:
        return Observation(configuration_id=one.configuration_id, booted=False, reason="out of memory")
    k = one.num_speculative_tokens
    survival = tuple(drafting_ratio * 0.8**at for at in range(1, k + 1))
    tokens = 1 + sum(survival)
    cell = CellObservation(
        ttft_s=0.5,
        tpot_s=(0.04 + 0.002 * k * drafting_ratio) / tokens / gain,
        tokens_per_step=tokens,
        survival=survival,
        drafting_ratio=drafting_ratio,
    )
    return Observation(
        configuration_id=one.configuration_id,
        booted=True,
        cells={f"l{at}": cell for at in range(count)},
        slo_excess=dict(excess or {}),
    )
