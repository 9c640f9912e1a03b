"""A borrowed server is given back however it ran and whatever interrupts it; what is not to be taken is left alone."""

from __future__ import annotations

import json
import signal

import pytest

from tests.integration.pair.bed import DESK, PairBed
from tests.integration.pair.checkouts import Checkout
from tests.integration.pair.runs import Before, before, sweep_text, write_inventory, write_site, write_sweep
from tests.integration.pair.tree import HOME, REPOSITORY
from tests.system.driver import Started

pytestmark = pytest.mark.system
BORROW = ("--borrow", "--idle-for", "1s")
SMOKE = "smoke-deepseek-v4-flash-dspark.sh"
GIVING_BACK = "starting the operator's server again"


def start_sweep(bed: PairBed, checkout: Checkout) -> Started:
    write_site(bed, checkout)
    return bed.start_harness("sweep", write_sweep(bed, num_speculative_tokens=[5]), *BORROW)


def with_only_the_worker_up(bed: PairBed, checkout: Checkout) -> Before:
    """The server that is started again stops between its two ranks."""
    checkout.run("start")
    was = before(bed, checkout)
    run = start_sweep(bed, checkout)
    run.wait_for_text(GIVING_BACK)
    bed.head.docker_fault("up_fails")
    assert run.end().code == 3
    bed.head.clear_faults()
    assert [len(host.containers()) for host in bed.hosts] == [0, 1]
    return was


def test_half_a_server_is_completed(bed: PairBed, checkout: Checkout) -> None:
    """The start script of a checkout refuses to go on from there; it has to be stopped first."""
    was = with_only_the_worker_up(bed, checkout)

    restored = bed.harness("engine", "restore")

    assert restored.code == 0, restored.err
    assert bed.k() == 5
    was.require_restored()


def test_a_server_that_still_boots_is_waited_for(bed: PairBed, checkout: Checkout) -> None:
    checkout.run("start")
    was = before(bed, checkout)
    run = start_sweep(bed, checkout)
    run.wait_for_text("trial 1/")
    bed.set_engine(boot_s=10)
    run.wait_for_text(GIVING_BACK)
    bed.head.wait_until(lambda: bool(bed.head.containers()), "the head's rank never came")
    run.process.kill()
    run.process.wait()
    bed.head.run(["pkill", "-f", "start-deepseek"], check=False)

    restored = bed.harness("engine", "restore")

    assert restored.code == 0, restored.err
    assert bed.k() == 5
    was.require_restored()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_restore_that_is_stopped_says_how_to_go_on(bed: PairBed, checkout: Checkout, number: signal.Signals) -> None:
    was = with_only_the_worker_up(bed, checkout)
    run = bed.start_harness("engine", "restore")
    run.wait_for_text(GIVING_BACK)

    run.send(number)
    done = run.end()

    assert done.code == 130
    assert "harness engine restore" in done.err
    assert bed.harness("engine", "restore").code == 0
    was.require_restored()


def test_a_server_whose_project_only_the_operators_shell_knew_is_borrowed(bed: PairBed, checkout: Checkout) -> None:
    """A trial beside it would share its memory."""
    checkout.run("start", environment={"PROJECT_NAME": "mine"})
    was = before(bed, checkout)
    run = start_sweep(bed, checkout)
    run.wait_for_text("trial 1/")
    assert [each.project for each in bed.head.containers() if each.is_up] != ["mine"]
    assert len([each for each in bed.head.containers() if each.is_up]) == 1

    assert run.end().code == 0
    assert [host.rank("mine").status for host in bed.hosts] == ["running", "running"]
    was.require_restored()


def test_a_server_with_a_key_on_another_address_is_borrowed_and_nothing_keeps_the_key(bed: PairBed) -> None:
    key = "sk-never-to-be-seen-42"
    checkout = bed.install_standin_checkout(changes={"VLLM_API_KEY": key, "VLLM_HOST": bed.head.address})
    checkout.run("start")
    was = before(bed, checkout)

    done = start_sweep(bed, checkout).end()

    assert done.code == 0, done.err
    assert key not in done.err + done.out
    was.require_restored()
    for host, own in zip(bed.hosts, (checkout.head_folder, checkout.worker_folder), strict=True):
        found = host.run(["grep", "-rlF", key, HOME, "/tmp", "/var/tmp"], check=False).stdout.split()
        lent = (own, str(REPOSITORY))  # this file holds the key too, and may lie below /tmp
        assert [path for path in found if not path.startswith(lent)] == []


