"""One step of a made conversation: an agent's answer of a given length, its tool call, and what the tool returns."""

from __future__ import annotations

from collections.abc import Iterator

from harness.workload.supply import Supply, words_weight

RESULT_MARK = "\nTool:\n"  # between a call and its result, in passages of class agentic
_CALL_MARK = "\n<tool_call>\n"


def step_passages(passages: Iterator[str], *, answer_weight: float, by_character: bool) -> Iterator[str]:
    """Yield the text of one step: remark, work, tool call and first result in one piece, then further results.

    Args:
        passages: of class agentic, each a remark, a call and a result.
        answer_weight: of remark, work and call together, as Supply weighs words. Work fills what the two leave.
        by_character: as of Supply.
    """
    call, _, work = next(passages).partition(RESULT_MARK)
    remark, _, argument = call.partition(_CALL_MARK)
    left = answer_weight - words_weight(call, by_character=by_character)
    drawn = Supply(_with_more(work, passages), by_character=by_character)
    words = drawn.words_up_to(left) if left > 0 else 0
    answer = f"{remark}\n\n{drawn.body(words)}" if words else remark
    yield f"{answer}{_CALL_MARK}{argument}{RESULT_MARK}{_result(next(passages))}"
    yield from map(_result, passages)


def _with_more(work: str, passages: Iterator[str]) -> Iterator[str]:
    yield work
    yield from map(_result, passages)


def _result(passage: str) -> str:
    return passage.partition(RESULT_MARK)[2]
