"""Drive the real `harness` command from outside: start it, wait for what it has reached, and look at what it left."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
FAKE = ROOT / "tests" / "fakes" / "fake_vllm.py"
HARNESS = Path(sys.executable).with_name("harness")
MARK = "TEST_DESK"  # in the environment of everything that a desk starts, and of what that starts
PATIENCE_S = 240.0  # two busy cores
_POLL_S = 0.02
_NO_RUNS = ("history.parquet", "nights", "rigs", "studies")  # in results/
_KEPT = ("PATH", "HOME", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "MPLCONFIGDIR")


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """A command that has ended."""

    code: int
    out: str
    err: str

    def document(self) -> dict[str, Any]:
        """Stdout as the one JSON document that it must be."""
        tree = json.loads(self.out)
        assert isinstance(tree, dict)
        return tree


@dataclass
class Started:
    """A command that runs. Its output goes to files, so that it never waits for a reader."""

    process: subprocess.Popen[bytes]
    out: Path
    err: Path

    @property
    def said(self) -> str:
        return self.err.read_text(errors="replace")

    def wait_for_text(self, text: str) -> None:
        """Return once stderr holds ``text``."""
        self.wait_until(lambda: text in self.said, f"stderr never said {text!r}")

    def wait_until(self, reached: Callable[[], bool], otherwise: str, *, patience_s: float = PATIENCE_S) -> None:
        """Return once ``reached``; fail if the command ends before."""

        def looked() -> bool:
            ended = self.process.poll() is not None
            if reached():
                return True
            assert not ended, f"{otherwise}; it ended with {self.process.returncode}:\n{self.said}"
            return False

        wait_until(looked, otherwise, patience_s=patience_s)

    def send(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def end(self, *, patience_s: float = PATIENCE_S) -> Done:
        """Return what it said once it has ended by itself."""
        try:
            code = self.process.wait(patience_s)
        except subprocess.TimeoutExpired:
            pytest.fail(f"it runs on after {patience_s:.0f} s, having said:\n{self.said}")
        done = Done(code=code, out=self.out.read_text(errors="replace"), err=self.said)
        assert "Traceback" not in done.err, done.err
        return done


@dataclass
class Desk:
    """A directory with a sweep and a recipe in it, and the environment in which commands run there."""

    folder: Path
    environment: dict[str, str] = field(default_factory=dict)
    started: list[Started] = field(default_factory=list)
    root: Path | None = None  # where results/ lies, if not here
    program: Path = HARNESS

    @property
    def results(self) -> Path:
        return (self.root or self.folder) / "results"

    @property
    def reports(self) -> Path:
        return (self.root or self.folder) / "reports"

    def start(self, *arguments: str, **variables: str) -> Started:
        """Start the command in the desk's folder."""
        number = len(self.started)
        out, err = self.folder / f"{number}.out", self.folder / f"{number}.err"
        with out.open("wb") as stdout, err.open("wb") as stderr:
            process = subprocess.Popen(
                [str(self.program), *arguments],
                cwd=self.folder,
                env=self.environment | variables,
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=stderr,
            )
        self.started.append(Started(process=process, out=out, err=err))
        return self.started[-1]

    def run(self, *arguments: str, **variables: str) -> Done:
        """Run the command to its end."""
        return self.start(*arguments, **variables).end()

    def runs(self) -> list[Path]:
        """The folders of all runs, finished or not."""
        return sorted(path for path in self.results.glob("*") if path.name not in _NO_RUNS)

    def only_run(self) -> Path:
        (run,) = self.runs()
        return run

    def journal(self) -> list[dict[str, Any]]:
        """Every record of the only run; all of its lines must be whole, apart from one that is being written."""
        return records_of(self.only_run()) if self.runs() else []

    def of_kind(self, record: str) -> list[dict[str, Any]]:
        return [each for each in self.journal() if each["record"] == record]

    def engine_log(self) -> str:
        """What all engines of the only run have said."""
        if not self.runs():
            return ""
        return "".join(path.read_text(errors="replace") for path in sorted(self.only_run().glob("logs/*.log")))

    def processes(self) -> list[psutil.Process]:
        """What runs because of this desk, apart from what the test itself has started."""
        own = {started.process.pid for started in self.started}
        return [process for process in marked(self.environment[MARK]) if process.pid not in own]

    def require_no_engine(self, *, patience_s: float = 5.0) -> None:
        wait_until(lambda: not self.processes(), "an engine is left", patience_s=patience_s)

    def all_bytes(self) -> Iterator[tuple[Path, bytes]]:
        """Every file that a run wrote, and everything that was said."""
        for folder in (self.results, self.reports, self.folder / "state", self.folder / "cache"):
            yield from ((path, path.read_bytes()) for path in folder.rglob("*") if path.is_file())
        for started in self.started:
            yield from ((path, path.read_bytes()) for path in (started.out, started.err))

    def clear(self) -> None:
        """Kill everything that a failed test may have left."""
        for process in marked(self.environment[MARK]):
            process.kill()
        for started in self.started:
            started.process.wait(10)

    def write_recipe(
        self, *, ready_timeout_s: float = 30, stop_timeout_s: float = 10, canary_limit_ratio: float = 9
    ) -> None:
        """Write recipes/quick: vllm-local with limits for an engine that boots in a blink on a machine under load."""
        tree = yaml.safe_load((ROOT / "recipes" / "vllm-local" / "recipe.yaml").read_text())
        tree["recipe"] = "quick"
        tree["launch"] |= {"ready_timeout_s": ready_timeout_s, "stop_timeout_s": stop_timeout_s}
        tree["measuring"] |= {
            "prefill_tokens_per_s": 100000,
            "decode_tokens_per_s": 10000,
            "slowest_decode_tokens_per_s": 10000,
            "canary_limit_ratio": canary_limit_ratio,
        }
        path = self.folder / "recipes" / "quick" / "recipe.yaml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(tree))

    def write_sweep(self, name: str = "small", *, knobs: Mapping[str, object] | None = None, **keys: object) -> str:
        """Write a sweep of two configurations with one cell each, and return its file's name. None takes a key out."""
        tree: dict[str, object] = {"sweep": name, "recipe": "quick", "repeat": {"drafts": 1}} | keys
        tree["knobs"] = {key: value for key, value in (SMALL | dict(knobs or {})).items() if value is not None}
        path = self.folder / f"{name}.yaml"
        path.write_text(json.dumps({key: value for key, value in tree.items() if value is not None}, indent=1))
        return path.name


