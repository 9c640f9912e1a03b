"""The bundled launch on two hosts with real ssh: two ranks that serve, proved by counters, and nothing of them left."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping

import pytest

from tests.integration.pair.bed import PairBed
from tests.integration.pair.bundled_ranks import PROJECT
from tests.integration.pair.checkouts import add_checkpoint
from tests.integration.pair.tree import DEVICE, HOME, IMAGE, IMAGE_DIGEST, INTERFACE, REPOSITORY
from tests.system.driver import wait_until

pytestmark = pytest.mark.system
PORT = 18888
REVISION = "0123456789abcdef0123456789abcdef01234567"
PAIR = f"""\
image: {IMAGE}@{IMAGE_DIGEST}
checkpoint: deepseek-ai/DeepSeek-V4-Flash-0731@{REVISION}
head: {{address: 10.77.0.1, interfaces: {{socket: {INTERFACE}}}, hca: {DEVICE}}}
worker: {{ssh: spark-worker, address: 10.77.0.2, interfaces: {{socket: {INTERFACE}}}, hca: {DEVICE}}}
"""


@pytest.fixture
def pair(bed: PairBed) -> PairBed:
    """Two hosts that pair.yaml describes, with the checkpoint in both caches."""
    bed.head.write("~/pair.yaml", PAIR)
    for host in bed.hosts:
        add_checkpoint(host, "deepseek-ai/DeepSeek-V4-Flash-0731", REVISION)
    return bed


def ranks(bed: PairBed, verb: str, *words: str) -> subprocess.CompletedProcess[str]:
    return bed.head.run(
        [sys.executable, "-m", "tests.integration.pair.bundled_ranks", verb, f"{HOME}/pair.yaml", *words],
        environment={"PYTHONPATH": str(REPOSITORY)},
        check=False,
    )


def answers(bed: PairBed, *options: str, path: str = "/v1/models") -> bool:
    request = ["curl", "-fsS", "--max-time", "5", *options, f"http://127.0.0.1:{PORT}{path}"]
    return bed.head.run(request, check=False).returncode == 0


def environments(bed: PairBed) -> tuple[Mapping[str, str], Mapping[str, str]]:
    return bed.head.rank(PROJECT).environment, bed.worker.rank(PROJECT).environment


@pytest.mark.parametrize("k", [0, 5, 7])
def test_both_ranks_serve_what_was_asked_for_and_leave_nothing(pair: PairBed, k: int) -> None:
    done = ranks(pair, "up", str(PORT), f"num_speculative_tokens={k}", "max_num_seqs=4")
    assert done.returncode == 0, done.stderr
    wait_until(lambda: answers(pair), "the head does not serve")
    body = '{"model": "deepseek-v4-flash-0731", "prompt": "a b c", "max_tokens": 64}'
    assert answers(pair, "-H", "Content-Type: application/json", "-d", body, path="/v1/completions")
    assert pair.k(PORT) == k

    head, worker = environments(pair)
    assert (head["MTP_NUM_TOKENS"], worker["MTP_NUM_TOKENS"]) == (str(k), str(k))
    assert (head["NCCL_IB_GID_INDEX"], worker["NCCL_IB_GID_INDEX"]) == ("3", "6")
    ups = [[call for call in host.docker_calls() if call[0] == "compose" and "up" in call] for host in pair.hosts]
    assert [len(each) for each in ups] == [1, 1]

    assert ranks(pair, "down").returncode == 0
    assert ranks(pair, "down").returncode == 0
    assert [host.containers() for host in pair.hosts] == [(), ()]
    assert [list(host.path("~/.cache/harness").iterdir()) for host in pair.hosts] == [[], []]


def test_a_value_is_one_variable_on_both_hosts_and_never_a_command(pair: PairBed) -> None:
    owned = 'x"; touch /tmp/owned; $(touch /tmp/owned) `touch /tmp/owned`'
    done = ranks(pair, "up", str(PORT), f"env.VLLM_PLUGINS='{owned}'")
    assert done.returncode == 0, done.stderr
    wait_until(lambda: answers(pair), "the head does not serve")
    assert [environment["VLLM_PLUGINS"] for environment in environments(pair)] == [owned, owned]
    assert ranks(pair, "down").returncode == 0
    assert not any(host.path("/tmp/owned").exists() for host in pair.hosts)


def test_a_key_keeps_others_out_and_is_on_no_command_line(pair: PairBed) -> None:
    assert ranks(pair, "up", str(PORT), "key=one-time-1").returncode == 0
    wait_until(lambda: answers(pair, "-H", "Authorization: Bearer one-time-1"), "the head does not serve")
    assert not answers(pair)
    assert not any("one-time-1" in word for host in pair.hosts for call in host.docker_calls() for word in call)
    assert ranks(pair, "down").returncode == 0


@pytest.mark.parametrize(
    ("fault", "says"),
    [
        ("image_missing", "is not on worker"),
        ("digest_differs", "is not on worker"),
        ("daemon_down", "failed on worker"),
    ],
)
def test_what_differs_is_said_and_nothing_is_started(pair: PairBed, fault: str, says: str) -> None:
    pair.worker.docker_fault(fault)
    done = ranks(pair, "up", str(PORT))
    assert (done.returncode, says in done.stderr) == (3, True), done.stderr
    assert pair.head.containers() == ()


def test_a_worker_that_cannot_be_reached(pair: PairBed) -> None:
    pair.worker.stop_sshd()
    done = ranks(pair, "up", str(PORT))
    assert (done.returncode, "ssh to spark-worker failed" in done.stderr) == (3, True), done.stderr
    assert pair.head.containers() == ()


def test_a_worker_that_fails_to_start_leaves_the_head_alone(pair: PairBed) -> None:
    pair.worker.docker_fault("up_fails")
    done = ranks(pair, "up", str(PORT))
    assert (done.returncode, "could not start the worker rank" in done.stderr) == (3, True), done.stderr
    assert pair.head.containers() == ()
    pair.worker.clear_faults()
    assert ranks(pair, "down").returncode == 0


def test_a_worker_that_is_lost_while_stopping_is_said_and_done_later(pair: PairBed) -> None:
    assert ranks(pair, "up", str(PORT)).returncode == 0
    wait_until(lambda: answers(pair), "the head does not serve")
    pair.worker.stop_sshd()
    done = ranks(pair, "down")
    assert (done.returncode, "ssh to spark-worker failed" in done.stderr) == (3, True), done.stderr
    assert [len(host.containers()) for host in pair.hosts] == [0, 1]
    pair.worker.start_sshd()
    assert ranks(pair, "down").returncode == 0
    assert [host.containers() for host in pair.hosts] == [(), ()]
