"""A night as the JSON that a webhook gets. ``text`` is what a chat shows; the rest is for programs."""

from __future__ import annotations

import json
import math
from typing import Any

from harness.report.night_result import NightResult
from harness.report.night_words import belief
from harness.report.text import clean
from harness.stats.morning import Figure, Morning

MESSAGE_VERSION = 1
_CHAT_MARKUP = str.maketrans({"<": "‹", ">": "›"})  # in which a chat would read links and whom to call


def message_json(result: NightResult) -> str:
    """Return the document. A ratio above 1 is better; what was not measured is null."""
    document = {
        "version": MESSAGE_VERSION,
        "text": clean(result.line).translate(_CHAT_MARKUP),
        "sweep": result.sweep,
        "at": result.at,
        "run_id": result.run_id,
        "verdict": result.verdict,
        "exit_code": result.exit_code,
        "simulated": result.simulated,
        "reason": result.reason,
        "report": result.report,
        "took_s": result.took_s,
        "configurations": [
            {"configuration": label, "gates": number == 0} | _morning(morning)
            for number, (label, morning) in enumerate(result.mornings)
        ],
    }
    return json.dumps(document, allow_nan=False)


def _morning(morning: Morning) -> dict[str, Any]:
    return {
        "verdict": morning.verdict,
        "sentence": morning.sentence,
        "belief": belief(morning) or None,
        "cause": morning.cause or None,
        "differences": list(morning.differences),
        "history_nights": morning.history,
        "doubts": list(morning.night.doubts),
        "notes": list(morning.notes),
        "series": {one.name: _series(one) for one in morning.figures},
    }


def _series(one: Figure) -> dict[str, Any]:
    change = one.change
    return {
        "baseline_ratio": _ratio(one.log_ratio),
        "limit_ratio": None if one.baseline is None else _ratio(-one.baseline.limit_log),
        "below_limit": one.tripped,
        "change": None
        if change is None
        else {
            "since": one.since,
            "ratio": _ratio(change.log_ratio),
            "low": _ratio(change.low),
            "high": _ratio(change.high),
            "p": change.p,
            "shape": change.shape,
            "ratio_per_night": _ratio(change.per_night) if change.shape == "drift" else None,
        },
    }


def _ratio(log_ratio: float | None) -> float | None:
    return None if log_ratio is None else math.exp(log_ratio)
