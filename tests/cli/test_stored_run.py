"""A run on disk from the command line: shown, as JSON, and not carried on with where it is another one."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from inline_snapshot import snapshot

from harness.records.metrics import BY_POSITION, METRICS
from tests.cli.test_bad_input import lines_of
from tests.system.driver import HARNESS, Desk, Done, new_desk


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory, font_cache: Path) -> Iterator[Path]:
    """The folder of a desk on which one small sweep has been run to its end."""
    desk = new_desk(tmp_path_factory.mktemp("finished"), MPLCONFIGDIR=str(font_cache))
    try:
        done = desk.run("sweep", desk.write_sweep())
        assert done.code == 0, done.err
        desk.require_no_engine()
        yield desk.folder
    finally:
        desk.clear()


@pytest.fixture
def copied(finished: Path, desk: Desk) -> Desk:
    """A desk with that run, to be spoilt."""
    shutil.copytree(finished, desk.folder, dirs_exist_ok=True)
    return desk


def print_of(folder: Path) -> dict[str, str]:
    """Every file and what is in it."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def refused(desk: Desk, *arguments: str) -> list[str]:
    """The message of a command that leaves the stored run as it is."""
    before = print_of(desk.results)
    done = desk.run(*arguments)
    assert done.code == 2, done.err
    assert done.out == ""
    assert print_of(desk.results) == before
    assert not list((desk.folder / "state").rglob("*.json"))
    return lines_of(done, desk)


def of_another_sweep(desk: Desk) -> None:
    desk.write_sweep("other")


def of_another_recipe(desk: Desk) -> None:
    desk.write_recipe(stop_timeout_s=11)


def of_a_newer_version(desk: Desk) -> None:
    path = desk.only_run() / "manifest.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"record_version": 99, "harness_version": "9.9"}))


def with_a_damaged_manifest(desk: Desk) -> None:
    (desk.only_run() / "manifest.json").write_text("{")


def with_a_damaged_journal(desk: Desk) -> None:
    path = desk.only_run() / "journal.jsonl"
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join([*lines[:3], lines[3][:40] + "\n", *lines[4:]]))


@pytest.mark.parametrize(
    ("spoil", "sweep", "message"),
    [
        (
            of_another_sweep,
            "other.yaml",
            snapshot(
                [
                    "error: run RUN cannot be resumed here: its sweep was small and is other now",
                    "  Start a new run without --resume.",
                ]
            ),
        ),
        (
            of_another_recipe,
            "small.yaml",
            snapshot(
                [
                    "error: run RUN cannot be resumed here: its recipe was HASH and is HASH now",
                    "  Start a new run without --resume.",
                ]
            ),
        ),
        (
            of_a_newer_version,
            "small.yaml",
            snapshot(
                [
                    "error: HERE/results/RUN: written as record version 99; this harness reads up to 1",
                    "  Read it with harness 9.9 or newer. Nothing was changed.",
                ]
            ),
        ),
        (
            with_a_damaged_manifest,
            "small.yaml",
            snapshot(
                [
                    "error: HERE/results/RUN/manifest.json: not a manifest",
                    "  The file was changed or the disk lost data. Put a copy of it back; the measurements are",
                    "in the journal beside it.",
                ]
            ),
        ),
        (
            with_a_damaged_journal,
            "small.yaml",
            snapshot(
                [
                    "error: HERE/results/RUN/journal.jsonl:4: not a record",
                    "  The file was changed or the disk lost data. Take that line out (keep a copy) to use the",
                    "rest.",
                ]
            ),
        ),
    ],
)
def test_another_run_is_not_carried_on_with(
    copied: Desk, spoil: Callable[[Desk], None], sweep: str, message: list[str]
) -> None:
    spoil(copied)

    assert refused(copied, "sweep", sweep, "--resume", str(copied.only_run())) == message


@pytest.mark.parametrize(
    ("spoil", "command"),
    [
        (of_a_newer_version, ("show", "--json")),
        (with_a_damaged_manifest, ("show",)),
        (with_a_damaged_journal, ("show", "--json")),
    ],
)
def test_what_cannot_be_read_is_not_shown(
    copied: Desk, spoil: Callable[[Desk], None], command: tuple[str, ...]
) -> None:
    spoil(copied)

    refused(copied, *command)


