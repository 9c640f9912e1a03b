"""Axes to configurations and cells."""

# ruff: noqa: E501 - messages stand here as they are printed
from __future__ import annotations

import time
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st
from inline_snapshot import snapshot

from harness.records.cell import LoadPoint, OutputLength
from tests.unit.recipe.recipes import small
from tests.unit.sweep.sweeps import error_of, expanded, knobs

SMALL_RECIPE = small()
DSPARK = "sweep: a\nrecipe: dspark-2x-spark\n"


def test_launch_and_load_knobs_mix_freely() -> None:
    expansion = expanded("knobs: {concurrency: [1, 4], num_speculative_tokens: [0, 2], context_tokens: [1K, 256]}\n")
    assert knobs(expansion, "num_speculative_tokens") == [(0,), (2,)]
    for group in expansion.groups:
        assert [(load.concurrency, load.context_tokens) for load in group.loads] == [
            (1, 1024),
            (1, 256),
            (4, 1024),
            (4, 256),
        ]


def test_every_load_knob_has_a_value() -> None:
    (group,) = expanded("").groups
    assert group.configuration.knobs == {}
    assert group.loads == (
        LoadPoint(
            workload_class="prose",
            context_tokens=256,
            concurrency=1,
            output=OutputLength(tokens=256),
            cache="cold",
            temperature=0.0,
            top_p=1.0,
            thinking="off",
        ),
    )


def test_load_knobs_are_read() -> None:
    text = 'knobs: {class: code, context_tokens: 8K, cache: warm, output_tokens: [128, {natural: 2K}], temperature: 1, top_p: 95%, thinking: "off"}\n'
    (group,) = expanded(text).groups
    assert [load.output for load in group.loads] == [OutputLength(tokens=128), OutputLength(tokens=2048, natural=True)]
    assert {(load.temperature, load.top_p, load.cache, load.context_tokens) for load in group.loads} == {
        (1.0, 0.95, "warm", 8192)
    }


def test_ranges_are_axes() -> None:
    text = (
        "knobs: {num_speculative_tokens: {from: 0, to: 6, step: 3}, context_tokens: {from: 256, to: 1K, factor: 2}}\n"
    )
    expansion = expanded(text)
    assert knobs(expansion, "num_speculative_tokens") == [(0,), (3,), (6,)]
    assert [load.context_tokens for load in expansion.groups[0].loads] == [256, 512, 1024]


def test_spellings_and_free_variables() -> None:
    text = (
        'knobs: {--max-num-seqs: 4, env.OMP_NUM_THREADS: [1, "2"], args: [[--seed, 3], "--seed 4"], command: [a, b]}\n'
    )
    expansion = expanded(text)
    assert knobs(expansion, "max_num_seqs", "env.OMP_NUM_THREADS", "args", "command") == [
        (4, 1, "--seed 3", "a b"),
        (4, 1, "--seed 4", "a b"),
        (4, 2, "--seed 3", "a b"),
        (4, 2, "--seed 4", "a b"),
    ]


def test_a_deprecated_spelling_is_noted() -> None:
    expansion = expanded("knobs: {env.DSPARK_ENABLE_SWA_PREFIX: 1}\n", head=DSPARK)
    assert knobs(expansion, "swa_prefix") == [(1,)]
    assert [note for note in expansion.notes if note.startswith("DSPARK_ENABLE_SWA_PREFIX: ")] != []


def test_zip_varies_together_beside_the_product() -> None:
    text = "zip: {pair: {num_speculative_tokens: [2, 6], max_num_seqs: [8, 16]}}\nknobs: {dtype: [bfloat16, float32]}\n"
    assert knobs(expanded(text), "num_speculative_tokens", "max_num_seqs", "dtype") == [
        (2, 8, "bfloat16"),
        (6, 16, "bfloat16"),
        (2, 8, "float32"),
        (6, 16, "float32"),
    ]


def test_zip_of_launch_and_load_knobs() -> None:
    text = "zip: {pair: {num_speculative_tokens: [2, 6, 2], concurrency: [4, 1, 8]}}\nconfigurations: {none: {num_speculative_tokens: 0}}\n"
    expansion = expanded(text)
    cells = [
        (group.configuration.num_speculative_tokens, [load.concurrency for load in group.loads])
        for group in expansion.groups
    ]
    assert cells == [(2, [4, 8]), (6, [1]), (0, [4, 1, 8])]


