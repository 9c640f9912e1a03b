"""Configuration and pair.yaml -> the compose documents of both ranks. What compose reads back is what was meant."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Any

import pytest
import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st

from harness.engine.pair.bundled import (
    ApiKey,
    BundledLaunch,
    Place,
    RankFiles,
    check_command,
    down_command,
    render,
    up_command,
)
from harness.engine.pair.documents import compose_text, filled, names_of
from harness.engine.pair.inventory import Inventory, inventory_from
from harness.errors import InputError
from harness.recipe.build import build_launch
from harness.recipe.rules import canonicalise
from harness.yaml_source import parse_source
from tests.unit.recipe.recipes import PLACES, configuration, shipped

GOLDEN = Path(__file__).parents[3] / "golden" / "pair"
DIGEST = f"sha256:{'a' * 64}"
IMAGE = f"registry.example/engine:1@{DIGEST}"
TWO = f"""\
image: {IMAGE}
checkpoint: org/Some-Model@0123abc
environment: {{NCCL_DEBUG: INFO, EXTRA: 1}}
head:
  address: 10.0.22.1
  interfaces: {{socket: enp1s0f1np1, gloo: eth9}}
  hca: rocep1s0f1
worker:
  ssh: ada@spark-2
  address: 10.0.22.2
  interfaces: {{socket: enp1s0f0np0}}
  hca: =rocep1s0f0,roceP2p1s0f0
  environment: {{ONLY_WORKER: "yes"}}