def test_a_server_in_use_is_not_waited_for_beyond_the_end(bed: PairBed, checkout: Checkout) -> None:
    bed.set_engine(speed=0.02)
    checkout.run("start")
    was = before(bed, checkout)
    body = {"model": "deepseek-v4-flash-0731", "prompt": "a", "max_tokens": 9000, "ignore_eos": True}
    url, kind = "http://127.0.0.1:8888/v1/completions", "Content-Type: application/json"
    busy = bed.head.popen(["curl", "-fsS", url, "-H", kind, "-d", json.dumps(body)])
    write_site(bed, checkout)
    # A launch and its trial are planned as 485 s, so that five are left for waiting.
    bed.head.write(f"{DESK}/small.yaml", f"{sweep_text(num_speculative_tokens=[5])}budget: {{time: 490s}}\n")

    done = bed.harness("sweep", "small.yaml", *BORROW)

    assert done.code == 3, done.err
    assert "was not idle" in done.err
    assert busy.poll() is None
    was.require_restored()


def test_ranks_of_another_run_are_no_server_to_borrow(bed: PairBed, checkout: Checkout) -> None:
    """Its state lies elsewhere: another user, another machine, or the pair under another name."""
    was = before(bed, checkout)
    write_site(bed, checkout)
    first = bed.start_harness("sweep", write_sweep(bed, num_speculative_tokens=[5]))
    first.wait_for_text("trial 1/")
    first.process.kill()
    first.process.wait()
    write_site(bed, checkout, hosts={"worker": {"address": f"root@{bed.worker.address}"}})

    second = bed.harness("sweep", "small.yaml", *BORROW)

    assert second.code == 3, second.err
    assert "a rank of another run" in second.err
    assert "harness engine restore" in second.err
    assert bed.harness("engine", "restore").code == 0
    was.require_restored()


def test_a_server_whose_smoke_test_never_passes_can_be_had_done_with(bed: PairBed, checkout: Checkout) -> None:
    checkout.run("start")
    environments = [host.rank().environment["MTP_NUM_TOKENS"] for host in bed.hosts]
    bed.head.write(f"{checkout.head_folder}/{SMOKE}", "echo 'no luck today'; exit 7\n", mode=0o755)
    was = before(bed, checkout)

    run = start_sweep(bed, checkout).end()
    again = bed.harness("engine", "restore")
    accepted = bed.harness("engine", "restore", "--accept-smoke-failure")

    assert run.code == again.code == 3
    assert "came up, and its smoke test ended with exit code 7: " in run.err  # of the launch, which is not measured
    for done in (run, again):
        assert "the pair is not as it was found: its smoke test ended with 7: no luck today" in done.err
        assert "harness engine restore --accept-smoke-failure" in done.err
    assert accepted.code == 0, accepted.err
    assert "its smoke test ended with 7: no luck today (accepted)" in accepted.err
    assert [host.rank().environment["MTP_NUM_TOKENS"] for host in bed.hosts] == environments
    was.require_restored()


def test_what_is_exported_where_the_harness_runs_does_not_reach_the_server(bed: PairBed, checkout: Checkout) -> None:
    checkout.set_variables({"MAX_NUM_SEQS": None})
    checkout.run("start")
    environments = [dict(host.rank().environment) for host in bed.hosts]
    was = before(bed, checkout)
    write_site(bed, checkout)
    exported = {"MAX_NUM_SEQS": "3", "COMPOSE_PROJECT_NAME": "x", "VLLM_PORT": "9999", "WORKER_HOST": "10.0.0.9"}

    name = write_sweep(bed, num_speculative_tokens=[5])
    done = bed.harness("sweep", name, *BORROW, environment=exported)

    assert done.code == 0, done.err
    for host, environment in zip(bed.hosts, environments, strict=True):
        assert {**host.rank().environment, "HOSTNAME": ""} == {**environment, "HOSTNAME": ""}
    was.require_restored()


@pytest.mark.parametrize("project", ["deepseek-v4-flash", "mine"])
def test_without_a_checkout_the_very_containers_are_given_back(bed: PairBed, checkout: Checkout, project: str) -> None:
    checkout.run("start", environment={"PROJECT_NAME": project})
    was = [host.rank(project).container_id for host in bed.hosts]
    write_inventory(bed)
    run = bed.start_harness("sweep", write_sweep(bed, num_speculative_tokens=[5], generation="bundled"), *BORROW)
    run.wait_for_text("trial 1/")
    assert [host.rank(project).status for host in bed.hosts] == ["exited", "exited"]
    run.process.kill()
    run.process.wait()

    restored = bed.harness("engine", "restore")

    assert restored.code == 0, restored.err
    assert [host.rank(project).container_id for host in bed.hosts] == was
    assert "vllm:num_requests_running" in bed.metrics()


def test_without_a_checkout_a_server_that_cannot_be_stopped_is_not_measured_beside(
    bed: PairBed, checkout: Checkout
) -> None:
    checkout.run("start")
    write_inventory(bed)
    bed.worker.docker_fault("stop_fails")

    done = bed.harness("sweep", write_sweep(bed, num_speculative_tokens=[5], generation="bundled"), *BORROW)

    assert done.code == 3, done.err
    assert "docker stop" in done.err
    assert "launch 1/1" not in done.err
    bed.worker.clear_faults()
    assert bed.harness("engine", "restore").code == 0
    assert "vllm:num_requests_running" in bed.metrics()
