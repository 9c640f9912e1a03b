"""What nodes print: values, fields that a driver refuses or does not report, and whatever else may come."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.engine.pair.readings import END, bytes_of, complete_readings, facts_of, reasons_of, sample_of
from harness.records.codec import from_json, to_json
from harness.records.host import NodeFacts, NodeSample

AT = "2026-11-30T13:28:12+00:00"
FIELDS = (
    "name,driver_version,vbios_version,clocks.sm,temperature.gpu,power.draw,pstate,clocks_throttle_reasons.active,"
    "clocks.max.sm,clocks.mem,power.limit,enforced.power.limit"
)
FACTS = f"""\
harness:refused clocks_event_reasons.active Field "clocks_event_reasons.active" is not a valid field to query.
harness:gpu {FIELDS}
NVIDIA GB10, 580.95.05, 9A.0B.14.00.09, 208, 41, 4.71, P8, 0x0000000000000001, 3003, [N/A], [N/A], [N/A]
harness:meminfo
MemTotal:       127535208 kB
MemFree:         3000000 kB
MemAvailable:   118000000 kB
SwapTotal:      16777212 kB
SwapFree:       16000000 kB
HugePages_Total:       0
harness:uptime
86400.52 1600000.11
harness:kernel
6.11.0-1016-nvidia
harness:firmware
5.36_0ACUM018
harness:end
"""


def test_facts_of_a_healthy_idle_node() -> None:
    assert facts_of(FACTS, node="head", at=AT) == NodeFacts(
        node="head",
        at=AT,
        gpu_name="NVIDIA GB10",
        gpus=1,
        driver_version="580.95.05",
        vbios_version="9A.0B.14.00.09",
        firmware_version="5.36_0ACUM018",
        kernel="6.11.0-1016-nvidia",
        uptime_s=86400.52,
        sm_clock_mhz=208.0,
        max_sm_clock_mhz=3003.0,
        memory_clock_mhz=None,
        temperature_c=41.0,
        power_w=4.71,
        power_limit_w=None,
        power_state="P8",
        throttle_reasons=("gpu_idle",),
        memory_total_bytes=127535208 * 1024,
        memory_available_bytes=118000000 * 1024,
        swap_used_bytes=777212 * 1024,
        null_reasons={"memory_clock_mhz": "nvidia-smi says [N/A]", "power_limit_w": "nvidia-smi says [N/A]"},
    )


def test_a_refused_field_is_missing_and_loses_no_other() -> None:
    text = FACTS.replace(",clocks_throttle_reasons.active", "").replace(" 0x0000000000000001,", "")

    facts = facts_of(text, node="head", at=AT)

    assert facts.throttle_reasons is None
    assert "not a valid field" in facts.null_reasons["throttle_reasons"]
    assert facts.max_sm_clock_mhz == 3003.0


@pytest.mark.parametrize("said", ["[Not Supported]", "[Unknown Error]", "N/A", "nan", "inf", "hot"])
def test_what_is_no_value_is_none_with_the_words_of_the_driver(said: str) -> None:
    facts = facts_of(FACTS.replace(" 41,", f" {said},"), node="head", at=AT)

    assert facts.temperature_c is None
    assert said in facts.null_reasons["temperature_c"]
    assert facts.power_w == 4.71


def test_without_a_driver_the_rest_is_still_known() -> None:
    text = "harness:refused * there is no nvidia-smi\nharness:gpu \n" + FACTS[FACTS.index("harness:meminfo") :]

    facts = facts_of(text, node="worker", at=AT)

    assert (facts.gpu_name, facts.gpus, facts.sm_clock_mhz) == (None, None, None)
    assert facts.null_reasons["gpu_name"] == facts.null_reasons["gpus"] == "there is no nvidia-smi"
    assert facts.memory_available_bytes == 118000000 * 1024


def test_a_driver_that_fails_in_the_middle_is_quoted() -> None:
    start, end = FACTS.index("NVIDIA GB10"), FACTS.index("harness:meminfo")
    text = FACTS[:start] + "Unable to determine the device handle for GPU0: Unknown Error\n" + FACTS[end:]

    facts = facts_of(text, node="head", at=AT)

    assert facts.power_w is None
    assert facts.null_reasons["power_w"] == "Unable to determine the device handle for GPU0: Unknown Error"


def test_of_several_gpus_the_first_is_shown_and_all_are_counted() -> None:
    line = next(line for line in FACTS.splitlines() if line.startswith("NVIDIA"))

    facts = facts_of(FACTS.replace(line, f"{line}\n{line.replace('208', '999')}"), node="head", at=AT)

    assert (facts.gpus, facts.sm_clock_mhz) == (2, 208.0)


def test_a_sample() -> None:
    text = (
        "harness:gpu clocks.sm,temperature.gpu,power.draw,pstate,clocks_event_reasons.active\n"
        "799, 55, [N/A], P0, 0x0000000000000024\n"
        "harness:meminfo\nMemAvailable:   22000000 kB\n"
    )

    assert sample_of(text, node="worker", at=AT) == NodeSample(
        node="worker",
        at=AT,
        sm_clock_mhz=799.0,
        temperature_c=55.0,
        power_w=None,
        power_state="P0",
        throttle_reasons=("sw_power_cap", "sw_thermal_slowdown"),
        memory_available_bytes=22000000 * 1024,
        null_reasons={"power_w": "nvidia-smi says [N/A]"},
    )


@pytest.mark.parametrize(
    ("mask", "expected"),
    [
        ("0x0000000000000000", ()),
        ("0x0000000000000001", ("gpu_idle",)),
        ("0x00000000000000C8", ("hw_slowdown", "hw_thermal_slowdown", "hw_power_brake_slowdown")),
        ("0x0000000000000201", ("gpu_idle", "unknown_0x200")),
    ],
)
def test_the_mask_of_reasons(mask: str, expected: tuple[str, ...]) -> None:
    assert reasons_of(mask) == expected


def test_readings_are_taken_once_they_have_ended() -> None:
    whole, rest = complete_readings(f"warning\nharness:gpu \n{END}\nharness:gpu \n{END}\nharness:gp")

    assert whole == ["warning\nharness:gpu \n", "harness:gpu \n"]
    assert rest == "harness:gp"


def test_sizes_with_and_without_a_unit() -> None:
    assert bytes_of("MemFree: 3 kB\nHugePages_Total:   2\nnonsense\nX: y kB\n") == {
        "MemFree": 3072,
        "HugePages_Total": 2,
    }


@given(st.text() | st.lists(st.sampled_from(FACTS.splitlines(keepends=True))).map("".join))
def test_whatever_is_printed_makes_a_record_that_can_be_stored(text: str) -> None:
    facts = facts_of(text, node="head", at=AT)
    sample = sample_of(text, node="head", at=AT)

    assert from_json(NodeFacts, to_json(facts)) == facts
    assert from_json(NodeSample, to_json(sample)) == sample
    assert all(getattr(facts, name) is None for name in facts.null_reasons)


@given(st.lists(st.text(alphabet="ab\n", max_size=8)), st.data())
def test_readings_do_not_depend_on_how_they_arrive(parts: list[str], data: st.DataObject) -> None:
    text = "".join(f"{part}\n{END}\n" for part in parts)
    cut = data.draw(st.integers(0, len(text)))

    first, rest = complete_readings(text[:cut])
    second, left = complete_readings(rest + text[cut:])

    assert (first + second, left) == complete_readings(text)
