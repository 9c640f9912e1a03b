"""A report on disk: written beside its place, then moved there in one step."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from harness.errors import StoreError
from harness.records.manifest import SIMULATED_MARK
from harness.report.figures import figure_svg
from harness.report.html import render_html
from harness.report.markdown import figure_file, render_markdown, render_paste
from harness.report.models import ReportView

FIGURES = "figures"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportPaths:
    """What was written. Names of a simulated run's files say so."""

    directory: Path
    html: Path
    markdown: Path
    paste: Path
    figures: tuple[Path, ...]
    best_env: Path | None


def write_report(view: ReportView, directory: Path) -> ReportPaths:
    """Write the report into ``directory``, in place of an earlier one. Files of others in it are kept.

    Args:
        view: what it says.
        directory: of this report alone; ``store.layout.report_directory`` names it.

    Raises:
        StoreError: it cannot be written; an earlier report is then untouched.
    """
    part = directory.with_name(f".{directory.name}.{os.getpid()}.part")
    try:
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir(parents=True)  # before the work of drawing, which would be in vain
        files = _files(view)
        for name, text in files.items():
            path = part / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        _move_into_place(part, directory)
    except BaseException as error:
        shutil.rmtree(part, ignore_errors=True)
        if not isinstance(error, OSError):
            raise
        raise StoreError(
            f"the report cannot be written: {error.strerror or error}",
            where=str(directory),
            hint="The measurements are safe. Make room, or choose another place with --root DIR; then: harness report.",
        ) from error
    return _paths(view, directory, files)


def _files(view: ReportView) -> dict[str, str]:
    drawn = {figure.name: figure_svg(figure) for figure in view.drawn}
    files = {
        _name(view, "report.html"): render_html(view, drawn),
        _name(view, "report.md"): render_markdown(view),
        _name(view, "paste.md"): render_paste(view),
    }
    files |= {figure_file(figure): drawn[figure.name] for figure in view.drawn}
    if view.best is not None and view.best.env is not None:
        files[_name(view, "best.env")] = view.best.env
    return files


def _name(view: ReportView, name: str) -> str:
    return f"{SIMULATED_MARK.lower()}-{name}" if view.simulated else name


def _move_into_place(part: Path, directory: Path) -> None:
    """Swap the new report in. What others put into the old one (an export, notes) moves along."""
    if not directory.exists():
        part.rename(directory)
        return
    for old in directory.iterdir():
        if not _is_ours(old) and not (part / old.name).exists():
            if old.is_dir():
                shutil.copytree(old, part / old.name, symlinks=True)
            else:
                shutil.copy2(old, part / old.name, follow_symlinks=False)
    before = directory.with_name(f".{directory.name}.{os.getpid()}.old")
    directory.rename(before)
    part.rename(directory)
    shutil.rmtree(before, ignore_errors=True)


def _is_ours(path: Path) -> bool:
    plain = path.name.removeprefix(f"{SIMULATED_MARK.lower()}-")
    return plain in ("report.html", "report.md", "paste.md", "best.env", FIGURES)


def _paths(view: ReportView, directory: Path, files: dict[str, str]) -> ReportPaths:
    best = _name(view, "best.env")
    return ReportPaths(
        directory=directory,
        html=directory / _name(view, "report.html"),
        markdown=directory / _name(view, "report.md"),
        paste=directory / _name(view, "paste.md"),
        figures=tuple(directory / name for name in files if name.startswith(f"{FIGURES}/")),
        best_env=directory / best if best in files else None,
    )
