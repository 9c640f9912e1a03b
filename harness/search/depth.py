"""Which cells a launch of the search measures: the dear ones wait for configurations that stay in the race. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from harness.records.observation import SearchCell

_LEAST_WEIGHT = 0.7  # of the workload, that the cheap cells must hold
_LEAST_SAVED = 0.25  # of the measuring time, or it is not worth the guess
_LEAST_CELLS = 6


def cheap_cells(cells: Sequence[SearchCell], predicted_s: Mapping[str, float]) -> tuple[str, ...]:
    """Return the load ids to measure at first; all of them where leaving some out would save little.

    Args:
        cells: of the workload.
        predicted_s: by load id.
    """
    ordered = sorted(cells, key=lambda cell: predicted_s.get(cell.load_id, 0.0))
    kept: list[SearchCell] = []
    for cell in ordered:
        if len(kept) >= _LEAST_CELLS and sum(one.weight for one in kept) >= _LEAST_WEIGHT:
            break
        kept.append(cell)
    total = sum(predicted_s.get(cell.load_id, 0.0) for cell in cells)
    spent = sum(predicted_s.get(cell.load_id, 0.0) for cell in kept)
    if not total or 1 - spent / total < _LEAST_SAVED:
        kept = list(cells)
    names = {cell.load_id for cell in kept}
    return tuple(cell.load_id for cell in cells if cell.load_id in names)
