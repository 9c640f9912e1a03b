"""`harness doctor` on this machine: what it looks at, its exit codes, and one JSON document for scripts."""

from __future__ import annotations

import sys

from harness.engine.ports import choose_port
from tests.system.driver import Desk


def test_a_program_that_is_there(desk: Desk) -> None:
    done = desk.run("doctor", "vllm-local", "--set", "model=x", "--set", f"command={sys.executable}", "--json")

    assert done.code == 0, done.err
    found = {finding["check"]: finding["level"] for finding in done.document()["findings"]}
    assert found["program"] == "ok"
    assert {"disk", "memory", "load"} <= set(found)


def test_a_program_that_is_missing_would_fail_and_says_what_to_do(desk: Desk) -> None:
    done = desk.run("doctor", "vllm-local", "--set", "model=x", "--set", "command=no-such-engine")

    assert done.code == 3
    assert "there is no program no-such-engine" in done.err
    assert "--set command=PATH" in done.err
    assert done.err.splitlines()[-1].startswith("1 finding would make a launch fail")


def test_an_endpoint_that_does_not_answer(desk: Desk) -> None:
    done = desk.run("doctor", "attach", "--set", f"url=http://127.0.0.1:{choose_port(None)}", "--json")

    assert done.code == 3
    (finding,) = done.document()["findings"]
    assert (finding["check"], finding["level"]) == ("endpoint", "fail")
    assert finding["remedy"]


def test_a_pair_that_nobody_has_described(desk: Desk) -> None:
    done = desk.run("doctor", "dspark-2x-spark")

    assert done.code == 3
    assert "--checkout DIR" in done.err


def test_bad_input(desk: Desk) -> None:
    assert desk.run("doctor", "no-such-recipe").code == 2
    assert desk.run("doctor", "vllm-local", "--set", "no_such_knob=1").code == 2
    assert desk.run("doctor", "vllm-local", "--set", "model=x", "--write").code == 2
