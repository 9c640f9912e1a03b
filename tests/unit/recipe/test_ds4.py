"""recipes/ds4: what each arm is started with, and what is refused before anything is."""

from __future__ import annotations

import pytest

from harness.errors import InputError
from harness.recipe.build import build_launch
from harness.recipe.rules import canonicalise
from harness.recipe.spec import LaunchSpec
from harness.records.cell import Configuration, KnobValue
from tests.unit.recipe.recipes import PLACES, shipped

FILES: dict[str, KnobValue] = {"model": "flash.gguf", "support_model": "support.gguf"}
RECIPE = shipped("ds4")


def launch(**knobs: KnobValue) -> LaunchSpec:
    written = Configuration(recipe="ds4", knobs=FILES | knobs)
    return build_launch(RECIPE, canonicalise(RECIPE.recipe, written)[0], PLACES)


def options(spec: LaunchSpec) -> str:
    return " ".join(spec.argv)


def test_the_confidence_is_always_passed() -> None:
    assert "--dspark-confidence 0.7" in options(launch())
    assert "--dspark-confidence 0.0" in options(launch(confidence_threshold=0))
    assert "--dspark-confidence 0.9" in options(launch(**{"--dspark-confidence": 0.9}))


def test_off_loads_nothing_of_dspark() -> None:
    spec = launch(mode="off", confidence_threshold=0.5)

    assert not [word for word in spec.argv if "dspark" in word or "mtp" in word or "support" in word]
    assert spec.num_speculative_tokens == 0


def test_k_of_zero_is_the_same_server_as_off() -> None:
    assert launch(num_speculative_tokens=0).argv == launch(mode="off").argv


def test_strict_loads_the_support_file_and_drafts_nothing() -> None:
    spec = launch(mode="strict")

    assert "--dspark --dspark-strict --mtp-model support.gguf" in options(spec)
    assert spec.num_speculative_tokens == 0


def test_older_builds_spell_the_support_file_otherwise() -> None:
    assert "--mtp support.gguf" in options(launch(support_flag="--mtp"))
    assert "--mtp-model support.gguf" in options(launch())


def test_its_names_are_accepted_in_a_sweep() -> None:
    written = Configuration(
        recipe="ds4", knobs={"quant": "q4.gguf", "--mtp": "s.gguf", "confidence": 0.5, "--ctx": "8K"}
    )

    assert canonicalise(RECIPE.recipe, written)[0].knobs == {
        "model": "q4.gguf",
        "support_model": "s.gguf",
        "confidence_threshold": 0.5,
        "max_model_len": 8192,
    }


def test_statistics_are_asked_for() -> None:
    assert launch().environment["DS4_DSPARK_STATS"] == "1"


@pytest.mark.parametrize(
    ("knobs", "because"),
    [
        ({"mode": "off", "ssd_streaming": True}, "measures the disk"),
        ({"ssd_streaming": True, "measure_ssd_streaming": True}, "refuses a support file"),
        ({"args": "--ssd-streaming"}, "does not have the form"),
        ({"args": "--quality"}, "does not have the form"),
        ({"confidence_threshold": 1.1}, "too large"),
        ({"mode": "fast"}, "not allowed"),
    ],
)
def test_what_would_mislead_is_refused(knobs: dict[str, KnobValue], because: str) -> None:
    with pytest.raises(InputError, match=because):
        launch(**knobs)


def test_streaming_from_the_disk_is_measured_where_that_is_the_question() -> None:
    assert "--ssd-streaming" in launch(mode="off", ssd_streaming=True, measure_ssd_streaming=True).argv


def test_without_files_it_says_which_to_name() -> None:
    for knobs, name in (({}, "model"), ({"model": "flash.gguf"}, "support_model")):
        with pytest.raises(InputError, match=f"name .* {name}|set {name}"):
            build_launch(RECIPE, Configuration(recipe="ds4", knobs=dict(knobs)), PLACES)


def test_it_is_ready_by_its_models_and_counts_per_launch() -> None:
    manners = launch().manners

    assert (manners.ready_by, manners.metrics, manners.events) == ("models", "ds4", "tokens")
    assert (manners.thinking_field, manners.first_event_tokens) == ("think", 1)