def test_a_word_that_fits_two_runs_means_neither(copied: Desk) -> None:
    run = copied.only_run()
    shutil.copytree(run, run.with_name(run.name[:-6] + "aaaaaa"))

    done = copied.run("show", run.name[:8])

    assert (done.code, done.out) == (2, "")
    assert f'"{run.name[:8]}" fits 2 runs' in done.err
    assert run.name in done.err


def test_another_sweeps_run_has_no_name_here(copied: Desk) -> None:
    of_another_sweep(copied)

    assert refused(copied, "sweep", "other.yaml", "--resume", copied.only_run().name) == snapshot(
        [
            'error: HERE/results: no run of sweep other is called "RUN"',
            "  Start one with: harness sweep FILE. Results may lie elsewhere: --root DIR.",
        ]
    )


def test_json_is_one_document_with_the_names_of_the_contract(copied: Desk) -> None:
    done = copied.run("show", "--json")

    assert done.code == 0
    cells = done.document()["cells"]
    assert {cell["num_speculative_tokens"] for cell in cells} == {0, 2}
    for cell in cells:
        load = {name: cell[name] for name in ("class", "cache", "context_tokens", "concurrency")}
        assert load == {"class": "prose", "cache": "cold", "context_tokens": 128, "concurrency": 1}
        assert {"trials", "spread", "null_reasons", "doubts", BY_POSITION, *METRICS} <= cell.keys()
        assert all(cell[name] is not None or cell["null_reasons"].get(name) for name in METRICS)
        assert cell["decode_tokens_per_s"] > 0
        low, high = cell["spread"]["decode_tokens_per_s"]
        assert low <= cell["decode_tokens_per_s"] <= high
        assert [trial["void"] for trial in cell["trials"]] == [False]
    speculating = next(cell for cell in cells if cell["num_speculative_tokens"] == 2)
    plain = next(cell for cell in cells if cell["num_speculative_tokens"] == 0)
    assert 1 < speculating["acceptance_length"] <= 3
    assert plain["acceptance_length"] is None
    assert plain["null_reasons"]["acceptance_length"] == "no speculation"


@pytest.mark.parametrize("command", [("show",), ("plan", "small.yaml")])
def test_tables_go_to_stderr(copied: Desk, command: tuple[str, ...]) -> None:
    done = copied.run(*command)

    assert (done.code, done.out) == (0, "")
    assert "no speculation" in done.err


@pytest.mark.parametrize("command", ["harness show --json | head -1", "harness show 2>&1 | head -1"])
def test_a_reader_that_has_seen_enough_ends_it_quietly(copied: Desk, command: str) -> None:
    script = f"set -o pipefail; {command}"
    path = f"{HARNESS.parent}:{copied.environment['PATH']}"
    done = subprocess.run(
        ["bash", "-c", script],
        cwd=copied.folder,
        env=copied.environment | {"PATH": path},
        capture_output=True,
        text=True,
        timeout=60,
    )

    assert (done.returncode, done.stderr) == (0, "")
    assert len(done.stdout.splitlines()) == 1


def test_a_finished_run_is_not_measured_again(copied: Desk) -> None:
    journal = (copied.only_run() / "journal.jsonl").read_text()

    done = copied.run("sweep", "small.yaml", "--resume")

    assert done.code == 0, done.err
    assert not copied.processes()
    (*same, start, end) = (copied.only_run() / "journal.jsonl").read_text().splitlines()
    assert same == journal.splitlines()
    assert [json.loads(line)["record"] for line in (start, end)] == ["session_start", "session_end"]


def test_a_plan_counts_what_is_done(copied: Desk) -> None:
    done: Done = copied.run("plan", "small.yaml", "--resume", "latest", "--json")

    assert done.code == 0
    assert [trial["done"] for launch in done.document()["launches"] for trial in launch["trials"]] == [True, True]
