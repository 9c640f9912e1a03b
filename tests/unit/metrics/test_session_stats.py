"""ds4's own account of its drafts: three generations of one line, and what may be done to it on its way to the log."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.metrics.session_stats import read_session_stats
from harness.records.speculation import SpeculationStats

# The fields are those of documented lines: July 2026; 5 August (histograms, net_saved); after the direct commit.
JULY = (
    "ds4: DSpark stats cycles=119 first_tokens=119 proposed=0 accepted_draft=0 accept_rate=0.00% avg_accept=0.000 "
    "full=0 partial=0 miss_first=0 no_draft=119 no_room=0 invalid=0 time_ms verify=0.000 verify_layer=0.000 "
    "replay=0.000"
)
AUGUST = (
    "ds4: DSpark stats cycles=88 proposed=44 accepted_draft=31 accept_rate=70.45% avg_accept=0.352 full=14 partial=2 "
    "miss_first=7 no_draft=65 scheduler_skips=52 draft_len_hist=1:10,2:6,3:6,4:1 accepted_len_hist=0:72,1:6,2:5,3:5 "
    "time_ms propose=332.0 verify=964.4 replay=1063.1 spec_total=2039.9 saved=1045.3 net_saved=-1326.6"
)
DIRECT = (
    "ds4: DSpark stats cycles=205 first_tokens=205 proposed=345 accepted_draft=289 accept_rate=83.77% avg_accept=1.410 "
    "full=80 partial=20 miss_first=7 no_draft=98 no_room=0 invalid=0 direct_full=80 direct_partial=20 "
    "scheduler_skips=76 tail_skips=1 verifier_unavailable=0 errors=0 fallbacks=0 exact2_attempts=3 exact2_accepts=2 "
    "time_ms propose=60.1 verify=5925.2 verify_layer=5922.0 replay=0.0 spec_total=5985.2 target=4801.0 saved=5203.2 "
    "net_saved=-782.0"
)
GENERATIONS = (JULY, AUGUST, DIRECT)


def read(*lines: str, whole: bool = True, asked: bool = True) -> SpeculationStats:
    return read_session_stats(lines, asked=asked, whole=whole)


def test_the_first_generation_knows_no_savings() -> None:
    stats = read("ds4-server: shutting down", JULY)

    assert stats.absent_because is None
    assert (stats.counts["cycles"], stats.counts["proposed"], stats.counts["no_draft"]) == (119, 0, 119)
    assert "net_saved" not in stats.times_s
    assert not stats.bypassed, "it ran its cycles, and none of them drafted"


def test_the_second_generation_has_histograms_and_savings() -> None:
    stats = read(AUGUST)

    assert stats.histograms["draft_len_hist"] == "1:10,2:6,3:6,4:1"
    assert stats.times_s["net_saved"] == pytest.approx(-1.3266)
    assert stats.ratios == {"accept_rate": pytest.approx(0.7045), "avg_accept": 0.352}


def test_the_third_generation_has_keys_that_nobody_asked_for() -> None:
    stats = read(DIRECT, "ds4: DSpark detail block=5 stages=3")

    assert stats.counts["exact2_accepts"] == 2
    assert stats.times_s["target"] == pytest.approx(4.801)
    assert stats.lines == 1


def test_a_line_that_was_wrapped_is_read_as_one() -> None:
    first, mark, second = AUGUST.partition(" draft_len_hist=")

    assert read(first, f"  draft_len_hist={second}") == read(AUGUST)
    assert mark


def test_counts_of_several_sessions_are_summed() -> None:
    stats = read(AUGUST, "ds4: another session", AUGUST)

    assert stats.lines == 2
    assert stats.counts["cycles"] == 176
    assert stats.times_s["net_saved"] == pytest.approx(-2.6532)
    assert stats.ratios == {}, "a ratio of two sessions is worked out, not added"


@pytest.mark.parametrize("line", GENERATIONS, ids=["july", "august", "direct"])
@given(data=st.data())
def test_a_line_cut_anywhere_gives_no_figure_and_says_why(line: str, data: st.DataObject) -> None:
    at = data.draw(st.integers(len("ds4: DSpark stats"), len(line) - 1))

    stats = read(line[:at], whole=False)

    assert stats.counts == {} and stats.times_s == {} and stats.ratios == {}
    assert stats.absent_because is not None and "cut" in stats.absent_because


@given(at=st.integers(len("ds4: DSpark stats"), len(AUGUST) - 1), other=st.sampled_from(["ds4-server: bye", "Killed"]))
def test_a_line_that_another_one_broke_into_is_not_believed_where_that_shows(at: int, other: str) -> None:
    stats = read(AUGUST[:at] + other)

    whole = read(AUGUST)
    for name, count in stats.counts.items():
        assert count == whole.counts[name], "a number that was cut short was believed"


def test_figures_that_contradict_each_other_are_not_believed() -> None:
    more = read(AUGUST.replace("proposed=44", "proposed=4"))
    other = read(AUGUST.replace("accepted_draft=31", "accepted_draft=3"))

    assert more.absent_because is not None and "contradicts itself" in more.absent_because
    assert other.absent_because is not None and "contradicts itself" in other.absent_because


def test_no_line_at_all_has_a_reason_where_drafts_were_asked_for() -> None:
    assert "no line of DSpark stats" in (read("ds4-server: listening on http://127.0.0.1:8000").absent_because or "")
    assert read("ds4-server: listening", asked=False).absent_because is None


def test_zero_cycles_are_a_bypass_only_where_drafts_were_asked_for() -> None:
    nothing = JULY.replace("cycles=119", "cycles=0").replace("no_draft=119", "no_draft=0")

    assert read(nothing).bypassed
    assert not read(nothing, asked=False).bypassed


def test_the_engines_own_rates_are_read_in_both_forms() -> None:
    cli = read("ds4: prefill: 771.17 t/s, generation: 19.27 t/s", "ds4: prefill: 775.42 t/s, generation: 19.30 t/s")
    server = read(
        "ds4-server: chat ctx=12..62 gen=50 decoding chunk=18.00 t/s avg=18.00 t/s 2.700s",
        "ds4-server: chat ctx=62..92 gen=80 decoding chunk=20.00 t/s avg=19.00 t/s 4.200s",
        "ds4-server: chat ctx=12..52 gen=40 decoding chunk=21.00 t/s avg=21.00 t/s 1.900s",
    )

    assert cli.prefill_tokens_per_s == (771.17, 775.42)
    assert cli.generation_tokens_per_s == (19.27, 19.30)
    assert server.generation_tokens_per_s == (19.0, 21.0), "the last average of each answer"


@given(st.lists(st.text()), st.booleans(), st.booleans())
def test_no_log_breaks_it(lines: list[str], whole: bool, asked: bool) -> None:
    stats = read_session_stats(lines, asked=asked, whole=whole)

    assert stats.lines == 0 or stats.absent_because is None


@given(st.dictionaries(st.from_regex(r"[a-z][a-z0-9_]{0,12}", fullmatch=True), st.integers(0, 10**9), min_size=1))
def test_any_keys_and_counts_come_through(counts: dict[str, int]) -> None:
    known = {name: count for name, count in counts.items() if name not in ("accept_rate", "proposed", "accepted_draft")}
    known.pop("avg_accept", None)
    if known:
        stats = read("ds4: DSpark stats " + " ".join(f"{name}={count}" for name, count in known.items()))
        assert stats.counts == known
