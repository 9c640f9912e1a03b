"""The exit code of a sweep, from what its journal holds. Pure."""

from __future__ import annotations

from harness.errors import EngineError
from harness.records.journal import RunData
from harness.records.launch import FAILED
from harness.records.summary import CellSummary

FINE = 0
ENGINE_FAILED = EngineError.exit_code
CANNOT_TELL = 4


def exit_code(run: RunData, cells: tuple[CellSummary, ...]) -> int:
    """Return 0 if every planned cell has a trial that is not void, 3 if a launch failed that should boot, else 4."""
    if run.plan is None:
        return CANNOT_TELL
    planned = {
        (launch.configuration.configuration_id, trial.load.load_id)
        for launch in run.plan.launches
        if launch.fits_budget
        for trial in launch.trials
    }
    measured = {(cell.cell.configuration.configuration_id, cell.cell.load.load_id) for cell in cells if not cell.void}
    missing = {configuration for configuration, load in planned - measured}
    failed = {record.configuration.configuration_id for record in run.launches if record.outcome in FAILED}
    if missing & failed:
        return ENGINE_FAILED
    return CANNOT_TELL if missing else FINE
