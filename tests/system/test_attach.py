"""A server that runs already: measured, never stopped, and its key never written."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.system.driver import QUICK_STEPS, Desk, Running, running_server

pytestmark = pytest.mark.system

KEY = "sesame-open-0123456789"
WRONG_KEY = "sesame-shut-9876543210"


@pytest.fixture
def server(desk: Desk) -> Iterator[Running]:
    """One that drafts three tokens and asks for a key."""
    speculation = '{"method": "draft_model", "model": "draft", "num_speculative_tokens": 3}'
    with running_server("--speculative-config", speculation, VLLM_API_KEY=KEY, FAKE_VLLM=QUICK_STEPS) as running:
        yield running


def write_attached(desk: Desk, url: str) -> str:
    knobs = dict.fromkeys(("command", "model", "method", "draft_model", "num_speculative_tokens")) | {"url": url}
    return desk.write_sweep("attached", recipe="attach", knobs=knobs)


def require_no_key(desk: Desk) -> None:
    for path, content in desk.all_bytes():
        assert KEY.encode() not in content, path
        assert WRONG_KEY.encode() not in content, path


def test_a_running_server_is_measured_and_left_alone(desk: Desk, server: Running) -> None:
    done = desk.run("sweep", write_attached(desk, server.url), HARNESS_API_KEY=KEY)

    assert done.code == 0, done.err
    (launch,) = desk.of_kind("launch")
    assert launch["live"]["num_speculative_tokens"] == 3
    (cell,) = desk.run("show", "--json").document()["cells"]
    assert cell["acceptance_length"] > 1
    assert server.process.poll() is None
    assert desk.run("engine", "down", "--all").code == 0
    assert server.process.poll() is None
    require_no_key(desk)


@pytest.mark.parametrize(
    ("key", "reason"),
    [
        ({}, "the server wants a key"),
        ({"HARNESS_API_KEY": WRONG_KEY}, "the server refuses the key"),
    ],
    ids=["no key", "a wrong key"],
)
def test_a_key_is_asked_for_by_the_name_of_its_variable(
    desk: Desk, server: Running, key: dict[str, str], reason: str
) -> None:
    done = desk.run("sweep", write_attached(desk, server.url), **key)

    assert done.code == 3
    assert reason in done.err
    assert "HARNESS_API_KEY" in done.err
    (launch,) = desk.of_kind("launch")
    assert launch["outcome"] == "failed_to_boot"
    assert desk.journal()[-1]["outcome"] == "finished"
    require_no_key(desk)


def test_no_server_is_said(desk: Desk) -> None:
    done = desk.run("sweep", write_attached(desk, "http://127.0.0.1:9"))

    assert done.code == 3
    assert "no server answers" in done.err
    assert "Start the server" in done.err


def test_launch_knobs_are_refused(desk: Desk, server: Running) -> None:
    sweep = write_attached(desk, server.url)

    done = desk.run("sweep", sweep, "--set", "num_speculative_tokens=4")

    assert done.code == 2
    assert 'attach cannot set "num_speculative_tokens": the server is already running' in done.err
    assert not desk.results.exists()