def test_zip_of_load_knobs_only() -> None:
    text = "zip: {depth: {context_tokens: [256, 8K], output_tokens: [512, 64]}}\n"
    (group,) = expanded(text).groups
    assert [(load.context_tokens, load.output.tokens) for load in group.loads] == [(256, 512), (8192, 64)]


def test_zip_that_does_not_fit() -> None:
    assert error_of("zip: {pair: {num_speculative_tokens: [2, 6], max_num_seqs: [8, 16, 32]}}\n") == snapshot(
        "s.yaml:3:13: zip.pair: values that vary together differ in number: num_speculative_tokens has 2, max_num_seqs has 3"
    )


def test_zip_with_a_row_twice() -> None:
    assert error_of("zip: {pair: {num_speculative_tokens: [2, 2], max_num_seqs: [8, 8]}}\n") == snapshot(
        "s.yaml:3:13: zip.pair: one combination stands twice"
    )


def test_a_knob_in_knobs_and_zip() -> None:
    text = "knobs: {concurrency: 1}\nzip: {pair: {num_speculative_tokens: [2, 6], concurrency: [8, 16]}}\n"
    assert error_of(text) == snapshot('s.yaml:4:46: concurrency is set twice: here, and as "concurrency" at s.yaml:3:9')


def test_named_configurations_lie_over_the_fixed_knobs_and_an_empty_one_changes_nothing() -> None:
    text = "knobs: {max_num_seqs: 4, dtype: [bfloat16, float32]}\nconfigurations: {short: {num_speculative_tokens: 1}, today: {}}\n"
    expansion = expanded(text)
    assert [(group.configuration.name, group.configuration.knobs) for group in expansion.groups] == [
        (None, {"max_num_seqs": 4, "dtype": "bfloat16"}),
        (None, {"max_num_seqs": 4, "dtype": "float32"}),
        ("short", {"max_num_seqs": 4, "num_speculative_tokens": 1}),
        ("today", {}),
    ]
    assert expansion.incumbent == expansion.groups[3].configuration


def test_named_configurations_alone() -> None:
    text = (
        "knobs: {max_num_seqs: 4}\nconfigurations: {a: {num_speculative_tokens: 1}, b: {num_speculative_tokens: 2}}\n"
    )
    expansion = expanded(text)
    assert [group.configuration.name for group in expansion.groups] == ["a", "b"]
    assert "only the named configurations are measured" in expansion.notes[0]
    assert expansion.incumbent is None


def test_a_configuration_holds_launch_knobs_of_one_value() -> None:
    assert error_of("configurations: {a: {concurrency: 3}, b: {num_speculative_tokens: [1, 2]}}\n") == snapshot("""\
s.yaml:3:22: a: concurrency is a load knob, which is no part of a configuration
  Also: s.yaml:3:42: b: num_speculative_tokens has several values\
""")


def test_what_does_nothing_collapses() -> None:
    expansion = expanded("knobs: {num_speculative_tokens: [0, 2], draft_sample_method: [greedy, probabilistic]}\n")
    assert knobs(expansion, "num_speculative_tokens", "draft_sample_method") == [
        (0, None),
        (2, "greedy"),
        (2, "probabilistic"),
    ]
    (collapsed,) = expansion.collapsed
    assert collapsed.kept == expansion.groups[0].configuration
    assert [same.knobs for same in collapsed.same_as] == [
        {"num_speculative_tokens": 0, "draft_sample_method": "probabilistic"}
    ]
    assert collapsed.because == "draft_sample_method does nothing in num_speculative_tokens=0"


def test_a_collapsed_configuration_keeps_its_name() -> None:
    text = "knobs: {num_speculative_tokens: [0, 2]}\nconfigurations: {none: {num_speculative_tokens: 0}, default: {}}\n"
    expansion = expanded(text)
    assert [group.configuration.name for group in expansion.groups] == ["none", None, "default"]
    assert [collapsed.kept.name for collapsed in expansion.collapsed] == ["none"]


