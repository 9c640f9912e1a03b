"""One night from lock to delivery: nobody sits before it, so whatever comes of it is told where it was asked for."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import click

from harness.cli.loading import SIMULATED, PlanOptions, root_of
from harness.cli.nights import night_facts
from harness.cli.running import Carried, RunWishes, carry_out
from harness.cli.streams import shown_if_possible, write_document
from harness.engine.clock import SystemClock
from harness.errors import HarnessError, StoreError
from harness.recipe.find import find_sweep
from harness.run.outcome import ENGINE_FAILED
from harness.store.layout import RESULTS
from harness.store.nights import nightly_lock
from harness.sweep.load import load_sweep

if TYPE_CHECKING:
    from harness.report.night_result import NightResult


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """Where a night goes beside stdout and its report."""

    junit: Path | None = None
    prometheus: Path | None = None
    environment: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))


def run_night(options: PlanOptions, wishes: RunWishes, delivery: Delivery) -> int:
    """Carry out a night, say it in one line on stdout, deliver it, and return the exit code.

    Raises:
        HarnessError: it could not run; that has been delivered by then.
    """
    sweep = load_sweep(find_sweep(options.file), set_overrides=options.overrides).name
    results = root_of(options.root, options.site) / RESULTS
    clock = SystemClock()
    at, began_s = options.as_of or clock.stamp(), clock.now_s()
    try:
        with nightly_lock(results, sweep):
            carried = carry_out(options, wishes)
    except HarnessError as error:
        _tell(_not_run(sweep, at, error, simulated=options.engine == SIMULATED), delivery)
        raise
    _tell(_result(carried, took_s=clock.now_s() - began_s), delivery)
    _write_table(results)
    return carried.code


def _result(carried: Carried, *, took_s: float) -> NightResult:
    from harness.report.night_result import NightResult

    facts = night_facts(carried.folder, carried.run, carried.cells)
    assert facts is not None  # it is a run of nightly
    manifest = carried.run.manifest
    return NightResult(
        sweep=manifest.sweep,
        at=manifest.started_at,
        exit_code=carried.code,
        mornings=facts.mornings if carried.code != ENGINE_FAILED else (),
        baseline=facts.baseline,
        run_id=carried.folder.run_id,
        report=str(carried.report) if carried.report else None,
        reason=_failure(carried),
        took_s=took_s,
        simulated=manifest.simulated,
    )


def _failure(carried: Carried) -> str | None:
    failed = [launch.reason for launch in carried.run.launches if launch.outcome in _FAILED and launch.reason]
    return failed[-1] if failed else None


_FAILED = ("failed_to_boot", "wrong_configuration", "died")


def _not_run(sweep: str, at: str, error: HarnessError, *, simulated: bool) -> NightResult:
    from harness.report.night_result import NightResult

    reason = f"{error.where}: {error.what}" if error.where else error.what
    return NightResult(sweep=sweep, at=at, exit_code=error.exit_code, reason=reason, simulated=simulated)


def _tell(result: NightResult, delivery: Delivery) -> None:
    from harness.cli.deliver import DeliveryWishes, deliver

    write_document(result.line)
    wishes = DeliveryWishes(junit=delivery.junit, prometheus=delivery.prometheus, environment=delivery.environment)
    for warning in deliver(result, wishes):
        with shown_if_possible():
            click.echo(f"warning: {warning}", err=True)


def _write_table(results: Path) -> None:
    """Derived, so a failure is a warning."""
    from harness.store.history import write_history

    try:
        write_history(results)
    except StoreError as error:
        with shown_if_possible():
            click.echo(f"warning: history.parquet was not written: {error}", err=True)