SMALL: dict[str, object] = {
    "command": [[sys.executable, str(FAKE)]],
    "model": "tiny",
    "method": "draft_model",
    "draft_model": "tinydraft",
    "num_speculative_tokens": [0, 2],
    "class": "prose",
    "context_tokens": 128,
    "concurrency": 1,
    "output_tokens": 64,
}
QUICK_STEPS = "step_a_ms=1 step_b_ms=0.2"


def new_desk(folder: Path, **variables: str) -> Desk:
    """Return a desk whose state, caches and site file are its own."""
    environment = {name: value for name, value in os.environ.items() if name in _KEPT}
    environment |= {
        MARK: str(folder),
        "XDG_CONFIG_HOME": str(folder / "config"),
        "HARNESS_STATE_DIR": str(folder / "state"),
        "HARNESS_CACHE_DIR": str(folder / "cache"),
        "HARNESS_DATA_DIR": str(folder / "data"),
        "FAKE_VLLM": QUICK_STEPS,
        "COLUMNS": "200",
    }
    desk = Desk(folder=folder, environment=environment | variables)
    desk.write_recipe()
    return desk


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """A server that somebody else started."""

    process: subprocess.Popen[bytes]
    url: str


@contextmanager
def running_server(*words: str, **variables: str) -> Iterator[Running]:
    """A fake engine that a test has not launched through the harness, until the end of the context."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    process = subprocess.Popen(
        [sys.executable, str(FAKE), "--model", "tiny", "--port", str(port), *words],
        env={"PATH": os.environ["PATH"], **variables},
        stdout=subprocess.DEVNULL,
    )
    url = f"http://127.0.0.1:{port}"
    wait_until(lambda: _answers(url), "the server did not come up")
    yield Running(process=process, url=url)
    process.terminate()
    process.wait(10)


def _answers(url: str) -> bool:
    try:
        return httpx.get(f"{url}/health").status_code == 200
    except httpx.TransportError:
        return False


def wait_until(reached: Callable[[], bool], otherwise: str, *, patience_s: float = PATIENCE_S) -> None:
    """Return once ``reached``; fail after a while."""
    until_s = time.monotonic() + patience_s
    while not reached():
        assert time.monotonic() < until_s, otherwise
        time.sleep(_POLL_S)


def marked(desk: str) -> list[psutil.Process]:
    """Every living process with this desk in its environment."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get(MARK) == desk and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except (psutil.NoSuchProcess, psutil.AccessDenied, ProcessLookupError):
            continue
    return found


def records_of(run: Path) -> list[dict[str, Any]]:
    """The records of a journal that are complete."""
    path = run / "journal.jsonl"
    lines = path.read_bytes().split(b"\n") if path.exists() else [b""]
    return [json.loads(line) for line in lines[:-1]]


def cells_of(shown: Done) -> dict[str, list[str]]:
    """Cell id -> trial ids that are not void, from `show --json`."""
    return {
        cell["cell_id"]: [trial["trial_id"] for trial in cell["trials"] if not trial["void"]]
        for cell in shown.document()["cells"]
    }
