"""Whether greedy text of two arms is the same: counts, first differences, and when a difference is a doubt."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from harness.client.digest import chained_hash
from harness.records.launch import LaunchRecord
from harness.records.sanity import GreedyAnswer
from harness.records.trial import TrialRecord
from harness.stats.sameness import CHAIN_DIGITS, sameness_of_launches, sameness_of_trials
from tests.unit.stats.build import cell, steady, trial

TEXT = tuple(range(100, 148))


def _launch(*answers: tuple[int, ...], tail: float = 0.0, name: str = "l") -> LaunchRecord:
    return LaunchRecord(
        launch_id=name,
        run_id="r",
        round=1,
        attempt=1,
        configuration=cell(4).configuration,
        started_at="2026-11-30T13:28:11+00:00",
        outcome="measured",
        ready_s=25.0,
        total_s=90.0,
        greedy=tuple(
            GreedyAnswer(prompt_id=f"p{number}", pieces=pieces, unit="token", repeated_tail_ratio=tail)
            for number, pieces in enumerate(answers)
        ),
    )


def _changed(position: int) -> tuple[int, ...]:
    return (*TEXT[:position], *(token + 1000 for token in TEXT[position:]))


def test_equal_answers_are_the_same() -> None:
    found = sameness_of_launches([_launch(TEXT, TEXT)], [_launch(TEXT, TEXT)])
    assert (found.compared, found.same, found.first_differences, found.doubt) == (2, 2, (), None)
    assert found.sentence == "Greedy text is the same in both arms: all 2 answers to fixed prompts."
    assert found.same_ratio == 1.0


def test_a_late_difference_is_named_and_is_no_doubt() -> None:
    found = sameness_of_launches([_launch(TEXT, TEXT, TEXT)], [_launch(TEXT, _changed(36), _changed(12))])
    assert (found.compared, found.same, found.first_differences, found.doubt) == (3, 1, (12, 36), None)
    assert found.sentence.startswith(
        "1 of 3 greedy answers to fixed prompts are the same in both arms; the others differ from token 13, 37 on."
    )
    assert "distribution of texts, not their bytes" in found.sentence


def test_a_shorter_answer_differs_where_it_ends() -> None:
    found = sameness_of_launches([_launch(TEXT)], [_launch(TEXT[:20])])
    assert found.first_differences == (20,)


def test_early_differences_in_most_prompts_are_a_doubt() -> None:
    base, candidate = _launch(TEXT, TEXT, TEXT, TEXT), _launch(_changed(0), _changed(2), _changed(7), TEXT)
    found = sameness_of_launches([base], [candidate])
    assert found.doubt is not None
    assert (found.doubt.kind, found.doubt.void) == ("greedy_text_differs", False)
    assert found.doubt.evidence == "3 of 4 greedy answers part within the first 8 tokens"


def test_early_differences_in_half_of_the_prompts_are_none() -> None:
    found = sameness_of_launches([_launch(TEXT, TEXT)], [_launch(_changed(0), TEXT)])
    assert found.doubt is None


def test_an_engine_that_differs_from_itself_as_early_says_nothing_of_the_arms() -> None:
    base = [_launch(TEXT, TEXT), _launch(_changed(1), _changed(3))]
    candidate = [_launch(_changed(2), _changed(1)), _launch(TEXT, TEXT)]
    found = sameness_of_launches(base, candidate)
    assert (found.own_compared, found.own_same, found.doubt) == (4, 0, None)
    assert "Between launches of one arm 0 of 4 are the same." in found.sentence


def test_an_arm_whose_answers_fall_into_loops_is_a_doubt() -> None:
    found = sameness_of_launches([_launch(TEXT, TEXT)], [_launch(_changed(30), _changed(31), tail=0.8)])
    assert found.doubt is not None
    assert found.doubt.evidence == "0 greedy answers of the base repeat themselves and 2 of the candidate"


def test_answers_in_other_units_are_not_compared() -> None:
    words = _launch(TEXT)
    words = replace(words, greedy=tuple(replace(answer, unit="word") for answer in words.greedy))
    assert sameness_of_launches([words], [_launch(TEXT)]).compared == 0


def test_without_answers_the_sentence_says_so() -> None:
    found = sameness_of_launches([_launch()], [_launch(TEXT)])
    assert (found.compared, found.same_ratio, found.doubt) == (0, None, None)
    assert "not compared" in found.sentence


def _replayed(answers: dict[str, tuple[int, ...]], *, launch_id: str, key: bytes = b"k") -> TrialRecord:
    requests = [
        replace(
            steady(steps=10, tokens_per_step=3, step_s=0.02, prompt_id=prompt),
            answer_chain=chained_hash(tokens, key=key, label=prompt),
        )
        for prompt, tokens in answers.items()
    ]
    return trial(requests, launch_id=launch_id)


def test_requests_of_a_trace_are_compared_by_their_hashes() -> None:
    base = _replayed({"a": TEXT, "b": TEXT}, launch_id="l1")
    candidate = _replayed({"a": TEXT, "b": _changed(30)}, launch_id="l2")
    found = sameness_of_trials([base], [candidate])
    assert (found.compared, found.same, found.first_differences) == (2, 1, (30,))
    assert found.source == "requests of the trace"


@given(st.lists(st.integers(0, 130_000), max_size=40), st.lists(st.integers(0, 130_000), max_size=40))
def test_chains_agree_just_as_far_as_the_tokens(one: list[int], other: list[int]) -> None:
    common = next((at for at, pair in enumerate(zip(one, other, strict=False)) if pair[0] != pair[1]), None)
    common = min(len(one), len(other)) if common is None else common
    chains = [chained_hash(tokens, key=b"key", label="p") for tokens in (one, other)]
    assert [len(chain) for chain in chains] == [CHAIN_DIGITS * len(one), CHAIN_DIGITS * len(other)]
    assert chains[0][: common * CHAIN_DIGITS] == chains[1][: common * CHAIN_DIGITS]


def test_a_chain_says_nothing_across_prompts_and_keys() -> None:
    plain = chained_hash(TEXT, key=b"key", label="p")
    assert chained_hash(TEXT, key=b"other", label="p")[:8] != plain[:8]
    assert chained_hash(TEXT, key=b"key", label="q")[:8] != plain[:8]
    repeated = chained_hash((7, 7, 7, 7), key=b"key", label="p")
    assert len({repeated[at : at + CHAIN_DIGITS] for at in range(0, 16, CHAIN_DIGITS)}) == 4
