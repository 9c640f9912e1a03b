"""Ranks without a checkout, on two hosts of this machine: looked at, started, stopped. Real shells, a small docker."""

from __future__ import annotations

import stat
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from inline_snapshot import snapshot

from harness.engine.pair.bundled import ApiKey, BundledLaunch
from harness.engine.pair.inventory import inventory_from
from harness.engine.pair.node import Node
from harness.engine.pair.ranks import containers_of, prepare, start, stop
from harness.engine.shell import Command, Completed
from harness.engine.ssh import HostUnreachableError
from harness.errors import EngineError, LaunchError
from harness.recipe.build import build_launch
from harness.recipe.rules import canonicalise
from harness.records.cell import KnobValue
from harness.yaml_source import parse_source
from tests.fakes.docker_program import FakeHost, HostShell, make_host
from tests.unit.recipe.recipes import PLACES, configuration, shipped

pytestmark = pytest.mark.anyio
PROJECT = "harness-trial"
COMMIT = "0123abc"
NAME = "registry.example/engine"
DIGEST = f"{NAME}@sha256:{'a' * 64}"
OTHER = f"{NAME}@sha256:{'b' * 64}"
PAIR = f"""\
image: {NAME}:1
checkpoint: org/Model@{COMMIT}
head: {{address: 10.0.0.1, interfaces: {{socket: eth0}}, hca: a, gid_index: 3}}
worker: {{ssh: b, address: 10.0.0.2, interfaces: {{socket: eth0}}, hca: a, gid_index: 5}}
"""


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@dataclass(frozen=True)
class Bed:
    """Two hosts with image and checkpoint."""

    head: FakeHost
    worker: FakeHost

    @property
    def nodes(self) -> tuple[Node, Node]:
        return (
            Node(role="head", name="this machine", shell=self.head.shell, is_local=True),
            Node(role="worker", name="spark-2", shell=self.worker.shell, is_local=False),
        )


@pytest.fixture
def bed(tmp_path: Path) -> Bed:
    bed = Bed(make_host(tmp_path / "head"), make_host(tmp_path / "worker"))
    for host in (bed.head, bed.worker):
        host.add_image(f"{NAME}:1", image_id="sha256:1", digests=(DIGEST,))
        host.add_snapshot("org/Model", COMMIT)
    return bed


def launch_of(pair: str = PAIR, **knobs: KnobValue) -> BundledLaunch:
    loaded = shipped("dspark-2x-spark")
    named = canonicalise(loaded.recipe, configuration("dspark-2x-spark", generation="bundled", **knobs))[0]
    return BundledLaunch(
        spec=build_launch(loaded, named, PLACES),
        inventory=inventory_from(parse_source(pair, name="pair.yaml"), nodes=2),
        project=PROJECT,
        host="127.0.0.1",
        port=18888,
    )


async def refused(bed: Bed, launch: BundledLaunch | None = None) -> str:
    with pytest.raises(EngineError) as caught:
        await prepare(launch or launch_of(), bed.nodes)
    assert caught.value.exit_code == 3
    return str(caught.value).replace(str(bed.worker.home), "~").replace(str(bed.head.home), "~")


async def test_two_ranks_from_nothing_to_nothing(bed: Bed) -> None:
    launch = replace(launch_of(num_speculative_tokens=6), key=ApiKey(variable="VLLM_API_KEY", value="one-time"))
    ranks = await prepare(launch, bed.nodes)
    assert [rank.document["services"]["vllm-dspark"]["image"] for rank in ranks] == [f"{NAME}:1@{DIGEST[-71:]}"] * 2
    await start(bed.nodes, ranks)

    (head,), (worker,) = await containers_of(bed.nodes, PROJECT)
    assert (head.name, head.restart_policy, head.service) == ("harness-trial-vllm-dspark-1", "no", "vllm-dspark")
    assert (head.environment["MTP_NUM_TOKENS"], worker.environment["MTP_NUM_TOKENS"]) == ("6", "6")
    assert (head.environment["NCCL_IB_GID_INDEX"], worker.environment["NCCL_IB_GID_INDEX"]) == ("3", "5")
    assert (head.environment["VLLM_API_KEY"], "VLLM_API_KEY" in worker.environment) == ("one-time", False)
    folder = bed.head.home / ".cache/harness" / PROJECT
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert [stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()] == [0o600, 0o600]
    assert not any("one-time" in word for host in (bed.head, bed.worker) for call in host.calls for word in call)

    await stop(bed.nodes, PROJECT)
    await stop(bed.nodes, PROJECT)
    assert (bed.head.containers, bed.worker.containers, folder.exists()) == ({}, {}, False)