def test_every_arm_the_same_server() -> None:
    assert error_of("knobs: {num_speculative_tokens: 0, method: [ngram, draft_model]}\n") == snapshot("""\
s.yaml:3:1: all 2 configurations would be the same server
  method does nothing in num_speculative_tokens=0.\
""")


def test_every_arm_the_recipes_default() -> None:
    text = "configurations: {a: {model: tiny}, b: {model: org/tiny@1, max_num_seqs: 8}}\n"
    assert error_of(text, recipe=SMALL_RECIPE) == snapshot("""\
s.yaml:1:1: all 2 configurations would be the same server
  what differs is the recipe's default, or written twice.\
""")


def test_refusals_are_listed_with_reason_and_place() -> None:
    text = "knobs:\n  method: [ngram, draft_model]\n  model: tiny\n  num_speculative_tokens: [4, 7]\n"
    expansion = expanded(text, recipe=SMALL_RECIPE)
    assert knobs(expansion, "method", "num_speculative_tokens") == [
        ("ngram", 4),
        ("draft_model", 4),
        ("draft_model", 7),
    ]
    (refusal,) = expansion.refusals
    assert refusal.configuration.knobs == {"method": "ngram", "model": "tiny", "num_speculative_tokens": 7}
    assert (refusal.because, refusal.source, refusal.where) == ("ngram is short", "log", "s.yaml:4:3")


def test_on_refused_stop() -> None:
    text = "on_refused: stop\nknobs: {method: [ngram, draft_model], num_speculative_tokens: [4, 7]}\n"
    assert error_of(text, recipe=SMALL_RECIPE) == snapshot("""\
s.yaml:4:9: refused before anything is launched: 1 of the configurations or cells
  method=ngram, num_speculative_tokens=7: ngram is short\
""")


def test_everything_refused() -> None:
    assert error_of("knobs: {method: ngram, num_speculative_tokens: [6, 7]}\n", recipe=SMALL_RECIPE) == snapshot("""\
s.yaml:3:24: refused before anything is launched: every configuration
  method=ngram, num_speculative_tokens=6 and 1 more: ngram is short\
""")


def test_rules_about_cells_refuse_cells() -> None:
    text = "knobs: {checkpoint: vision-exp, num_speculative_tokens: 6, cache: [cold, warm], swa_prefix: [0, 1], concurrency: [1, 2]}\n"
    expansion = expanded(text, head=DSPARK)
    assert [len(group.loads) for group in expansion.groups] == [2, 4]
    (refusal,) = expansion.refusals
    assert refusal.configuration.knobs["swa_prefix"] == 0
    assert {(load.cache, load.concurrency) for load in refusal.loads} == {("warm", 1), ("warm", 2)}
    assert "garbles" in refusal.because


def test_a_configuration_of_which_every_cell_is_refused() -> None:
    text = "knobs: {checkpoint: vision-exp, num_speculative_tokens: 6, cache: warm, swa_prefix: [0, 1]}\n"
    expansion = expanded(text, head=DSPARK)
    assert knobs(expansion, "swa_prefix") == [(1,)]
    assert [refusal.loads for refusal in expansion.refusals] == [()]


def test_a_knob_that_the_image_ignores() -> None:
    text = "knobs: {checkpoint: official-0731, num_speculative_tokens: 5, env.VLLM_DSPARK_LOCAL_ARGMAX: [0, 1]}\n"
    assert error_of(text, head=DSPARK) == snapshot("""\
s.yaml:3:63: refused before anything is launched: every configuration
  checkpoint=official-0731, env.VLLM_DSPARK_LOCAL_ARGMAX=0, num_speculative_tokens=5 and 1 more: env.VLLM_DSPARK_LOCAL_ARGMAX has no effect on image anemll-0.1.1: every arm would be the same server\
""")


def test_warnings_are_said_once() -> None:
    text = "knobs: {num_speculative_tokens: [1, 2], max_num_seqs: 8K, dtype: [bfloat16, float32]}\n"
    notes = [note for note in expanded(text).notes if "dropped silently" in note]
    assert len(notes) == 2
    assert notes[0].startswith("dtype=bfloat16, max_num_seqs=8192, num_speculative_tokens=1 and 1 more: ")


