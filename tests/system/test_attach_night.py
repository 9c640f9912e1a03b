"""A night on a server that others use: it waits for them, makes room for them, and gives up where it never has it."""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field

import httpx
import pytest
import yaml

from tests.system.driver import ROOT, Desk, running_server, wait_until

pytestmark = pytest.mark.system

STEP_MS = 5
LONG_TOKENS = 2000  # of a request of somebody else: seconds, at 5 ms a step


@dataclass
class Server:
    """The operator's server, and the requests that its users send."""

    process: subprocess.Popen[bytes]
    url: str
    users: list[threading.Thread] = field(default_factory=list)

    def somebody_asks(self, tokens: int = LONG_TOKENS) -> threading.Thread:
        """A user sends a request, and waits for the answer."""
        body = {
            "model": "tiny",
            "messages": [{"role": "user", "content": "Write a long letter."}],
            "max_tokens": tokens,
            "min_tokens": tokens,
        }

        def ask() -> None:
            answer = httpx.post(f"{self.url}/v1/chat/completions", json=body, timeout=120)
            assert answer.status_code == 200

        user = threading.Thread(target=ask)
        user.start()
        self.users.append(user)
        return user

    def in_flight(self) -> int:
        page = httpx.get(f"{self.url}/metrics").text
        names = ("vllm:num_requests_running", "vllm:num_requests_waiting")
        return sum(
            round(float(line.rsplit(" ", 1)[1])) for line in page.splitlines() if line.startswith(names) and "{" in line
        )


@pytest.fixture
def server(desk: Desk) -> Iterator[Server]:
    with running_server(FAKE_VLLM=f"step_a_ms={STEP_MS} step_b_ms=0.1") as running:
        served = Server(process=running.process, url=running.url)
        yield served
        for user in served.users:
            user.join(60)


def write_patient_recipe(desk: Desk) -> None:
    """The recipe attach, but for a canary that may move: a second launch here would be this machine's doing."""
    tree = yaml.safe_load((ROOT / "recipes" / "attach" / "recipe.yaml").read_text())
    tree["measuring"] = tree.get("measuring", {}) | {"canary_limit_ratio": 9}
    path = desk.folder / "recipes" / "attach" / "recipe.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(tree))


def write_night(desk: Desk, url: str, *, time: str = "10m") -> str:
    write_patient_recipe(desk)
    knobs = dict.fromkeys(("command", "model", "method", "draft_model", "num_speculative_tokens"))
    return desk.write_sweep(
        "guest",
        recipe="attach",
        knobs=knobs | {"url": url, "cache": "warm", "output_tokens": 400, "context_tokens": 256},
        nightly={"engine": "attach", "idle_for": "1s", "yield": True},
        budget={"time": time},
    )


def notes(desk: Desk) -> list[str]:
    return [record["text"] for record in desk.of_kind("note")]


def test_it_waits_for_the_users_and_makes_room_for_the_next_one(desk: Desk, server: Server) -> None:
    server.somebody_asks()
    wait_until(lambda: server.in_flight() == 1, "the first user's request never began")
    night = desk.start("nightly", write_night(desk, server.url))
    night.wait_for_text("waiting until nobody has used the server")
    assert not [record for record in desk.journal() if record["record"] == "trial"]

    night.wait_for_text("trial 1/")
    wait_until(lambda: server.in_flight() == 1, "the cell never began")
    server.somebody_asks()
    night.wait_for_text("somebody uses the server")
    done = night.end()

    assert done.code == 0, done.err
    assert any("begun again once the server is idle" in note for note in notes(desk))
    (trial,) = desk.of_kind("trial")
    assert all(request["outcome"] in ("complete", "length") for request in trial["requests"])
    (cell,) = desk.run("show", "--json").document()["cells"]
    assert "foreign_traffic" not in [doubt["kind"] for doubt in cell["doubts"]]
    assert cell["decode_tokens_per_s"] > 0
    assert server.process.poll() is None


def test_a_server_that_is_never_idle_is_left_alone_and_the_night_could_not_run(desk: Desk, server: Server) -> None:
    user = server.somebody_asks(tokens=7800)
    wait_until(lambda: server.in_flight() == 1, "the user's request never began")
    done = desk.run("nightly", write_night(desk, server.url, time="25s"))

    assert user.is_alive(), "the server was busy all the time"
    assert done.code == 3
    assert "was not idle for 1.00 s" in done.err
    assert "could not run" in done.out
    assert not desk.of_kind("trial")
