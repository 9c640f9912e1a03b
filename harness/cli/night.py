"""One night from lock to delivery: nobody sits before it, so whatever comes of it is told where it was asked for."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from pathlib import Path

import click

from harness.cli.deliver import DeliveryWishes, deliver
from harness.cli.loading import SIMULATED, PlanOptions, root_of
from harness.cli.running import Carried, RunWishes, carry_out
from harness.cli.streams import shown_if_possible, write_document
from harness.engine.clock import SystemClock
from harness.errors import HarnessError, InputError, Interrupted, StoreError
from harness.recipe.find import find_sweep
from harness.records.launch import FAILED
from harness.report.labels import counted
from harness.report.night_result import NightResult
from harness.run.outcome import ENGINE_FAILED
from harness.store.layout import RESULTS
from harness.store.nights import count_damaged, nightly_lock
from harness.sweep.load import load_sweep


def run_night(options: PlanOptions, wishes: RunWishes, delivery: DeliveryWishes) -> int:
    """Carry out a night, say it in one line on stdout, deliver it, and return the exit code.

    Raises:
        HarnessError: it could not run; that has been delivered by then.
        Exception: a defect of the harness; that too.
    """
    clock = SystemClock()
    began_s = clock.now_s()
    told = _not_run(Path(options.file).stem, clock.stamp(), simulated=options.engine == SIMULATED)
    try:
        _require_no_launches(options)
        options = replace(options, as_of=_moment(options.as_of))
        told = replace(told, at=options.as_of or told.at)
        told = replace(told, sweep=load_sweep(find_sweep(options.file), set_overrides=options.overrides).name)
        results = root_of(options.root, options.site) / RESULTS
        with nightly_lock(results, told.sweep):
            carried = carry_out(options, wishes)
        result = _result(carried, took_s=clock.now_s() - began_s)
    except HarnessError as error:
        reason = f"{error.where}: {error.what}" if error.where else error.what
        _tell(replace(told, exit_code=error.exit_code, reason=reason), delivery)
        raise
    except KeyboardInterrupt:
        _tell(replace(told, exit_code=Interrupted.exit_code, reason="interrupted"), delivery)
        raise
    except Exception as error:
        reason = f"a defect of the harness: {type(error).__name__}: {error}"
        _tell(replace(told, exit_code=HarnessError.exit_code, reason=reason), delivery)
        raise
    _tell(result, delivery)
    _write_table(results)
    _compress_old(results)
    _warn_of_damage(results, told.sweep)
    return carried.code


def _warn_of_damage(results: Path, sweep: str) -> None:
    if count := count_damaged(results, sweep):
        what = f"{counted(count, 'line')} of the history {'is no night' if count == 1 else 'are no nights'}"
        _warn(
            f"{what}, and {'is' if count == 1 else 'are'} passed over; harness history rebuild derives the nights again"
        )


def _warn(text: str) -> None:
    with shown_if_possible():
        click.echo(f"warning: {text}", err=True)


def _require_no_launches(options: PlanOptions) -> None:
    if options.launches is not None:
        what = "a night launches once, and a second time only where something looks bad"
        raise InputError(what, where="--launches", hint="harness sweep FILE --launches N launches as often as you say.")


def _moment(as_of: str | None) -> str | None:
    """The moment with its zone: one without is of this machine's. Raises InputError: it is none."""
    if as_of is None:
        return None
    try:
        moment = datetime.fromisoformat(as_of)
    except ValueError:
        moment = None
    if moment is None or moment.year not in _YEARS:
        hint = "As in 2026-11-01T02:30:00+00:00."
        raise InputError(
            f'not a moment of the years {_YEARS[0]} to {_YEARS[-1]}: "{as_of}"', where="--as-of", hint=hint
        )
    return (moment if moment.tzinfo else moment.astimezone()).isoformat()


def _result(carried: Carried, *, took_s: float) -> NightResult:
    facts = carried.night
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
    failed = [launch.reason for launch in carried.run.launches if launch.outcome in FAILED and launch.reason]
    return failed[-1] if failed else None


_YEARS = range(1971, 9999)  # a run's name has four digits for it in every zone


def _not_run(sweep: str, at: str, *, simulated: bool) -> NightResult:
    return NightResult(sweep=sweep, at=at, exit_code=ENGINE_FAILED, simulated=simulated)


def _tell(result: NightResult, delivery: DeliveryWishes) -> None:
    warnings = []
    try:
        write_document(result.line)
    except StoreError as error:  # the verdict stands, and others wait for it
        warnings.append(str(error))
    for warning in (*warnings, *deliver(result, delivery)):
        _warn(warning)


def _compress_old(results: Path) -> None:
    """Journals of old nights; nobody but who reads their folders notices, so only a failure is told."""
    from harness.cli.keeping import COMPRESSED_AFTER_DAYS, compress

    def unheard(_: str) -> None:
        return

    try:
        compress(results.parent, now=SystemClock().stamp(), days=COMPRESSED_AFTER_DAYS, every=False, say=unheard)
    except StoreError as error:
        _warn(f"not every old journal was compressed: {error}")


def _write_table(results: Path) -> None:
    """Derived, so a failure is a warning."""
    from harness.store.history import write_history

    try:
        write_history(results)
    except StoreError as error:
        _warn(f"history.parquet was not written: {error}")
