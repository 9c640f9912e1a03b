"""Texts of an exact token count, as an unknown tokenizer counts them, in few counts.

A text is a long part, cut at a word boundary, and a closing of a few short words. The long part brings the count near;
the closing finishes it, since one such word costs one token nearly everywhere. Where it does not, its cost is learned.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace

from harness.errors import EndpointError, InputError
from harness.workload.supply import Supply

CountTokens = Callable[[str], Awaitable[int]]
MOST_COUNTS = 10  # per text; two or three are normal
_NEAR_SHARES = {2: 1 / 8, 3: 1}  # of the tolerance, after so many counts, where closings cannot promise an exact length
_TOLERANCE_RATIO = 0.005
_TOLERANCE_TOKENS = 4
_NEARBY_CUTS = 12
_NEARBY_CLOSINGS = 4
_MOST_GUESSES = 4  # by weight, for one text: more would creep towards the target from one side
_CLOSING_TEXT = (
    "and so we came to the old wall by the way that was all of it for no one could say a word to us but it was a long"
    " day and we had to go on as if all was one to him or her who should do so much in so short a time until we came"
    " back to it and saw that no man was in the house but one who had a mind to say what he could of the war and of it"
    " all at last so that we sat by him on the wall and then had a word or two as the day was at an end for us"
)
_CLOSING = tuple(_CLOSING_TEXT.split())


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """What is around the long part."""

    before: str  # head, and what precedes the text; ends in an empty line
    closing_lead: str
    instruction: str

    def text(self, body: str, closing_words: int) -> str:
        """Return the whole prompt. Its seams are empty lines, where tokenizers do not merge words."""
        middle = f"{body}\n\n" if body else ""
        return f"{self.before}{middle}{self.closing_lead}{_closing(closing_words)}\n\n{self.instruction}"


@dataclass(frozen=True, slots=True)
class Probe:
    """One count: how the text was cut, and its tokens."""

    words: int
    closing_words: int
    tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Fitted:
    """The text that was found."""

    body: str
    text: str
    probe: Probe


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """What is known of a tokenizer and a server's template before the first text."""

    empty: Probe  # the frame with a closing of one word and no text
    closing_tokens: tuple[int, ...]  # by words less one: what a closing costs beyond one of a single word
    nonce_is_constant: bool  # any head takes the same tokens

    @property
    def by_character(self) -> bool:
        """A closing word costs as many tokens as it has characters."""
        return self.closing_tokens[-1] >= len(_closing(len(_CLOSING))) - len(_closing(1))

    @property
    def is_even(self) -> bool:
        """A closing word costs one token, or its characters: any number of tokens can be made up with closings."""
        return self.by_character or self.closing_tokens == tuple(range(len(self.closing_tokens)))


async def calibrate(
    count_tokens: CountTokens, frame: Frame, heads: tuple[str, ...], closing_tokens: tuple[int, ...] | None = None
) -> Calibration:
    """Count the frame with each of ``heads``, and closings as far as they are not one token a word, or a character.

    ``closing_tokens`` is what closings cost in another frame, where that is known: here it is the same.
    """
    empty, *others = [await count(count_tokens, replace(frame, before=head).text("", 1)) for head in heads]
    if closing_tokens is None:
        closing_tokens = await _closing_costs(count_tokens, replace(frame, before=heads[0]), empty)
    return Calibration(
        empty=Probe(0, 1, empty),
        closing_tokens=closing_tokens,
        nonce_is_constant=all(other == empty for other in others),
    )


async def _closing_costs(count_tokens: CountTokens, frame: Frame, empty: int) -> tuple[int, ...]:
    costs = {1: 0}

    async def measure(low: int, high: int) -> None:
        costs[high] = await count(count_tokens, frame.text("", high)) - empty
        await fill(low, high)

    async def fill(low: int, high: int) -> None:
        for weigh in (lambda words: words, lambda words: len(_closing(words))):
            if costs[high] - costs[low] == weigh(high) - weigh(low):
                costs.update({words: costs[low] + weigh(words) - weigh(low) for words in range(low, high)})
                return
        if high - low > 1:
            middle = (low + high) // 2
            await measure(low, middle)
            await fill(middle, high)

    await measure(1, len(_CLOSING))
    return tuple(costs[words] for words in range(1, len(_CLOSING) + 1))


