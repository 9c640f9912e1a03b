"""Pairs that are set up in ways that nobody foresees: links, shells that talk, names, odd bytes, full disks."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.integration.pair.bed import DESK, PairBed
from tests.integration.pair.checkouts import Checkout
from tests.integration.pair.runs import before, site_text, sweep_text, write_site, write_sweep
from tests.integration.pair.tree import HOME, REPOSITORY

pytestmark = pytest.mark.system


def sweep_from_the_worker(bed: PairBed, checkout: Checkout, head: str) -> subprocess.CompletedProcess[str]:
    """A sweep of a head behind ssh."""
    hosts = {"head": {"address": head}, "worker": {"address": "localhost"}}
    bed.worker.write("~/harness/config/harness/site.yaml", site_text(checkout, hosts=hosts))
    bed.worker.write("~/desk/small.yaml", sweep_text(num_speculative_tokens=[5]))
    command = [sys.executable, "-m", "harness", "sweep", "small.yaml"]
    environment = {**bed.environment, "PYTHONPATH": str(REPOSITORY), "MPLCONFIGDIR": "/tmp/matplotlib"}
    return bed.worker.run(command, environment=environment, folder=DESK, check=False, timeout_s=200)


def test_a_worker_whose_files_are_links_keeps_them_and_what_they_name(bed: PairBed, checkout: Checkout) -> None:
    script = (
        'set -e; cd "$1"; mkdir ~/own; for name in .env.dspark docker-compose.dspark.yml patches; do '
        'mv "$name" ~/own/; ln -s ~/own/"$name" "$name"; done; cd patches; echo mine >mine.sh; ln mine.sh other.sh'
    )
    bed.worker.run(["sh", "-c", script, "sh", checkout.worker_folder])
    write_site(bed, checkout)
    was, own = before(bed, checkout), bed.worker.tree_hash("~/own")

    done = bed.harness("sweep", write_sweep(bed, num_speculative_tokens=[5]))

    assert done.code == 0, done.err
    was.require_restored()
    assert bed.worker.tree_hash("~/own") == own


def test_a_worker_without_a_folder_is_without_one_again(bed: PairBed, checkout: Checkout) -> None:
    checkout.set_variables({"WORKER_DIR": f"{HOME}/never-there"})
    write_site(bed, checkout)

    done = bed.harness("sweep", write_sweep(bed, num_speculative_tokens=[5]))

    assert done.code == 0, done.err
    assert not bed.worker.path(f"{HOME}/never-there").exists()


def test_an_edit_of_the_operator_during_a_run_is_kept_aside(bed: PairBed, checkout: Checkout) -> None:
    write_site(bed, checkout)
    path = bed.head.path(checkout.env_file)
    was = path.read_bytes()
    run = bed.start_harness("sweep", write_sweep(bed, num_speculative_tokens=[5]))
    run.wait_for_text("trial 1/")
    path.write_bytes(was + b"# better\n")

    done = run.end()

    assert done.code == 0, done.err
    assert path.read_bytes() == was
    (kept,) = path.parent.glob(f"{path.name}.before-restore-*")
    assert kept.read_bytes() == was + b"# better\n"
    assert ".before-restore-" in done.err


def test_what_is_exported_where_the_harness_runs_never_splits_the_ranks(bed: PairBed, checkout: Checkout) -> None:
    checkout.set_variables({"MAX_NUM_SEQS": None, "DRAFT_SAMPLE_METHOD": None})
    write_site(bed, checkout)
    exported = {"MAX_NUM_SEQS": "3", "DRAFT_SAMPLE_METHOD": "greedy"}
    run = bed.start_harness("sweep", write_sweep(bed, num_speculative_tokens=[5]), environment=exported)
    run.wait_for_text("trial 1/")

    head, worker = ({name: host.rank().environment.get(name) for name in exported} for host in bed.hosts)

    assert head == worker
    assert run.end().code == 0


def test_the_compose_file_that_the_operators_file_names_is_what_trials_start_from(
    bed: PairBed, checkout: Checkout
) -> None:
    """As it stands, and with the speculation taken out."""
    own = bed.head.path(f"{checkout.head_folder}/docker-compose.dspark.yml").read_text()
    head, found, tail = own.partition("    environment:\n")
    assert found
    bed.head.write(f"{checkout.head_folder}/mine.yml", f"{head}{found}      MY_OWN: here\n{tail}")
    checkout.set_variables({"COMPOSE_FILE": "mine.yml"})
    write_site(bed, checkout)
    was = before(bed, checkout)
    run = bed.start_harness("sweep", write_sweep(bed, num_speculative_tokens=[0, 5]))
    for number in (1, 2):
        run.wait_for_text(f"trial {number}/")
        for host in bed.hosts:
            assert next(each for each in host.containers() if each.is_up).environment["MY_OWN"] == "here"

    done = run.end()

    assert done.code == 0, done.err
    assert "no counter of drafts" in done.err
    was.require_restored()


def test_a_compose_file_outside_the_checkout_is_refused_and_named(bed: PairBed, checkout: Checkout) -> None:
    checkout.set_variables({"COMPOSE_FILE": f"{HOME}/mine.yml"})
    write_site(bed, checkout)

    done = bed.harness("sweep", write_sweep(bed, num_speculative_tokens=[5]))
    assert done.code == 2, done.err
    assert f"COMPOSE_FILE names a file outside the checkout: {HOME}/mine.yml" in done.err
    assert bed.head.docker_calls() == []

    examined = bed.harness("doctor", "dspark-2x-spark")
    assert examined.code == 3
    assert "COMPOSE_FILE names a file outside the checkout" in examined.err


def test_an_env_file_with_bytes_that_are_no_utf8(bed: PairBed, checkout: Checkout) -> None:
    """In a comment they are of no matter; in a value they are named."""
    write_site(bed, checkout)
    path = bed.head.path(checkout.env_file)
    path.write_bytes(path.read_bytes() + b"# f\xfcr uns\n")
    done = bed.harness("sweep", write_sweep(bed, num_speculative_tokens=[5]))
    assert done.code == 0, done.err

    path.write_bytes(path.read_bytes() + b"NOTE=f\xfcr\n")
    refused = bed.harness("sweep", "small.yaml")

    assert refused.code == 2, refused.err
    assert f"{checkout.env_file}:{len(path.read_bytes().splitlines())}: it is not UTF-8" in refused.err


def test_a_login_shell_that_talks_is_not_taken_for_an_answer(bed: PairBed, checkout: Checkout) -> None:
    bed.head.write("~/.bashrc", "echo WELCOME; echo noise >&2\n")
    was = before(bed, checkout)

    done = sweep_from_the_worker(bed, checkout, bed.head.address)

    assert done.returncode == 0, done.stderr
    was.require_restored()


def test_a_head_that_takes_its_own_name_for_its_loopback_is_reached(bed: PairBed, checkout: Checkout) -> None:
    """As Debian and its kin write it into /etc/hosts."""
    hosts = bed.head.path("/etc/hosts")
    hosts.write_text(f"127.0.1.1 {bed.head.name}-1\n{hosts.read_text()}")
    others = bed.worker.path("/etc/hosts")
    others.write_text(f"{others.read_text()}{bed.head.address} {bed.head.name}-1\n")
    bed.worker.write("~/.ssh/config", f"{known(bed)}Host {bed.head.name}-1\n  HostKeyAlias {bed.head.address}\n")

    done = sweep_from_the_worker(bed, checkout, f"{bed.head.name}-1")

    assert done.returncode == 0, done.stderr


def known(bed: PairBed) -> str:
    path = bed.worker.path("~/.ssh/config")
    return f"{path.read_text()}\n" if path.exists() else ""


def test_a_head_that_only_ssh_reaches_is_refused_before_anything_is_touched(bed: PairBed, checkout: Checkout) -> None:
    bed.worker.run(["ip", "route", "add", "blackhole", "10.99.0.1"])
    jump = f"ProxyCommand ssh {bed.worker.address} -W {bed.head.address}:22"
    far = f"Host far\n  HostName 10.99.0.1\n  HostKeyAlias {bed.head.address}\n  {jump}\n"
    bed.worker.write("~/.ssh/config", known(bed) + far)
    was = before(bed, checkout)

    done = sweep_from_the_worker(bed, checkout, "far")

    assert done.returncode == 3, done.stderr
    assert "port 18888 of 10.99.0.1 is not reached from here" in done.stderr
    assert bed.head.docker_calls() == []
    was.require_restored()


def test_a_disk_that_is_full_is_named_and_ends_the_run(bed: PairBed, checkout: Checkout) -> None:
    script = (
        'cp -a "$1" /tmp/kept && mount -t tmpfs -o size=200k none "$1" && cp -a /tmp/kept/. "$1" && rm -r /tmp/kept'
    )
    bed.worker.run(["sh", "-c", script, "sh", checkout.worker_folder])
    fill = 'head -c 1000000 /dev/zero >"$1/filler" 2>/dev/null; true'
    bed.worker.run(["sh", "-c", fill, "sh", checkout.worker_folder])
    write_site(bed, checkout)

    done = bed.harness("sweep", write_sweep(bed))

    assert done.code == 3, done.err
    assert "a disk is full" in done.err
    assert "--resume" in done.err
    bed.worker.run(["rm", f"{checkout.worker_folder}/filler"])
    assert bed.harness("engine", "restore").code == 0
    assert bed.harness("sweep", "small.yaml", "--resume").code == 0
