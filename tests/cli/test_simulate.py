"""`harness simulate`: a simulated engine for any client, until it is told to stop."""

from __future__ import annotations

import signal

import httpx
import pytest

from harness.cli.main import main
from tests.system.driver import Desk

ASKED = {"model": "tiny", "prompt": "x" * 64, "max_tokens": 8, "ignore_eos": True}


def address_of(said: str) -> str:
    return next(word for word in said.split() if word.startswith("http://127.0.0.1:"))


def test_the_command_serves_until_it_is_interrupted(desk: Desk) -> None:
    options = ("--recipe", "vllm-cpu-tiny", "--set", "num_speculative_tokens=3", "--scenario", "quiet")
    started = desk.start("simulate", "--port", "0", "--model", "tiny", *options)
    started.wait_for_text("Ctrl-C")
    said = started.said
    base_url = address_of(said)
    assert said.splitlines()[0].startswith("SIMULATED engine: ")
    assert "k = 3" in said
    reply = httpx.post(f"{base_url}/v1/completions", json=ASKED, timeout=10)
    assert reply.json()["usage"]["completion_tokens"] == 8
    card = httpx.get(f"{base_url}/v1/models", timeout=10).json()["data"][0]
    assert (card["id"], card["owned_by"]) == ("tiny", "SIMULATED")
    started.wait_for_text('"POST /v1/completions HTTP/1.1" 200 OK')
    started.process.send_signal(signal.SIGINT)
    assert started.process.wait(10) == 0


def test_the_command_asks_for_the_key_of_a_variable_and_never_shows_it(desk: Desk) -> None:
    desk.environment["THE_KEY"] = "do-not-print-me"
    started = desk.start("simulate", "--port", "0", "--api-key-variable", "THE_KEY")
    started.wait_for_text("Ctrl-C")
    url = f"{address_of(started.said)}/v1/models"
    assert httpx.get(url, timeout=10).status_code == 401
    assert httpx.get(url, headers={"authorization": "Bearer do-not-print-me"}, timeout=10).status_code == 200
    started.process.send_signal(signal.SIGTERM)
    assert started.process.wait(10) == 0
    assert "do-not-print-me" not in started.said


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--recipe", "nope"), 'unknown recipe "nope"'),
        (("--scenario", "nope"), 'unknown scenario "nope"'),
        (("--set", "k"), "expected KNOB=VALUE"),
        (("--set", "num_speculative_token=5"), "num_speculative_tokens"),
        (("--set", "num_speculative_tokens=many"), "many"),
        (("--recipe", "attach"), "does not say how to simulate"),
        (("--recipe", "vllm-cpu-tiny", "--set", "dtype=float32"), "dtype cannot be simulated"),
        (("--api-key-variable", "NOT_SET_ANYWHERE"), "NOT_SET_ANYWHERE is not set"),
    ],
)
def test_what_is_wrong_is_said_before_anything_listens(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], says: str
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["simulate", "--port", "0", *arguments])
    out, err = capsys.readouterr()
    assert (ended.value.code, out) == (2, "")
    assert says in err