def test_exclude_configurations_and_cells() -> None:
    text = """\
knobs: {num_speculative_tokens: [1, 2, 3], concurrency: [1, 2], context_tokens: [256, 1K]}
exclude:
  - {num_speculative_tokens: 1}
  - {num_speculative_tokens: [2], concurrency: 2}
  - {context_tokens: 1K, concurrency: 1}
"""
    expansion = expanded(text)
    cells = {
        (group.configuration.num_speculative_tokens, load.concurrency, load.context_tokens)
        for group in expansion.groups
        for load in group.loads
    }
    assert cells == {(2, 1, 256), (3, 1, 256), (3, 2, 256), (3, 2, 1024)}
    assert (expansion.excluded_configurations, expansion.excluded_cells) == (1, 4)


def test_exclude_that_leaves_no_cell_of_a_configuration() -> None:
    text = "knobs: {num_speculative_tokens: [1, 2], concurrency: [1, 2]}\nexclude: [{num_speculative_tokens: 1, concurrency: [1, 2]}]\n"
    expansion = expanded(text)
    assert knobs(expansion, "num_speculative_tokens") == [(2,)]
    assert expansion.excluded_configurations == 1


def test_exclude_applies_to_named_configurations_and_to_implied_values() -> None:
    text = "knobs: {method: [draft_model, none]}\nconfigurations: {none: {num_speculative_tokens: 0}, two: {num_speculative_tokens: 2}}\nexclude: [{num_speculative_tokens: 0}]\n"
    expansion = expanded(text)
    assert [group.configuration.label for group in expansion.groups] == ["method=draft_model", "two"]
    assert expansion.excluded_configurations == 2


def test_an_exclusion_that_matches_nothing_is_noted() -> None:
    expansion = expanded("knobs: {num_speculative_tokens: [1, 2]}\nexclude:\n- {num_speculative_tokens: 3}\n")
    assert expansion.notes == ("exclude matches nothing: s.yaml:5:3",)


def test_nothing_left() -> None:
    assert error_of("knobs: {num_speculative_tokens: [1, 2]}\nexclude: [{concurrency: 1}]\n") == snapshot("""\
s.yaml:3:1: nothing is left to measure
  `exclude` leaves everything out.\
""")


def test_incumbent_by_knobs() -> None:
    text = "knobs: {num_speculative_tokens: [0, 2], draft_sample_method: [greedy, probabilistic]}\n"
    assert (
        expanded(text + "incumbent: {num_speculative_tokens: 0, draft_sample_method: greedy}\n").incumbent is not None
    )
    expansion = expanded(text + "incumbent: {num_speculative_tokens: 4}\n")
    assert expansion.incumbent is not None
    assert expansion.incumbent.num_speculative_tokens == 4
    assert expansion.notes == (
        "incumbent: it is none of the configurations that are measured, so gains have no reference",
    )


def test_incumbent_that_is_not_clear() -> None:
    text = "knobs: {num_speculative_tokens: [1, 2], draft_sample_method: [greedy, probabilistic]}\nincumbent: {num_speculative_tokens: 2}\n"
    assert error_of(text) == snapshot("""\
s.yaml:4:12: the incumbent fits 2 configurations
  Name more of the knobs that vary.\
""")


