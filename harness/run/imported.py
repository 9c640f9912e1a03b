"""Results of other programs as a run of its own: journalled, shown and reported like one, and marked as imported."""

from __future__ import annotations

import hashlib
import importlib.metadata
import platform
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.errors import InputError
from harness.metrics.ds4_results import RATES, Measurement, Results, read_results
from harness.records.cell import Cell, Configuration, KnobValue, LoadPoint, OutputLength
from harness.records.clock import Clock
from harness.records.counters import CounterDelta
from harness.records.identity import content_id
from harness.records.imported import IMPORTED_MARK
from harness.records.launch import LaunchRecord
from harness.records.manifest import HostFacts, Manifest
from harness.records.plan import Plan
from harness.records.trial import MEASURING_VERSION, ClientFacts, TrialRecord
from harness.store.journal import open_journal
from harness.store.layout import RunFolder, create_run, new_run_id
from harness.store.reader import write_manifest, write_plan

UNKNOWN = "unknown"
_FORMAT = "imported"  # in place of a recipe's hash: none took part


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedFile:
    """A file, and the configuration that it was measured with."""

    path: Path
    configuration: Configuration


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportWishes:
    """What the files do not say."""

    name: str
    workload_class: str = UNKNOWN
    temperature: float = 0.0
    context_tokens: int | None = None
    machine: str = UNKNOWN
    command: tuple[str, ...] = ()


def configuration_named(name: str, knobs: dict[str, KnobValue], *, recipe: str) -> Configuration:
    """Return the configuration of an imported file: its name is all that is certain of it."""
    return Configuration(recipe=recipe, knobs={**knobs, "imported_as": name}, name=name)


def import_results(
    files: Sequence[ImportedFile], wishes: ImportWishes, *, root: Path, recipe: str, clock: Clock
) -> RunFolder:
    """Store what the files hold as a run, and return its folder. The first file is what gains are measured against.

    Raises:
        InputError: a file cannot be read, or is no result; nothing is stored then.
        StoreError: the run cannot be written.
    """
    texts = [_text(file.path) for file in files]
    read = _read(files, texts)
    at, digest = clock.stamp(), hashlib.sha256("".join(texts).encode()).hexdigest()
    run_id = new_run_id(at, wishes.name, digest)
    launches = [_launch(file, results, number, (run_id, at)) for number, (file, results) in enumerate(read, start=1)]
    trials = [
        _trial(measurement, launch, wishes, number)
        for launch, (_, results) in zip(launches, read, strict=True)
        for number, measurement in enumerate(results.measurements, start=1)
    ]
    folder = create_run(root, run_id)
    try:
        write_manifest(folder, _manifest(files, wishes, (run_id, at), digest=digest, recipe=recipe))
        write_plan(folder, _plan(read, wishes, recipe))
        with open_journal(folder, at=at) as journal:
            for launch in launches:
                journal.append(launch)
            for trial in trials:
                journal.append(trial)
    except BaseException:
        shutil.rmtree(folder.path, ignore_errors=True)
        raise
    return folder


def _read(files: Sequence[ImportedFile], texts: Sequence[str]) -> list[tuple[ImportedFile, Results]]:
    """Every file by one and the same rate: the newer one only where all of them have it."""
    for rates in (RATES, RATES[::-1]):
        pairs = zip(files, texts, strict=True)
        read = [(file, read_results(text, where=file.path.name, rates=rates)) for file, text in pairs]
        if len({measurement.rate for _, results in read for measurement in results.measurements}) == 1:
            break
    return read


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", where=str(path)) from error


def _launch(file: ImportedFile, results: Results, number: int, run: tuple[str, str]) -> LaunchRecord:
    run_id, at = run
    earlier = content_id([run_id, number])
    return LaunchRecord(
        launch_id=f"imported-{earlier}",
        run_id=run_id,
        round=1,
        attempt=1,
        configuration=file.configuration,
        started_at=at,
        outcome="measured",
        ready_s=None,
        total_s=None,
        reason=f"{IMPORTED_MARK} from {file.path.name}",
        speculation=results.speculation,
    )


def _trial(measurement: Measurement, launch: LaunchRecord, wishes: ImportWishes, number: int) -> TrialRecord:
    context = measurement.context_tokens if measurement.context_tokens is not None else wishes.context_tokens
    if context is None:
        raise InputError(
            "nobody says how long the prompt was",
            where=measurement.figures.where,
            hint="Name it: --context-tokens N.",
        )
    load = LoadPoint(
        workload_class=wishes.workload_class,
        context_tokens=context,
        concurrency=1,
        output=OutputLength(tokens=measurement.output_tokens or 0),
        temperature=wishes.temperature,
    )
    return TrialRecord(
        trial_id=content_id([launch.launch_id, number]),
        run_id=launch.run_id,
        launch_id=launch.launch_id,
        round=1,
        repeat=number,
        cell=Cell(configuration=launch.configuration, load=load),
        workload_id=UNKNOWN,
        started_at=launch.started_at,
        requests=(),
        counters=CounterDelta(settled=False, absent_because=f"not in the results of {measurement.figures.program}"),
        client=ClientFacts(),
        warmup=None,
        imported=measurement.figures,
        took_s=0.0,
    )


def _manifest(
    files: Sequence[ImportedFile], wishes: ImportWishes, run: tuple[str, str], *, digest: str, recipe: str
) -> Manifest:
    run_id, at = run
    return Manifest(
        run_id=run_id,
        sweep=wishes.name,
        sweep_sha256=digest,
        sweep_file=", ".join(file.path.name for file in files),
        recipe=recipe,
        recipe_sha256=_FORMAT,
        harness_version=importlib.metadata.version("harness-spec"),
        measuring_version=MEASURING_VERSION,
        started_at=at,
        seed=0,
        command=wishes.command,
        host=HostFacts(
            rig_id="imported",  # what was measured elsewhere says nothing about the noise of this machine
            processor=wishes.machine,
            cores=0,
            memory_bytes=0,
            accelerators=(),
            kernel=UNKNOWN,
            python=platform.python_version(),
        ),
        mark=IMPORTED_MARK,
    )


def _plan(read: Sequence[tuple[ImportedFile, Results]], wishes: ImportWishes, recipe: str) -> Plan:
    definitions = dict.fromkeys(
        note for _, results in read for measurement in results.measurements for note in measurement.figures.notes
    )
    programs = ", ".join(dict.fromkeys(results.program for _, results in read))
    return Plan(
        sweep=wishes.name,
        recipe=recipe,
        seed=0,
        launches=(),
        incumbent_id=read[0][0].configuration.configuration_id,
        notes=(f"{IMPORTED_MARK}: {programs} measured this, and nothing of it was checked here.", *definitions),
        mark=IMPORTED_MARK,
    )
