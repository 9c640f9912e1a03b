"""The doctor on ds4: a real program is asked for its options, and real files for what they are."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from harness.engine.doctor.ds4 import ds4_findings
from harness.engine.doctor.ds4_host import FarMachine
from harness.engine.doctor.local import local_findings
from harness.engine.shell import LocalShell
from harness.recipe.build import Places, build_launch
from harness.recipe.find import find_recipe
from harness.recipe.load import load_recipe
from harness.recipe.rules import canonicalise
from harness.recipe.spec import LaunchSpec
from harness.records.cell import Configuration, KnobValue
from harness.records.finding import Finding
from tests.fakes.gguf_file import gguf
from tests.fakes.ssh_program import ssh_program

pytestmark = pytest.mark.anyio
FAKE = Path(__file__).parents[2] / "fakes" / "fake_ds4.py"
CHECKPOINT = {"general.name": "Flash", "general.source.revision": "0731"}


def ds4(folder: Path, **knobs: KnobValue) -> LaunchSpec:
    recipe = load_recipe(find_recipe("ds4"))
    files = {"model": str(folder / "model.gguf"), "support_model": str(folder / "support.gguf")}
    written = Configuration(recipe="ds4", knobs={"command": f"{sys.executable} {FAKE}", **files, **knobs})
    places = Places(cache_dir=folder, data_dir=folder, python=Path(sys.executable), home=folder)
    return build_launch(recipe, canonicalise(recipe.recipe, written)[0], places)


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """A folder with a model and its support file."""
    for name in ("model.gguf", "support.gguf"):
        (tmp_path / name).write_bytes(gguf(CHECKPOINT))
    return tmp_path


async def found(folder: Path, **knobs: KnobValue) -> dict[str, Finding]:
    return {finding.check: finding for finding in await ds4_findings(ds4(folder, **knobs), LocalShell())}


async def test_all_is_well(files: Path) -> None:
    findings = await found(files)

    levels = {name: finding.level for name, finding in findings.items() if name != "alone"}
    assert set(levels.values()) == {"ok"}, levels
    assert {"build", "backend", "model", "support_model", "pair", "memory_for_model"} <= set(levels)


async def test_an_older_build_is_recognised_by_its_help(files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_DS4", "flags=older")

    build = (await found(files))["build"]
    assert (build.level, build.what) == ("fail", "the build does not know --mtp-model")
    assert "support_flag=--mtp" in build.remedy
    assert (await found(files, support_flag="--mtp"))["build"].level == "ok"


async def test_files_of_two_checkpoints_are_told_before_a_launch(files: Path) -> None:
    (files / "support.gguf").write_bytes(gguf(CHECKPOINT | {"general.source.revision": "vision-exp"}))

    pair = (await found(files))["pair"]
    assert pair.level == "fail"
    assert pair.evidence == "general.source.revision: 0731 and vision-exp"


async def test_files_that_are_missing_or_cut(files: Path) -> None:
    (files / "model.gguf").write_bytes(gguf(CHECKPOINT)[:40])
    (files / "support.gguf").unlink()

    findings = await found(files)
    assert "download cut" in findings["model"].what
    assert findings["support_model"].level == "fail" and "No such file" in findings["support_model"].what
    assert "pair" not in findings


async def test_off_needs_no_support_file(files: Path) -> None:
    (files / "support.gguf").unlink()

    findings = await found(files, mode="off")
    assert "support_model" not in findings and findings["model"].level == "ok"


async def test_a_program_that_is_not_there(files: Path) -> None:
    build = (await found(files, command="/nowhere/ds4-server"))["build"]

    assert build.level == "fail" and "cannot run" in build.what


async def examined_over_ssh(files: Path, host: str, **knobs: KnobValue) -> dict[str, Finding]:
    loaded = load_recipe(find_recipe("ds4"))
    places = Places(cache_dir=files, data_dir=files, python=Path(sys.executable), home=files)
    known = dict(ds4(files, ssh_host=host, **knobs).configuration.knobs)
    return {each.check: each for each in await local_findings(loaded, known, places)}


async def test_on_another_host_the_same_is_looked_at_there(files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ssh = ssh_program(files)
    monkeypatch.setenv("PATH", f"{ssh}:{os.environ['PATH']}")

    findings = await examined_over_ssh(files, "spark1")

    there = {"build", "backend", "model", "support_model", "pair", "memory_for_model", "alone"}
    assert set(findings) == there, "what is on this machine does not matter"
    assert {each.level for name, each in findings.items() if name != "alone"} == {"ok"}
    assert findings["alone"].what.endswith("on spark1")
    assert len((ssh / "calls").read_text().splitlines()) > 3


async def test_what_is_wrong_on_another_host_is_found_there(files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{ssh_program(files)}:{os.environ['PATH']}")
    (files / "model.gguf").write_bytes(gguf(CHECKPOINT)[:40])
    (files / "support.gguf").unlink()
    server = files / "ds4-server"
    server.write_bytes(Path("/bin/sleep").read_bytes())
    server.chmod(0o755)
    with subprocess.Popen([str(server), "60"]) as running:
        findings = await examined_over_ssh(files, "spark1")
        running.kill()

    assert "download cut" in findings["model"].what
    assert findings["support_model"].level == "fail" and "No such file" in findings["support_model"].what
    assert findings["alone"].level == "fail"
    assert f"ds4-server ({running.pid})" in findings["alone"].evidence


async def test_ranks_of_a_pair_are_other_engines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    docker = tmp_path / "docker"
    docker.write_text("#!/bin/sh\necho deepseek-v4-flash-vllm-dspark-1 ghcr.io/anemll/dspark-vllm-gx10:0.1.1\n")
    docker.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")

    others = await FarMachine(shell=LocalShell(), name="spark1").other_engines()

    assert "container deepseek-v4-flash-vllm-dspark-1" in others


async def test_a_host_that_is_not_reached_is_said_once(files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{ssh_program(files)}:{os.environ['PATH']}")

    findings = await examined_over_ssh(files, "unreachable")

    assert set(findings) == {"build", "host"}
    assert {each.level for each in findings.values()} == {"fail"}
    assert all(each.remedy for each in findings.values())


async def test_the_doctor_asks_for_it_on_this_machine(files: Path) -> None:
    loaded = load_recipe(find_recipe("ds4"))
    places = Places(cache_dir=files, data_dir=files, python=Path(sys.executable), home=files)

    findings = await local_findings(loaded, dict(ds4(files).configuration.knobs), places)

    assert {"program", "memory", "build", "pair", "alone"} <= {each.check for each in findings}
