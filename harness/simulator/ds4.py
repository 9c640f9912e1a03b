"""What is different about a simulated ds4: few routes, an event for each token, and statistics when it ends."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from harness.simulator.engine import EngineLoop
from harness.simulator.model import StepLoad, step_s

ROUTES = ("/v1/models", "/v1/chat/completions", "/v1/completions")
NOT_READ = ("min_tokens", "ignore_eos", "return_token_ids")  # fields of a request that it passes over


def without_unread(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return a request as ds4 understands it."""
    return {name: value for name, value in body.items() if name not in NOT_READ}


def model_card(model: str, context_tokens: int) -> dict[str, Any]:
    """Return its entry of /v1/models."""
    return {"id": model, "object": "model", "owned_by": "SIMULATED", "context_length": context_tokens}


def boot_lines(engine: EngineLoop, *, mark: str) -> Iterator[tuple[float, str]]:
    """Yield what it says while it boots, and at which share of the time it takes."""
    yield 0.0, f"ds4: {mark}"
    if engine.k:
        yield 0.5, f"ds4: DSpark support model detected: SIMULATED (stages=3 block={engine.k} missing=0 invalid=0)"
    yield 1.0, "ds4-server: listening on http://simulated.invalid"


def last_lines(engine: EngineLoop) -> tuple[str, ...]:
    """Return what it says when it is stopped."""
    return ("ds4-server: shutting down", *((stats_line(engine),) if engine.k else ()))


def stats_line(engine: EngineLoop) -> str:
    """Return the statistics of the session: cycles are decode steps, and what is not simulated is left out."""
    counters, decoded = engine.counters, engine.decoded
    cycles, proposed, accepted = decoded.steps, counters.draft_tokens, counters.accepted_tokens
    rate = 100 * accepted / proposed if proposed else 0.0
    average = accepted / cycles if cycles else 0.0
    context = round(decoded.context_tokens / decoded.steps) if decoded.steps else 0
    plain_s = step_s(engine.scenario.truth.cost, StepLoad(0, 1, context, 1), capture_limit_tokens=0)
    saved_ms, net_ms = accepted * plain_s * 1000, (decoded.tokens * plain_s - decoded.seconds) * 1000
    return (
        f"ds4: DSpark stats cycles={cycles} proposed={proposed} accepted_draft={accepted} accept_rate={rate:.2f}% "
        f"avg_accept={average:.3f} time_ms spec_total={decoded.seconds * 1000:.1f} saved={saved_ms:.1f} "
        f"net_saved={net_ms:.1f}"
    )
