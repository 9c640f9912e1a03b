"""How the stand-in docker reads what compose, bash and Go's templates read."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.integration.pair.checkouts import OURS, of_generation, quoted, with_variables, write_generation
from tests.integration.pair.standin.arguments import UsageError, parse
from tests.integration.pair.standin.compose_file import ComposeError, Project, load_project, shown
from tests.integration.pair.standin.dotenv import DotenvError, parse_dotenv
from tests.integration.pair.standin.go_template import TemplateError, render
from tests.integration.pair.standin.interpolation import InterpolationError, interpolate
from tests.integration.pair.standin.vllm import parse as parse_vllm

VARIABLES = {"SET": "value", "EMPTY": "", "K": "5"}


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("plain", "plain"),
        ("$SET-${SET}", "value-value"),
        ("$$SET and $${SET:-x}", "$SET and ${SET:-x}"),
        ("${NONE:-x}|${EMPTY:-x}|${SET:-x}", "x|x|value"),
        ("${NONE-x}|${EMPTY-x}|${SET-x}", "x||value"),
        ("${NONE:+x}|${EMPTY:+x}|${SET:+x}", "||x"),
        ("${NONE+x}|${EMPTY+x}|${SET+x}", "|x|x"),
        ("${NONE:-${EMPTY:-${SET}/d}}", "value/d"),
        ("${SET:?must be set}", "value"),
        ('${NONE:-{"k":1}', '{"k":1'),
        ("$$(( ${K} * (${K:-3} + 1) ))", "$(( 5 * (5 + 1) ))"),
    ],
)
def test_variables_are_replaced_as_compose_does(text: str, wanted: str) -> None:
    assert interpolate(text, VARIABLES) == wanted


@pytest.mark.parametrize("text", ["$(date)", "${", "${SET", "${1}", "${SET!x}", "$", "a $ b"])
def test_what_compose_refuses_is_refused(text: str) -> None:
    with pytest.raises(InterpolationError, match="invalid interpolation format"):
        interpolate(text, VARIABLES)


def test_a_required_variable_is_named() -> None:
    with pytest.raises(InterpolationError, match="required variable NONE is missing a value: say K=5"):
        interpolate("${NONE:?say K=${K}}", VARIABLES)


@given(st.text(), st.dictionaries(st.sampled_from("ABC"), st.text()))
def test_doubled_dollars_give_any_text(text: str, variables: dict[str, str]) -> None:
    assert interpolate(text.replace("$", "$$"), variables) == text


@given(st.text(alphabet="${}:-+?AB "))
def test_no_text_breaks_the_replacement(text: str) -> None:
    try:
        interpolate(text, {"A": "1"})
    except InterpolationError as refusal:
        assert str(refusal)


def test_an_env_file_is_read_as_compose_does() -> None:
    text = (
        "\ufeff# a comment\r\nA=1\r\nexport B = two words # a comment\nC='$A \\n # not'\n"
        'D="x\\ty $A"\n'
        "E=${A}${MISSING:-!}#no\nF=\nG: yaml\nINHERITED\n"
        "H='it\\'s'\nI=\"\\\\\\\"\\$A\"\nSHELL_WINS=file\nJ=$SHELL_WINS\n"
    )
    assert parse_dotenv(text, {"INHERITED": "from the shell", "SHELL_WINS": "shell"}) == {
        "A": "1",
        "B": "two words",
        "C": "$A \\n # not",
        "D": "x\ty 1",
        "E": "1!#no",
        "F": "",
        "G": "yaml",
        "INHERITED": "from the shell",
        "H": "it's",
        "I": '\\"$A',
        "SHELL_WINS": "file",
        "J": "shell",
    }


@pytest.mark.parametrize("text", ["A='open", 'A="open\\"', "two words\n", "=1"])
def test_an_env_file_that_compose_refuses_is_refused(text: str) -> None:
    with pytest.raises(DotenvError):
        parse_dotenv(text, {})


@settings(max_examples=20)
@given(st.lists(st.text(alphabet=st.characters(codec="utf-8", exclude_characters="\0\r`")), max_size=20))
def test_bash_and_compose_read_the_same_of_what_is_quoted(values: list[str]) -> None:
    named = {f"V{number}": value for number, value in enumerate(values)}
    text = with_variables("# the operator's\n", named)
    assert parse_dotenv(text, {}) == named
    print_all = "set -a; source /dev/stdin; exec env -0"
    said = subprocess.run(
        ["bash", "-c", print_all], input=text.encode(), env={}, capture_output=True, check=True
    ).stdout
    found = dict(line.split("=", 1) for line in said.decode().split("\0") if re.match(r"V\d+=", line))
    assert found == named


def test_a_variable_is_set_where_it_stands() -> None:
    text = "# A=0\nA=1\nexport B=2\n"
    assert with_variables(text, {"A": "x y", "B": None, "C": ""}) == "# A=0\nA='x y'\nC=\n"
    with pytest.raises(ValueError, match="grave accent"):
        quoted("`'")


TREE: dict[str, Any] = {
    "Id": "sha256:12",
    "RepoDigests": ["a@1", "b@2"],
    "State": {"Status": "running", "Running": True, "ExitCode": 0},
    "Config": {"Labels": {"com.docker.compose.project": "p", "x": "y"}, "Env": ["A=1", "B=2"]},
}


@pytest.mark.parametrize(
    ("template", "wanted"),
    [
        ("head {{.Id}}", "head sha256:12"),
        ("{{.State.Status}} {{.State.Running}} {{.State.ExitCode}}", "running true 0"),
        ('{{index .Config.Labels "com.docker.compose.project"}}', "p"),
        ('{{index .Config.Labels "none"}}|{{index .RepoDigests 1}}', "|b@2"),
        ("{{json .Config.Env}}", '["A=1","B=2"]'),
        ("{{range .Config.Env}}{{println .}}{{end}}", "A=1\nB=2\n"),
        ("{{range $k, $v := .Config.Labels}}{{$k}}={{$v}};{{end}}", "com.docker.compose.project=p;x=y;"),
        ("{{range $i, $e := .RepoDigests}}{{if $i}},{{end}}{{$e}}{{end}}", "a@1,b@2"),
        ('{{join .RepoDigests ","}} {{.RepoDigests | len}}', "a@1,b@2 2"),
        ("{{if .State.Running}}up{{else}}down{{end}} {{- if not .State.Running}} no{{end}}", "up"),
        ("{{with .State}}{{.Status}}{{end}}", "running"),
        ('{{if and (eq .State.Status "running") .State.Running}}yes{{end}}', "yes"),
        ('{{(index .RepoDigests 0) | printf "%s!"}}', "a@1!"),
        ("{{.State}}", "map[ExitCode:0 Running:true Status:running]"),
    ],
)
def test_templates_give_what_go_gives(template: str, wanted: str) -> None:
    assert render(template, TREE) == wanted


@pytest.mark.parametrize("template", ["{{.Nope}}", "{{range .Config.Env}}", "{{end}}", "{{.Id", "{{nope .Id}}", "{{}}"])
def test_a_template_that_docker_refuses_is_refused(template: str) -> None:
    with pytest.raises(TemplateError):
        render(template, TREE)


def test_options_are_split_as_docker_does() -> None:
    given_options = parse(
        ["-aq", "--filter", "name=x", "word", "--format={{.ID}}"], valued="--filter --format", switches="-a -q"
    )
    assert given_options.words == ["word"]
    assert given_options.has("-q")
    assert given_options.every("--filter") == ["name=x"]
    assert given_options.last("--format") == "{{.ID}}"
    assert parse(["-f", "x", "up", "-d"], valued="-f", mixed=False).words == ["up", "-d"]
    for wrong in (["--nope"], ["-z"], ["--filter"]):
        with pytest.raises(UsageError):
            parse(wrong, valued="--filter", switches="-a")


def project_of(folder: Path, *names: str, environment: dict[str, str] | None = None, **options: Any) -> Project:
    files = [str(folder / name) for name in names]
    known: dict[str, Any] = {"name": None, "directory": None, "env_files": [], "on_unset": lambda name: None}
    return load_project(files, environment=environment or {"HOME": "/srv"}, **(known | options))


def test_our_compose_file_is_what_the_public_contract_asks_for(tmp_path: Path) -> None:
    write_generation(tmp_path, "september")
    (tmp_path / ".env").write_text("MTP_NUM_TOKENS=6\nHF_CACHE=${HOME}/hf\nNODE_RANK=0\n")
    unset: list[str] = []
    project = project_of(tmp_path, "docker-compose.dspark.yml", on_unset=unset.append)
    service = project.services["vllm-dspark"]
    assert project.name == re.sub(r"[^a-z0-9_-]", "", tmp_path.name.lower())
    assert service["environment"]["MTP_NUM_TOKENS"] == "6"
    assert service["volumes"][0] == {"type": "bind", "source": "/srv/hf", "target": "/cache/huggingface"}
    assert service["volumes"][1] == {
        "type": "bind",
        "source": str(tmp_path / "patches"),
        "target": "/opt/dspark-patches",
        "read_only": True,
    }
    assert {"NCCL_IB_HCA", "MASTER_ADDR"} <= set(unset)
    assert '--speculative-config "${SPECULATIVE_CONFIG}"' in service["command"][2]
    again = tmp_path / "again.yml"
    again.write_text(shown(project))
    assert project_of(tmp_path, "again.yml").services == project.services


def test_the_shell_wins_over_env_files_and_files_are_merged(tmp_path: Path) -> None:
    write_generation(tmp_path, "august")
    (tmp_path / "trial.env").write_text("MTP_NUM_TOKENS=7\nVLLM_DSPARK_CONFIDENCE_SCHEDULER=threshold\n")
    files = ("docker-compose.dspark.yml", "docker-compose.stage-c.override.yml")
    environment = {"HOME": "/srv", "MTP_NUM_TOKENS": "3"}
    project = project_of(
        tmp_path, *files, environment=environment, name="trial", env_files=[str(tmp_path / "trial.env")]
    )
    variables = project.services["vllm-dspark"]["environment"]
    assert variables["MTP_NUM_TOKENS"] == "3"
    assert variables["VLLM_DSPARK_CONFIDENCE_SCHEDULER"] == "threshold"
    assert variables["DEFAULT_THINKING"] == "low"
    assert project.name == "trial"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("services: [", "parsing"),
        ("services: {}", "no service"),
        ("services: {a: {command: x}}", "neither an image"),
        ("services: {a: {image: '$('}}", "error while interpolating services.a.image"),
    ],
)
def test_a_compose_file_that_is_wrong_is_refused(tmp_path: Path, text: str, says: str) -> None:
    (tmp_path / "c.yml").write_text(text)
    with pytest.raises(ComposeError, match=says):
        project_of(tmp_path, "c.yml")
    with pytest.raises(ComposeError, match="couldn't find env file"):
        project_of(tmp_path, "c.yml", env_files=["none.env"])
    with pytest.raises(ComposeError, match="invalid project name"):
        (tmp_path / "c.yml").write_text("services: {a: {image: x}}")
        project_of(tmp_path, "c.yml", name="Not A Name")


def test_each_generation_has_lines_of_its_own() -> None:
    for path in OURS.rglob("*"):
        if path.is_file():
            august, september = (of_generation(path.read_text(), each) for each in ("august", "september"))
            assert "#[" not in august + september
            assert "BLOCK_K" not in august
            if path.suffix == ".yml":
                assert yaml.safe_load(august)["services"] and yaml.safe_load(september)["services"]
            if path.suffix == ".sh":
                for text in (august, september):
                    checked = subprocess.run(["bash", "-n"], input=text, capture_output=True, text=True, env=os.environ)
                    assert checked.returncode == 0, checked.stderr


def test_the_arguments_of_vllm_are_read() -> None:
    words = [
        "org/Model",
        "--host",
        "0.0.0.0",
        "--port=8888",
        "--api-key",
        "one",
        "two",
        "--headless",
        "--node-rank",
        "1",
    ]
    options = parse_vllm([*words, "--speculative-config", '{"method":"dspark","num_speculative_tokens":5}'])
    assert (options.model, options.rank, options.k) == ("org/Model", 1, 5)
    assert options.api_keys == ("one", "two")
    assert parse_vllm(["m"]).k == 0
    for wrong in (["m", "--speculative-config", '{"num_speculative_tokens":08}'], ["m", "--port"], [], ["m", "other"]):
        with pytest.raises(SystemExit, match="2"):
            parse_vllm(wrong)
