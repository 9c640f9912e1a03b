"""What a search planned, and each of its decisions, written before the launch that it led to."""

from __future__ import annotations

from dataclasses import dataclass

from harness.records.observation import Phase
from harness.records.verdict import AskedLimit

KNOWN_BEFORE = "known already"  # how the note begins that says what earlier searches measured
LIMIT_BROKEN = "no finalist"  # how the note begins that says which limit kept a configuration out
NOT_LAUNCHED = "not launched"  # how the note begins that says what is believed of the others
NOTHING_TO_CONFIRM = "nothing that was launched promises more than the incumbent"  # the note of such an end
SEARCH_ENDED = "the search ended"  # how the note begins that says why
CUT_SHORT = "the search was cut short"  # how it begins where more would have been launched


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedTune:
    """What `tune` asks of the launches of a plan. Round 1 of a configuration is its search, later ones confirm it."""

    sampler: str
    max_launches: int  # of the search
    confirm_best: int
    confirm_launches: int
    reference_id: str  # configuration id of the incumbent, that gains are over
    objective: str
    study: str  # its name
    fingerprint: str  # of space, rig, workload and objective
    limits: tuple[AskedLimit, ...] = ()
    time_s: float | None = None  # that it may take, the launches that confirm included


@dataclass(frozen=True, slots=True, kw_only=True)
class TuneStep:
    """Why a configuration is launched now."""

    at: str  # wall clock, ISO 8601 with zone
    launch_key: str
    configuration_id: str
    phase: Phase
    because: str
    trial_number: int | None = None  # of the study; None: the confirmation is none of its business
    expected_log_gain: float | None = None  # over the best so far, counting nothing below it
    believed_log_gain: float | None = None  # over the incumbent
    believed_sd: float | None = None
    left_out: tuple[str, ...] = ()  # load ids that are left for configurations that stay in the race


def step_words(step: TuneStep) -> str:
    """Return why a launch comes next, as it is shown before it."""
    return f"{step.phase}: {step.because}"
