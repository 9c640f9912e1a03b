"""A pair that serves: it is borrowed only when asked for, when idle, and given back as it was on every way out."""

from __future__ import annotations

import json
import signal
from collections.abc import Mapping
from dataclasses import dataclass

import pytest

from tests.integration.pair.bed import PairBed
from tests.integration.pair.checkouts import Checkout
from tests.integration.pair.runs import Before, before, write_site, write_sweep

pytestmark = pytest.mark.system
MEASURING = "trial 1/"
PROJECT = "deepseek-v4-flash"
# Worked out anew at every start; no part of what the operator set.
VOLATILE = ("HOSTNAME", "NCCL_IB_GID_INDEX")


@dataclass(frozen=True, slots=True, kw_only=True)
class Serving:
    """An operator's server, and what its ranks run with."""

    was: Before
    environments: tuple[Mapping[str, str], ...]

    def require_given_back(self, bed: PairBed) -> None:
        """It runs on both hosts with the same environment, answers, and everything else is as it was."""
        assert environments(bed) == self.environments
        assert bed.k() == 5
        self.was.require_restored()


def environments(bed: PairBed) -> tuple[Mapping[str, str], ...]:
    ranks = [host.rank(PROJECT) for host in bed.hosts]
    assert [rank.status for rank in ranks] == ["running", "running"]
    return tuple({name: value for name, value in rank.environment.items() if name not in VOLATILE} for rank in ranks)


@pytest.fixture
def serving(bed: PairBed, checkout: Checkout) -> Serving:
    write_site(bed, checkout)
    write_sweep(bed)
    checkout.run("start")
    return Serving(was=before(bed, checkout), environments=environments(bed))


def test_without_the_flag_nothing_is_touched(bed: PairBed, serving: Serving) -> None:
    started = [host.rank(PROJECT).started_at for host in bed.hosts]

    done = bed.harness("sweep", "small.yaml")

    assert done.code == 3, done.err
    assert "a server runs on the pair" in done.err
    assert "--borrow" in done.err
    assert [host.rank(PROJECT).started_at for host in bed.hosts] == started
    serving.require_given_back(bed)


def test_it_is_given_back_after_the_sweep(bed: PairBed, serving: Serving) -> None:
    done = bed.harness("sweep", "small.yaml", "--borrow", "--idle-for", "2s")

    assert done.code == 0, done.err
    assert "smoke test of the operator's server" in done.err
    assert "the operator's server runs again" in done.err
    serving.require_given_back(bed)


def test_it_is_given_back_after_ctrl_c(bed: PairBed, serving: Serving) -> None:
    run = bed.start_harness("sweep", "small.yaml", "--borrow", "--idle-for", "1s")
    run.wait_for_text(MEASURING)

    run.send(signal.SIGINT)
    done = run.end()

    assert done.code == 130, done.err
    serving.require_given_back(bed)


def test_a_killed_harness_gives_it_back_through_restore(bed: PairBed, serving: Serving) -> None:
    run = bed.start_harness("sweep", "small.yaml", "--borrow", "--idle-for", "1s")
    run.wait_for_text(MEASURING)
    run.process.kill()
    run.process.wait()

    status = bed.harness("engine", "status")
    assert "harness engine restore" in status.err
    restored = bed.harness("engine", "restore")

    assert restored.code == 0, restored.err
    serving.require_given_back(bed)


def test_a_harness_that_is_killed_while_giving_back_can_do_it_again(bed: PairBed, serving: Serving) -> None:
    run = bed.start_harness("sweep", "small.yaml", "--borrow", "--idle-for", "1s")
    run.wait_for_text("starting the operator's server again")
    run.process.kill()
    run.process.wait()

    restored = bed.harness("engine", "restore")

    assert restored.code == 0, restored.err
    serving.require_given_back(bed)


def test_both_hosts_that_reboot_in_a_trial_get_it_back_through_restore(bed: PairBed, serving: Serving) -> None:
    run = bed.start_harness("sweep", "small.yaml", "--borrow", "--idle-for", "1s")
    run.wait_for_text(MEASURING)
    for host in bed.hosts:
        host.power_off()
    run.process.wait()
    for host in bed.hosts:
        host.power_on()
    for host in bed.hosts:
        assert "running" not in [each.status for each in host.containers()], "a trial came back by itself"

    restored = bed.harness("engine", "restore")

    assert restored.code == 0, restored.err
    serving.require_given_back(bed)


def test_a_server_in_use_is_waited_for(bed: PairBed, checkout: Checkout) -> None:
    bed.set_engine(speed=4)  # so that the answer below takes 20 s
    write_site(bed, checkout)
    write_sweep(bed)
    checkout.run("start")
    serving = Serving(was=before(bed, checkout), environments=environments(bed))
    body = {"model": "deepseek-v4-flash-0731", "prompt": "a b c", "max_tokens": 3000, "min_tokens": 3000}
    url, kind = "http://127.0.0.1:8888/v1/completions", "Content-Type: application/json"
    request = ["curl", "-fsS", "-o", "/dev/null", url, "-H", kind, "-d", json.dumps({**body, "ignore_eos": True})]
    busy = bed.head.popen(request)
    bed.set_engine(speed=20)
    run = bed.start_harness("sweep", "small.yaml", "--borrow", "--idle-for", "1s")
    run.wait_for_text("waiting until the running server has been idle")
    assert busy.poll() is None
    assert bed.head.rank(PROJECT).status == "running"

    assert busy.wait(60) == 0  # the request ends with its answer, not with the server
    done = run.end()

    assert done.code == 0, done.err
    serving.require_given_back(bed)


def test_a_server_of_another_project_is_seen_and_left_alone(bed: PairBed, checkout: Checkout) -> None:
    """The operator's own file may name project, URLs and a longer wait: trials are kept apart all the same."""
    checkout.set_variables({"PROJECT_NAME": "mine", "API_URL": "http://127.0.0.1:8888/v1/models", "WAIT_SECONDS": "1"})
    write_site(bed, checkout)
    write_sweep(bed)
    checkout.run("start")
    was = before(bed, checkout)

    refused = bed.harness("sweep", "small.yaml")
    done = bed.harness("sweep", "small.yaml", "--borrow", "--idle-for", "1s")

    assert refused.code == 3
    assert "project mine" in refused.err
    assert done.code == 0, done.err
    assert [host.rank("mine").status for host in bed.hosts] == ["running", "running"]
    assert bed.k() == 5
    was.require_restored()


def test_two_runs_never_share_a_pair(bed: PairBed, checkout: Checkout) -> None:
    write_site(bed, checkout)
    write_sweep(bed)
    was = before(bed, checkout)
    first = bed.start_harness("sweep", "small.yaml")
    first.wait_for_text("launch 1/")

    second = bed.harness("sweep", "small.yaml")

    assert second.code == 3, second.err
    assert "another run" in second.err
    assert first.end().code == 0
    was.require_restored()
