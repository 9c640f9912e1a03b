"""How prompts grow: what an agent's next turn adds to a prompt that is in the cache already. Pure."""

from __future__ import annotations

from dataclasses import dataclass

CONVERSING_CLASS = "agentic"  # whose warm streams are conversations
LEAST_TURNS = 2  # of a conversation: the second one is the first that finds a whole prompt in the cache
LEAST_GROWTH_TOKENS = 128  # of a turn: what is around its text takes up to 110 where a character is a token
_GROWTH_SHARES = 2  # of the first prompt: by one of them a conversation grows, or by one turn where that is more


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversation:
    """An agent's conversation: each prompt is the one before it, a made answer, a tool's result and an instruction."""

    first_tokens: int  # of the first prompt
    answer_tokens: int  # of a made answer, roughly; it stands where the engine's own would
    result_tokens: int  # of the rest of a turn

    @property
    def growth_tokens(self) -> int:
        """What a turn adds to a prompt."""
        return self.answer_tokens + self.result_tokens

    @property
    def turns(self) -> int:
        """Requests of one conversation. A stream that sends more begins another one on the same first prefix."""
        return max(LEAST_TURNS, 1 + self.first_tokens // _GROWTH_SHARES // self.growth_tokens)

    def goes_on(self, turn: int) -> bool:
        """Tell whether a stream's request number ``turn`` (from 0) has the whole one before it as its beginning."""
        return turn % self.turns > 0

    def prompt_tokens(self, turn: int) -> int:
        """Return how long a stream's prompt number ``turn`` (from 0) is."""
        return self.first_tokens + turn % self.turns * self.growth_tokens

    def longest_tokens(self, turns: int) -> int:
        """Return the longest of a stream's first ``turns`` prompts."""
        return self.prompt_tokens(min(turns, self.turns) - 1)


def turn_tokens(context_tokens: int) -> int:
    """Return the share of a reused prompt that is new: what an agent's next turn adds."""
    return min(max(context_tokens // 16, 64), 1024)


def conversation(context_tokens: int, answer_tokens: int) -> Conversation:
    """Return the conversation of an agent that answers in about ``answer_tokens``."""
    return Conversation(
        first_tokens=context_tokens,
        answer_tokens=answer_tokens,
        result_tokens=max(turn_tokens(context_tokens), LEAST_GROWTH_TOKENS),
    )
