"""Which combinations of the pair boot, which are refused and why, and which knobs do nothing: the rules as a table."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from harness.recipe.names import KnobNames
from harness.recipe.rules import Verdict, check
from harness.recipe.simulated import build_simulated
from harness.records.cell import KnobValue
from tests.unit.recipe.recipes import configuration, shipped
from tests.unit.sweep.sweeps import error_of, expanded

PAIR = shipped("dspark-2x-spark")
ANEMLL, STAGE_C = "anemll-0.1.1", "stage-c"
VISION, OFFICIAL = "vision-exp", "official-0731"
SEPTEMBER, AUGUST = "september", "august"

BY_THREE = "only k from 5 up that 3 divides"
OLD_BY_THREE = "no k above 3 that 3 does not divide"
BY_FIVE = "no k above 5 that 5 does not divide"
OTHER_CHECKPOINT = "the Stage-C image serves the official checkpoint only"
SAME_SERVER = "every arm would be the same server"
THRESHOLD_ALONE = "does nothing while confidence_scheduler is off"
SCHEDULER_ALONE = "keeps every draft at a threshold of 0"


@dataclass(frozen=True)
class Row:
    """One combination and what is known of it."""

    checkpoint: str
    image: str
    generation: str
    k: int
    refused: str | None = None  # a part of the reason; None: it boots
    inert: tuple[str, ...] = ()
    flags: dict[str, KnobValue] = field(default_factory=dict)

    def __str__(self) -> str:
        flags = " ".join(f"{name}={value}" for name, value in self.flags.items())
        return f"{self.checkpoint} {self.image} {self.generation} k={self.k} {flags}".strip()


def grid(checkpoint: str, image: str, generation: str, depths: dict[int, str | None], **flags: KnobValue) -> list[Row]:
    return [Row(checkpoint, image, generation, k, refused=why, flags=flags) for k, why in depths.items()]


TABLE = [
    # September's launcher, without block-k and with it.
    *grid(VISION, ANEMLL, SEPTEMBER, {0: None, 1: BY_THREE, 2: BY_THREE, 3: BY_THREE, 4: BY_THREE, 5: BY_THREE}),
    *grid(VISION, ANEMLL, SEPTEMBER, {6: None, 7: BY_THREE, 8: BY_THREE, 9: None, 10: BY_THREE, 12: None}),
    *grid(VISION, ANEMLL, SEPTEMBER, dict.fromkeys((1, 2, 3, 4, 5, 6, 7, 9, 16)), block_k=1),
    *grid(VISION, ANEMLL, SEPTEMBER, {5: BY_THREE, 6: None}, swa_prefix=1),
    *grid(VISION, ANEMLL, SEPTEMBER, {5: BY_THREE, 6: None}, draft_sample_method="greedy"),
    # August's launcher checks nothing; vLLM does.
    *grid(VISION, ANEMLL, AUGUST, {0: None, 1: None, 2: None, 3: None, 4: OLD_BY_THREE, 5: OLD_BY_THREE}),
    *grid(VISION, ANEMLL, AUGUST, {6: None, 7: OLD_BY_THREE, 9: None}),
    *grid(VISION, ANEMLL, AUGUST, {6: SAME_SERVER}, block_k=1),
    *grid(VISION, ANEMLL, AUGUST, {6: SAME_SERVER}, swa_prefix=1),
    # The official checkpoint drafts with one layer: any depth.
    *grid(OFFICIAL, ANEMLL, SEPTEMBER, dict.fromkeys((0, 1, 3, 4, 5, 6, 7, 11))),
    *grid(OFFICIAL, ANEMLL, AUGUST, dict.fromkeys((1, 3, 5, 7))),
    *grid(OFFICIAL, ANEMLL, SEPTEMBER, {5: SAME_SERVER}, confidence_threshold=0.3),
    *grid(OFFICIAL, ANEMLL, SEPTEMBER, {5: SAME_SERVER}, confidence_scheduler="threshold"),
    *grid(OFFICIAL, ANEMLL, SEPTEMBER, {5: SAME_SERVER}, **{"env.VLLM_DSPARK_LOCAL_ARGMAX": 1}),
    # Stage-C drafts in blocks, knows another checkpoint only, and none of Anemll's switches.
    *grid(OFFICIAL, STAGE_C, SEPTEMBER, {**dict.fromkeys((0, 1, 2, 3, 4, 5, 10)), 6: BY_FIVE, 7: BY_FIVE, 9: BY_FIVE}),
    *grid(VISION, STAGE_C, SEPTEMBER, {0: OTHER_CHECKPOINT, 5: OTHER_CHECKPOINT, 6: OTHER_CHECKPOINT}),
    *grid(OFFICIAL, STAGE_C, SEPTEMBER, {5: SAME_SERVER}, block_k=1),
    *grid(OFFICIAL, STAGE_C, SEPTEMBER, {5: SAME_SERVER}, swa_prefix=1),
    *grid(OFFICIAL, STAGE_C, SEPTEMBER, {5: None}, confidence_threshold=0.3, confidence_scheduler="threshold"),
    *grid(OFFICIAL, STAGE_C, SEPTEMBER, {5: THRESHOLD_ALONE}, confidence_threshold=0.3),
    *grid(OFFICIAL, STAGE_C, SEPTEMBER, {5: SCHEDULER_ALONE}, confidence_scheduler="threshold"),
    *grid(OFFICIAL, STAGE_C, SEPTEMBER, {5: None}, confidence_scheduler="hardware"),
    # Plain memory share overrides both variants of it.
    *grid(OFFICIAL, ANEMLL, SEPTEMBER, {5: "overrides both of its variants"}, **{"env.GPU_MEMORY_UTILIZATION": "0.8"}),
    # What does nothing without speculation is dropped, so that such configurations become one.
    Row(VISION, ANEMLL, SEPTEMBER, 0, inert=("block_k",), flags={"block_k": 1}),
    Row(VISION, ANEMLL, SEPTEMBER, 0, inert=("draft_sample_method",), flags={"draft_sample_method": "greedy"}),
    Row(OFFICIAL, STAGE_C, SEPTEMBER, 0, inert=("confidence_threshold",), flags={"confidence_threshold": 0.3}),
    Row(OFFICIAL, ANEMLL, SEPTEMBER, 0, inert=("confidence_scheduler",), flags={"confidence_scheduler": "threshold"}),
]


def verdict_of(**knobs: KnobValue) -> Verdict:
    named, _ = KnobNames(PAIR.recipe).canonical(knobs)
    return check(PAIR.recipe, configuration("dspark-2x-spark", **named))


@pytest.mark.parametrize("row", TABLE, ids=str)
def test_a_combination(row: Row) -> None:
    verdict = verdict_of(
        checkpoint=row.checkpoint,
        image=row.image,
        generation=row.generation,
        num_speculative_tokens=row.k,
        **row.flags,
    )
    if row.refused is None:
        assert verdict.because is None
    else:
        assert verdict.because is not None and row.refused in verdict.because
    assert verdict.inert == row.inert
    assert not set(row.inert) & set(verdict.configuration.knobs)


CELLS = """\
knobs:
  checkpoint: {checkpoint}
  image: anemll-0.1.1
  swa_prefix: {swa}
  num_speculative_tokens: [6, 9]
  class: code
  context_tokens: 8K
  concurrency: 1
  cache: [cold, {cache}]
