"""Compose files made from others."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from harness.engine.pair.derived import merged, without_speculation
from harness.errors import InputError

FLAG = "--speculative-config"


def compose(command: Any, **service: Any) -> str:
    return yaml.safe_dump({"services": {"engine": {"command": command, **service}}})


def command_of(text: str) -> Any:
    return yaml.safe_load(text)["services"]["engine"]["command"]


@pytest.mark.parametrize(
    ("command", "left"),
    [
        (["serve", FLAG, '{"k": 5}', "--port", "1"], ["serve", "--port", "1"]),
        (["serve", f"{FLAG}=" + '{"k": 5}', "--port", "1"], ["serve", "--port", "1"]),
        (["bash", "-lc", f'exec serve {FLAG} "$$C" --port 1'], ["bash", "-lc", "exec serve --port 1"]),
        (["bash", "-lc", f"exec serve {FLAG} '{{\"k\": 5}}' --port 1"], ["bash", "-lc", "exec serve --port 1"]),
        (["bash", "-lc", f'exec serve {FLAG} "{{\\"k\\": 5}}" --port 1'], ["bash", "-lc", "exec serve --port 1"]),
        (f"serve {FLAG} $C", "serve"),
    ],
)
def test_the_flag_and_its_value_are_taken_out(command: Any, left: Any) -> None:
    assert command_of(without_speculation(compose(command), service="engine", flag=FLAG, where="f")) == left


def test_everything_else_is_kept() -> None:
    text = (
        "services:\n  engine:\n    restart: no\n    image: ${IMAGE:-x}\n    command: [serve, --speculative-config, c]\n"
    )

    made = yaml.safe_load(without_speculation(text, service="engine", flag=FLAG, where="f"))["services"]["engine"]

    assert made == {"restart": "no", "image": "${IMAGE:-x}", "command": ["serve"]}


@pytest.mark.parametrize(
    "text", [compose(["serve"]), compose(None), "services: {}\n", "[]", "a: [", "services: {engine: 1}"]
)
def test_a_file_without_the_flag_is_refused_with_its_name(text: str) -> None:
    with pytest.raises(InputError) as caught:
        without_speculation(text, service="engine", flag=FLAG, where="the/file.yml")

    assert caught.value.where == "the/file.yml"


def test_an_override_is_merged_as_compose_does() -> None:
    base = compose(["serve"], environment={"A": "1", "B": "2"}, volumes=["x:/x"], image="old")
    override = compose(["other"], environment={"B": "3", "C": "4"}, volumes=["y:/y"], image="new")

    made = yaml.safe_load(merged(base, override, where="f"))["services"]["engine"]

    assert made["environment"] == {"A": "1", "B": "3", "C": "4"}
    assert made["volumes"] == ["x:/x", "y:/y"]
    assert made["image"] == "new"
