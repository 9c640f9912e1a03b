"""The constants of one checkpoint on one image: what a simulated engine costs and how often its drafts are right."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from harness.errors import InputError
from harness.simulator.named import named_file, names_of
from harness.yaml_model import FileModel, did_you_mean, validated
from harness.yaml_source import read_source

TRUTHS = Path(__file__).parent / "truths"
# What a class is like, nearest first, where a truth has not measured it.
_LIKE = {
    "agentic": ("code",),
    "vision": ("prose",),
    "structured": ("code",),
    "repetitive": ("filler", "numbered_words", "code"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class StepCost:
    """What one engine step costs. Every term is seconds; model.step_s puts them together."""

    base_s: float  # launches, the interconnect, and weights that every step reads
    experts_s: float  # reading all experts; n tokens wake n / (n + experts_half_tokens) of them
    experts_half_tokens: float
    compute_s_per_token: float
    overlapped_tokens: float = 0.0  # computing so many hides behind reading the weights
    attention_s_per_token2: float  # per prompt token and token of context before it
    chunk_s_per_token2: float  # times the square of the prompt tokens in one step: wide chunks are less efficient
    context_s_per_token: float  # per token of context of a decoding stream
    draft_s: float  # once per step with a drafter
    draft_s_per_position: float
    verify_s_per_token: float = 0.0  # per drafted token that is verified, where verifying is dear (replays included)
    draft_context_s_per_token: float = 0.0  # per position and token of context, where the drafter reads all of it
    first_token_s: float = 0.0  # tokenizing, sampling and sending, once a request
    eager_ratio: float = 1.0  # a step wider than every captured graph costs this much more
    confidence_sync_s: float = 0.0  # a confidence scheduler copies its answer to the host in each step


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftQuality:
    """How often drafts are accepted: log-odds that fall with the position, shifted by what is asked for."""

    log_odds: Mapping[str, float]  # by workload class: position 0, temperature at or below flat_temperature
    log_odds_per_position: float  # what each further position adds; below zero
    difficulty_sd: float = 0.0  # of a step's own shift: some places in a text are easy at every position
    flat_temperature: float = 0.6
    log_odds_per_temperature: float = 0.0  # above flat_temperature
    greedy_log_odds: float = 0.0  # of a greedy drafter while the target samples
    block_tokens: int | None = None  # the block that the drafter was trained for
    beyond_block_log_odds: float = 0.0  # at every position, where k is above the block
    outside_log_odds_per_position: float = 0.0  # more, for each position past the block
    log_odds_per_context_doubling: float = 0.0  # above context_floor_tokens
    context_floor_tokens: int = 256
    confidence_log_odds: float = 0.0  # by how much the confidence head is too sure


@dataclass(frozen=True, slots=True, kw_only=True)
class Truth:
    """One checkpoint on one image. Sources say where each number comes from."""

    name: str
    checkpoint: str
    image: str
    cost: StepCost
    drafts: DraftQuality
    default_class: str
    max_model_tokens: int
    kv_cache_tokens: int
    launch_s: float  # from start to ready
    sources: Mapping[str, str]  # constant or group -> where it comes from
    captures_graphs: bool = True  # False: a step costs what its tokens cost, and no more
    confidence_scheduler: Literal["off", "threshold"] = "off"  # where no knob says whether the threshold is used
    max_num_seqs: int | None = None  # where the engine, and no knob, decides how many requests run at a time


def truth_names() -> list[str]:
    """Return the names that load_truth knows."""
    return names_of(TRUTHS)


@cache  # every launch of a rehearsal asks for it
def load_truth(name: str) -> Truth:
    """Return the truth called ``name``. Raises InputError: there is none, or its file is wrong."""
    return read_truth(named_file(TRUTHS, name, kind="truth"))


def read_truth(path: Path) -> Truth:
    """Return the truth in a file, which gives it its name. Raises InputError."""
    source = read_source(path)
    written = validated(_TruthFile, source)
    known = written.drafts.log_odds
    if written.default_class not in known:
        what = f'default_class: "{written.default_class}" has no log-odds'
        raise source.error(("default_class",), what, hint=did_you_mean(written.default_class, known))
    return Truth(
        name=path.stem,
        checkpoint=written.checkpoint,
        image=written.image,
        cost=StepCost(**written.cost.model_dump()),
        drafts=DraftQuality(**written.drafts.model_dump()),
        default_class=written.default_class,
        max_model_tokens=written.max_model_tokens,
        kv_cache_tokens=written.kv_cache_tokens,
        launch_s=written.launch_s,
        sources=dict(written.sources),
        captures_graphs=written.captures_graphs,
        confidence_scheduler=written.confidence_scheduler,
        max_num_seqs=written.max_num_seqs,
    )


def log_odds_of(truth: Truth, workload_class: str) -> float:
    """Return the log-odds at position 0 of a workload class. Raises InputError: the truth does not know it."""
    try:
        return truth.drafts.log_odds[workload_class]
    except KeyError:
        what = f'the simulated engine "{truth.name}" knows no workload class "{workload_class}"'
        raise InputError(what, hint=did_you_mean(workload_class, truth.drafts.log_odds)) from None


def class_like(truth: Truth, workload_class: str) -> str:
    """Return the class by whose log-odds a truth drafts ``workload_class``: its own, else one that is like it."""
    candidates = (workload_class, *_LIKE.get(workload_class, ()))
    return next((each for each in candidates if each in truth.drafts.log_odds), truth.default_class)


_Seconds = Annotated[float, Field(ge=0)]
_Ratio = Annotated[float, Field(ge=1)]
_Tokens = Annotated[int, Field(ge=1)]


class _CostFile(FileModel):
    base_s: _Seconds
    experts_s: _Seconds
    experts_half_tokens: Annotated[float, Field(gt=0)]
    compute_s_per_token: _Seconds
    overlapped_tokens: Annotated[float, Field(ge=0)] = 0.0
    attention_s_per_token2: _Seconds
    chunk_s_per_token2: _Seconds = 0.0
    context_s_per_token: _Seconds
    draft_s: _Seconds
    draft_s_per_position: _Seconds
    verify_s_per_token: _Seconds = 0.0
    draft_context_s_per_token: _Seconds = 0.0
    first_token_s: _Seconds = 0.0
    eager_ratio: _Ratio = 1.0
    confidence_sync_s: _Seconds = 0.0


class _DraftsFile(FileModel):
    log_odds: dict[str, float]
    log_odds_per_position: Annotated[float, Field(le=0)]
    difficulty_sd: Annotated[float, Field(ge=0)] = 0.0
    flat_temperature: Annotated[float, Field(ge=0)] = 0.6
    log_odds_per_temperature: Annotated[float, Field(le=0)] = 0.0
    greedy_log_odds: float = 0.0
    block_tokens: _Tokens | None = None
    beyond_block_log_odds: Annotated[float, Field(le=0)] = 0.0
    outside_log_odds_per_position: Annotated[float, Field(le=0)] = 0.0
    log_odds_per_context_doubling: float = 0.0
    context_floor_tokens: _Tokens = 256
    confidence_log_odds: float = 0.0


class _TruthFile(FileModel):
    checkpoint: str
    image: str
    cost: _CostFile
    drafts: _DraftsFile
    default_class: str
    max_model_tokens: _Tokens
    kv_cache_tokens: _Tokens
    launch_s: _Seconds
    sources: dict[str, str]
    captures_graphs: bool = True
    confidence_scheduler: Literal["off", "threshold"] = "off"
    max_num_seqs: _Tokens | None = None
