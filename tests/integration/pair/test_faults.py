"""What goes wrong on a pair: each has its exit code and message, the pair is as it was, and --resume completes it."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable

import pytest

from tests.integration.pair.bed import DESK, PairBed
from tests.integration.pair.checkouts import Checkout
from tests.integration.pair.runs import Before, before, cells_of, launches_of, write_site, write_sweep
from tests.integration.pair.tree import HOME
from tests.system.driver import Started

pytestmark = pytest.mark.system
BOOTING, MEASURING = "Starting DSpark worker", "trial 1/"


@pytest.fixture
def was(bed: PairBed, checkout: Checkout) -> Before:
    """A pair that is idle, with its site file and a small sweep."""
    write_site(bed, checkout)
    write_sweep(bed)
    return before(bed, checkout)


def require_resumed(bed: PairBed, was: Before) -> None:
    """The same command with --resume measures what is left, once."""
    done = bed.harness("sweep", "small.yaml", "--resume")
    assert done.code == 0, done.err
    assert sorted(cell["num_speculative_tokens"] for cell in cells_of(bed)) == [3, 5]
    assert all(len(cell["trials"]) == 1 for cell in cells_of(bed))
    was.require_restored()


def manifest_of(bed: PairBed) -> str:
    (manifest,) = bed.head.path(DESK).glob("results/*/manifest.json")
    return json.dumps(json.loads(manifest.read_text())["host"])


# Before anything is touched.


def test_a_worker_that_is_not_reached_costs_nothing(bed: PairBed, was: Before) -> None:
    bed.worker.stop_sshd()

    done = bed.harness("sweep", "small.yaml")

    assert done.code == 3, done.err
    assert "ssh to 10.77.0.2 failed" in done.err
    again = bed.harness("sweep", "small.yaml", "--resume")
    assert again.code == 3, again.err
    assert "ssh to 10.77.0.2 failed" in again.err
    assert 'rig_id": "unknown"' in manifest_of(bed)
    bed.worker.start_sshd()
    was.require_restored()
    require_resumed(bed, was)
    assert "unknown" not in manifest_of(bed)


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("image_missing", "the image"),
        ("digest_differs", "is not on worker"),  # the operator's file names the digest
        ("daemon_down", "docker"),
    ],
)
def test_a_worker_that_cannot_run_it_costs_nothing(bed: PairBed, was: Before, fault: str, said: str) -> None:
    bed.worker.docker_fault(fault)

    done = bed.harness("sweep", "small.yaml")

    assert done.code == 3, done.err
    assert said in done.err
    assert BOOTING not in done.err
    bed.worker.clear_faults()
    was.require_restored()


def test_two_images_under_one_name_are_refused(bed: PairBed) -> None:
    checkout = bed.install_standin_checkout(changes={"DSPARK_VLLM_IMAGE": "ghcr.io/anemll/dspark-vllm-gx10:0.1.1"})
    write_site(bed, checkout)
    write_sweep(bed)
    bed.worker.docker_fault("digest_differs")

    done = bed.harness("sweep", "small.yaml")

    assert done.code == 3, done.err
    assert "not the same image on both nodes" in done.err


def test_a_port_that_is_taken_is_named(bed: PairBed, was: Before) -> None:
    listener = bed.head.popen(["python3", "-m", "http.server", "18888", "--bind", "127.0.0.1"])
    bed.head.run(["sh", "-c", "until ss -ltnH 'sport = :18888' | grep -q .; do sleep 0.05; done"])

    done = bed.harness("sweep", "small.yaml")

    listener.kill()
    assert done.code == 3, done.err
    assert "port 18888 on the head is taken" in done.err
    was.require_restored()


# While ranks boot.


@pytest.mark.parametrize(
    ("fault", "on", "said"),
    [
        ("head_dies_in_boot", "head", "the head rank"),
        ("worker_dies", "worker", "rank"),
        ("up_fails", "worker", "failed to boot"),
        ("up_fails", "head", "failed to boot"),
        ("chat_500", "head", "refused its first chat request"),
        ("later_chat_500", "head", "its smoke test ended with exit code 1: "),
    ],
)
def test_a_boot_that_fails_is_a_result_and_the_next_is_tried(
    bed: PairBed, was: Before, fault: str, on: str, said: str
) -> None:
    (bed.head if on == "head" else bed.worker).docker_fault(fault, times=1)

    done = bed.harness("sweep", "small.yaml")

    assert done.code == 3, done.err
    outcomes = [launch["outcome"] for launch in launches_of(bed)]
    assert sorted(outcomes) == ["failed_to_boot", "measured"], done.err
    assert said in done.err
    was.require_restored()


def test_ranks_that_never_answer_are_given_up_early_enough(bed: PairBed, was: Before) -> None:
    bed.head.docker_fault("never_ready")
    run = bed.start_harness("sweep", "small.yaml")
    run.wait_for_text("Waiting for DSpark")

    run.send(signal.SIGINT)
    done = run.end()

    assert done.code == 130, done.err
    bed.head.clear_faults()
    was.require_restored()


# In the middle of a trial.


def kill_head(bed: PairBed) -> None:
    bed.head.kill_rank()


def kill_worker(bed: PairBed) -> None:
    bed.worker.kill_rank()


@pytest.mark.parametrize("kill", [kill_head, kill_worker])
def test_a_rank_that_dies_in_a_trial_ends_the_launch_not_the_run(
    bed: PairBed, was: Before, kill: Callable[[PairBed], None]
) -> None:
    bed.set_engine(speed=1)
    run = bed.start_harness("sweep", "small.yaml")
    run.wait_for_text(MEASURING)
    kill(bed)
    bed.set_engine(speed=20)
    done = run.end()

    assert done.code == 3, done.err
    assert sorted(launch["outcome"] for launch in launches_of(bed)) == ["died", "measured"], done.err
    was.require_restored()
    require_resumed(bed, was)


def test_ssh_that_drops_in_a_trial_does_not_matter(bed: PairBed, was: Before) -> None:
    run = bed.start_harness("sweep", "small.yaml")
    run.wait_for_text(MEASURING)
    bed.worker.drop_ssh()

    done = run.end()

    assert done.code == 0, done.err
    was.require_restored()


def test_a_worker_that_is_gone_at_the_stop_ends_the_run_and_restore_mends_it(bed: PairBed, was: Before) -> None:
    run = bed.start_harness("sweep", "small.yaml")
    run.wait_for_text(MEASURING)
    bed.worker.stop_sshd()
    bed.worker.drop_ssh()

    done = run.end()

    assert done.code == 3, done.err
    assert "harness engine restore" in done.err
    bed.worker.start_sshd()
    restored = bed.harness("engine", "restore")
    assert restored.code == 0, restored.err
    was.require_restored()
    require_resumed(bed, was)


# The harness itself.


@pytest.mark.parametrize("stage", [BOOTING, "Waiting for DSpark", MEASURING])
@pytest.mark.parametrize("how", ["sigint", "sigkill"])
def test_a_run_that_is_stopped_leaves_the_pair_as_it_was(bed: PairBed, was: Before, stage: str, how: str) -> None:
    run: Started = bed.start_harness("sweep", "small.yaml")
    run.wait_for_text(stage)

    if how == "sigint":
        run.send(signal.SIGINT)
        assert run.end().code == 130
    else:
        run.process.kill()
        run.process.wait()
        restored = bed.harness("engine", "restore")
        assert restored.code == 0, restored.err
    was.require_restored()
    require_resumed(bed, was)


def test_a_killed_run_is_put_right_by_the_next_one(bed: PairBed, was: Before) -> None:
    run = bed.start_harness("sweep", "small.yaml")
    run.wait_for_text(MEASURING)
    run.process.kill()
    run.process.wait()

    require_resumed(bed, was)


# Files that the scripts stumble over.


@pytest.mark.parametrize("mark", ["crlf", "bom"])
def test_an_env_file_from_another_editor_works(bed: PairBed, checkout: Checkout, mark: str) -> None:
    path = bed.head.path(checkout.env_file)
    content = path.read_bytes()
    path.write_bytes(content.replace(b"\n", b"\r\n") if mark == "crlf" else b"\xef\xbb\xbf" + content)
    write_site(bed, checkout)
    write_sweep(bed)
    was = before(bed, checkout)

    done = bed.harness("sweep", "small.yaml")

    assert done.code == 0, done.err
    was.require_restored()


def test_a_value_that_the_scripts_would_run_is_named(bed: PairBed, checkout: Checkout) -> None:
    path = bed.head.path(checkout.env_file)
    path.write_text(path.read_text() + "MY_NOTE=two words\n")
    write_site(bed, checkout)
    write_sweep(bed)
    was = before(bed, checkout)

    done = bed.harness("sweep", "small.yaml")

    assert done.code == 2, done.err
    assert f"{checkout.env_file}:{len(path.read_text().splitlines())}" in done.err
    was.require_restored()


def test_a_server_with_a_key_does_not_leak_it(bed: PairBed) -> None:
    key = "sk-never-to-be-seen-42"
    checkout = bed.install_standin_checkout(changes={"VLLM_API_KEY": key})
    write_site(bed, checkout)
    write_sweep(bed)
    was = before(bed, checkout)

    done = bed.harness("sweep", "small.yaml")

    assert done.code == 0, done.err
    was.require_restored()
    assert key not in done.err + done.out
    found = bed.head.run(["grep", "-rlF", key, DESK, f"{HOME}/harness"], check=False).stdout
    assert found == ""
