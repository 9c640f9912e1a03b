"""Run the checks of the site on an engine that has been measured: does it still say what it should?"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from harness.engine.endpoint import api_key
from harness.engine.launch import secrets_of
from harness.engine.site_command import CommandResult, SiteCommand, run_site_command
from harness.errors import StoreError
from harness.records.check import SIMULATED, CheckRecord
from harness.records.clock import Clock
from harness.run.bench import Bench
from harness.store.layout import slug
from harness.sweep.site import Check

_TAIL_LINES = 25  # in the journal
_SHELL = "/bin/sh"

Checks = Mapping[str, Check | None]  # by name; None: a rehearsal, which runs no command


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckPlace:
    """Where a check runs, and under which names it is written down."""

    launch_id: str
    configuration_id: str
    log_path: Path  # of the launch: a check's own log lies beside it
    clock: Clock


async def run_check(bench: Bench, name: str, check: Check | None, place: CheckPlace) -> CheckRecord:
    """Run one check to its end and return what it said.

    Raises:
        asyncio.CancelledError: the run was interrupted; nothing of the check is left, and it counts as not run.
        StoreError: its output cannot be written.
    """
    record = CheckRecord(
        name=name,
        configuration_id=place.configuration_id,
        launch_id=place.launch_id,
        started_at=place.clock.stamp(),
        outcome="not_run",
        reason=SIMULATED,
    )
    if check is None:
        return record
    began_s = place.clock.now_s()
    result = await run_site_command(_command(bench, check), until=bench.death, until_reason="the engine died")
    _write_log(place, name, result)
    return CheckRecord(
        name=name,
        configuration_id=place.configuration_id,
        launch_id=place.launch_id,
        started_at=record.started_at,
        outcome="passed" if result.exit_code == 0 else "failed",
        exit_code=result.exit_code,
        took_s=place.clock.now_s() - began_s,
        reason=result.reason,
        tail=result.lines[-_TAIL_LINES:],
    )


def _command(bench: Bench, check: Check) -> SiteCommand:
    spec, engine = bench.engine.spec, bench.engine
    values = {"{base_url}": engine.base_url, "{model}": engine.model}
    environment = {"HARNESS_BASE_URL": engine.base_url, "HARNESS_MODEL": engine.model}
    key = api_key(spec)
    if key:
        environment["HARNESS_API_KEY"] = key
    if check.shell is not None:
        quoted = {mark: shlex.quote(value) for mark, value in values.items()}
        argv: tuple[str, ...] = (_SHELL, "-c", _filled(check.shell, quoted))
    else:
        argv = tuple(_filled(word, values) for word in check.argv)
    return SiteCommand(
        argv=argv,
        environment=environment,
        secrets=(*secrets_of(spec), *((key,) if key else ())),
        timeout_s=check.timeout,
    )


def _filled(text: str, values: Mapping[str, str]) -> str:
    for mark, value in values.items():
        text = text.replace(mark, value)
    return text


def _write_log(place: CheckPlace, name: str, result: CommandResult) -> None:
    path = place.log_path.with_name(f"{place.log_path.stem}-check-{slug(name)}.log")
    try:
        path.write_text("".join(f"{line}\n" for line in result.lines), encoding="utf-8")
    except OSError as error:
        raise StoreError(f"a check's output cannot be kept: {error.strerror}", where=str(path)) from error
