"""A report on disk: whole or not at all, and never over what others put there."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from harness.errors import StoreError
from harness.report.view import report_view
from harness.report.write import write_report
from tests.fakes.run_builder import RunShape, fake_facts

VIEW = report_view(fake_facts(RunShape(contexts=(256,), repeats=1)))


def test_writes_every_file_and_leaves_nothing_else(tmp_path: Path) -> None:
    paths = write_report(VIEW, tmp_path / "reports" / "today")

    assert sorted(path.name for path in paths.directory.rglob("*")) == [
        "acceptance.svg",
        "best.env",
        "figures",
        "paste.md",
        "report.html",
        "report.md",
        "speed.svg",
        "step.svg",
        "timeline.svg",
    ]
    assert [path.name for path in paths.directory.parent.iterdir()] == ["today"]
    assert paths.best_env is not None
    assert "SPECULATIVE_CONFIG=" in paths.best_env.read_text()


def test_a_second_report_replaces_the_first_and_keeps_what_others_wrote(tmp_path: Path) -> None:
    directory = tmp_path / "report"
    write_report(VIEW, directory)
    (directory / "vllm-bench").mkdir()
    (directory / "vllm-bench" / "summary.csv").write_text("kept")
    (directory / "report.md").write_text("stale")

    paths = write_report(replace(VIEW, best=None), directory)

    assert (directory / "vllm-bench" / "summary.csv").read_text() == "kept"
    assert paths.markdown.read_text().startswith("# laptop")
    assert not (directory / "best.env").exists()
    assert [path.name for path in tmp_path.iterdir()] == ["report"]


def test_the_files_of_a_simulated_run_say_so_in_their_names(tmp_path: Path) -> None:
    view = report_view(fake_facts(RunShape(contexts=(256,), repeats=1, simulated=True)))

    paths = write_report(view, tmp_path / "report")

    written = (paths.html, paths.markdown, paths.paste, *paths.figures)
    assert all(path.name.startswith("simulated-") and path.is_file() for path in written)
    assert all("SIMULATED" in path.read_text() for path in written)


def test_a_place_that_cannot_be_written_is_a_store_error_with_a_remedy(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")

    with pytest.raises(StoreError, match="--root DIR") as caught:
        write_report(VIEW, tmp_path / "file" / "report")

    assert caught.value.exit_code == 3
