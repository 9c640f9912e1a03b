"""Run a command of the real command line in this process, and take what it says."""

from __future__ import annotations

import sys
from dataclasses import dataclass

import pytest

from harness.cli.main import main


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """How a command ended."""

    code: int
    out: str
    err: str


def run_command(capsys: pytest.CaptureFixture[str], *words: object) -> Said:
    """Run ``harness WORDS`` to its end."""
    arguments = [str(word) for word in words]
    capsys.readouterr()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["harness", *arguments])
        with pytest.raises(SystemExit) as ended:
            main(arguments)
    shown = capsys.readouterr()
    assert isinstance(ended.value.code, int)
    return Said(code=ended.value.code, out=shown.out, err=shown.err)