"""
PAIR_HEAD = "sweep: a\nrecipe: dspark-2x-spark\n"


@pytest.mark.parametrize("cache", ["warm", "shared"])
@pytest.mark.parametrize(
    ("checkpoint", "swa", "refused"), [(VISION, 0, True), (VISION, 1, False), (OFFICIAL, 0, False)]
)
def test_reused_prefixes_on_vision_exp_need_the_fix(cache: str, checkpoint: str, swa: int, refused: bool) -> None:
    expansion = expanded(CELLS.format(checkpoint=checkpoint, swa=swa, cache=cache), head=PAIR_HEAD)

    assert {tuple(sorted(load.cache for load in group.loads)) for group in expansion.groups} == {
        ("cold",) if refused else tuple(sorted(("cold", cache)))
    }
    assert len(expansion.refusals) == (2 if refused else 0)
    for refusal in expansion.refusals:
        assert "without swa_prefix a cached prefix garbles" in refusal.because
        assert [load.cache for load in refusal.loads] == [cache]


def test_the_older_spelling_of_the_fix_is_taken_and_warns() -> None:
    text = CELLS.format(checkpoint=VISION, swa=1, cache="warm").replace("swa_prefix", "env.DSPARK_ENABLE_SWA_PREFIX")
    expansion = expanded(text, head=PAIR_HEAD)

    assert not expansion.refusals
    assert {group.configuration.knobs["swa_prefix"] for group in expansion.groups} == {1}
    assert [note for note in expansion.notes if "DSPARK_ENABLE_DSPARK_SWA_PREFIX; that is what is set" in note]


def test_a_search_over_what_the_image_ignores_is_no_search() -> None:
    text = """\
knobs:
  checkpoint: official-0731
  image: anemll-0.1.1
  num_speculative_tokens: 5
  confidence_scheduler: threshold
  confidence_threshold: [0.1, 0.2, 0.3]
  class: code
  context_tokens: 8K
  concurrency: 1
"""
    assert SAME_SERVER in error_of(text, head=PAIR_HEAD)


@pytest.mark.parametrize(
    ("checkpoint", "image", "truth"),
    [
        (OFFICIAL, ANEMLL, "0731-anemll"),
        (VISION, ANEMLL, "vision-exp-anemll"),
        (OFFICIAL, STAGE_C, "0731-stage-c"),
        (None, STAGE_C, "preview-stage-c"),
        (None, ANEMLL, "0731-anemll"),
    ],
)
def test_each_pair_of_checkpoint_and_image_is_simulated_by_its_own_truth(
    checkpoint: str | None, image: str, truth: str
) -> None:
    knobs: dict[str, KnobValue] = {"image": image, "num_speculative_tokens": 5, "block_k": 1}
    if checkpoint is not None:
        knobs["checkpoint"] = checkpoint
    if image == STAGE_C:
        del knobs["block_k"]
    spec = build_simulated(PAIR, configuration("dspark-2x-spark", **knobs)).simulation

    assert spec is not None
    assert spec.truth == truth
