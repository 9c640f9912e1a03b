"""Two `harness tune` share a study on a real PostgreSQL: nothing is measured twice, and what a dead one left is done.

Needs root and Debian's package postgresql: the server refuses to run as root, so that it runs as its own user.
"""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import optuna
import pytest
from optuna.trial import FrozenTrial, TrialState

from tests.system.driver import Desk, new_desk, records_of, wait_until

pytestmark = pytest.mark.system
PACE = "step_a_ms=8 step_b_ms=0.1"
SLOW = "step_a_ms=30 step_b_ms=0.1"
DEPTHS = [0, 1, 2, 3]
PASSWORD = "c0rrect-h0rse"
_BINARIES = Path("/usr/lib/postgresql")
_USER = "postgres"


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """A cluster of its own."""

    port: int

    def url(self, *, password: str = f":{PASSWORD}") -> str:
        return f"postgresql://{_USER}{password}@127.0.0.1:{self.port}/postgres"

    def trials(self) -> list[FrozenTrial]:
        storage = optuna.storages.RDBStorage(self.url().replace("postgresql://", "postgresql+pg8000://"))
        try:
            (name,) = optuna.get_all_study_names(storage)
            return optuna.load_study(study_name=name, storage=storage).trials
        finally:
            storage.engine.dispose()


@pytest.fixture
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    found = sorted(_BINARIES.glob("*/bin/initdb"))
    assert found, "install postgresql, as .ci/run does"
    binaries = found[-1].parent
    folder = Path("/tmp") / f"harness-postgres-{os.getpid()}"  # its user cannot look into pytest's folders
    folder.mkdir(mode=0o700)
    user = pwd.getpwnam(_USER)
    os.chown(folder, user.pw_uid, user.pw_gid)
    secret = folder / "password"
    secret.write_text(PASSWORD)
    os.chown(secret, user.pw_uid, user.pw_gid)
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]

    def call(program: str, *arguments: str) -> None:
        command = ["runuser", "-u", _USER, "--", str(binaries / program), *arguments]
        subprocess.run(command, check=True, capture_output=True, cwd="/", timeout=120)

    data = folder / "data"
    call("initdb", "-D", str(data), "-A", "scram-sha-256", "--pwfile", str(secret), "-E", "UTF8", "--no-sync")
    options = f"-p {port} -c listen_addresses=127.0.0.1 -c unix_socket_directories={folder} -c fsync=off"
    call("pg_ctl", "-D", str(data), "-w", "-l", str(folder / "log"), "-o", options, "start")
    try:
        yield Server(port=port)
    finally:
        call("pg_ctl", "-D", str(data), "-m", "immediate", "stop")
        shutil.rmtree(folder)


@pytest.fixture
def desks(tmp_path: Path, font_cache: Path) -> Iterator[tuple[Desk, Desk]]:
    """Two hosts, which are one here: each has engines, results and caches of its own."""
    made = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        made.append(new_desk(tmp_path / name, MPLCONFIGDIR=str(font_cache)))
        write(made[-1])
    yield made[0], made[1]
    for desk in made:
        desk.clear()


def write(desk: Desk) -> None:
    knobs = {"num_speculative_tokens": DEPTHS, "output_tokens": 48}
    confirm = {"confirm": {"best": 1, "launches": 1}, "sampler": "grid", "max_launches": 9}
    desk.write_sweep(knobs=knobs, incumbent={"num_speculative_tokens": 2}, tune=confirm, repeat={"drafts": 40})


def searched(desk: Desk) -> list[int]:
    """k of the launches that a desk's searches carried out."""
    runs = [records_of(run) for run in desk.runs()]
    return [
        record["configuration"]["knobs"]["num_speculative_tokens"]
        for run in runs
        for record in run
        if record["record"] == "launch" and record["round"] == 1 and record["outcome"] == "measured"
    ]


def told(server: Server) -> list[int]:
    return sorted(one.params["num_speculative_tokens"] for one in server.trials() if one.state == TrialState.COMPLETE)


def test_two_share_a_study_and_measure_nothing_twice(server: Server, desks: tuple[Desk, Desk]) -> None:
    started = [desk.start("tune", "small.yaml", "--storage", server.url(), FAKE_VLLM=PACE) for desk in desks]
    done = [one.end() for one in started]
    assert all(one.code in (0, 4) for one in done), [one.err for one in done]
    both = [searched(desk) for desk in desks]
    assert sorted(both[0] + both[1]) == DEPTHS
    assert all(both), "both did something"
    assert told(server) == DEPTHS
    for desk in desks:
        for path, content in desk.all_bytes():
            assert PASSWORD.encode() not in content, path


def test_what_a_killed_one_left_is_measured_by_the_other(server: Server, desks: tuple[Desk, Desk]) -> None:
    one, two = desks
    # Without the password in the command: it comes from the environment, as psql takes it.
    variables = {"FAKE_VLLM": SLOW, "PGPASSWORD": PASSWORD, "HARNESS_LEASE_S": "20"}
    killed = one.start("tune", "small.yaml", "--storage", server.url(password=""), **variables)
    killed.wait_until(lambda: "trial 2/" in killed.said, "its second launch never came to its cell")
    killed.send(signal.SIGKILL)
    killed.process.wait(30)
    left = [trial for trial in server.trials() if trial.state == TrialState.RUNNING]
    assert len(left) == 1

    def expired() -> bool:
        return float(left[0].user_attrs["lease"]) < wall_s()

    wait_until(expired, "the lease never ran out", patience_s=60)
    done = two.run("tune", "small.yaml", "--storage", server.url(), FAKE_VLLM=PACE)
    assert done.code in (0, 4), done.err
    assert "it was begun before, and not finished" in done.err
    assert left[0].params["num_speculative_tokens"] in searched(two)
    assert sorted(searched(one) + searched(two)) == DEPTHS
    assert told(server) == DEPTHS


def test_a_wrong_password_is_named_and_not_shown(server: Server, desks: tuple[Desk, Desk]) -> None:
    done = desks[0].run("tune", "small.yaml", "--storage", server.url(password=":wr0ng"))
    assert done.code == 3
    assert "password authentication failed" in done.err
    assert "wr0ng" not in done.err
    assert not desks[0].runs()


def wall_s() -> float:
    from harness.cli.studies import now_s

    return now_s()
