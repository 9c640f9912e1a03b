"""What the tests of launching share: a spec of the fake engine, and a setting to launch it in."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from harness.engine.clock import SystemClock
from harness.engine.launch import LaunchSetting
from harness.engine.orphans import LAUNCH_ID_VARIABLE
from harness.engine.registry import Registry
from harness.engine.shell import LocalShell
from harness.recipe.spec import PORT, BootPatterns, LaunchSpec
from harness.records.cell import Configuration
from harness.records.events import Event

FAKE = Path(__file__).parents[2] / "fakes" / "fake_vllm.py"
BOOT = BootPatterns(
    progress=("Loading weights took .*", r"KV cache size: (?P<text>[\d,]+ tokens)"),
    fatal=("EngineCore failed to start",),
    jit=("(Triton|CuTeDSL|TileLang) .+ during inference: ",),
)


def fake_spec(*, k: int = 0, fake: str = "", argv: tuple[str, ...] = (), **changes: object) -> LaunchSpec:
    """Return the launch of the fake engine with ``k`` drafted tokens and switches."""
    speculation = {"method": "draft_model", "model": "draft", "num_speculative_tokens": k}
    values: dict[str, object] = {
        "recipe": "fake",
        "configuration": Configuration(recipe="fake", knobs={"num_speculative_tokens": k}),
        "style": "local_process",
        "argv": (
            *(sys.executable, str(FAKE), "--model", "tiny", "--port", PORT),
            *(("--speculative-config", json.dumps(speculation)) if k else ()),
            *argv,
        ),
        "environment": {"FAKE_VLLM": fake},
        "working_directory": None,
        "base_url": None,
        "served_model": None,
        "api_key_variable": None,
        "preparation": (),
        "boot": BOOT,
        "ready_timeout_s": 20.0,
        "stop_timeout_s": 2.0,
        "expected_launch_s": 1.0,
        "num_speculative_tokens": k,
    }
    return LaunchSpec(**(values | changes))  # type: ignore[arg-type]


@dataclass
class Bench:
    """A folder with a registry and a log."""

    folder: Path
    registry: Registry
    events: list[Event] = field(default_factory=list)

    @property
    def log_path(self) -> Path:
        return self.folder / "engine.log"

    def setting(self, *, launch_id: str = "launch-1", port: int | None = None) -> LaunchSetting:
        return LaunchSetting(
            run_id="run-1",
            launch_id=launch_id,
            log_path=self.log_path,
            shell=LocalShell(),
            clock=SystemClock(),
            on_event=self.events.append,
            registry=self.registry,
            port=port,
        )


def carrying(launch_id: str) -> list[psutil.Process]:
    """Every living process with the launch id in its environment, found without the code under test."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get(LAUNCH_ID_VARIABLE) == launch_id and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except (psutil.NoSuchProcess, psutil.AccessDenied, ProcessLookupError):
            continue
    return found