async def test_a_value_of_a_sweep_is_one_variable_on_both_hosts(bed: Bed, tmp_path: Path) -> None:
    owned = tmp_path / "owned"
    value = f"x\"; touch {owned}; $(touch {owned}) `touch {owned}` '; touch {owned} #"
    ranks = await prepare(launch_of(env__X=value), bed.nodes)
    await start(bed.nodes, ranks)
    (head,), (worker,) = await containers_of(bed.nodes, PROJECT)
    await stop(bed.nodes, PROJECT)
    assert (head.environment["X"], worker.environment["X"]) == (value, value)
    assert not owned.exists()


async def test_the_worker_is_started_first(bed: Bed) -> None:
    ranks = await prepare(launch_of(), bed.nodes)
    bed.worker.fail("up", "no space left on device")
    with pytest.raises(LaunchError, match=r"could not start the worker rank \(exit code 1\): no space left on device"):
        await start(bed.nodes, ranks)
    assert bed.head.containers == {}
    bed.head.fail("up", "driver failed")
    (bed.worker.state / "fail-up").unlink()
    with pytest.raises(LaunchError, match="could not start the head rank"):
        await start(bed.nodes, ranks)
    assert list(bed.worker.containers) == ["harness-trial-vllm-dspark-1"]
    await stop(bed.nodes, PROJECT)
    assert bed.worker.containers == {}


async def test_a_file_that_compose_refuses_starts_nothing(bed: Bed) -> None:
    ranks = await prepare(launch_of(), bed.nodes)
    bed.worker.fail("config", "services.x: Additional property is not allowed")
    with pytest.raises(LaunchError, match="refuses the compose file"):
        await start(bed.nodes, ranks)
    assert (bed.head.containers, bed.worker.containers) == ({}, {})


async def test_a_failed_down_is_no_end(bed: Bed) -> None:
    await start(bed.nodes, await prepare(launch_of(), bed.nodes))
    bed.worker.fail("down", "cannot")
    await stop(bed.nodes, PROJECT)
    assert bed.worker.containers == {}


async def test_ranks_without_their_file_are_removed_too_and_nothing_else(bed: Bed) -> None:
    ranks = await prepare(launch_of(), bed.nodes)
    await start(bed.nodes, ranks)
    await start(bed.nodes, [replace(rank, project="somebody-elses") for rank in ranks])
    (bed.head.home / ".cache/harness" / PROJECT / "compose.yaml").unlink()
    await stop(bed.nodes, PROJECT)
    assert list(bed.head.containers) == list(bed.worker.containers) == ["somebody-elses-vllm-dspark-1"]


async def test_what_stays_is_said_and_the_other_host_is_done(bed: Bed) -> None:
    await start(bed.nodes, await prepare(launch_of(), bed.nodes))
    (bed.worker.state / "sticky").touch()
    with pytest.raises(EngineError) as caught:
        await stop(bed.nodes, PROJECT)
    assert str(caught.value) == snapshot("""\
spark-2: harness-trial-vllm-dspark-1 cannot be removed on worker
  On that node: docker ps -aq --filter label=com.docker.compose.project=harness-trial | xargs -r docker rm -f\
""")
    assert bed.head.containers == {}


class _Gone(HostShell):
    async def run(self, command: Command, *, timeout_s: float | None = None) -> Completed:
        raise HostUnreachableError("ssh to spark-2 failed: No route to host", where="spark-2", hint="Try again.")


async def test_a_host_that_is_gone_does_not_keep_the_other_up(bed: Bed) -> None:
    await start(bed.nodes, await prepare(launch_of(), bed.nodes))
    head, worker = bed.nodes
    with pytest.raises(EngineError, match="No route to host"):
        await stop((head, replace(worker, shell=_Gone(environment={}))), PROJECT)
    assert (bed.head.containers, list(bed.worker.containers)) == ({}, ["harness-trial-vllm-dspark-1"])


async def test_an_image_that_is_missing(bed: Bed) -> None:
    (bed.worker.state / "images" / f"{NAME}:1".replace("/", "!")).unlink()
    assert await refused(bed) == snapshot("""\
spark-2: the image registry.example/engine:1 is not on worker
  Run `docker pull registry.example/engine:1` there; an image that was built must be built or copied there too.\
""")


