"""A host of a pair, on this machine and behind a stand-in for ssh that runs what it is given with a login shell."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from harness.engine.clock import SystemClock
from harness.engine.pair.jobs import start_job
from harness.engine.pair.node import Node, NodeError
from harness.engine.pair.snapshot import contents_of, put_back, take_snapshot
from harness.engine.shell import LocalShell
from harness.engine.ssh import HostUnreachableError, SshShell
from harness.errors import InputError

pytestmark = pytest.mark.anyio
# Like sshd: what stands behind the target becomes one line for the user's shell.
SSH = """#!/bin/sh
while [ "$1" = -o ]; do shift 2; done
[ "$1" = gone ] && { echo "ssh: connect to host gone port 22: No route to host" >&2; exit 255; }
echo "a banner on stderr" >&2
echo "another one, of somebody's .bashrc"
shift
exec sh -c "$*"
"""


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(params=["local", "ssh"])
def node(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Node:
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "ssh").write_text(SSH)
    (programs / "ssh").chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    if request.param == "local":
        return Node(role="head", name="this machine", shell=LocalShell(), is_local=True)
    return Node(role="worker", name="there", shell=SshShell(target="there"), is_local=False)


ODD = "$HOME `id` 'q' \"Q\" *\n; touch owned"


async def test_words_arrive_as_they_are(node: Node) -> None:
    assert await node.run("printf", "%s|", ODD, "", "ü") == f"{ODD}||ü|"


async def test_environment_and_exit_code(node: Node) -> None:
    done = await node.attempt("sh", "-c", 'printf %s "$ODD"; echo why >&2; exit 7', environment={"ODD": ODD})

    assert (done.returncode, done.stdout) == (7, ODD)
    assert "why\n" in done.stderr
    assert "harness-command-ended" not in done.output


async def test_a_failed_command_says_what_and_why(node: Node) -> None:
    with pytest.raises(NodeError, match=rf"failed on {node.role} with exit code 3: no such thing"):
        await node.run("sh", "-c", "echo no such thing >&2; exit 3")


async def test_a_program_that_returns_255_is_not_a_broken_connection(node: Node) -> None:
    assert (await node.attempt("sh", "-c", "exit 255")).returncode == 255


async def test_files_keep_bytes_and_mode(node: Node, tmp_path: Path) -> None:
    path, content = str(tmp_path / "a file"), bytes(range(256)) * 1000
    await node.write_file(path, content, mode=0o600)

    assert await node.read_file(path) == content
    assert await node.file_mode(path) == 0o600
    assert await node.sha256(path) == hashlib.sha256(content).hexdigest()
    await node.remove_file(path)
    assert await node.read_file(path) is None
    assert await node.file_mode(path) is None
    assert list(tmp_path.iterdir()) == [tmp_path / "programs"]


async def test_a_file_that_cannot_be_written_leaves_the_old_one(node: Node, tmp_path: Path) -> None:
    with pytest.raises(NodeError):
        await node.write_file(str(tmp_path / "nowhere" / "file"), b"x", mode=0o644)


async def test_a_host_that_does_not_answer_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "ssh").write_text(SSH)
    (tmp_path / "ssh").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    gone = Node(role="worker", name="gone", shell=SshShell(target="gone"), is_local=False)

    with pytest.raises(HostUnreachableError, match="No route to host"):
        await gone.run("true")


@pytest.mark.parametrize("target", ["-oProxyCommand=touch owned", "", "a b", "host;id", "$(id)"])
def test_a_target_that_ssh_would_take_for_something_else_is_refused(target: str) -> None:
    with pytest.raises(InputError):
        SshShell(target=target)


async def test_a_late_command_is_given_up(node: Node) -> None:
    with pytest.raises(HostUnreachableError, match="did not answer"):
        await node.run("sleep", "30", timeout_s=0.3)


async def test_a_job_outlives_the_call_and_tells_its_end(node: Node, tmp_path: Path) -> None:
    folder, flag = str(tmp_path / "job"), tmp_path / "flag"
    script = f"echo one; echo two >&2; while [ ! -e {flag} ]; do sleep 0.05; done; echo three; exit 5"
    job = await start_job(
        node, ("sh", "-c", script), environment={}, working_directory=str(tmp_path), folder=folder, launch_id="launch-1"
    )
    seen = ""
    while seen.count("\n") < 2:
        state = await job.look()
        assert state.returncode is None and not state.vanished
        seen += state.new_output
    flag.touch()
    while (state := await job.look()).returncode is None:
        assert not state.vanished
        seen += state.new_output
        await SystemClock().sleep(0.02)
    seen += state.new_output

    assert (state.returncode, sorted(seen.split())) == (5, ["one", "three", "two"])
    await job.forget()
    assert not Path(folder).exists()


async def test_a_job_and_its_children_can_be_ended(node: Node, tmp_path: Path) -> None:
    folder = str(tmp_path / "job")
    job = await start_job(
        node,
        ("sh", "-c", "sleep 100 & sleep 100"),
        environment={},
        working_directory=str(tmp_path),
        folder=folder,
        launch_id="launch-2",
    )
    await job.signal("KILL")
    for _ in range(200):
        if (state := await job.look()).vanished or state.returncode is not None:
            break
        await SystemClock().sleep(0.02)

    assert state.vanished or state.returncode is not None
    await job.signal("KILL")  # once more does no harm


async def test_another_process_with_the_jobs_number_is_left_alone(node: Node, tmp_path: Path) -> None:
    folder = tmp_path / "job"
    job = await start_job(
        node, ("true",), environment={}, working_directory=str(tmp_path), folder=str(folder), launch_id="launch-3"
    )
    while (await job.look()).returncode is None:
        await SystemClock().sleep(0.02)
    (folder / "pid").write_text(str(os.getpid()))

    await job.signal("TERM")  # would end this test


async def test_a_snapshot_is_put_back_byte_for_byte(node: Node, tmp_path: Path) -> None:
    home = tmp_path / "its folder"
    (home / "patches").mkdir(parents=True)
    (home / ".env").write_bytes(b"A=1\r\n")
    (home / ".env").chmod(0o600)
    (home / "patches" / "one.sh").write_text("one")
    names = (".env", "patches", "not-there.yml")
    archive = await take_snapshot(node, str(home), names)

    (home / ".env").write_bytes(b"A=2\n")
    (home / "patches" / "one.sh").unlink()
    (home / "patches" / "two.sh").write_text("new")
    (home / "not-there.yml").write_text("new")
    changed = await put_back(node, str(home), names, archive)

    assert [Path(path).name for path in changed] == [".env", "not-there.yml", "one.sh", "two.sh"]
    assert (home / ".env").read_bytes() == b"A=1\r\n"
    assert (home / ".env").stat().st_mode & 0o777 == 0o600
    assert sorted(path.name for path in home.rglob("*") if path.is_file()) == [".env", "one.sh"]
    assert await put_back(node, str(home), names, archive) == ()


async def test_a_folder_that_is_not_there_is_an_empty_snapshot(node: Node, tmp_path: Path) -> None:
    assert contents_of(await take_snapshot(node, str(tmp_path / "nothing"), ("a",))).files == {}
