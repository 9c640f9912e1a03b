"""What another program measured: figures by our names, since the facts behind them are not known."""

from __future__ import annotations

from dataclasses import dataclass, field

IMPORTED_MARK = "IMPORTED"


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedFigures:
    """Figures of one measurement as its program prints them. What it does not print is missing, never worked out."""

    program: str
    where: str  # file and line
    values: dict[str, float]  # by the names of records.metrics
    notes: tuple[str, ...] = field(default=())  # how they are defined there, where that is not ours
