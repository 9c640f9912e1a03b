"""`harness sweep` on two hosts through a checkout: configurations are proved, and the pair is left as it was."""

from __future__ import annotations

import pytest

from tests.integration.pair.bed import PairBed
from tests.integration.pair.checkouts import Checkout, add_checkpoint
from tests.integration.pair.runs import before, cells_of, launches_of, write_inventory, write_site, write_sweep

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
