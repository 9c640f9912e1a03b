"""The simulated ds4: near its published curves, and in the manner of ds4-server."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from harness.metrics.session_stats import read_session_stats
from harness.simulator.ds4 import stats_line
from harness.simulator.engine import EngineLoop, EngineSettings
from harness.simulator.front import Call, Front, FrontSettings, Generation, Plain
from harness.simulator.model import Scheduling, Speculation, StepLoad, step_law, step_s
from harness.simulator.request import Batch
from harness.simulator.scenario import load_scenario
from harness.simulator.truth import TRUTHS, load_truth

ROWS = list(csv.DictReader((Path(TRUTHS).parent / "calibration" / "ds4_confidence.csv").read_text().splitlines()))
CONTEXT_TOKENS = {"ds4-gb10-q4": 1574, "ds4-m5-max-code": 0}  # that of the M5 is not published
BLOCK = 5


def rate(row: dict[str, str], *, confidence: str | None = None, temperature: float | None = None) -> float:
    """Expected tokens per second of a row of the published curves."""
    truth, context = load_truth(row["truth"]), CONTEXT_TOKENS[row["truth"]]
    confidence = confidence or row["confidence"]
    if confidence == "off":
        return 1 / step_s(truth.cost, StepLoad(0, 1, context, 1), capture_limit_tokens=0)
    speculation = Speculation(k=BLOCK, confidence_threshold=float(confidence), confidence_scheduler="threshold")
    law = step_law(
        truth,
        speculation,
        workload_class=row["class"],
        temperature=float(row["temperature"]) if temperature is None else temperature,
    )
    pairs = zip(law.probabilities, law.outcomes, strict=True)
    seconds = sum(
        probability * step_s(truth.cost, StepLoad(BLOCK, 1, context, 1 + outcome.drafted), capture_limit_tokens=0)
        for probability, outcome in pairs
    )
    return law.mean_tokens / seconds


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row['truth']}-{row['confidence']}-{row['temperature']}")
def test_each_published_point_is_near(row: dict[str, str]) -> None:
    assert rate(row) == pytest.approx(float(row["tokens_per_s"]), rel=0.04)


def test_off_wins_on_the_gb10_and_a_confidence_on_the_m5() -> None:
    gb10, m5 = (next(row for row in ROWS if row["truth"] == truth) for truth in CONTEXT_TOKENS)
    confidences = ("0", "0.5", "0.7", "0.8", "0.9", "0.95", "0.99")

    best = max(rate(gb10, confidence=confidence) for confidence in confidences)
    assert best / rate(gb10, confidence="off") == pytest.approx(16.255 / 19.35, abs=0.02)
    assert rate(m5, confidence="0.5") / rate(m5, confidence="off") == pytest.approx(50.69 / 39.86, rel=0.02)
    assert rate(m5, confidence="0.5", temperature=1) < rate(m5, confidence="off"), "what wins at 0 loses at 1"


def booted(confidence: float = 0.5) -> EngineLoop:
    speculation = Speculation(k=BLOCK, confidence_threshold=confidence, confidence_scheduler="threshold")
    settings = EngineSettings(
        speculation=speculation,
        scheduling=Scheduling(max_num_seqs=1, capture_limit_tokens=0),
        max_model_tokens=40960,
    )
    engine = EngineLoop(load_scenario("quiet", truth="ds4-m5-max-code"), settings, launch_key="test")
    engine.ready(0.0)
    return engine


def asked(front: Front, method: str, path: str, **body: object) -> Plain | Generation:
    return front.answer(Call(method=method, path=path, body=json.dumps(body).encode()))


def streamed(engine: EngineLoop, front: Front) -> bytes:
    """The events of one answer of 40 tokens."""
    message = {"role": "user", "content": "write a function"}
    options = {"include_usage": True, "continuous_usage_stats": True}
    fields = {"stream": True, "stream_options": options, "max_tokens": 40, "think": False, "return_token_ids": True}
    generation = asked(front, "POST", "/v1/chat/completions", model="m", messages=[message], temperature=0, **fields)
    assert isinstance(generation, Generation)
    batches: list[Batch] = []
    job = engine.submit(generation.order, 0.0, batches.append)
    reply = generation.reply_for(job)
    while not job.finished:
        due = engine.due_s()
        assert due is not None
        engine.advance(due)
    return b"".join(reply.events(batch) for batch in batches)


def test_it_has_the_routes_of_ds4_and_no_others() -> None:
    front = Front(booted(), FrontSettings(model="m", dialect="ds4"), now_s=lambda: 0.0)

    for path in ("/health", "/metrics", "/version", "/tokenize"):
        answer = asked(front, "GET", path)
        assert isinstance(answer, Plain) and answer.status == 404
    models = asked(front, "GET", "/v1/models")
    assert isinstance(models, Plain)
    (card,) = json.loads(models.body)["data"]
    assert card["context_length"] == 40960 and "max_model_len" not in card


def test_each_token_is_an_event_and_nothing_is_said_of_their_number() -> None:
    engine = booted()
    data = streamed(engine, Front(engine, FrontSettings(model="m", dialect="ds4"), now_s=lambda: 0.0))

    events = [json.loads(line[6:]) for line in data.decode().splitlines() if line.startswith("data: {")]
    texts = [event for event in events if event["choices"] and event["choices"][0]["delta"].get("content")]
    assert len(texts) == 40
    assert not any(event["choices"][0].get("token_ids") for event in texts)
    assert [event for event in events if "usage" in event] == [events[-1]]
    assert events[-1]["usage"]["prompt_tokens_details"] == {"cached_tokens": 0}


def test_its_statistics_are_those_of_its_counters() -> None:
    engine = booted()
    streamed(engine, Front(engine, FrontSettings(model="m", dialect="ds4"), now_s=lambda: 0.0))

    stats = read_session_stats([stats_line(engine)], asked=True)

    assert stats.absent_because is None
    assert stats.counts["proposed"] == engine.counters.draft_tokens
    assert stats.counts["accepted_draft"] == engine.counters.accepted_tokens
    assert 0 < stats.counts["cycles"] <= 39
    assert "net_saved" in stats.times_s
