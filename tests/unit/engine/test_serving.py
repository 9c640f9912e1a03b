"""Which rig it is: by the machines that serve, from wherever and in whatever order they are looked at."""

from __future__ import annotations

from harness.engine.serving import machine_of, rig_id_of
from harness.records.identity import content_id

SPARK = """id a1
kernel 6.14.0
cores 20
memory 125829120 kB
processor aarch64
accelerator NVIDIA GB10, 580.95.05
"""


def test_a_machine_says_what_it_is() -> None:
    machine = machine_of(SPARK)

    assert machine is not None
    assert (machine.machine_id, machine.processor, machine.cores) == ("a1", "aarch64", 20)
    assert machine.accelerators == ("NVIDIA GB10, 580.95.05",)
    assert machine.memory_bytes == 125829120 * 1024


def test_one_that_says_nothing_is_none() -> None:
    assert machine_of("") is None
    assert machine_of("kernel 6.14\n") is None


def test_a_rig_is_its_machines_and_the_recipe() -> None:
    head, worker = machine_of(SPARK), machine_of(SPARK.replace("id a1", "id b2"))
    assert head is not None and worker is not None

    pair = rig_id_of([head, worker], "dspark-2x-spark")

    assert pair == rig_id_of([worker, head], "dspark-2x-spark"), "the same two machines"
    others = [rig_id_of([head], "dspark-2x-spark"), rig_id_of([head, head], "dspark-2x-spark")]
    newer = machine_of(SPARK.replace("580.95.05", "581.0"))
    assert newer is not None
    assert pair not in (*others, rig_id_of([head, worker], "ds4"), rig_id_of([newer, worker], "dspark-2x-spark"))


def test_one_machine_is_the_rig_that_it_is_from_itself() -> None:
    head = machine_of(SPARK)
    assert head is not None

    assert rig_id_of([head], "ds4") == content_id(["a1", ("NVIDIA GB10, 580.95.05",), "ds4"])
