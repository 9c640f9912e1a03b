"""Results that ds4's own programs print: the CSV of ds4-bench, and what `ds4` says when it ends. Pure.

The CSV is read by its header: columns came, and more will. A row needs its context and a rate; the rest may be missing.
"""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from harness.errors import InputError
from harness.metrics.session_stats import read_session_stats
from harness.records.imported import ImportedFigures
from harness.records.speculation import SpeculationStats

CONTEXT = "ctx_tokens"
RATES = ("gen_steady_tps", "gen_tps")  # the first that is there; the newer one leaves out the first token, as we do
_FIGURES = {"prefill_tokens_per_s": "prefill_tps", "output_tokens": "gen_tokens", "prompt_tokens": CONTEXT}
_RUN = re.compile(r"\bprefill: ([\d.]+) t/s, generation: ([\d.]+) t/s")
_DONE = re.compile(r"\bprefill (\d+)/\1\b")
_WITH_FIRST = "gen_tps counts the first token too, which decode_tokens_per_s does not"
_CHUNKS = "prefill_tps is of the tokens added since the row before, at this depth"


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """One row, or one run of the program."""

    context_tokens: int | None  # None: the program does not say
    output_tokens: int | None
    rate: str  # the column that decode_tokens_per_s is
    figures: ImportedFigures


@dataclass(frozen=True, slots=True, kw_only=True)
class Results:
    """All of one file."""

    program: str
    measurements: tuple[Measurement, ...]
    speculation: SpeculationStats | None = None


def read_results(text: str, *, where: str, rates: Sequence[str] = RATES) -> Results:
    """Return what a file of results holds, whichever of the two it is.

    Args:
        text: of the file.
        where: its name, for messages.
        rates: columns of a decode rate; in each row the first that is there is taken.

    Raises:
        InputError: it is neither, holds no measurement, or a number in it is none; names the line.
    """
    lines = text.removeprefix("\ufeff").splitlines()
    start = next((at for at, line in enumerate(lines) if CONTEXT in _cells(line)), None)
    if start is not None:
        return Results(program="ds4-bench", measurements=tuple(_rows(lines[start:], start + 1, where, rates)))
    measurements = tuple(_runs(lines, where))
    if not measurements:
        raise InputError(
            "neither the CSV of ds4-bench nor the output of ds4",
            where=where,
            hint=f"A CSV has a header with {CONTEXT}; ds4 prints `prefill: N t/s, generation: N t/s` on stderr.",
        )
    stats = read_session_stats(lines, asked=any("DSpark stats" in line for line in lines))
    return Results(program="ds4", measurements=measurements, speculation=stats)


def _rows(lines: list[str], first: int, where: str, rates: Sequence[str]) -> Iterator[Measurement]:
    header = _cells(lines[0])
    if not any(name in header for name in RATES):
        raise InputError("the header has no rate", where=f"{where}:{first}", hint=f"Expected {' or '.join(RATES)}.")
    found = False
    for number, line in enumerate(lines[1:], start=first + 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        row = dict(zip(header, _cells(line), strict=False))
        found = True
        yield _measurement(row, f"{where}:{number}", rates)
    if not found:
        raise InputError("a header, and no row", where=f"{where}:{first}", hint="Did ds4-bench end before its first?")


def _cells(line: str) -> list[str]:
    try:
        return [cell.strip() for cell in next(csv.reader([line]), [])]
    except csv.Error:
        return []


def _measurement(row: Mapping[str, str], where: str, rates: Sequence[str]) -> Measurement:
    context = _number(row, CONTEXT, where)
    name = next((name for name in rates if row.get(name)), None)
    if context is None or name is None:
        missing = CONTEXT if context is None else RATES[-1]
        raise InputError(f"the row has no {missing}", where=where, hint="Was the file cut, or columns left out?")
    values: dict[str, float] = {}
    for ours, theirs in {"decode_tokens_per_s": name, **_FIGURES}.items():
        value = _number(row, theirs, where)
        if value is not None:
            values[ours] = value
    output = values.get("output_tokens")
    notes = (*((_WITH_FIRST,) if name == "gen_tps" else ()), *((_CHUNKS,) if "prefill_tokens_per_s" in values else ()))
    return Measurement(
        context_tokens=int(context),
        output_tokens=None if output is None else int(output),
        rate=name,
        figures=_figures("ds4-bench", where, values, notes),
    )


def _number(row: Mapping[str, str], name: str, where: str) -> float | None:
    text = row.get(name) or ""
    if not text:
        return None
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value) or value < 0:
        raise InputError(f'{name} is "{text}", which is no number of a result', where=where)
    return value


def _runs(lines: list[str], where: str) -> Iterator[Measurement]:
    """Each pair of rates is one run of ds4; the prompt's length stands before it, if at all."""
    context: int | None = None
    for number, line in enumerate(lines, start=1):
        if done := _DONE.search(line):
            context = int(done[1])
        if rates := _RUN.search(line):
            row = {"prefill_tps": rates[1], "gen_tps": rates[2]}
            place = f"{where}:{number}"
            values = {
                "decode_tokens_per_s": _number(row, "gen_tps", place),
                "prefill_tokens_per_s": _number(row, "prefill_tps", place),
                "prompt_tokens": None if context is None else float(context),
            }
            known = {name: value for name, value in values.items() if value is not None}
            figures = _figures("ds4", place, known, (_WITH_FIRST,))
            yield Measurement(context_tokens=context, output_tokens=None, rate="gen_tps", figures=figures)
            context = None


def _figures(program: str, where: str, values: dict[str, float], notes: tuple[str, ...]) -> ImportedFigures:
    rate = values.get("decode_tokens_per_s")
    inverse = {"tpot_s": 1 / rate} if rate else {}
    return ImportedFigures(program=program, where=where, values=values | inverse, notes=notes)
