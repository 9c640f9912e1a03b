"""A night as JUnit, Prometheus text, a build's summary and a webhook's JSON: right by its format, safe for any name."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.metrics.exposition import Exposition, parse
from harness.report.markdown import render_night
from harness.report.night_junit import JUDGED, junit_xml
from harness.report.night_message import message_json
from harness.report.night_prometheus import VERDICT_CODES, prometheus_text
from harness.report.night_result import NightResult
from harness.stats.gate import FLOOR_RATIO
from harness.stats.morning import Morning
from harness.stats.nights import judge_night
from tests.unit.report.night_build import SWEEP, accepted, doubtful, fine, history, night, regressed, unaccepted

HOSTILE = 'a"b\\c\nd </script> ]]> `x` | \x1b[31m\ufffe\ud800 {e="f"} # & <i>'
FAILED = NightResult(
    sweep=SWEEP, at="2026-12-01T02:00:00+01:00", exit_code=3, reason="the engine did not come up", took_s=61.5
)


def result(morning: Morning, exit_code: int = 0, **more: Any) -> NightResult:
    given: dict[str, Any] = {"mornings": (("four (k=4)", morning),), "run_id": morning.night.run_id, "took_s": 1320.25}
    return NightResult(
        sweep=SWEEP, at=morning.night.at, exit_code=exit_code, simulated=morning.night.simulated, **(given | more)
    )


RESULTS = {
    "fine": result(fine()),
    "regressed": result(regressed(), 1, baseline=accepted(history(14)), report="reports/x/report.html"),
    "doubtful": result(doubtful(), 4),
    "no baseline": result(unaccepted()),
    "could not run": FAILED,
}


def suite_of(night_result: NightResult) -> ElementTree.Element:
    whole = ElementTree.fromstring(junit_xml(night_result).encode())
    (suite,) = whole
    assert (whole.tag, suite.tag) == ("testsuites", "testsuite")
    assert {name: whole.get(name) for name in ("tests", "failures", "errors", "skipped", "time")} == {
        name: suite.get(name) for name in ("tests", "failures", "errors", "skipped", "time")
    }
    return suite


def outcomes(suite: ElementTree.Element) -> dict[str, str]:
    found = {}
    for case in suite.iter("testcase"):
        tags = [child.tag for child in case if child.tag in ("failure", "error", "skipped")]
        found[str(case.get("name"))] = tags[0] if tags else "passed"
    return found


@pytest.mark.parametrize("verdict", RESULTS)
def test_a_suite_has_what_build_servers_read(verdict: str) -> None:
    suite = suite_of(RESULTS[verdict])
    cases = list(suite.iter("testcase"))

    assert [child.tag for child in suite] == ["properties", *["testcase"] * len(cases)]
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d", str(suite.get("timestamp")))
    assert int(str(suite.get("tests"))) == len(cases)
    for name, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        assert int(str(suite.get(name))) == len(suite.findall(f"testcase/{tag}"))
    for case in cases:
        assert case.get("name")
        assert case.get("classname") == SWEEP
        assert float(str(case.get("time"))) >= 0
    for broken in (*suite.iter("failure"), *suite.iter("error")):
        assert broken.get("message")
        assert broken.get("type")


@pytest.mark.parametrize(
    ("verdict", "night_itself", "series"),
    [
        ("fine", "passed", ["passed", "passed", "passed"]),
        ("regressed", "passed", ["failure", "passed", "failure"]),
        ("doubtful", "error", ["skipped", "skipped", "skipped"]),
        ("no baseline", "passed", ["skipped", "skipped", "skipped"]),
        ("could not run", "error", []),
    ],
)
def test_what_is_red_is_what_the_exit_code_says(verdict: str, night_itself: str, series: list[str]) -> None:
    found = outcomes(suite_of(RESULTS[verdict]))

    assert found.pop(JUDGED) == night_itself
    assert list(found.values()) == series
    is_red = {"failure", "error"} & {night_itself, *series}
    assert bool(is_red) == bool(RESULTS[verdict].exit_code)


def test_a_failure_says_how_much_since_when_and_why() -> None:
    failure = next(suite_of(RESULTS["regressed"]).iter("failure"))

    assert str(failure.get("message")).endswith("-6.1 % (-6.7 % … -5.6 %) since 2026-11-25")
    assert "step time moved and acceptance did not" in str(failure.text)
    assert "differs: spark-1 driver: 580.95 → 590.12" in str(failure.text)
    assert "both launches of this night are below the limit" in str(failure.text)


def test_a_watched_configuration_is_never_red() -> None:
    watching = replace(RESULTS["fine"], mornings=(*RESULTS["fine"].mornings, ("k=0", regressed())))
    suite = suite_of(watching)

    assert (suite.get("failures"), suite.get("errors"), suite.get("skipped")) == ("0", "0", "2")
    skipped = [case for case in suite.iter("testcase") if case.find("skipped") is not None]
    assert {case.get("classname") for case in skipped} == {f"{SWEEP}.k=0 (watched)"}
    message = next(suite.iter("skipped")).get("message")
    assert str(message).startswith("watched, does not gate: regressed")


def test_a_run_that_failed_beside_a_fine_night_is_red_where_its_exit_code_is() -> None:
    beside = replace(RESULTS["fine"], exit_code=3, reason="k=0 did not boot")

    assert outcomes(suite_of(beside))[JUDGED] == "error"
    assert next(suite_of(beside).iter("error")).get("message") == "k=0 did not boot"


def test_a_time_that_is_not_known_is_left_out() -> None:
    suite = suite_of(replace(FAILED, took_s=None))

    assert suite.get("time") is None
    assert suite_of(FAILED).get("time") == "61.500"
    assert suite.get("timestamp") == "2026-12-01T01:00:00"


def gauges(night_result: NightResult) -> Exposition:
    text = prometheus_text(night_result)
    assert text.endswith("\n")
    names = [line.split("{")[0] for line in text.splitlines() if not line.startswith("#")]
    for name in set(names):
        assert text.count(f"# HELP {name} ") == text.count(f"# TYPE {name} gauge\n") == 1
    return parse(text)


@pytest.mark.parametrize("verdict", RESULTS)
def test_the_text_file_is_read_by_the_parser_and_has_its_verdict(verdict: str) -> None:
    found = gauges(RESULTS[verdict])

    (code,) = found.samples("harness_nightly_verdict_code")
    assert code.value == VERDICT_CODES[RESULTS[verdict].verdict]
    assert code.labels == {"sweep": SWEEP, "simulated": "false"}
    assert found.total("harness_nightly_exit_code") == RESULTS[verdict].exit_code
    assert found.total("harness_nightly_duration_seconds") == RESULTS[verdict].took_s


def test_the_text_file_holds_each_series_and_leaves_out_what_is_not_known() -> None:
    found = gauges(RESULTS["regressed"])
    ratios = found.total_by("harness_nightly_baseline_ratio", "series")
    figures = {one.name: one for one in regressed().figures}

    assert ratios == {name: pytest.approx(math.exp(one.log_ratio or 0)) for name, one in figures.items()}
    assert found.total_by("harness_nightly_limit_ratio", "series")["step_s"] == pytest.approx(1 - FLOOR_RATIO["step_s"])
    assert set(found.total_by("harness_nightly_change_ratio", "series")) == {"seconds", "step_s"}
    assert found.total("harness_nightly_history_nights") == 36
    assert found.total("harness_nightly_last_run_timestamp_seconds") == 1796090400
    assert gauges(RESULTS["no baseline"]).samples("harness_nightly_baseline_ratio") == ()
    assert gauges(replace(FAILED, took_s=None)).samples("harness_nightly_duration_seconds") == ()


def test_a_simulated_night_is_never_taken_for_a_real_one() -> None:
    simulated = result(regressed(simulated=True), 1)

    samples = parse(prometheus_text(simulated)).by_name.values()
    assert {sample.labels["simulated"] for of in samples for sample in of} == {"true"}
    assert "SIMULATED" in str(suite_of(simulated).get("name"))
    assert json.loads(message_json(simulated))["simulated"] is True
    assert "SIMULATED" in json.loads(message_json(simulated))["text"]
    assert "SIMULATED" in render_night(simulated).splitlines()[0]
    assert replace(FAILED, simulated=True).line.endswith("SIMULATED")


def test_the_message_has_a_text_for_a_chat_and_figures_for_programs() -> None:
    message = json.loads(message_json(RESULTS["regressed"]))
    (configuration,) = message["configurations"]

    assert message["text"].startswith("laptop-nightly 2026-12-01: regressed since 2026-11-25")
    assert "<" not in message["text"]
    assert (message["verdict"], message["exit_code"]) == ("regressed", 1)
    assert configuration["series"]["seconds"]["change"]["ratio"] == pytest.approx(0.939, abs=1e-3)
    assert configuration["series"]["delivered_per_step"]["change"] is None
    assert configuration["gates"] is True
    assert json.loads(message_json(FAILED))["configurations"] == []
    assert json.loads(message_json(RESULTS["no baseline"]))["configurations"][0]["series"]["seconds"] == {
        "baseline_ratio": None,
        "limit_ratio": None,
        "below_limit": False,
        "change": None,
    }


def test_the_summary_of_a_build_begins_with_the_verdict() -> None:
    text = render_night(RESULTS["regressed"])

    assert text.startswith("### laptop-nightly: Night of 2026-12-01 · Regressed\n")
    assert "**Regressed since 2026-11-25: speed -6.1 %" in text
    assert "| speed | 2.46 s | 2.30 s | -6.4 % | -5.0 % |" in text
    assert "accepted 2026-11-06 by operator" in text
    assert text.rstrip().endswith("report `reports/x/report.html`")
    failed = render_night(FAILED)
    assert failed.startswith("### laptop-nightly: could not run\n")
    assert "- the engine did not come up" in failed


def hostile_result(text: str) -> NightResult:
    tonight = regressed()
    morning = replace(tonight, sentence=text, cause=text, differences=(text,), notes=(text,))
    return NightResult(
        sweep=text,
        at=tonight.night.at,
        exit_code=1,
        mornings=((text, morning), (text, morning)),
        baseline=replace(accepted(history(14)), name=text, author=text, reason=text),
        run_id=text,
        report=text,
        reason=text,
    )


def test_hostile_names_break_no_format() -> None:
    hostile = hostile_result(HOSTILE)

    case = next(iter(suite_of(hostile).iter("testcase")))
    assert str(case.get("classname")).startswith('a"b\\c')
    assert "</script>" in str(case.get("classname"))
    samples = parse(prometheus_text(hostile).encode("utf-8", "replace").decode())
    assert samples.samples("harness_nightly_verdict_code")[0].labels["sweep"].startswith('a"b\\c d </script>')
    assert json.loads(message_json(hostile).encode())["sweep"] == HOSTILE
    summary = re.sub(r"(`+)[^\n]*?\1", "", render_night(hostile))
    assert re.search(r"(?<!\\)<(?:/script|i)>", summary) is None
    for text in (junit_xml(hostile), prometheus_text(hostile), summary, json.loads(message_json(hostile))["text"]):
        assert "\x1b" not in text


@given(st.text())
def test_any_text_makes_well_formed_documents(text: str) -> None:
    hostile = replace(FAILED, sweep=text, reason=text)

    suite_of(hostile)
    assert parse(prometheus_text(hostile)).total("harness_nightly_exit_code") == 3
    json.loads(message_json(hostile))


def test_a_figure_that_was_not_measured_has_no_sample() -> None:
    tonight = night(40)
    lacking = replace(tonight, figures=tonight.figures | {"step_s": ()})
    morning = judge_night(lacking, history(40), accepted(history(14)))
    found = gauges(result(morning, 4))

    assert set(found.total_by("harness_nightly_baseline_ratio", "series")) == {"seconds", "delivered_per_step"}