def test_every_kind_of_bad_value() -> None:
    text = """\
knobs:
  num_speculative_token: 3
  max_num_seqs: []
  concurrency: [1, 2, 1]
  dtype: int8
  num_speculative_tokens: [1, 99, two, 1.5]
  temperature: hot
  --max-model-len: 8K
  max_model_len: 4K
  class: proze
  cache: as_recorded
  top_p:
  context_tokens: {from: 8K, to: 1K, step: 1}
  output_tokens: {naturally: 3}
  env.HF_TOKEN: secret
"""
    message = error_of(text)
    assert "secret" not in message.replace("a secret", "")
    assert message == snapshot("""\
s.yaml:4:3: unknown knob "num_speculative_token" in recipe vllm-cpu-tiny
  Did you mean "num_speculative_tokens"? Known here: args, cache, class, command, concurrency, context_tokens, draft_model, draft_sample_method, dtype, max_model_len, max_num_batched_tokens, max_num_seqs, method, model, num_speculative_tokens, output_tokens, prompt_lookup_max, temperature, thinking, thinking_tokens, top_p, env.NAME.
  Also: s.yaml:5:17: max_num_seqs: the axis is empty
  Also: s.yaml:6:23: concurrency: 1 stands twice
  Also: s.yaml:7:10: dtype: "int8" is not allowed (allowed: "auto", "bfloat16", "float16", "float32")
  Also: s.yaml:8:31: num_speculative_tokens: 99 is too large (at most 32)
  Also: s.yaml:8:35: num_speculative_tokens: expected a whole number, not "two"
  Also: s.yaml:8:40: num_speculative_tokens: expected a whole number, not 1.5
  Also: s.yaml:9:16: temperature: expected a number, not "hot"
  Also: s.yaml:11:3: max_model_len is set twice: here, and as "--max-model-len" at s.yaml:10:3
  Also: s.yaml:12:10: class: "proze" is not allowed (allowed: "prose", "code", "structured", "agentic", "repetitive", "vision")
  And 5 more.\
""")


def test_bad_values_outside_of_knobs() -> None:
    text = """\
zip: {pair: {dtyp: [bfloat16], max_num_seqs: [8]}}
configurations: {a: {methode: ngram}, b: {method: mtp}}
exclude: [{concurency: 1}, {context_tokens: [1K, big]}, {cache: []}]
compare: {base: {num_speculative_tokens: -1}, candidate: today}
incumbent: {concurrency: 1}
"""
    assert error_of(text) == snapshot("""\
s.yaml:3:14: unknown knob "dtyp" in recipe vllm-cpu-tiny
  Did you mean "dtype"? Known here: args, cache, class, command, concurrency, context_tokens, draft_model, draft_sample_method, dtype, max_model_len, max_num_batched_tokens, max_num_seqs, method, model, num_speculative_tokens, output_tokens, prompt_lookup_max, temperature, thinking, thinking_tokens, top_p, env.NAME.
  Also: s.yaml:4:22: unknown knob "methode" in recipe vllm-cpu-tiny
    Did you mean "method"?
  Also: s.yaml:4:51: method: "mtp" is not allowed (allowed: "none", "ngram", "draft_model")
  Also: s.yaml:5:12: unknown knob "concurency" in recipe vllm-cpu-tiny
    Did you mean "concurrency"?
  Also: s.yaml:5:50: context_tokens: expected a whole number, not "big"
  Also: s.yaml:5:65: cache: an empty list matches nothing
  Also: s.yaml:6:42: num_speculative_tokens: -1 is too small (at least 0)
  Also: s.yaml:7:13: incumbent: concurrency is a load knob, which is no part of a configuration\
""")


def test_too_many_cells() -> None:
    text = "knobs: {num_speculative_tokens: {from: 1, to: 32, step: 1}, env.A: {from: 1, to: 1000, step: 1}, context_tokens: {from: 1, to: 1000, step: 1}}\n"
    assert error_of(text) == snapshot("""\
s.yaml:3:1: the axes multiply to 32000000 cells, more than 200000
  Fewer values, or `zip` for knobs that vary together.\
""")


def test_a_running_server_takes_no_launch_knobs() -> None:
    attach = "sweep: a\nrecipe: attach\n"
    assert error_of("knobs: {num_speculative_tokens: [1, 2]}\n", head=attach) == snapshot("""\
s.yaml:3:9: attach cannot set "num_speculative_tokens": the server is already running
  Only load knobs can be varied on a server that is not launched here.\
""")
    (group,) = expanded("knobs: {concurrency: [1, 2]}\n", head=attach).groups
    assert len(group.loads) == 2


AXIS = st.lists(st.integers(1, 16), min_size=1, max_size=4, unique=True)


