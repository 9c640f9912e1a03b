"""Is greedy text the same in two arms, and if not, does that speak against one of them? Pure.

Prompts of cells begin with a nonce of their launch, so cells of made prompts are never compared: other bytes may get
another answer. Compared are the fixed prompts that every launch is asked, and requests of a trace, whose bodies are the
same in every launch.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from harness.records.doubt import Doubt
from harness.records.launch import LaunchRecord
from harness.records.sanity import AnswerSource, PieceUnit, Sameness
from harness.records.trial import TrialRecord
from harness.stats.kinds import doubt

CHAIN_DIGITS = 4  # of a keyed hash, per token
EARLY_PIECES = 8  # a near tie so early is rare, and in most prompts it is no accident
_MOST_RATIO = 0.5
_DEGENERATE_RATIO = 0.5  # of an answer that only repeats itself
_LEAST_BROKEN = 2  # more degenerate answers than the other arm has
_SHOWN_POSITIONS = 6
_LOSSLESS = (
    "Speculation keeps the distribution of texts, not their bytes on every kernel: drafted tokens are checked in one "
    "batch, whose sums round otherwise, so that a near tie may fall the other way."
)

_Answers = Mapping[str, "_Answer"]  # of one launch, by prompt


@dataclass(frozen=True, slots=True, kw_only=True)
class _Answer:
    pieces: Sequence[int | str]
    unit: PieceUnit
    degenerate: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class _Comparison:
    """Answers to the same prompts, one by one: how many pieces they have in common, None where they are the same."""

    common: tuple[int | None, ...]

    @property
    def same(self) -> int:
        return sum(length is None for length in self.common)

    @property
    def differences(self) -> tuple[int, ...]:
        return tuple(sorted(length for length in self.common if length is not None))

    @property
    def early_ratio(self) -> float:
        early = sum(length < EARLY_PIECES for length in self.differences)
        return early / len(self.common) if self.common else 0.0


def sameness_of_launches(base: Sequence[LaunchRecord], candidate: Sequence[LaunchRecord]) -> Sameness:
    """Return what the answers to the fixed prompts say.

    Args:
        base: launches of one arm. One that gave no answers is passed over; a slow one is not, since it says the same.
        candidate: launches of the other.
    """
    return _sameness("fixed prompts", _of_launches(base), _of_launches(candidate))


def sameness_of_trials(base: Sequence[TrialRecord], candidate: Sequence[TrialRecord]) -> Sameness:
    """Return what the greedy requests of a replayed trace say, of trials of one run: its key makes their hashes."""
    return _sameness("requests of the trace", _of_trials(base), _of_trials(candidate))


def _sameness(source: AnswerSource, base: Sequence[_Answers], candidate: Sequence[_Answers]) -> Sameness:
    across = _compared(zip(base, candidate, strict=False))
    own = _compared([*pairwise(base), *pairwise(candidate)])
    units: set[PieceUnit] = {answer.unit for answers in (*base, *candidate) for answer in answers.values()}
    unit: PieceUnit = "word" if "word" in units else "token"
    broken = _broken(base, candidate)
    return Sameness(
        source=source,
        unit=unit,
        compared=len(across.common),
        same=across.same,
        first_differences=across.differences,
        own_compared=len(own.common),
        own_same=own.same,
        sentence=_sentence(source, unit, across, own),
        doubt=_doubt(unit, across, own, broken),
    )


def _of_launches(launches: Sequence[LaunchRecord]) -> list[_Answers]:
    found: list[_Answers] = [
        {
            answer.prompt_id: _Answer(
                pieces=answer.pieces, unit=answer.unit, degenerate=_is_degenerate(answer.repeated_tail_ratio)
            )
            for answer in launch.greedy
        }
        for launch in launches
    ]
    return [answers for answers in found if answers]


def _of_trials(trials: Sequence[TrialRecord]) -> list[_Answers]:
    """Trials of one launch together: they are parts of one trace."""
    launches: dict[str, dict[str, _Answer]] = {}
    for trial in trials:
        answers = launches.setdefault(trial.launch_id, {})
        for request in trial.requests:
            if request.finished and request.answer_chain:
                key = f"{trial.cell.load.load_id} {request.prompt_id} {request.stream} {request.turn}"
                answers[key] = _Answer(
                    pieces=_links(request.answer_chain),
                    unit="token",
                    degenerate=_is_degenerate(request.repeated_tail_ratio),
                )
    return [answers for answers in launches.values() if answers]


def _links(chain: str) -> tuple[str, ...]:
    return tuple(chain[at : at + CHAIN_DIGITS] for at in range(0, len(chain), CHAIN_DIGITS))


def _is_degenerate(repeated_tail_ratio: float | None) -> bool:
    return repeated_tail_ratio is not None and repeated_tail_ratio > _DEGENERATE_RATIO


def _compared(pairs: Iterable[tuple[_Answers, _Answers]]) -> _Comparison:
    """Answers in different units cannot be compared."""
    return _Comparison(
        common=tuple(
            _common(one[prompt].pieces, other[prompt].pieces)
            for one, other in pairs
            for prompt in one
            if prompt in other and one[prompt].unit == other[prompt].unit
        )
    )


def _common(one: Sequence[int | str], other: Sequence[int | str]) -> int | None:
    """How many pieces they have in common at the start; None where they are the same. One may end before the other."""
    for position, (left, right) in enumerate(zip(one, other, strict=False)):
        if left != right:
            return position
    return None if len(one) == len(other) else min(len(one), len(other))


def _broken(base: Sequence[_Answers], candidate: Sequence[_Answers]) -> tuple[int, int]:
    """Degenerate answers of each arm, over as many launches of both."""
    launches = min(len(base), len(candidate))
    counts = [sum(a.degenerate for answers in arm[:launches] for a in answers.values()) for arm in (base, candidate)]
    return counts[0], counts[1]


def _doubt(unit: PieceUnit, across: _Comparison, own: _Comparison, broken: tuple[int, int]) -> Doubt | None:
    if abs(broken[1] - broken[0]) >= _LEAST_BROKEN:
        evidence = f"{broken[0]} greedy answers of the base repeat themselves and {broken[1]} of the candidate"
        return doubt("greedy_text_differs", evidence, _REMEDY)
    # Launches of one arm that part as early say that the engine is not deterministic, and nothing of the arms.
    if across.early_ratio <= _MOST_RATIO or own.early_ratio > across.early_ratio / 2:
        return None
    early = sum(length < EARLY_PIECES for length in across.differences)
    evidence = f"{early} of {len(across.common)} greedy answers part within the first {EARLY_PIECES} {unit}s"
    return doubt("greedy_text_differs", evidence, _REMEDY)


_REMEDY = (
    "Read a few answers of both arms, and run the checks of the site file on them: so early in most prompts this is no "
    "rounding. Another chat template, tokenizer, checkpoint or a broken draft model can be behind it."
)


def _sentence(source: AnswerSource, unit: PieceUnit, across: _Comparison, own: _Comparison) -> str:
    if not across.common:
        return f"Greedy text was not compared: there are no answers of both arms to the same {source}."
    if not across.differences:
        return f"Greedy text is the same in both arms: all {len(across.common)} answers to {source}."
    shown = ", ".join(str(length + 1) for length in across.differences[:_SHOWN_POSITIONS])
    more = ", …" if len(across.differences) > _SHOWN_POSITIONS else ""
    parts = [
        f"{across.same} of {len(across.common)} greedy answers to {source} are the same in both arms; the others "
        f"differ from {unit} {shown}{more} on."
    ]
    if own.common:
        parts.append(f"Between launches of one arm {own.same} of {len(own.common)} are the same.")
    return " ".join([*parts, _LOSSLESS])
