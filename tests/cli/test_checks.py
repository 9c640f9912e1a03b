"""`checks` of a sweep: commands of the site, run on each configuration's engine once, and what is left of them."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.records.check import vetoes
from harness.store.layout import resolve_run
from harness.store.reader import read_run
from tests.system.driver import Desk, new_desk

KEY = "key-that-nobody-may-read"
SANE = """\
import os, sys, urllib.request
base, model = sys.argv[1:]
assert (base, model) == (os.environ["HARNESS_BASE_URL"], os.environ["HARNESS_MODEL"])
key = os.environ["HARNESS_API_KEY"]
asked = urllib.request.Request(base + "/v1/models", headers={"Authorization": "Bearer " + key})
assert model in urllib.request.urlopen(asked).read().decode()
print("asked with", key, flush=True)
open("sane.ran", "a").write(model + "\\n")
"""
SLEEPER = "import os, time; open('sleeping', 'w').write(str(os.getpid())); time.sleep(600)"
SITE: dict[str, object] = {
    "sane": {"command": [sys.executable, "-c", SANE, "{base_url}", "{model}"]},
    "broken": {"shell": "echo 'the answer of' {model} 'is garbled' >&2; exit 3"},
    "endless": {"shell": "echo waiting; sleep 600", "timeout": 0.5},
}


def _write_site(desk: Desk, checks: dict[str, object]) -> None:
    path = desk.folder / "config" / "harness" / "site.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"checks": checks}))


@pytest.fixture(scope="module")
def checked(tmp_path_factory: pytest.TempPathFactory, font_cache: Path) -> Iterator[Desk]:
    """A desk on which a sweep of two configurations with three checks has been run to its end."""
    desk = new_desk(tmp_path_factory.mktemp("checked"), MPLCONFIGDIR=str(font_cache), VLLM_API_KEY=KEY)
    _write_site(desk, SITE)
    try:
        done = desk.run("sweep", desk.write_sweep(checks=["sane", "broken", "endless"]))
        assert done.code == 0, done.err
        yield desk
    finally:
        desk.clear()


def test_each_configuration_is_checked_once_after_its_cells(checked: Desk) -> None:
    records = [record["record"] for record in checked.journal()]
    one = ["launch_started", "trial", "check", "check", "check", "launch"]
    assert [name for name in records if name in one] == one * 2
    assert (checked.folder / "sane.ran").read_text().splitlines() == ["tiny"] * 2


def test_what_came_of_them_is_in_the_journal(checked: Desk) -> None:
    run = read_run(resolve_run("latest", root=checked.folder))
    by_name: dict[str, list[Any]] = {}
    for check in run.checks:
        by_name.setdefault(check.name, []).append(check)
    assert [(check.outcome, check.exit_code) for check in by_name["sane"]] == [("passed", 0)] * 2
    assert by_name["sane"][0].tail == ("asked with ***",)
    assert [(check.outcome, check.exit_code) for check in by_name["broken"]] == [("failed", 3)] * 2
    assert by_name["broken"][0].tail == ("the answer of tiny is garbled",)
    (late, _) = by_name["endless"]
    assert (late.outcome, late.exit_code, late.tail) == ("failed", None, ("waiting",))
    assert late.reason == "it took longer than its limit of 0.5 s"
    assert 0.5 <= late.took_s < 20
    for configuration in run.plan.configurations if run.plan else ():
        assert vetoes(run.checks, configuration.configuration_id) == ("broken", "endless")


def test_the_key_is_nowhere(checked: Desk) -> None:
    assert not [path for path, content in checked.all_bytes() if KEY.encode() in content]


def test_the_output_lies_beside_the_engines_log(checked: Desk) -> None:
    logs = sorted(path.name for path in checked.only_run().glob("logs/*-check-*.log"))
    assert len(logs) == 6
    (text,) = {path.read_text() for path in checked.only_run().glob("logs/*-check-broken.log")}
    assert text == "the answer of tiny is garbled\n"


def test_the_report_and_the_document_list_them(checked: Desk) -> None:
    report = next(checked.reports.glob("*/report.md")).read_text()
    assert "## Checks" in report
    assert report.count("check broken failed after") == 2
    assert "the answer of tiny is garbled" in report
    page = next(checked.reports.glob("*/report.html")).read_text()
    assert "<h2>Checks</h2>" in page
    shown = checked.run("show", "--json").document()
    assert [check["name"] for check in shown["checks"]] == ["sane", "broken", "endless"] * 2


def test_nothing_is_left_running(checked: Desk) -> None:
    checked.require_no_engine()


def test_what_was_checked_is_not_checked_again(checked: Desk) -> None:
    done = checked.run("sweep", "small.yaml", "--resume", "--launches", "2")
    assert done.code == 0, done.err
    assert len(checked.of_kind("launch")) == 4
    assert len(checked.of_kind("check")) == 6


def test_a_check_that_the_site_lacks_is_named_before_anything_is_launched(desk: Desk) -> None:
    _write_site(desk, SITE)
    sweep = desk.write_sweep(checks=["sane", "brokken"])
    for command in ("sweep", "plan"):
        failed = desk.run(command, sweep)
        assert failed.code == 2
        line = 1 + (desk.folder / sweep).read_text().split('"brokken"')[0].count("\n")
        assert f'small.yaml:{line}:3: no check "brokken" in the site file' in failed.err
        assert 'Did you mean "broken"?' in failed.err
    assert desk.runs() == []


def test_a_rehearsal_runs_none_and_says_so(desk: Desk) -> None:
    (desk.folder / "r.yaml").write_text(
        "sweep: r\nrecipe: vllm-cpu-tiny\nchecks: [anything]\nrepeat: {drafts: 10}\n"
        "knobs: {num_speculative_tokens: 2, class: prose, context_tokens: 256, concurrency: 1, output_tokens: 16}\n"
    )
    done = desk.run("sweep", "r.yaml", "--engine", "simulated")
    assert done.code == 0, done.err
    (check,) = desk.of_kind("check")
    assert (check["outcome"], check["reason"]) == ("not_run", "simulated")
    assert "check anything was not run: simulated" in next(desk.reports.glob("*/simulated-report.md")).read_text()
    assert vetoes(read_run(resolve_run("latest", root=desk.folder)).checks, check["configuration_id"]) == ()


def test_a_check_that_was_interrupted_is_gone_and_runs_when_the_run_is_carried_on(desk: Desk) -> None:
    _write_site(desk, {"slow": {"command": [sys.executable, "-c", SLEEPER]}})
    sweep = desk.write_sweep(checks=["slow"], knobs={"num_speculative_tokens": 0})
    running = desk.start("sweep", sweep)
    running.wait_until((desk.folder / "sleeping").exists, "the check never began")

    running.send(signal.SIGINT)
    stopped = running.end()

    assert stopped.code == 130
    desk.require_no_engine()
    assert desk.of_kind("check") == []
    assert len(desk.of_kind("trial")) == 1
    _write_site(desk, {"slow": {"shell": "exit 0"}})
    done = desk.run("sweep", sweep, "--resume")
    assert done.code == 0, done.err
    assert [check["outcome"] for check in desk.of_kind("check")] == ["passed"]
    assert len(desk.of_kind("trial")) == 1