async def test_two_images_of_one_name(bed: Bed) -> None:
    bed.worker.add_image(f"{NAME}:1", image_id="sha256:2", digests=(OTHER,))
    assert await refused(bed) == snapshot("""\
spark-2: registry.example/engine:1 is not the same image on both nodes: head sha256:1, worker sha256:2
  Pull it by digest on both (docker pull NAME@sha256:...), or copy it: docker save NAME | ssh W docker load.\
""")


async def test_one_image_under_two_ids_and_a_local_build(bed: Bed) -> None:
    bed.worker.add_image(f"{NAME}:1", image_id="sha256:2", digests=(DIGEST,))  # two kinds of image store
    (head, _) = await prepare(launch_of(), bed.nodes)
    assert head.document["services"]["vllm-dspark"]["image"].endswith(DIGEST[-71:])
    for host in (bed.head, bed.worker):
        host.add_image(f"{NAME}:1", image_id="sha256:3")
    (head, _) = await prepare(launch_of(), bed.nodes)
    assert head.document["services"]["vllm-dspark"]["image"] == f"{NAME}:1"


async def test_a_checkpoint_that_is_missing_or_not_complete(bed: Bed) -> None:
    launch = launch_of(checkpoint="org/Other@99")
    said = await refused(bed, launch)
    assert said == snapshot("""\
this machine: head has no revision 99 of org/Other in ~/.cache/huggingface/hub
  Run `hf download org/Other --revision 99` there, with HF_HOME=~/.cache/huggingface.
  Also spark-2: worker has no revision 99 of org/Other in ~/.cache/huggingface/hub
    Run `hf download org/Other --revision 99` there, with HF_HOME=~/.cache/huggingface. Or set hf_nfs: true.\
""")
    hub = bed.worker.home / ".cache/huggingface/hub/models--org--Model"
    (hub / "blobs" / "model-00001-of-00002.safetensors").unlink()
    (hub / "snapshots" / COMMIT / "model-00002-of-00002.safetensors").unlink()
    assert await refused(bed) == snapshot("""\
spark-2: the checkpoint on worker is not complete: model-00001-of-00002.safetensors, model-00002-of-00002.safetensors
  Run `hf download org/Model --revision 0123abc` there, with HF_HOME=~/.cache/huggingface. It goes on where it ended.\
""")


async def test_a_branch_is_the_same_commit_on_both_nodes(bed: Bed) -> None:
    bed.head.add_snapshot("org/Branch", "111", ref="main")
    bed.worker.add_snapshot("org/Branch", "222", ref="main")
    assert await refused(bed, launch_of(checkpoint="org/Branch@main")) == snapshot("""\
spark-2: org/Branch@main is not the same commit on both nodes: head 111, worker 222
  Name the commit in `checkpoint`, and download it on both.\
""")


async def test_a_worker_that_mounts_the_cache_needs_no_copy(bed: Bed) -> None:
    bed.head.add_snapshot("org/Other", "99")
    launch = launch_of(PAIR.replace("ssh: b", "ssh: b, hf_nfs: true"), checkpoint="org/Other@99")
    head, worker = await prepare(launch, bed.nodes)
    assert (head.has_volumes, worker.has_volumes) == (False, True)
    assert worker.document["volumes"]["hub"]["driver_opts"]["device"] == f":{bed.head.home}/.cache/huggingface/hub"


async def test_the_encoder_is_taken_where_all_nodes_have_it(bed: Bed) -> None:
    head, worker = await prepare(launch_of(), bed.nodes)
    for rank, host in ((head, bed.head), (worker, bed.worker)):
        mount = rank.document["services"]["vllm-dspark"]["volumes"][-1]
        assert mount["source"].startswith(str(host.home))
        assert mount["source"].endswith("/encoding/encoding_dsv4.py")
    next(bed.worker.home.rglob("encoding_dsv4.py")).unlink()
    for rank in await prepare(launch_of(), bed.nodes):
        assert len(rank.document["services"]["vllm-dspark"]["volumes"]) == 1


async def test_docker_that_does_not_answer_is_no_missing_image(bed: Bed) -> None:
    bed.worker.fail("inspect", "Cannot connect to the Docker daemon")
    bed.worker.fail("version", "Cannot connect to the Docker daemon")
    assert "failed on worker with exit code 1: Cannot connect to the Docker daemon" in await refused(bed)


async def test_a_gid_that_no_node_has(bed: Bed) -> None:
    said = await refused(
        bed, launch_of(PAIR.replace("gid_index: 5", "gid_index: auto").replace("hca: a", "hca: none0"))
    )
    assert said.startswith("spark-2: no active RDMA port fits hca 'none0'")