@given(
    AXIS,
    AXIS,
    AXIS,
    AXIS,
    st.lists(st.dictionaries(st.sampled_from(["k", "s", "c", "t"]), st.integers(1, 16), min_size=1), max_size=3),
)
def test_cells_are_the_product_without_what_is_excluded(
    k: list[int], s: list[int], c: list[int], t: list[int], lines: list[dict[str, int]]
) -> None:
    long = {"k": "num_speculative_tokens", "s": "max_num_seqs", "c": "concurrency", "t": "context_tokens"}
    excluded = [{long[name]: value for name, value in line.items()} for line in lines]
    wanted = {
        row
        for row in product(k, s, c, t)
        if not any(
            all(dict(zip("ksct", row, strict=True))[name] == value for name, value in line.items()) for line in lines
        )
    }
    text = f"knobs: {{{long['k']}: {k}, {long['s']}: {s}, {long['c']}: {c}, {long['t']}: {t}}}\nexclude: {excluded}\n".replace(
        "'", ""
    )
    recipe = SMALL_RECIPE
    if not wanted:
        assert "nothing is left to measure" in error_of(text, recipe=recipe)
        return
    expansion = expanded(text, recipe=recipe)
    cells = [
        (
            group.configuration.knobs[long["k"]],
            group.configuration.knobs[long["s"]],
            load.concurrency,
            load.context_tokens,
        )
        for group in expansion.groups
        for load in group.loads
    ]
    assert set(cells) == wanted
    assert len(cells) == len(wanted)
    lost = len(list(product(k, s, c, t))) - len(wanted)
    assert expansion.cells == len(k) * len(s) * len(c) * len(t) - lost


@pytest.mark.parametrize(("variables", "contexts"), [(10, 100), (100, 10)])
def test_ten_thousand_cells_take_well_under_a_second(variables: int, contexts: int) -> None:
    text = f"knobs: {{num_speculative_tokens: {{from: 1, to: 10, step: 1}}, env.A: {{from: 1, to: {variables}, step: 1}}, context_tokens: {{from: 1, to: {contexts}, step: 1}}}}\nexclude: [{{num_speculative_tokens: 3, context_tokens: 5}}, {{cache: warm}}]\n"
    started = time.process_time()
    expansion = expanded(text)
    assert expansion.cells == 10_000 - variables
    assert time.process_time() - started < 1.0


PICTURES = """\
knobs:
  checkpoint: {checkpoint}
  image: anemll-0.1.1
  block_k: 1
  num_speculative_tokens: 5
  class: [prose, vision]
"""


@pytest.mark.parametrize(("checkpoint", "takes"), [("vision-exp", True), ("official-0731", False)])
def test_pictures_go_only_to_a_checkpoint_that_takes_them(checkpoint: str, takes: bool) -> None:
    found = expanded(PICTURES.replace("{checkpoint}", checkpoint), head="sweep: a\nrecipe: dspark-2x-spark\n")

    assert [load.workload_class for load in found.groups[0].loads] == ["prose", "vision"][: 1 + takes]
    assert [[load.workload_class for load in refusal.loads] for refusal in found.refusals] == [["vision"]][takes:]
    for refusal in found.refusals:
        assert "which only checkpoint vision-exp takes" in refusal.because


def test_pictures_for_a_model_of_text_alone_leave_nothing() -> None:
    said = error_of("knobs: {num_speculative_tokens: 2, class: vision}\n")

    assert "what this recipe serves takes text alone" in said


def test_an_endpoint_of_somebody_elses_may_take_pictures() -> None:
    found = expanded("knobs: {class: vision}\n", head="sweep: a\nrecipe: attach\n")

    assert [load.workload_class for load in found.groups[0].loads] == ["vision"]


def test_thinking_brings_its_reserve() -> None:
    text = 'knobs: {num_speculative_tokens: 2, output_tokens: [64, {natural: 32}], thinking: ["off", low, high]}\n'
    loads = expanded(text).groups[0].loads
    reserves = {(load.thinking, load.output.tokens): load.output.reserve_tokens for load in loads}
    assert reserves == {
        ("off", 64): 0,
        ("low", 64): 1024,
        ("high", 64): 4096,
        ("off", 32): 0,
        ("low", 32): 1024,
        ("high", 32): 4096,
    }
    assert len({load.load_id for load in loads}) == 6

    said = expanded(text.replace("}\n", ", thinking_tokens: [by_effort, 200]}\n").replace("high", "max"))
    assert {load.output.most_tokens for load in said.groups[0].loads} == {64, 32, 1088, 1056, 264, 232, 16448, 16416}
