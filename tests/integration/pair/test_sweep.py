"""`harness sweep` on two hosts through a checkout: configurations are proved, and the pair is left as it was."""

from __future__ import annotations

import json
import signal
import sys

import pytest

from tests.integration.pair.bed import DESK, PairBed
from tests.integration.pair.checkouts import Checkout, add_checkpoint
from tests.integration.pair.host import Host
from tests.integration.pair.runs import (
    before,
    cells_of,
    journal,
    launch_logs,
    launches_of,
    site_text,
    sweep_text,
    write_inventory,
    write_site,
    write_sweep,
)
from tests.integration.pair.tree import REPOSITORY

pytestmark = pytest.mark.system


def test_each_configuration_is_launched_proved_and_taken_down(bed: PairBed) -> None:
    checkout = bed.install_standin_checkout("september")
    write_site(bed, checkout)
    was = before(bed, checkout)

    wishes = ("--set", "context_tokens=256", "--set", "concurrency=1", "--launches", "1")
    done = bed.harness("sweep", "vision_exp", *wishes, timeout_s=400)

    assert done.code == 0, done.err
    assert "harness engine restore" in done.err.splitlines()[1]
    cells = cells_of(bed)
    assert len(cells) >= 4
    for cell in cells:
        assert cell["decode_tokens_per_s"] > 0
        k = cell["num_speculative_tokens"]
        assert (cell["acceptance_length"] is None) is (k == 0)
    proofs = [line for line in done.err.splitlines() if line.startswith("ready after")]
    assert len(proofs) == len(cells)
    assert all("positions 0 to" in line or "no counter of drafts" in line for line in proofs)
    assert {launch["outcome"] for launch in launches_of(bed)} == {"measured"}
    logs = launch_logs(bed)
    assert len(logs) == len(cells)
    for log in logs:
        assert "6-way smoke test against http://127.0.0.1:18888/v1/chat/completions" in log
        assert "Smoke test passed: 6/6" in log
    was.require_restored()


def test_without_a_checkout_each_configuration_is_launched_too(bed: PairBed) -> None:
    write_inventory(bed)
    repository, revision = "deepseek-ai/DeepSeek-V4-Flash-Vision-Exp", "86f746b36186f0e567729a5c06a8c918caba82a9"
    for host in bed.hosts:
        add_checkpoint(host, repository, revision)

    wishes = ("--set", "generation=bundled", "--set", "context_tokens=256", "--set", "concurrency=1")
    done = bed.harness("sweep", "vision_exp", *wishes, "--launches", "1", timeout_s=400)

    assert done.code == 0, done.err
    cells = cells_of(bed)
    assert len(cells) >= 4
    proofs = [line for line in done.err.splitlines() if line.startswith("ready after")]
    assert len(proofs) == len(cells)
    for host in bed.hosts:
        assert host.containers() == ()
        assert not host.path("~/.cache/harness").exists()
    assert not any(bed.head.path("~/harness/state/pairs").glob("*"))


def test_the_operators_file_decides_what_the_sweep_does_not_name(bed: PairBed) -> None:
    checkout = bed.install_standin_checkout(changes={"MTP_NUM_TOKENS": "7", "DRAFT_SAMPLE_METHOD": "greedy"})
    write_site(bed, checkout)
    was = before(bed, checkout)

    done = bed.harness("sweep", write_sweep(bed, num_speculative_tokens=[5], draft_sample_method="probabilistic"))

    assert done.code == 0, done.err
    assert "positions 0 to 4" in done.err
    was.require_restored()


def test_an_env_value_never_becomes_a_command(checkout: Checkout, bed: PairBed) -> None:
    write_site(bed, checkout)
    was = before(bed, checkout)
    owned = 'x"; touch /tmp/owned; "'

    done = bed.harness("sweep", write_sweep(bed, **{"env.VLLM_PLUGINS": owned}))

    assert done.code == 2, done.err
    assert "env.VLLM_PLUGINS" in done.err
    assert not any(host.path("/tmp/owned").exists() for host in bed.hosts)
    was.require_restored()


def test_a_checkout_is_planned_by_the_rules_of_its_own_generation(bed: PairBed, checkout: Checkout) -> None:
    write_site(bed, checkout)
    path = write_sweep(bed, generation=None)

    done = bed.harness("plan", path, "--json")

    assert done.code == 0, done.err
    assert {launch["configuration"]["knobs"]["generation"] for launch in done.document()["launches"]} == {"august"}


def test_rules_of_another_generation_are_refused_before_anything_is_touched(bed: PairBed, checkout: Checkout) -> None:
    write_site(bed, checkout)
    was = before(bed, checkout)

    done = bed.harness("sweep", write_sweep(bed, generation="september"))

    assert done.code == 2, done.err
    assert "--set generation=august" in done.err
    was.require_restored()


def test_scripts_of_an_unknown_generation_are_run_and_named_on_every_page(bed: PairBed, checkout: Checkout) -> None:
    start = bed.head.path(f"{checkout.head_folder}/start-deepseek-v4-flash-dspark.sh")
    text = start.read_text()
    start.write_text(text.replace("treat exit 3 as already-up", "exit 3 means that it is up"))
    write_site(bed, checkout)
    was = before(bed, checkout)

    done = bed.harness("sweep", write_sweep(bed, num_speculative_tokens=[5]))

    assert done.code == 0, done.err
    (cell,) = cells_of(bed)
    assert "untested_generation" in [doubt["kind"] for doubt in cell["doubts"]]
    (report,) = bed.head.path(DESK).glob("reports/*")
    for page in ("report.md", "report.html", "paste.md"):
        assert "untested generation" in (report / page).read_text(), page
    was.require_restored()


