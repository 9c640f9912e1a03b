"""Texts of an exact token count, as an unknown tokenizer counts them, in few counts.

A text is a long part, cut at a word boundary, and a closing of a few short words. The long part brings the count near;
the closing finishes it, since one such word costs one token nearly everywhere. Where it does not, its cost is learned.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

from harness.errors import EndpointError, InputError
from harness.workload.supply import Supply

CountTokens = Callable[[str], Awaitable[int]]
MOST_COUNTS = 10  # per text; two or three are normal
_TOLERANCE_RATIO = 0.005
_TOLERANCE_TOKENS = 4
_NEARBY_CUTS = 12
_CLOSING_TEXT = (
    "and so we went on to the end of the road and came back by the way that we knew for the sun was low and the air"
    " was cold but no one had a word to say of it until the door of the old house was in view and then all at once"
    " there was talk of food and fire and who should sit near the wall and what the next day might bring to those who"
    " had to work in the field or on the boat while the rest could stay in bed as long as they had a mind to"
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
    full_closing_tokens: int  # what all closing words cost beyond the first
    nonce_is_constant: bool  # any head takes the same tokens


async def calibrate(count_tokens: CountTokens, frame: Frame, heads: tuple[str, ...]) -> Calibration:
    """Count the frame with each of ``heads``, and with the longest closing."""
    empty, *others = [await count(count_tokens, replace(frame, before=head).text("", 1)) for head in heads]
    full = await count(count_tokens, replace(frame, before=heads[0]).text("", len(_CLOSING)))
    return Calibration(
        empty=Probe(0, 1, empty),
        full_closing_tokens=full - empty,
        nonce_is_constant=all(other == empty for other in others),
    )


async def count(count_tokens: CountTokens, text: str) -> int:
    """Return the server's count. Raises EndpointError for one that cannot be."""
    tokens = await count_tokens(text)
    if tokens < 1:
        raise EndpointError(f"the server counts {tokens} tokens in a text of {len(text)} characters")
    return tokens


class TokenizerModel:
    """What the counts so far say about a tokenizer. It grows, so that later texts take fewer counts."""

    def __init__(self, calibration: Calibration) -> None:
        self.tokens_per_weight = 1.0
        self._full = float(calibration.full_closing_tokens)
        self._closing = {1: 0.0, len(_CLOSING): self._full}  # tokens beyond a closing of one word, as measured

    @property
    def by_character(self) -> bool:
        """A closing word costs as many tokens as it has characters, not one."""
        return self._full > 2 * (len(_CLOSING) - 1)

    def closing_tokens(self, words: int) -> float:
        """Return what a closing costs beyond one of a single word: measured, else guessed."""
        if words in self._closing:
            return self._closing[words]
        if self.by_character:
            return float(len(_closing(words)) - len(_closing(1)))
        return (words - 1) * self._full / (len(_CLOSING) - 1)

    def learn_closing(self, one: Probe, other: Probe) -> None:
        """Learn from two counts of texts that differ in the closing alone."""
        for known, new in ((one, other), (other, one)):
            if known.closing_words in self._closing:
                difference = new.tokens - known.tokens
                self._closing.setdefault(new.closing_words, self._closing[known.closing_words] + difference)


class Fitter:
    """Finds texts of given counts with one server's tokenizer."""

    def __init__(self, count_tokens: CountTokens, calibration: Calibration) -> None:
        self._count_tokens = count_tokens
        self.model = TokenizerModel(calibration)

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
            EndpointError: no cut comes within the larger of 0.5 % and 4 tokens.
        """
        if start.tokens >= target:
            raise InputError(
                f"{target} tokens are too few for a prompt",
                hint=f"Its head, its instruction and the server's template alone take {start.tokens} tokens.",
            )
        search = _Search(self.model, supply, target=target, start=start)
        for _ in range(MOST_COUNTS):
            words, closing_words = search.next_cut()
            text = frame.text(supply.body(words), closing_words)
            probe = Probe(words, closing_words, await count(self._count_tokens, text))
            search.learn(probe)
            if abs(probe.tokens - target) <= within:
                break
        best = search.best
        if abs(best.tokens - target) > tolerance_tokens(target):
            raise EndpointError(
                f"no text of {target} tokens found in {MOST_COUNTS} counts; the nearest has {best.tokens}",
                hint="Does the server's /tokenize count what it serves, and the same each time?",
            )
        body = supply.body(best.words)
        return Fitted(body=body, text=frame.text(body, best.closing_words), probe=best)


def tolerance_tokens(target: int) -> int:
    """Return how far off a prompt may be where the tokenizer makes the exact count impossible."""
    return max(int(target * _TOLERANCE_RATIO), _TOLERANCE_TOKENS)


class _Search:
    """Chooses the next cut to count, from all counts so far."""

    def __init__(self, model: TokenizerModel, supply: Supply, *, target: int, start: Probe) -> None:
        self._model = model
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
        anchor = self.best if self._probes else self._start
        cut = self._closing_alone(anchor) if self._probes else None
        if cut is None:
            cut = self._moved(anchor)
        self._tried.add(cut)
        return cut

    def learn(self, probe: Probe) -> None:
        """Take a count into the model."""
        for earlier in self._probes:
            if earlier.words == probe.words:
                self._model.learn_closing(earlier, probe)
        self._probes.append(probe)
        tokens = probe.tokens - self._start.tokens - self._closing_change(self._start, probe.closing_words)
        weight = self._supply.weight(probe.words)
        if tokens > 0 and weight > 0:
            self._model.tokens_per_weight = tokens / weight

    def _closing_alone(self, anchor: Probe) -> tuple[int, int] | None:
        wanted = self._target - anchor.tokens
        for closing_words in range(1, 2 * self._room + 1):
            cut = (anchor.words, closing_words)
            if abs(self._closing_change(anchor, closing_words) - wanted) < 0.5 and cut not in self._tried:
                return cut
        return None

    def _moved(self, anchor: Probe) -> tuple[int, int]:
        wanted = self._target - anchor.tokens - self._closing_change(anchor, self._room)
        rate = self._model.tokens_per_weight
        here = self._supply.weight(anchor.words)
        ideal = max(1, self._supply.words_up_to(here + wanted / rate))
        # Characters are exact weights: no need to narrow, and every nearby cut may be the one.
        low, high = (1, self._supply.words) if self._model.by_character else self._bracket()
        if not low <= ideal <= high:
            ideal = (low + high) // 2  # the weights are wrong about these words: halve what is left

        def miss(cut: tuple[int, int]) -> tuple[int, int]:
            moved = (self._supply.weight(cut[0]) - here) * rate + self._closing_change(anchor, cut[1])
            # In whole tokens, so that among equally good guesses the one that leaves most room for the next is taken.
            return abs(round(anchor.tokens + moved) - self._target), abs(cut[0] - ideal) + abs(cut[1] - self._room)

        cuts = (
            (words, closing_words)
            for words in range(max(low, ideal - _NEARBY_CUTS), min(high, ideal + _NEARBY_CUTS) + 1)
            for closing_words in range(1, 2 * self._room + 1)
        )
        return min((cut for cut in cuts if cut not in self._tried), key=miss, default=(ideal, self._room))

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

    def _closing_change(self, probe: Probe, closing_words: int) -> float:
        return self._model.closing_tokens(closing_words) - self._model.closing_tokens(probe.closing_words)


def _closing(words: int) -> str:
    return " ".join(_CLOSING[:words])
