"""A night as a file for node_exporter's textfile collector: the last night of each sweep, to be graphed and alerted on.

Every series is a gauge without a time stamp, which the collector would refuse; ``last_run_timestamp_seconds`` says when
it was written, so that a night that did not run at all can be alerted on too. What was not measured has no line.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime

from harness.report.night_result import NightResult, ResultVerdict
from harness.report.text import one_line
from harness.stats.morning import Morning

# The worse, the higher: an alert is a threshold.
VERDICT_CODES: Mapping[ResultVerdict, int] = {
    "fine": 0,
    "improved": 1,
    "no baseline": 2,
    "doubtful": 3,
    "regressed": 4,
    "could not run": 5,
}
_PREFIX = "harness_nightly"
_HELP = {
    "verdict_code": f"Verdict of the last night: {', '.join(f'{code} {name}' for name, code in VERDICT_CODES.items())}",
    "exit_code": "Exit code of the command of the last night",
    "last_run_timestamp_seconds": "When the last night began",
    "duration_seconds": "How long the last night took",
    "history_nights": "Earlier nights that the last one was held against",
    "baseline_ratio": "Last night divided by the accepted baseline, above 1 is better (seconds as speed)",
    "limit_ratio": "The baseline ratio below which a launch falls out of the baseline",
    "change_ratio": "Nights after a change that nobody has accepted divided by those before it, above 1 is better",
}
Labels = Mapping[str, str]


def prometheus_text(result: NightResult) -> str:
    """Return the file. It ends with a newline, as the format wants."""
    samples: dict[str, list[tuple[Labels, float]]] = {}
    for name, labels, value in _samples(result):
        samples.setdefault(name, []).append((labels, value))
    lines = []
    for name, text in _HELP.items():
        if name in samples:
            lines += [f"# HELP {_PREFIX}_{name} {_escaped(text, quotes=False)}", f"# TYPE {_PREFIX}_{name} gauge"]
            lines += [f"{_PREFIX}_{name}{_label_text(labels)} {value!r}" for labels, value in samples[name]]
    return "\n".join(lines) + "\n"


def _samples(result: NightResult) -> Iterator[tuple[str, Labels, float]]:
    whole = {"sweep": result.sweep, "simulated": "true" if result.simulated else "false"}
    yield "verdict_code", whole, VERDICT_CODES[result.verdict]
    yield "exit_code", whole, result.exit_code
    yield "last_run_timestamp_seconds", whole, _seconds(result.at)
    if result.took_s is not None:
        yield "duration_seconds", whole, result.took_s
    for number, (configuration, morning) in enumerate(result.mornings):
        gates = "true" if number == 0 else "false"
        yield from _morning_samples(morning, whole | {"configuration": configuration, "gates": gates})


def _morning_samples(morning: Morning, labels: Labels) -> Iterator[tuple[str, Labels, float]]:
    yield "history_nights", labels, morning.history
    for one in morning.figures:
        of = {**labels, "series": one.name}
        if one.log_ratio is not None:
            yield "baseline_ratio", of, math.exp(one.log_ratio)
        if one.baseline is not None:
            yield "limit_ratio", of, math.exp(-one.baseline.limit_log)
        if one.change is not None:
            yield "change_ratio", of, math.exp(one.change.log_ratio)


def _label_text(labels: Labels) -> str:
    return "{" + ",".join(f'{name}="{_escaped(one_line(value))}"' for name, value in labels.items()) + "}"


def _escaped(text: str, *, quotes: bool = True) -> str:
    escaped = text.replace("\\", "\\\\").replace("\n", "\\n")
    return escaped.replace('"', '\\"') if quotes else escaped


def _seconds(at: str) -> float:
    moment = datetime.fromisoformat(at)
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
