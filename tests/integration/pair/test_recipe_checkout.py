"""The public recipe's own scripts on the bed, unmodified: that they find here what they find on a pair."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.pair.bed import PairBed
from tests.integration.pair.checkouts import COMPOSE_FILE, ENV_FILE
from tests.integration.pair.runs import before, cells_of, launch_logs, launches_of, write_site, write_sweep

pytestmark = [pytest.mark.system, pytest.mark.recipe_checkout]


def statuses(bed: PairBed) -> list[list[str]]:
    return [[each.status for each in host.containers()] for host in bed.hosts]


def test_the_scripts_bring_the_pair_up_and_down(bed: PairBed, public_checkout: Path) -> None:
    checkout = bed.install_checkout(public_checkout)
    for script in sorted(public_checkout.glob("*.sh")):
        assert bed.head.path(f"{checkout.head_folder}/{script.name}").read_bytes() == script.read_bytes()
    before = checkout.worker_files()
    assert "spec tokens (MTP_NUM_TOKENS): 5" in checkout.run("validate").stdout
    started = checkout.run("start")
    assert "RoCEv2 GID index: head=3 (match 10.77.0.1) worker=6 (match 10.77.0.2)" in started.stdout
    assert "Minimal chat request succeeded." in started.stdout
    assert bed.k() == 5
    for host, rank, gid in ((bed.head, "0", "3"), (bed.worker, "1", "6")):
        wanted = {"MTP_NUM_TOKENS": "5", "NODE_RANK": rank, "NCCL_IB_GID_INDEX": gid}
        assert wanted.items() <= host.rank().environment.items()
    again = checkout.run("start", check=False)
    assert (again.returncode, "treat exit 3 as already-up" in again.stderr) == (3, True)
    assert "deepseek-v4-flash-0731" in checkout.run("status").stdout
    assert "Smoke test passed: 6/6" in checkout.run("smoke").stdout
    assert "DeepSeek V4 Flash DSpark stopped" in checkout.run("stop").stdout
    assert statuses(bed) == [[], []]
    assert checkout.worker_files()[ENV_FILE] != before[ENV_FILE]  # nobody puts it back
    assert checkout.worker_files()[COMPOSE_FILE] == before[COMPOSE_FILE]


def test_a_trial_has_its_own_env_file_and_leaves_the_heads_alone(bed: PairBed, public_checkout: Path) -> None:
    checkout = bed.install_checkout(public_checkout)
    mine = bed.head.read(checkout.env_file)
    trial = mine.replace("MTP_NUM_TOKENS=5", "MTP_NUM_TOKENS=7") + "DRAFT_SAMPLE_METHOD=greedy\nVLLM_API_KEY='a key'\n"
    bed.head.write("/tmp/trial.env", trial)
    checkout.run("start", environment={"ENV_FILE": "/tmp/trial.env"})
    assert bed.k() == 7
    for host in bed.hosts:
        assert host.rank().environment["DRAFT_SAMPLE_METHOD"] == "greedy"
    assert bed.head.read(checkout.env_file) == mine
    assert checkout.worker_files()[ENV_FILE].decode() == trial
    assert "a key" not in bed.head.run(["docker", "logs", bed.head.rank().name]).stdout
    checkout.run("stop")
    assert statuses(bed) == [[], []]


def test_what_goes_wrong_ends_as_it_does_on_a_pair(bed: PairBed, public_checkout: Path) -> None:
    checkout = bed.install_checkout(public_checkout)
    bed.head.docker_fault("chat_500")
    failed = checkout.run("start", check=False)
    assert (failed.returncode, "Startup failed. Recent head logs:" in failed.stderr) == (22, True)
    assert statuses(bed) == [["running"], ["running"]]
    bed.head.clear_faults()
    bed.worker.docker_fault("daemon_down")
    assert "DeepSeek V4 Flash DSpark stopped" in checkout.run("stop").stdout  # it is not
    assert statuses(bed) == [[], ["running"]]
    bed.worker.clear_faults()
    assert checkout.run("start", check=False).returncode == 1  # a stale worker
    bed.link_down()
    assert checkout.run("stop", check=False).returncode == 1
    bed.link_up()
    checkout.run("stop")
    assert statuses(bed) == [[], []]
    bed.head.docker_fault("head_dies_in_boot")
    failed = checkout.run("start", environment={"WAIT_ATTEMPTS": "2"}, check=False)
    assert (failed.returncode, "Timed out waiting for DSpark API." in failed.stderr) == (1, True)
    assert all(host.rank().restart_count >= 0 for host in bed.hosts)


def test_the_harness_drives_whole_launches_through_it(bed: PairBed, public_checkout: Path) -> None:
    checkout = bed.install_checkout(public_checkout)
    write_site(bed, checkout)
    was = before(bed, checkout)

    done = bed.harness("sweep", write_sweep(bed, num_speculative_tokens=[0, 5, 7]), timeout_s=400)

    assert done.code == 0, done.err
    assert sorted(cell["num_speculative_tokens"] for cell in cells_of(bed)) == [0, 5, 7]
    assert "positions 0 to 4" in done.err
    assert "positions 0 to 6" in done.err
    assert "no counter of drafts" in done.err
    for log in launch_logs(bed):
        assert "6-way smoke test against http://127.0.0.1:18888/v1/chat/completions" in log
        assert "Smoke test passed: 6/6 requests succeeded." in log
    was.require_restored()


def test_a_launch_that_fails_its_smoke_test_is_not_measured(bed: PairBed, public_checkout: Path) -> None:
    checkout = bed.install_checkout(public_checkout)
    write_site(bed, checkout)
    was = before(bed, checkout)
    bed.head.docker_fault("later_chat_500", times=1)

    done = bed.harness("sweep", write_sweep(bed, num_speculative_tokens=[5]), timeout_s=400)

    assert done.code == 3, done.err
    assert "its smoke test ended with exit code 1: " in done.err
    assert "Smoke test failed." in done.err
    assert [launch["outcome"] for launch in launches_of(bed)] == ["failed_to_boot"]
    was.require_restored()


def test_the_harness_borrows_a_server_that_it_started_and_gives_it_back(bed: PairBed, public_checkout: Path) -> None:
    checkout = bed.install_checkout(public_checkout)
    write_site(bed, checkout)
    checkout.run("start")
    environments = [host.rank().environment for host in bed.hosts]
    was = before(bed, checkout)

    done = bed.harness("sweep", write_sweep(bed), "--borrow", "--idle-for", "1s", timeout_s=400)

    assert done.code == 0, done.err
    assert "the operator's server runs again" in done.err
    for host, environment in zip(bed.hosts, environments, strict=True):
        assert {**host.rank().environment, "HOSTNAME": ""} == {**environment, "HOSTNAME": ""}
    assert bed.k() == 5
    was.require_restored()