"""
ONE = f"{{image: '{IMAGE}', checkpoint: org/Small@0123abc}}"
HEAD = Place(hf_cache="/data/hf", gid_index=3)
WORKER = Place(hf_cache="/mnt/hf cache", gid_index=6)
TEXTS = st.text(st.characters(exclude_characters="\x00", exclude_categories=["Cs"]))


def inventory(text: str = TWO, *, nodes: int = 2) -> Inventory:
    return inventory_from(parse_source(text, name="pair.yaml"), nodes=nodes)


def launch_of(recipe: str = "dspark-2x-spark", *, pair: Inventory | None = None, **knobs: Any) -> BundledLaunch:
    loaded = shipped(recipe)
    generation = {"generation": "bundled"} if recipe == "dspark-2x-spark" else {}
    named = canonicalise(loaded.recipe, configuration(recipe, **generation, **knobs))[0]
    return BundledLaunch(
        spec=build_launch(loaded, named, PLACES),
        inventory=pair or inventory(),
        project="harness-trial",
        host="127.0.0.1",
        port=18888,
    )


def ranks(launch: BundledLaunch | None = None, **knobs: Any) -> tuple[RankFiles, ...]:
    launch = launch or launch_of(**knobs)
    return render(launch, launch.image, (HEAD, WORKER))


def option(rank: RankFiles, flag: str) -> str:
    return rank.argv[rank.argv.index(flag) + 1]


def read_by_compose(text: str) -> Any:
    """What docker compose makes of a file: YAML, then $NAME and ${NAME} from an environment, and $$ for $."""
    return interpolated(yaml.safe_load(text))


def interpolated(part: Any) -> Any:
    if isinstance(part, dict):
        return {key: interpolated(value) for key, value in part.items()}
    if isinstance(part, list):
        return [interpolated(value) for value in part]
    if not isinstance(part, str):
        return part
    return re.sub(r"\$(\$|\w+|\{[^}]*\}|)", lambda found: "$" if found[1] == "$" else "INTERPOLATED", part)


@pytest.mark.parametrize(
    ("name", "launch"),
    [
        ("k6", launch_of(num_speculative_tokens=6, draft_sample_method="greedy")),
        ("no-speculation", launch_of(num_speculative_tokens=0)),
        ("stage-c", launch_of(image="stage-c", confidence_threshold=0.5, confidence_scheduler="threshold")),
    ],
)
def test_the_documents_of_both_ranks(name: str, launch: BundledLaunch) -> None:
    for rank in ranks(launch):
        golden = (GOLDEN / f"{name}-{rank.role}.yaml").read_text(encoding="utf-8")
        assert rank.compose == golden
        assert read_by_compose(golden) == rank.document


def test_the_document_of_one_node() -> None:
    launch = launch_of("dspark-1x-spark", pair=inventory(ONE, nodes=1), num_speculative_tokens=3)
    (rank,) = render(launch, launch.image, (Place(hf_cache="/data/hf"),))
    assert rank.compose == (GOLDEN / "one-node.yaml").read_text(encoding="utf-8")
    assert (option(rank, "--tensor-parallel-size"), "--nnodes" in rank.argv) == ("1", False)


def test_the_ranks_differ_in_their_place_alone() -> None:
    head, worker = ranks(num_speculative_tokens=6)
    assert [argument for argument in worker.argv if argument not in head.argv] == ["--headless"]
    assert (option(head, "--node-rank"), option(worker, "--node-rank")) == ("0", "1")
    differing = {name for name in worker.environment if worker.environment[name] != head.environment.get(name)}
    fabric = {"VLLM_HOST_IP", "NCCL_IB_HCA", "NCCL_IB_GID_INDEX"}
    assert differing == {*fabric, *(f"{name}_SOCKET_IFNAME" for name in ("NCCL", "TP", "GLOO")), "ONLY_WORKER"}


def test_without_speculation_the_option_is_left_out_wholly() -> None:
    head, worker = ranks(num_speculative_tokens=0, max_num_seqs=6)
    for rank in (head, worker):
        assert "--speculative-config" not in rank.argv
        assert option(rank, "--max-cudagraph-capture-size") == "8"
        assert rank.environment["MTP_NUM_TOKENS"] == "0"


@pytest.mark.parametrize(("k", "sequences", "size"), [(5, 6, "40"), (7, 6, "48"), (6, 6, "48"), (3, 4, "16")])
def test_the_widest_step_has_a_graph(k: int, sequences: int, size: str) -> None:
    head, _ = ranks(num_speculative_tokens=k, max_num_seqs=sequences)
    assert option(head, "--max-cudagraph-capture-size") == size
    assert option(head, "--speculative-config") == (
        f'{{"method": "dspark", "num_speculative_tokens": {k}, "draft_sample_method": "probabilistic"}}'
    )


def test_a_rank_never_restarts_by_itself_and_listens_where_it_was_told() -> None:
    for rank in ranks():
        service = rank.document["services"]["vllm-dspark"]
        assert (service["restart"], service["pull_policy"]) == ("no", "never")
        assert (option(rank, "--host"), option(rank, "--port")) == ("127.0.0.1", "18888")


def test_what_the_sweep_names_wins_over_pair_yaml_and_that_over_the_recipe() -> None:
    head, worker = ranks(env__NCCL_DEBUG="TRACE", env__VLLM_USE_B12X_MOE=0, env__NEW="a b")
    assert [rank.environment["NCCL_DEBUG"] for rank in (head, worker)] == ["TRACE", "TRACE"]
    assert head.environment["VLLM_USE_B12X_MOE"] == "0"
    assert (head.environment["NEW"], head.environment["EXTRA"]) == ("a b", "1")
    assert ("ONLY_WORKER" in head.environment, worker.environment["ONLY_WORKER"]) == (False, "yes")


def test_a_knob_in_pair_yaml_is_refused_since_no_rule_would_see_it() -> None:
    pair = inventory(TWO.replace("EXTRA: 1", "MTP_NUM_TOKENS: 7"))
    with pytest.raises(InputError, match=r"MTP_NUM_TOKENS in `environment` of pair\.yaml is a knob"):
        ranks(launch_of(pair=pair))


def test_the_operators_names_do_not_reach_into_the_template() -> None:
    head, _ = ranks(env__rank="7", env__model="x")
    assert option(head, "--node-rank") == "0"
    assert (head.environment["rank"], head.environment["model"]) == ("7", "x")


def test_async_scheduling_can_be_turned_off() -> None:
    assert "--async-scheduling" in ranks()[0].argv
    assert "--async-scheduling" not in ranks(env__DSPARK_ASYNC_SCHEDULING=0)[0].argv


@pytest.mark.parametrize(
    ("knobs", "image", "checkpoint"),
    [
        ({}, IMAGE, "org/Some-Model@0123abc"),
        ({"image": "registry.example/engine:1"}, IMAGE, "org/Some-Model@0123abc"),
        ({"image": "registry.example/engine:2"}, "registry.example/engine:2", "org/Some-Model@0123abc"),
        ({"checkpoint": "other/Model@9"}, IMAGE, "other/Model@9"),
    ],
)
def test_image_and_checkpoint_are_the_sweeps_else_those_of_pair_yaml(
    knobs: dict[str, Any], image: str, checkpoint: str
) -> None:
    launch = launch_of(**knobs)
    assert (launch.image, launch.checkpoint) == (image, checkpoint)
    head, _ = ranks(launch)
    assert head.argv[:5] == (
        "/usr/local/bin/vllm",
        "serve",
        checkpoint.partition("@")[0],
        "--revision",
        checkpoint[-len(checkpoint.partition("@")[2]) :],
    )


def test_without_both_they_are_the_recipes_or_missing() -> None:
    bare = inventory(TWO.replace(f"image: {IMAGE}\ncheckpoint: org/Some-Model@0123abc\n", ""))
    assert launch_of(pair=bare).image.startswith("ghcr.io/anemll/dspark-vllm-gx10:0.1.1@sha256:")
    assert launch_of(pair=bare).checkpoint.startswith("deepseek-ai/DeepSeek-V4-Flash-0731@")
    with pytest.raises(InputError, match="no checkpoint is named"):
        _ = launch_of("dspark-1x-spark", pair=inventory("{image: a/b}", nodes=1)).checkpoint
    with pytest.raises(InputError, match="no revision in checkpoint other/Model"):
        _ = launch_of(checkpoint="other/Model").checkpoint


def test_the_worker_may_mount_the_cache_of_the_head() -> None:
    pair = inventory(TWO.replace("  ssh: ada@spark-2", "  hf_nfs: true\n  ssh: ada@spark-2"))
    head, worker = ranks(launch_of(pair=pair))
    assert (head.has_volumes, worker.has_volumes) == (False, True)
    assert worker.document["volumes"] == {
        "hub": {
            "driver": "local",
            "driver_opts": {"type": "nfs", "o": "addr=10.0.22.1,nfsvers=4,ro", "device": ":/data/hf/hub"},
        }
    }
    assert worker.document["services"]["vllm-dspark"]["volumes"] == [
        {
            "type": "bind",
            "source": "/mnt/hf cache",
            "target": "/cache/huggingface",
            "bind": {"create_host_path": False},
        },
        {"type": "volume", "source": "hub", "target": "/cache/huggingface/hub", "read_only": True},
    ]


def test_an_encoder_of_the_checkpoint_takes_the_place_of_the_images() -> None:
    launch = launch_of()
    head, _ = render(launch, launch.image, (replace(HEAD, encoder="/data/hf/e.py"), WORKER))
    assert head.document["services"]["vllm-dspark"]["volumes"][-1] == {
        "type": "bind",
        "source": "/data/hf/e.py",
        "target": "/usr/local/lib/python3.12/dist-packages/vllm/tokenizers/deepseek_v4_encoding.py",
        "read_only": True,
    }


def test_a_key_is_in_a_file_of_its_own_and_nowhere_else() -> None:
    launch = replace(launch_of(), key=ApiKey(variable="VLLM_API_KEY", value="sk-private-1"))
    head, worker = ranks(launch)
    assert (head.key_file, worker.key_file) == ("VLLM_API_KEY=sk-private-1\n", None)
    assert head.document["services"]["vllm-dspark"]["env_file"] == ["key.env"]
    assert "env_file" not in worker.document["services"]["vllm-dspark"]
    shown = f"{launch!r}{head!r}{head.compose}{head.argv}{head.environment}{worker!r}"
    assert "sk-private-1" not in shown


@pytest.mark.parametrize(("key", "line"), [("a$b c", "K='a$b c'\n"), ('a"#', "K='a\"#'\n")])
def test_a_key_that_compose_would_change_is_quoted(key: str, line: str) -> None:
    head, _ = ranks(replace(launch_of(), key=ApiKey(variable="K", value=key)))
    assert head.key_file == line


@pytest.mark.parametrize("key", ["a'b", "a\\b", "a\nb", "ü", ""])
def test_a_key_that_cannot_be_quoted_is_refused_without_showing_it(key: str) -> None:
    with pytest.raises(InputError) as caught:
        ranks(replace(launch_of(), key=ApiKey(variable="K", value=f"secret{key}" if key else "")))
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("project", ["", "A", "-a", "a b", "a;b", "a/b", "../a"])
def test_a_project_has_a_name_that_compose_takes(project: str) -> None:
    with pytest.raises(InputError, match="not the name of a compose project"):
        ranks(replace(launch_of(), project=project))


# Few: each is a whole document, and test_any_document_comes_back looks at many texts.
FEW = settings(max_examples=15, deadline=None)
OWNED = 'x"; touch /tmp/owned; "'


@FEW
@example(value=OWNED)
@example(value="${HOME}$(id)`id`$$")
@given(value=TEXTS)
def test_any_value_comes_back_as_one_variable(value: str) -> None:
    launch = launch_of()
    spec = replace(launch.spec, environment={"ANY": value})
    for rank in ranks(replace(launch, spec=spec)):
        service = read_by_compose(rank.compose)["services"]["vllm-dspark"]
        assert service["environment"]["ANY"] == value
        assert service["command"] == list(rank.argv[1:])


@FEW
@example(value=OWNED)
@example(value="$")
@given(value=TEXTS)
def test_any_value_comes_back_as_one_argument(value: str) -> None:
    launch = launch_of()
    spec = replace(launch.spec, environment={"MAX_MODEL_LEN": value})
    for rank in ranks(replace(launch, spec=spec)):
        command = read_by_compose(rank.compose)["services"]["vllm-dspark"]["command"]
        assert command[command.index("--max-model-len") + 1] == value
        assert len(command) == len(rank.argv) - 1


@given(
    document=st.recursive(
        st.none() | st.booleans() | st.integers() | TEXTS,
        lambda inner: st.lists(inner) | st.dictionaries(st.from_regex(r"[A-Za-z_]+", fullmatch=True), inner),
    )
)
def test_any_document_comes_back(document: Any) -> None:
    assert read_by_compose(compose_text({"x": document})) == {"x": document}


@given(text=TEXTS)
def test_no_value_is_taken_for_a_name_of_the_template(text: str) -> None:
    assert filled(["{a}"], {"a": text, "b": "no"}, {}) == [text]


def test_conditions_and_absent_variables() -> None:
    template = {
        "kept": {"if": "on", "then": ["{a}"]},
        "left": {"if": "off", "then": 1},
        "list": ["x", {"if": "on", "then": ["y", "z"]}, {"if": "off", "then": ["w"]}, {"if": "on", "then": {"m": 1}}],
        "environment": {"A": "{a}", "NONE": "{missing}", "PLAIN": "p"},
        "switch": [{"if": "V", "then": ["set"]}, {"if": "W", "then": ["never"]}],
    }
    texts = {"a": "1", "V": "1", "W": "0"}
    assert filled(template, texts, {"on": True, "off": False}) == {
        "kept": ["1"],
        "list": ["x", "y", "z", {"m": 1}],
        "environment": {"A": "1", "PLAIN": "p"},
        "switch": ["set"],
    }
    assert names_of(template) == {"on", "off", "a", "missing", "V", "W"}
    with pytest.raises(ValueError, match='"missing" has no value'):
        filled(["{missing}"], {}, {})


def test_a_value_that_the_template_needs_is_named() -> None:
    launch = launch_of()
    assert launch.spec.pair is not None
    defaults = {name: text for name, text in launch.spec.pair.defaults.items() if name != "MAX_MODEL_LEN"}
    spec = replace(launch.spec, pair=replace(launch.spec.pair, defaults=defaults))
    with pytest.raises(InputError, match='a value is missing: "MAX_MODEL_LEN" has no value'):
        ranks(replace(launch, spec=spec))


def test_the_commands() -> None:
    folder = PurePosixPath("/home/someone/x y")
    base = ("docker", "compose", "-p", "p", "-f", "/home/someone/x y/compose.yaml")
    assert up_command("p", folder) == (*base, "up", "-d", "--force-recreate")
    assert check_command("p", folder) == (*base, "config", "--quiet")
    assert down_command("p", folder) == (*base, "down", "--volumes")
