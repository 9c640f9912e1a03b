"""What a start script says, put into a cause and a remedy."""

from __future__ import annotations

import pytest

from harness.engine.pair.messages import explain_start, progress_of
from harness.errors import HostError, LaunchError


@pytest.mark.parametrize(
    ("code", "output", "what", "is_host_fault"),
    [
        (1, "Cannot reach worker with passwordless SSH: 10.0.0.2", "cannot reach the worker", True),
        (
            255,
            "DeepSeek ... is running: http://x\nConnection closed by 10.0.0.2",
            "Connection closed by 10.0.0.2",
            True,
        ),
        (1, "Missing worker Docker image ghcr.io/x/y:1.", "the worker image ghcr.io/x/y:1 is missing", False),
        (1, "Missing local Docker image a@sha256:b.", "the local image a@sha256:b is missing", False),
        (1, "Port 8888 is already listening on the head node.", "port 8888", False),
        (2, "DRAFT_SAMPLE_METHOD must be one of: probabilistic, greedy (got: x)", "got: x", False),
        (1, "Timed out waiting for DSpark API. Recent head logs:\nValueError: no", "did not come up in time", False),
        (22, "curl: (22) error 500", "refused its first chat request", False),
        (127, "my: command not found", "run as a command: my: command not found", False),
        (3, "already exists", "earlier launch", False),
        (143, "", "ended by a signal", False),
        (9, "something new", "exit code 9: something new", False),
        (9, "", "exit code 9", False),
    ],
)
def test_cause(code: int, output: str, what: str, is_host_fault: bool) -> None:
    failure = explain_start(code, output, where="/x")

    assert what in failure.what
    assert failure.is_host_fault is is_host_fault
    assert isinstance(failure.error(), HostError if is_host_fault else LaunchError)


def test_the_last_lines_are_kept() -> None:
    output = "\n".join(f"line {number}" for number in range(100))

    assert explain_start(1, output, where="/x").tail[-1] == "line 99"
    assert len(explain_start(1, output, where="/x").tail) == 25


def test_only_telling_lines_are_progress() -> None:
    text = (
        "Syncing DSpark deployment files to w:/d\nnoise\nStarting DSpark worker on w...\n"
        "  Graph capturing finished in 3 secs\n"
    )

    assert progress_of(text) == [
        "Syncing DSpark deployment files",
        "Starting DSpark worker",
    ]
