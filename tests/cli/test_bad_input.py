"""What is wrong with the input is said before anything is launched: exit 2, where, what to do, and nothing left."""

from __future__ import annotations

import re
import textwrap

import pytest
from inline_snapshot import snapshot

from tests.system.driver import FAKE, Desk, Done

GOOD = f"""\
sweep: small
recipe: quick
knobs:
  command: [[python, {FAKE}]]
  model: tiny
  method: draft_model
  draft_model: tinydraft
  num_speculative_tokens: [0, 2]
  context_tokens: 128
repeat: {{drafts: 1}}
"""


def refused(desk: Desk, done: Done) -> list[str]:
    """The lines of the message, once it is sure that nothing else has happened."""
    assert done.code == 2, done.err
    assert done.out == ""
    assert not desk.results.exists()
    assert not desk.reports.exists()
    assert not (desk.folder / "state").exists()
    return lines_of(done, desk)


def lines_of(done: Done, desk: Desk) -> list[str]:
    """What was said, without what differs by machine, wrapped to be read here."""
    said = done.err.replace(str(desk.folder), "HERE").replace(str(FAKE), "FAKE")
    for run in desk.runs():
        said = said.replace(run.name, "RUN")
    said = re.sub(r"\b[0-9a-f]{12}\b", "HASH", re.sub(r"Known here: .*", "Known here: …", said))
    return [part for line in said.splitlines() for part in textwrap.wrap(line, 90) or [""]]


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        pytest.param(
            "repeat:",
            "repaet:",
            snapshot(['error: small.yaml:10:1: unknown key "repaet"', '  Did you mean "repeat"? Known here: …']),
            id="unknown key",
        ),
        pytest.param(
            "128",
            "many",
            snapshot(['error: small.yaml:9:19: context_tokens: expected a whole number, not "many"']),
            id="wrong type",
        ),
        pytest.param(
            "  model: tiny\n",
            "  model: tiny\n  model: huge\n",
            snapshot(['error: small.yaml:6:3: duplicate key "model"', "  First written at 5:3."]),
            id="duplicate key",
        ),
        pytest.param(
            "[0, 2]",
            "[]",
            snapshot(["error: small.yaml:8:27: num_speculative_tokens: the axis is empty"]),
            id="empty axis",
        ),
        pytest.param(
            "[0, 2]",
            "[0, -2]",
            snapshot(["error: small.yaml:8:31: num_speculative_tokens: -2 is too small (at least 0)"]),
            id="k that the recipe does not allow",
        ),
        pytest.param(
            "  draft_model: tinydraft\n  num_speculative_tokens: [0,",
            "  num_speculative_tokens: [1,",
            snapshot(
                [
                    "error: small.yaml:4:3: refused before anything is launched: every configuration",
                    "  command=python FAKE, method=draft_model, model=tiny, num_speculative_tokens=1 and 1",
                    "more: this method drafts with a model of its own; name it as draft_model",
                ]
            ),
            id="all refused by a rule",
        ),
        pytest.param(
            "recipe: quick",
            "recipe: quik",
            snapshot(['error: small.yaml:2:9: unknown recipe "quik"', '  Did you mean "quick"? Known here: …']),
            id="unknown recipe",
        ),
        pytest.param("recipe: quick\n", "", snapshot(['error: small.yaml:1:1: "recipe" is missing']), id="no recipe"),
        pytest.param(
            "recipe: quick",
            "recipe: attach",
            snapshot(
                [
                    'error: small.yaml:4:3: attach cannot set "command": the server is already running',
                    "  Only load knobs can be varied on a server that is not launched here.",
                    '    Also: small.yaml:5:3: attach cannot set "model": the server is already running',
                    "      Only load knobs can be varied on a server that is not launched here.",
                    '    Also: small.yaml:6:3: attach cannot set "method": the server is already running',
                    "      Only load knobs can be varied on a server that is not launched here.",
                    '    Also: small.yaml:7:3: attach cannot set "draft_model": the server is already running',
                    "      Only load knobs can be varied on a server that is not launched here.",
                    '    Also: small.yaml:8:3: attach cannot set "num_speculative_tokens": the server is',
                    "already running",
                    "      Only load knobs can be varied on a server that is not launched here.",
                ]
            ),
            id="knobs of another recipe",
        ),
        pytest.param(
            "context_tokens: 128",
            "context_tokens: 8",
            snapshot(
                [
                    "error: small.yaml:9:19: context_tokens 8 is too short for cache cold",
                    "  A unique head, the text and the instruction need at least 96 tokens.",
                ]
            ),
            id="a prompt too short to be made",
        ),
        pytest.param(
            "  model: tiny\n",
            "  model: tiny\n  modle: tiny\n",
            snapshot(
                ['error: small.yaml:6:3: unknown knob "modle" in recipe quick', '  Did you mean "model"? Known here: …']
            ),
            id="unknown knob",
        ),
        pytest.param(
            "  model: tiny\n",
            "\tmodel: tiny\n",
            snapshot(["error: small.yaml:5:1: a tab where YAML wants spaces", "  Indent with spaces."]),
            id="no YAML",
        ),
        pytest.param(
            "tiny\n",
            "tiny\n  args: [--api-key, sesame-open]\n",
            snapshot(
                [
                    "error: small.yaml:6:9: args: --api-key has no place in a sweep, which records quote:",
                    "export the key instead",
                ]
            ),
            id="a key in the arguments",
        ),
    ],
)
def test_a_wrong_sweep_file_is_refused(desk: Desk, before: str, after: str, message: list[str]) -> None:
    assert GOOD.count(before) == 1
    (desk.folder / "small.yaml").write_text(GOOD.replace(before, after))

    assert refused(desk, desk.run("sweep", "small.yaml")) == message


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param(
            ("missing.yaml",), snapshot(['error: no sweep file "missing.yaml"', "  Known here: …"]), id="missing file"
        ),
        pytest.param(
            ("small.yaml", "--set", "temprature=0.5"),
            snapshot(
                [
                    'error: --set temprature=0.5: unknown knob "temprature" in recipe quick',
                    '  Did you mean "temperature"? Known here: …',
                ]
            ),
            id="unknown knob",
        ),
        pytest.param(
            ("small.yaml", "--set", "temperature=hot"),
            snapshot(['error: --set temperature=hot: temperature: expected a number, not "hot"']),
            id="wrong type",
        ),
        pytest.param(
            ("small.yaml", "--set", "env.HF_TOKEN=hf_sesame"),
            snapshot(
                [
                    "error: --set env.HF_TOKEN=***: HF_TOKEN looks like a secret, which has no place in a sweep",
                    "  Export it in the shell: what a sweep sets is written to records and reports.",
                ]
            ),
            id="a secret",
        ),
        pytest.param(
            ("small.yaml", "--engine", "elsewhere"),
            snapshot(["error: unknown engine: elsewhere", "  Leave --engine out, or name attach or simulated."]),
            id="unknown engine",
        ),
        pytest.param(
            ("small.yaml", "--launches", "0"),
            snapshot(
                [
                    "Usage: harness sweep [OPTIONS] FILE",
                    "Try 'harness sweep --help' for help.",
                    "",
                    "Error: Invalid value for '--launches': 0 is not in the range x>=1.",
                ]
            ),
            id="no launch",
        ),
        pytest.param(
            ("small.yaml", "--resume", "20261130"),
            snapshot(
                [
                    'error: HERE/results: no run of sweep small is called "20261130"',
                    "  Start one with: harness sweep FILE. Results may lie elsewhere: --root DIR.",
                ]
            ),
            id="unknown run",
        ),
        pytest.param(
            ("small.yaml", "--resume"),
            snapshot(
                [
                    "error: HERE/results: there is no run of sweep small yet",
                    "  Start one with: harness sweep FILE. Results may lie elsewhere: --root DIR.",
                ]
            ),
            id="no run yet",
        ),
    ],
)
def test_a_wrong_command_line_is_refused(desk: Desk, arguments: tuple[str, ...], message: list[str]) -> None:
    (desk.folder / "small.yaml").write_text(GOOD)

    said = refused(desk, desk.run("sweep", *arguments))

    assert said == message
    assert "sesame" not in "".join(said)


@pytest.mark.parametrize("command", ["show", "report"])
def test_a_run_that_is_not_there_is_refused(desk: Desk, command: str) -> None:
    said = refused(desk, desk.run(command, "20261130-nowhere"))

    assert said == snapshot(
        [
            'error: HERE/results: no run is called "20261130-nowhere"',
            "  Start one with: harness sweep FILE. Results may lie elsewhere: --root DIR.",
        ]
    )