def rig_of(host: Host) -> str:
    (manifest,) = host.path(DESK).glob("results/*/manifest.json")
    rig = json.loads(manifest.read_text())["host"]["rig_id"]
    assert isinstance(rig, str)
    return rig


def test_a_head_behind_ssh_serves_under_a_one_time_key(bed: PairBed, checkout: Checkout) -> None:
    hosts = {"head": {"address": bed.head.address}, "worker": {"address": "localhost"}}
    bed.worker.write("~/harness/config/harness/site.yaml", site_text(checkout, hosts=hosts))
    bed.worker.write("~/desk/small.yaml", sweep_text())
    was = before(bed, checkout)

    command = [sys.executable, "-m", "harness", "sweep", "small.yaml"]
    environment = {**bed.environment, "PYTHONPATH": str(REPOSITORY), "MPLCONFIGDIR": "/tmp/matplotlib"}
    done = bed.worker.run(command, environment=environment, folder=DESK, check=False, timeout_s=200)

    assert done.returncode == 0, done.stderr
    assert "positions 0 to 4" in done.stderr
    smoked = bed.worker.run(["sh", "-c", "grep -rh '[sS]moke test' ~/desk/results/*/logs"]).stdout
    assert f"against http://{bed.head.address}:18888/" in smoked  # with the key, else it would be refused
    assert "Smoke test passed: 6/6" in smoked
    write_site(bed, checkout)
    on_the_head = bed.harness("sweep", write_sweep(bed, num_speculative_tokens=[5]))
    assert on_the_head.code == 0, on_the_head.err
    rigs = [rig_of(host) for host in bed.hosts]
    assert rigs[0] == rigs[1], "the two machines that serve, from wherever they are measured"
    kept = bed.worker.run(["sh", "-c", "grep -rh HARNESS_ONE_TIME_KEY ~/desk/results || true"]).stdout
    assert '"HARNESS_ONE_TIME_KEY":"***"' in kept
    was.require_restored()


def test_a_host_that_loses_memory_ends_the_run(bed: PairBed, checkout: Checkout) -> None:
    write_site(bed, checkout)
    run = bed.start_harness("sweep", write_sweep(bed))
    run.wait_for_text("trial 1/")
    bed.worker.set_memory_available(20 * 2**30)

    done = run.end()

    assert done.code == 3, done.err
    assert "less free memory than before the first launch" in done.err
    assert len(launches_of(bed)) == 2  # the second was not started, and resuming starts it


def test_an_engine_is_held_until_ctrl_c(bed: PairBed, checkout: Checkout) -> None:
    write_site(bed, checkout)
    was = before(bed, checkout)
    wishes = ("--set", "num_speculative_tokens=7", "--set", "generation=august")
    run = bed.start_harness("engine", "up", "dspark-2x-spark", *wishes)
    run.wait_for_text("Ctrl-C stops it")
    assert "num_speculative_tokens: 7" in run.said
    assert "in use by run" in bed.harness("engine", "status").err

    run.send(signal.SIGINT)

    assert run.end().code == 130
    was.require_restored()


def test_a_variable_that_reaches_no_container_is_refused(bed: PairBed, checkout: Checkout) -> None:
    write_site(bed, checkout)
    was = before(bed, checkout)

    done = bed.harness("sweep", write_sweep(bed, **{"env.NOBODY_READS_ME": [1, 2]}))

    assert done.code == 2, done.err
    assert "NOBODY_READS_ME reaches no container" in done.err
    was.require_restored()


def test_the_override_of_an_image_is_merged_into_what_both_ranks_get(bed: PairBed, checkout: Checkout) -> None:
    write_site(bed, checkout)
    was = before(bed, checkout)
    bed.set_engine(speed=2)
    confidence = {"confidence_scheduler": "threshold", "confidence_threshold": 0.5}
    run = bed.start_harness("sweep", write_sweep(bed, image="stage-c", num_speculative_tokens=[5], **confidence))
    run.wait_for_text("trial 1/")
    for host in bed.hosts:
        (rank,) = host.containers()
        assert rank.environment["VLLM_DSPARK_CONFIDENCE_THRESHOLD"] == "0.5"
        assert rank.environment["VLLM_DSPARK_CONFIDENCE_SCHEDULER"] == "threshold"
        assert "stage-c" in rank.image

    done = run.end()

    assert done.code == 0, done.err
    was.require_restored()


def test_both_nodes_are_looked_at_and_drawn(bed: PairBed, checkout: Checkout) -> None:
    write_site(bed, checkout)
    bed.worker.set_gpu({"temperature.gpu": 88, "clocks_throttle_reasons.active": "0x0000000000000040"})

    done = bed.harness("sweep", write_sweep(bed, num_speculative_tokens=[5]))

    assert done.code == 0, done.err
    (record,) = [line for line in journal(bed) if line["record"] == "launch"]
    assert [node["node"] for node in record["nodes"]] == ["head", "worker"]
    assert {sample["node"] for sample in record["samples"]} == {"head", "worker"}
    assert {sample["temperature_c"] for sample in record["samples"] if sample["node"] == "worker"} == {88}
    assert "node_throttled" in [doubt["kind"] for doubt in cells_of(bed)[0]["doubts"]]
