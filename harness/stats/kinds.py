"""Every kind of doubt: whether it voids a trial, and what it means. docs/doubts.md is this table."""

from __future__ import annotations

from dataclasses import dataclass

from harness.records.doubt import Doubt


@dataclass(frozen=True, slots=True, kw_only=True)
class DoubtKind:
    """A void trial is not used at all; a doubtful one is used, and says so."""

    void: bool
    meaning: str


def _void(meaning: str) -> DoubtKind:
    return DoubtKind(void=True, meaning=meaning)


def _doubtful(meaning: str) -> DoubtKind:
    return DoubtKind(void=False, meaning=meaning)


KINDS: dict[str, DoubtKind] = {
    "nothing_measured": _void("no request of the trial finished"),
    "requests_failed": _void("so many requests failed that the others ran under a lighter load"),
    "engine_restarted": _void("a counter went back inside the window"),
    "wrong_configuration": _void("what runs is not what was asked for"),
    "speculation_bypassed": _void("drafts were asked for, and the engine made none in the whole launch"),
    "jit_in_window": _void("the engine compiled while it was measured"),
    "slow_launch": _void("this boot's canary was so slow that the launch was repeated"),
    "imported": _doubtful("another program measured this, and nothing of it was checked"),
    "some_requests_failed": _doubtful("a few requests failed"),
    "no_finish_reason": _doubtful("a stream ended without saying why"),
    "cold_cache_hits": _doubtful("a cold cell found its prompts in the prefix cache"),
    "reused_prefix_missed": _doubtful("a warm or shared cell did not find its prefix in the cache"),
    "prompt_off_target": _doubtful("prompts were not as long as the cell says"),
    "foreign_traffic": _doubtful("the engine served more than our own requests"),
    "counters_not_settled": _doubtful("the counters do not hold what was served"),
    "untested_generation": _doubtful("scripts that nobody tested this harness on started the engine"),
    "canary_moved": _doubtful("the fixed short cell was not the same before and after"),
    "slow_boot": _doubtful("the canary of this boot was slow, and a repetition did not help"),
    "node_throttled": _doubtful("a node lowered its clocks because of heat or power"),
    "node_power_changed": _doubtful("a busy node changed its power state, or its clocks fell"),
    "graphs_truncated": _doubtful("the fullest step of the cell runs without a captured graph"),
    "setting_ignored": _doubtful("the engine does not know a variable that was set for it"),
    "preempted": _doubtful("the engine ran out of KV cache and computed requests again"),
    "warmup_not_stable": _doubtful("the warm-up was still getting faster or slower"),
    "output_degenerate": _doubtful("an answer repeats itself, which is easy to draft"),
    "output_short": _doubtful("answers were shorter than asked for"),
    "thinking_used_budget": _doubtful("an answer was cut while it was still reasoning"),
    "no_answer": _doubtful("an answer ended by itself without a token"),
    "above_ceiling": _doubtful("faster than the same engine could be with every draft accepted"),
    "client_bottleneck": _doubtful("the client may have measured itself"),
    "events_merged": _doubtful("events are not steps: gaps between them say nothing about a step"),
    "identity_violated": _doubtful("the client's clock and the engine's counters tell different stories"),
    "steps_without_draft": _doubtful("some steps drafted nothing, so a draft is not a step"),
    "synthetic_text": _doubtful("a trace had no texts for some prompts, so that acceptance is not that of its traffic"),
    "replay_incomplete": _doubtful("not every request of the trace was sent"),
    "sent_late": _doubtful("the engine fell behind the times at which requests were due"),
    "recorded_reuse_differs": _doubtful("a replayed trace found more or less in the cache than it has in common"),
    "too_few_drafts": _doubtful("too few drafts for a precise acceptance"),
    "greedy_text_differs": _doubtful("at temperature 0 the arms say other things, early in most prompts"),
    "noise_assumed": _doubtful("nobody measured how far launches of this rig lie apart"),
    "not_alternating": _doubtful("the launches of the arms did not alternate"),
    "one_launch_an_arm": _doubtful("an arm was launched once, and a boot can be slow"),
    "workload_incomplete": _doubtful("loads of a comparison have no valid trial in one arm, or in both"),
    "fingerprints_differ": _doubtful("the two sides differ in more than what is compared"),
    "kv_tokens_differ": _doubtful("launches of one configuration had unlike amounts of KV cache"),
}


def doubt(kind: str, evidence: str, remedy: str) -> Doubt:
    """Return a doubt of a declared kind. Raises KeyError for another one."""
    return Doubt(kind=kind, evidence=evidence, remedy=remedy, void=KINDS[kind].void)


def as_markdown() -> str:
    """Return the table of docs/doubts.md."""
    rows = [f"| `{kind}` | {'void' if of.void else 'doubtful'} | {of.meaning} |" for kind, of in KINDS.items()]
    return "\n".join(["| kind | effect | meaning |", "|---|---|---|", *rows])
