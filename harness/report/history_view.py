"""The nights of a sweep as a table: what each measured and what makes it doubtful. Nothing is judged here."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from harness.records.manifest import SIMULATED_MARK
from harness.records.night_series import HEADLINES, as_measured, launches_of, night_values
from harness.records.nightly import Night
from harness.report.labels import words
from harness.report.models import Column, Row, TableView
from harness.units import format_number, format_seconds

_IDENTITY = ("recipe", "engine", "model", "image", "configuration", "rig")  # of a heading, as far as they are known


def history_table(sweep: str, nights: Sequence[Night], *, gone: frozenset[str] = frozenset()) -> TableView:
    """Return a row for each night, oldest first, by series.

    Args:
        sweep: whose nights they are.
        nights: of it.
        gone: runs whose folder is no longer there.
    """
    begun = {night.key: night.at for night in sorted(nights, key=lambda night: night.at, reverse=True)}
    ordered = sorted(nights, key=lambda night: (begun[night.key], night.key, night.at, night.run_id))
    rows = [
        _row(night, heading=_heading(series_nights[0]), gone=night.run_id in gone)
        for _, group in groupby(ordered, key=lambda night: night.key)
        for series_nights in [list(group)]
        for night in series_nights
    ]
    return TableView(
        caption=f"Nights of {sweep}, by what can be compared; figures over the whole workload",
        columns=(
            Column(label="night", numeric=False),
            *(Column(label=series.short) for series in HEADLINES.values()),
            Column(label="launches"),
            Column(label="boot", detail=True),
            Column(label="time", numeric=False, detail=True),
            Column(label="doubts", numeric=False),
            Column(label="run", numeric=False, detail=True),
        ),
        rows=tuple(rows),
        notes=("† the folder of the run is gone; its figures stay",) if gone else (),
    )


def night_document(night: Night, *, gone: bool) -> dict[str, object]:
    """Return a night for scripts: figures as measured, null where they were not."""
    return {
        "run_id": night.run_id,
        "run_folder": not gone,
        "sweep": night.sweep,
        "at": night.at,
        "key": night.key,
        "identity": night.identity,
        "facts": night.facts,
        "launches": launches_of(night),
        "valid": night.is_valid,
        "doubts": list(night.doubts),
        **night_values(night),
        "cells": [{**night.loads.get(load_id, {}), **figures} for load_id, figures in night.cells.items()],
        "simulated": night.simulated,
        "mark": SIMULATED_MARK if night.simulated else None,
    }


def _row(night: Night, *, heading: str, gone: bool) -> Row:
    figures = []
    for name, series in HEADLINES.items():
        value = as_measured(name, night.value(name))
        figures.append(format_seconds(value) if series.unit == "s" else format_number(value))
    doubts = [words(kind) for kind in night.doubts]
    if not night.is_complete:
        doubts.append("incomplete")
    day = night.at[:10]
    return Row(
        values=(
            f"{day} †" if gone else day,
            *figures,
            str(launches_of(night)),
            format_seconds(night.boot_s),
            night.at[11:16],
            ", ".join(doubts),
            night.run_id,
        ),
        group=heading,
        void=not night.is_valid,
    )


def _heading(night: Night) -> str:
    said = [night.identity[name] for name in _IDENTITY if night.identity.get(name)]
    mark = f"{SIMULATED_MARK} · " if night.simulated else ""
    return f"{mark}{night.key}: {' · '.join(said)}" if said else f"{mark}{night.key}"
