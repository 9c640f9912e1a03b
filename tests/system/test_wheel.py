"""The wheel outside of a checkout: recipes, schemas and sweeps travel in it."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.system.driver import ROOT, Desk, new_desk

pytestmark = pytest.mark.system


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """As built from the checkout."""
    folder = tmp_path_factory.mktemp("wheel")
    build = ["-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    subprocess.run([sys.executable, *build], check=True, capture_output=True, timeout=120)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def program(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The `harness` of an environment into which the wheel alone was installed; libraries are borrowed from ours."""
    folder = tmp_path_factory.mktemp("venv") / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True, timeout=120)
    (packages,) = folder.glob("lib/python*/site-packages")
    borrowed = [sysconfig.get_path("purelib"), *(path for path in sys.path if path.endswith("site-packages"))]
    (packages / "borrowed.pth").write_text("".join(f"{path}\n" for path in dict.fromkeys(borrowed)))
    install = ["--python", str(folder / "bin" / "python"), "install", "--no-deps", "--no-index", "--quiet", str(wheel)]
    subprocess.run([sys.executable, "-m", "pip", *install], check=True, capture_output=True, timeout=120)
    return folder / "bin" / "harness"


@pytest.fixture
def outside(tmp_path_factory: pytest.TempPathFactory, font_cache: Path, program: Path) -> Iterator[Desk]:
    """An empty folder, far from the checkout, and the program of the wheel."""
    desk = new_desk(tmp_path_factory.mktemp("outside"), MPLCONFIGDIR=str(font_cache))
    desk.program = program
    (desk.folder / "recipes" / "quick" / "recipe.yaml").unlink()
    (desk.folder / "recipes" / "quick").rmdir()
    (desk.folder / "recipes").rmdir()
    yield desk
    desk.clear()


def test_the_wheel_holds_what_travels_and_no_more(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()

    for kind, pattern in (("recipes", "*/recipe.yaml"), ("sweeps", "*.yaml"), ("schemas", "*.json")):
        packaged = {name.removeprefix("harness/packaged/") for name in names}
        assert {path.relative_to(ROOT).as_posix() for path in (ROOT / kind).glob(pattern)} <= packaged
    tops = {name.split("/")[0] for name in names}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"harness"}
    assert not [name for name in names if "__pycache__" in name or name.endswith(".keep")]


def test_the_program_is_the_one_of_the_wheel(program: Path) -> None:
    asked = "import harness, harness.cli.main as m; print(m.__file__)"
    done = subprocess.run(
        [program.with_name("python"), "-c", asked], capture_output=True, text=True, check=True, cwd="/"
    )

    assert done.stdout.startswith(str(program.parents[1]))


def test_recipes_sweeps_and_schemas_are_found(outside: Desk) -> None:
    plan = outside.run("plan", "laptop")
    schema = outside.run("schema")
    unknown = outside.run("plan", "lapdog")

    assert plan.code == 0, plan.err
    assert "laptop on vllm-cpu-tiny: 6 configurations" in plan.err
    assert schema.out == (ROOT / "schemas" / "sweep.json").read_text()
    assert unknown.code == 2
    assert 'Did you mean "laptop"?' in unknown.err


def test_a_sweep_runs(outside: Desk) -> None:
    sweep = outside.write_sweep(recipe="vllm-local", knobs={"num_speculative_tokens": 2})

    done = outside.run("sweep", sweep)

    assert done.code == 0, done.err
    assert len(outside.of_kind("trial")) == 1
    assert list(outside.reports.glob("*/figures/*.svg"))
    outside.require_no_engine()