async def count(count_tokens: CountTokens, text: str) -> int:
    """Return the server's count. Raises EndpointError for one that cannot be."""
    tokens = await count_tokens(text)
    if tokens < 1:
        raise EndpointError(f"the server counts {tokens} tokens in a text of {len(text)} characters")
    return tokens


class Fitter:
    """Finds texts of given counts with one server's tokenizer."""

    def __init__(self, count_tokens: CountTokens, calibration: Calibration) -> None:
        self._count_tokens = count_tokens
        self.calibration = calibration
        self.tokens_per_weight = 1.0  # as the last text had it, so that the next one starts nearer

    async def fit(self, frame: Frame, supply: Supply, *, target: int, start: Probe, within: int = 0) -> Fitted:
        """Return a text of ``target`` tokens, whatever the server adds included.

        Args:
            frame: what is around the text.
            supply: what the text is cut from.
            target: tokens.
            start: the frame without text, counted.
            within: accept as soon as the count is this near.

        Raises:
            InputError: the frame alone is not below the target.
            EndpointError: no cut comes within ``within``, 0.5 % or 4 tokens, whichever is most.
        """
        if start.tokens >= target:
            raise InputError(
                f"{target} tokens are too few for a prompt",
                hint=f"Its head, its instruction and the server's template alone take {start.tokens} tokens.",
            )
        search = _Search(self.calibration, supply, target=target, start=start)
        search.tokens_per_weight = self.tokens_per_weight
        for number in range(1, MOST_COUNTS + 1):
            words, closing_words = search.next_cut()
            text = frame.text(supply.body(words), closing_words)
            probe = Probe(words, closing_words, await count(self._count_tokens, text))
            search.learn(probe)
            if abs(search.best.tokens - target) <= max(within, self._allowed(target, number)):
                break
        self.tokens_per_weight = search.tokens_per_weight
        best = search.best
        if abs(best.tokens - target) > max(within, tolerance_tokens(target)):
            raise EndpointError(
                f"no text of {target} tokens found in {MOST_COUNTS} counts; the nearest has {best.tokens}",
                hint="Does the server's /tokenize count what it serves, and the same each time?",
            )
        body = supply.body(best.words)
        return Fitted(body=body, text=frame.text(body, best.closing_words), probe=best)

    def _allowed(self, target: int, counts: int) -> int:
        """How far off a text may stay after so many counts: each one of a deep text takes a while."""
        if self.calibration.is_even or counts < min(_NEAR_SHARES):
            return 0
        return int(tolerance_tokens(target) * _NEAR_SHARES[min(counts, max(_NEAR_SHARES))])


def tolerance_tokens(target: int) -> int:
    """Return how far off a prompt may be where the tokenizer makes the exact count impossible."""
    return max(int(target * _TOLERANCE_RATIO), _TOLERANCE_TOKENS)


