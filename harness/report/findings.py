"""What the doctor found, on the terminal: a line each, the remedy below what is not well, a count at the end."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from harness.records.finding import Finding
from harness.report.labels import counted
from harness.report.text import one_line

_MARKS = {"ok": ("ok  ", "green"), "warn": ("warn", "yellow"), "fail": ("FAIL", "bold red")}


def print_findings(findings: Sequence[Finding], console: Console) -> None:
    """Print them in their order."""
    width = max((len(_place(finding)) for finding in findings), default=0)
    for finding in findings:
        mark, style = _MARKS[finding.level]
        line = Text(f"{mark}  ", style=style)
        line.append(_place(finding).ljust(width), style="dim")
        line.append(f"  {one_line(finding.what)}", style="" if finding.level == "ok" else "bold")
        if finding.evidence:
            line.append(f"  ({one_line(finding.evidence)})", style="dim")
        console.print(line, soft_wrap=True)
        if finding.remedy and finding.level != "ok":
            for remedy in finding.remedy.splitlines():
                console.print(Text(f"      {' ' * width}{one_line(remedy.strip())}"), soft_wrap=True)
    console.print(Text(_summary(findings), style="bold"))


def _place(finding: Finding) -> str:
    return f"{finding.check} {finding.node}" if finding.node else finding.check


def _summary(findings: Sequence[Finding]) -> str:
    failed = sum(finding.level == "fail" for finding in findings)
    warned = sum(finding.level == "warn" for finding in findings)
    if failed:
        return f"{counted(failed, 'finding')} would make a launch fail, {counted(warned, 'warning')}"
    return f"a launch should come up; {counted(warned, 'warning')}"
