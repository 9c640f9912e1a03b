"""A night as JUnit XML, which every build server shows: a suite for the night, a case for each headline series.

What is red here and what the command's exit code says are the same:

- a regression is a ``failure`` of each series that fell;
- a doubtful night is an ``error`` of the case "the night could be judged", as is a night that could not run: nothing
  is known to be worse, and nothing is known to be well. Its series are ``skipped``, with the reason;
- without an accepted baseline the series are ``skipped``;
- configurations that are only watched are never red: what fell there is ``skipped`` and says so.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal
from xml.etree import ElementTree

from harness.report.night_result import NightResult
from harness.report.night_words import LONG, belief, limit_words, moved_words, p_words, percent
from harness.report.text import clean
from harness.stats.morning import Figure, Morning

JUDGED = "the night could be judged"
_ILLEGAL = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
Outcome = Literal["passed", "failure", "error", "skipped"]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Case:
    name: str
    group: str
    outcome: Outcome = "passed"
    message: str = ""
    text: str = ""  # of a failure or error its details, else what was measured
    took_s: float | None = 0.0  # judging takes no time; the measurement stands at the night's own case


def junit_xml(result: NightResult) -> str:
    """Return the document, with its XML declaration and a newline at the end."""
    cases = [_night_case(result)]
    for number, (label, morning) in enumerate(result.mornings):
        gates = number == 0
        group = result.sweep if gates else f"{result.sweep}.{label} (watched)"
        cases += [_series_case(one, morning, group, gates=gates) for one in morning.figures]
    suite = ElementTree.Element("testsuite", _counts(result, cases) | {"timestamp": _timestamp(result.at)})
    properties = ElementTree.SubElement(suite, "properties")
    for name, value in _properties(result):
        ElementTree.SubElement(properties, "property", {"name": name, "value": _legal(value)})
    for case in cases:
        _add(suite, case)
    whole = ElementTree.Element("testsuites", _counts(result, cases))
    whole.append(suite)
    ElementTree.indent(whole)
    return f'<?xml version="1.0" encoding="utf-8"?>\n{ElementTree.tostring(whole, encoding="unicode")}\n'


def _night_case(result: NightResult) -> _Case:
    gate = result.gate
    case = _Case(name=JUDGED, group=result.sweep, took_s=result.took_s, text=result.line)
    if gate is None or gate.verdict == "doubtful" or (result.exit_code and gate.verdict != "regressed"):
        message = result.reason or (gate.sentence if gate else "no reason was recorded")
        return _Case(
            name=case.name, group=case.group, took_s=case.took_s, outcome="error", message=message, text=result.line
        )
    return case


def _series_case(one: Figure, morning: Morning, group: str, *, gates: bool) -> _Case:
    name, text = LONG.get(one.name, one.name), _series_text(one, morning)
    if not gates and (one.fell or morning.verdict == "doubtful"):
        message = f"watched, does not gate: {morning.verdict}, {moved_words(one)}"
        return _Case(name=name, group=group, outcome="skipped", message=message, text=text)
    if gates and morning.verdict == "regressed" and one.fell:
        return _Case(name=name, group=group, outcome="failure", message=f"{name} {moved_words(one)}", text=text)
    if gates and morning.verdict in ("doubtful", "no baseline"):
        return _Case(name=name, group=group, outcome="skipped", message=morning.sentence, text=text)
    return _Case(name=name, group=group, text=text)


def _series_text(one: Figure, morning: Morning) -> str:
    lines = [
        morning.sentence,
        f"{percent(one.log_ratio)} against the baseline, limit {limit_words(one)}" if one.baseline else "no baseline",
        f"change: {moved_words(one)}, {p_words(one.change.p)}" if one.change else "no change point stands unaccepted",
        morning.cause,
        belief(morning),
        *(f"differs: {difference}" for difference in morning.differences),
        *morning.notes,
    ]
    return "\n".join(line for line in lines if line)


def _properties(result: NightResult) -> list[tuple[str, str]]:
    known = [
        ("verdict", result.verdict),
        ("exit_code", str(result.exit_code)),
        ("simulated", "true" if result.simulated else "false"),
        ("run_id", result.run_id),
        ("report", result.report),
        ("earlier_nights", str(result.gate.history) if result.gate else None),
    ]
    return [(name, value) for name, value in known if value is not None]


def _counts(result: NightResult, cases: Sequence[_Case]) -> dict[str, str]:
    def count(outcome: Outcome) -> str:
        return str(sum(case.outcome == outcome for case in cases))

    found = {
        "name": _legal(f"nightly {result.sweep}{' SIMULATED' if result.simulated else ''}"),
        "tests": str(len(cases)),
        "failures": count("failure"),
        "errors": count("error"),
        "skipped": count("skipped"),
    }
    return found | _time(result.took_s)


def _add(suite: ElementTree.Element, case: _Case) -> None:
    attributes = {"name": _legal(case.name), "classname": _legal(case.group)} | _time(case.took_s)
    element = ElementTree.SubElement(suite, "testcase", attributes)
    if case.outcome != "passed":
        said = {"message": _legal(case.message)} | ({} if case.outcome == "skipped" else {"type": case.outcome})
        ElementTree.SubElement(element, case.outcome, said).text = (
            None if case.outcome == "skipped" else _legal(case.text)
        )
    if case.outcome in ("passed", "skipped"):
        ElementTree.SubElement(element, "system-out").text = _legal(case.text)


def _time(seconds: float | None) -> dict[str, str]:
    """Left out where it is not known."""
    return {} if seconds is None else {"time": f"{seconds:.3f}"}


def _timestamp(at: str) -> str:
    """In UTC and without a zone, which is all that the strictest schema takes."""
    moment = datetime.fromisoformat(at)
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return aware.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S")


def _legal(text: str) -> str:
    """Without what XML 1.0 cannot hold, in any escape."""
    return _ILLEGAL.sub("", clean(text))
