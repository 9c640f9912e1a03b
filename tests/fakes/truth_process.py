"""The truth server in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_REPOSITORY = Path(__file__).resolve().parents[2]


@dataclass(frozen=True, slots=True)
class TruthProcess:
    """A running truth server."""

    url: str
    process: subprocess.Popen[str]
    log_file: Path

    def stop(self) -> list[dict[str, Any]]:
        """End it, and return its log."""
        self.process.terminate()
        self.process.wait()
        return [json.loads(line) for line in self.log_file.read_text(encoding="utf-8").splitlines()]


@contextmanager
def truth_process(*arguments: str) -> Iterator[TruthProcess]:
    """Run a truth server with its command line ``arguments``."""
    with tempfile.TemporaryDirectory() as folder:
        log_file = Path(folder) / "log.jsonl"
        command = [sys.executable, "-m", "tests.fakes.truth_server", "--log", str(log_file), *arguments]
        with subprocess.Popen(command, cwd=_REPOSITORY, stdout=subprocess.PIPE, text=True) as process:
            try:
                assert process.stdout is not None
                port = process.stdout.readline().split()[-1]
                yield TruthProcess(f"http://127.0.0.1:{port}", process, log_file)
            finally:
                process.terminate()