class _Search:
    """Chooses the next cut to count, from all counts so far."""

    def __init__(self, calibration: Calibration, supply: Supply, *, target: int, start: Probe) -> None:
        self.tokens_per_weight = 1.0
        self._calibration = calibration
        self._supply = supply
        self._target = target
        self._start = start
        self._probes: list[Probe] = []
        self._tried: set[tuple[int, int]] = set()
        # The closing starts in the middle of its range, so that it can make up for a miss to either side.
        self._room = min(max(target // 24, 8), len(_CLOSING) // 2)

    @property
    def best(self) -> Probe:
        """The nearest count; the first of equals."""
        return min(self._probes, key=lambda probe: abs(probe.tokens - self._target))

    def next_cut(self) -> tuple[int, int]:
        """Return words of the text and of the closing that should hit the target, and were not tried."""
        cut = self._closing_alone() or self._moved(self.best if self._probes else self._start)
        self._tried.add(cut)
        return cut

    def learn(self, probe: Probe) -> None:
        """Take a count into account."""
        self._probes.append(probe)
        tokens = probe.tokens - self._start.tokens - self._closing_change(self._start, probe.closing_words)
        weight = self._supply.weight(probe.words)
        if tokens > 0 and weight > 0:
            self.tokens_per_weight = tokens / weight

    def _closing_alone(self) -> tuple[int, int] | None:
        """Return an exact cut of a text that was counted with another closing: the costs of closings are known."""
        for probe in sorted(self._probes, key=lambda probe: abs(probe.tokens - self._target)):
            for closing_words in range(1, 2 * self._room + 1):
                cut = (probe.words, closing_words)
                change = self._closing_change(probe, closing_words)
                if probe.tokens + change == self._target and cut not in self._tried:
                    return cut
        return None

    def _moved(self, anchor: Probe) -> tuple[int, int]:
        wanted = self._target - anchor.tokens - self._closing_change(anchor, self._room)
        rate = self.tokens_per_weight
        here = self._supply.weight(anchor.words)
        ideal = max(1, self._supply.words_up_to(here + wanted / rate))
        # Characters are exact weights: no need to narrow, and every nearby cut may be the one.
        exact = self._calibration.by_character
        low, high = (1, self._supply.words) if exact else self._bracket()
        stuck = len(self._probes) > _MOST_GUESSES and not exact
        if stuck or not low <= ideal <= high:
            ideal = (low + high) // 2  # the weights are wrong about these words: halve what is left

        nearby = range(max(low, ideal - _NEARBY_CUTS), min(high, ideal + _NEARBY_CUTS) + 1)
        counted = {probe.words for probe in self._probes}  # their closings were considered, and none is exact
        fresh = [words for words in nearby if words not in counted]
        return self._nearest(fresh or nearby, anchor, ideal) or (ideal, self._room)

    def _nearest(self, candidates: Sequence[int], anchor: Probe, ideal: int) -> tuple[int, int] | None:
        """Return the cut that should miss least and, of those, leaves most room for the next; the first of equals."""
        changes = [self._closing_change(anchor, words) for words in range(1, 2 * self._room + 1)]
        here, room, target, tried = self._supply.weight(anchor.words), self._room, self._target, self._tried
        best: tuple[int, int, int, int] | None = None
        for words in candidates:
            moved = (self._supply.weight(words) - here) * self.tokens_per_weight
            aside = abs(words - ideal)
            fits = bisect_left(changes, target - anchor.tokens - moved)
            for closing_words in range(max(1, fits - _NEARBY_CLOSINGS), min(len(changes), fits + _NEARBY_CLOSINGS) + 1):
                # In whole tokens: a fraction is no reason to prefer one guess to another.
                miss = abs(round(anchor.tokens + (moved + changes[closing_words - 1])) - target)
                if best is not None and miss > best[0]:
                    continue
                found = (miss, aside + abs(closing_words - room))
                if (best is None or found < best[:2]) and (words, closing_words) not in tried:
                    best = (*found, words, closing_words)
        return None if best is None else best[2:]

    def _bracket(self) -> tuple[int, int]:
        """Return the least and most words that can still be right, from the counts so far, within those at hand."""
        low, high = 1, self._supply.words
        for probe in self._probes:
            with_room = probe.tokens + self._closing_change(probe, self._room)
            if with_room <= self._target:
                low = max(low, probe.words)
            if with_room >= self._target:
                high = min(high, probe.words)
        return min(low, high), max(low, high)

    def _closing_change(self, probe: Probe, closing_words: int) -> int:
        costs = self._calibration.closing_tokens
        return costs[closing_words - 1] - costs[probe.closing_words - 1]


def _closing(words: int) -> str:
    return " ".join(_CLOSING[:words])
