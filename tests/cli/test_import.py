"""Results of other programs become a run that is shown and reported, and that says everywhere where it is from."""

from __future__ import annotations

from tests.system.driver import Desk

OFF = "ctx_tokens,prefill_tokens,prefill_tps,gen_tokens,gen_tps,kvcache_bytes\n2048,2048,832.86,128,20.58,52184460\n"
HALF = (
    "ctx_tokens,prefill_tokens,prefill_tps,gen_tokens,gen_tps,gen_first_ms,gen_steady_tokens,gen_steady_tps\n"
    "2048,2048,830.00,128,14.10,61.2,127,14.30\n"
)
RUN = (
    "ds4: prefill: 771.17 t/s, generation: 19.27 t/s\n"
    "ds4: DSpark stats cycles=88 proposed=44 accepted_draft=31 accept_rate=70.45% time_ms net_saved=-1326.6\n"
)


def test_two_files_of_ds4_bench_are_one_run_with_a_report(desk: Desk) -> None:
    (desk.folder / "off.csv").write_text(OFF)
    (desk.folder / "half.csv").write_text(HALF)

    done = desk.run("import", "off=off.csv", "half.csv", "--machine", "one GB10")

    assert done.code == 0, done.err
    assert "Nothing beats off. Next is half with -31.5 % decode speed" in done.err
    assert "IMPORTED: another program measured this" in done.err
    (report,) = desk.reports.glob("*/report.md")
    assert "IMPORTED: measured on one GB10" in report.read_text()
    document = desk.run("show", "latest", "--json").document()
    assert document["mark"] == "IMPORTED"
    rates = {cell["configuration"]: cell["decode_tokens_per_s"] for cell in document["cells"]}
    assert rates == {"off": 20.58, "half": 14.1}, "by the column that both files have"
    for cell in document["cells"]:
        assert [doubt["kind"] for doubt in cell["doubts"]] == ["imported"]
        assert cell["ttft_s"] is None and cell["null_reasons"]["ttft_s"] == "not in the results of ds4-bench"


def test_repeats_of_one_name_are_launches_of_one_configuration(desk: Desk) -> None:
    for number, rate in enumerate(("20.58", "20.18"), start=1):
        (desk.folder / f"off{number}.csv").write_text(OFF.replace("20.58", rate))

    assert desk.run("import", "off=off1.csv", "off=off2.csv").code == 0

    (cell,) = desk.run("show", "latest", "--json").document()["cells"]
    assert cell["launches"] == 2
    assert cell["spread"]["decode_tokens_per_s"] == [20.18, 20.58]


def test_what_ds4_prints_needs_its_context_and_brings_its_statistics(desk: Desk) -> None:
    (desk.folder / "run.log").write_text(RUN)

    refused = desk.run("import", "run.log")
    assert refused.code == 2
    assert "run.log:1" in refused.err and "--context-tokens" in refused.err
    assert not desk.runs(), "nothing is stored of what was refused"
    assert desk.run("import", "run.log", "--context-tokens", "1574").code == 0
    document = desk.run("show", "latest", "--json").document()
    assert document["launches"][0]["speculation"]["net_saved_s"] == -1.3266
    assert document["cells"][0]["context_tokens"] == 1574


def test_a_file_that_is_no_result_is_refused(desk: Desk) -> None:
    (desk.folder / "notes.txt").write_text("nothing of the kind")

    assert desk.run("import", "notes.txt").code == 2
    assert desk.run("import", "missing.csv").code == 2
    assert not desk.runs()
