"""`harness doctor dspark-2x-spark` on two hosts: what is well, what is not with its remedy, and the site file."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import yaml

from tests.integration.pair.bed import PairBed
from tests.integration.pair.checkouts import ENV_FILE, Checkout, Generation
from tests.integration.pair.runs import before, write_inventory, write_site, write_sweep
from tests.integration.pair.tree import HOME
from tests.system.driver import Done

pytestmark = pytest.mark.system
SITE = "~/harness/config/harness/site.yaml"
START = f"{HOME}/dspark/start-deepseek-v4-flash-dspark.sh"


def examined(bed: PairBed, checkout: Checkout, *wishes: str) -> Done:
    return bed.harness("doctor", "dspark-2x-spark", "--checkout", checkout.head_folder, "--json", *wishes)


def findings(done: Done, level: str) -> list[dict[str, Any]]:
    return [finding for finding in done.document()["findings"] if finding["level"] == level]


def test_a_healthy_pair_that_serves(bed: PairBed, checkout: Checkout) -> None:
    checkout.run("start")
    was = before(bed, checkout)
    bed.head.set_gpu({"power.draw": 62})
    bed.worker.set_gpu({"power.draw": 61})

    done = examined(bed, checkout)

    assert done.code == 0, done.out
    well = {(finding["check"], finding["node"]) for finding in findings(done, "ok")}
    for check in ("ssh", "docker", "gid", "disk", "heat", "power"):
        assert {(check, "head"), (check, "worker")} <= well, check
    assert ("generation", "head") in well
    assert {("image", None), ("checkpoint", None), ("clock", None), ("port", "head"), ("step", None)} <= well
    # A veth calls itself slower than the port of a Spark; and the server would not be touched.
    assert [finding["check"] for finding in findings(done, "warn")] == ["link", "link", "server"]
    was.require_restored()


@pytest.mark.parametrize(
    ("spoil", "check", "node", "level"),
    [
        (lambda bed: bed.worker.stop_sshd(), "ssh", "worker", "fail"),
        (lambda bed: bed.worker.docker_fault("daemon_down"), "docker", "worker", "fail"),
        (lambda bed: bed.worker.docker_fault("image_missing"), "image_or_checkpoint", None, "fail"),
        (lambda bed: bed.worker.run(["ip", "link", "set", "enp1s0f1np1", "mtu", "1500"]), "mtu", None, "fail"),
        (lambda bed: bed.worker.set_gpu({"temperature.gpu": 93}), "heat", "worker", "warn"),
        (lambda bed: bed.head.set_units({"earlyoom.service": "active"}), "earlyoom", "head", "warn"),
        (lambda bed: bed.worker.set_memory_available(20 * 2**30), "memory", "worker", "warn"),
        (
            lambda bed: bed.head.write(
                "/etc/systemd/system/dspark.service", "[Service]\nExecStart=start-deepseek-v4-flash-dspark.sh\n"
            ),
            "watchdog",
            "head",
            "warn",
        ),
        (lambda bed: bed.head.write(START, "#!/bin/sh\n"), "generation", "head", "warn"),
        (lambda bed: bed.head.run(["rm", START]), "generation", "head", "fail"),
    ],
)
def test_what_is_not_well_is_named_with_its_remedy(
    bed: PairBed, checkout: Checkout, spoil: Callable[[PairBed], object], check: str, node: str | None, level: str
) -> None:
    spoil(bed)

    done = examined(bed, checkout)

    found = [each for each in findings(done, level) if (each["check"], each["node"]) == (check, node)]
    assert found, done.out
    assert all(each["remedy"] for each in found)
    assert done.code == (3 if level == "fail" else 0)


@pytest.mark.parametrize("generation", ["august", "september"])
def test_the_generation_of_the_scripts_is_named(bed: PairBed, generation: Generation) -> None:
    checkout = bed.install_standin_checkout(generation)

    (found,) = [each for each in findings(examined(bed, checkout), "ok") if each["check"] == "generation"]

    assert found["what"] == f"the scripts are of the {generation} generation"


def test_a_unit_that_is_stuck_in_low_power_shows_under_load(bed: PairBed, checkout: Checkout) -> None:
    checkout.run("start")
    bed.worker.set_gpu({"power.draw": 14, "clocks.sm": 799})

    done = examined(bed, checkout)

    (power,) = [each for each in findings(done, "warn") if each["check"] == "power"]
    assert power["node"] == "worker"
    assert "power plug" in power["remedy"]


def test_a_step_is_compared_with_the_rigs_own_canaries(bed: PairBed, checkout: Checkout) -> None:
    write_site(bed, checkout)
    assert bed.harness("sweep", write_sweep(bed, num_speculative_tokens=[5])).code == 0
    bed.set_engine(speed=2)
    checkout.run("start")

    done = bed.harness("doctor", "dspark-2x-spark", "--json")

    (step,) = [each for each in findings(done, "warn") if each["check"] == "step"]
    assert "canaries" in step["evidence"]


def test_the_site_file_is_written_once_and_holds_no_key(bed: PairBed) -> None:
    checkout = bed.install_standin_checkout(changes={"VLLM_API_KEY": "sk-not-for-a-site-file"})

    first = examined(bed, checkout, "--write")
    again = examined(bed, checkout, "--write")
    forced = examined(bed, checkout, "--write", "--force")

    assert first.code == forced.code == 0, first.err
    assert again.code == 2
    assert "--force" in again.err
    text = bed.head.read(SITE)
    assert "sk-not" not in text
    site = yaml.safe_load(text)
    assert site["checkout"] == checkout.head_folder
    assert site["hosts"] == {"head": {"address": "localhost"}, "worker": {"address": bed.worker.address}}
    assert bed.harness("plan", "first_evening", "--set", "checkpoint=official-0731").code == 0


def test_a_pair_without_a_checkout_is_examined_by_its_inventory(bed: PairBed) -> None:
    write_inventory(bed)

    done = bed.harness("doctor", "dspark-2x-spark", "--json")

    assert done.code == 3  # neither node has the checkpoint
    assert "has no revision" in done.out


def test_an_env_file_that_the_scripts_would_run_is_named(bed: PairBed, checkout: Checkout) -> None:
    path = bed.head.path(f"{checkout.head_folder}/{ENV_FILE}")
    path.write_text(path.read_text() + "A=two words\n")
    write_site(bed, checkout)

    done = bed.harness("doctor", "dspark-2x-spark")

    assert done.code == 3
    assert "second word" in done.err
