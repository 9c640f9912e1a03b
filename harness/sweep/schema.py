"""The form of a sweep file: the question, never the site. Values of knobs are read later, against the recipe."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, WithJsonSchema
from pydantic_core import PydanticCustomError

from harness.sweep.load_knobs import LOAD_KNOBS
from harness.sweep.values import ClockTime, Ratio, Seconds
from harness.yaml_model import FileModel, editor_schema, shared

_SCALAR = {"type": ["string", "number", "boolean"]}
_NUMBER = {"type": ["number", "string"]}
DEFINITIONS: dict[str, Any] = {
    "value": {
        "anyOf": [
            _SCALAR,
            {
                "type": "object",
                "description": "Natural length, at most this many tokens.",
                "additionalProperties": False,
                "required": ["natural"],
                "properties": {"natural": _NUMBER},
            },
        ]
    },
    "values": {
        "type": "array",
        "minItems": 1,
        "items": {"anyOf": [shared("value"), {"type": "array", "items": _SCALAR}]},
    },
    "range": {
        "type": "object",
        "description": "A range, both ends included.",
        "additionalProperties": False,
        "required": ["from", "to"],
        "properties": {
            "from": {**_NUMBER, "description": "The first value."},
            "to": {**_NUMBER, "description": "The last value, where the steps reach it."},
            "step": {**_NUMBER, "description": "Added from value to value."},
            "factor": {**_NUMBER, "description": "Multiplied from value to value."},
        },
        "oneOf": [{"required": ["step"]}, {"required": ["factor"]}],
    },
    "axis": {
        "description": "A value is fixed; a list or a range is an axis.",
        "anyOf": [shared("value"), shared("values"), shared("range")],
    },
    "match": {"anyOf": [shared("value"), shared("values")]},
    "knobs": {
        "type": "object",
        "additionalProperties": {"anyOf": [_SCALAR, {"type": "array", "items": _SCALAR}]},
    },
    "mix": {
        "anyOf": [
            {
                "type": "object",
                "required": ["by"],
                "additionalProperties": False,
                "properties": {"by": {"enum": ["requests", "tokens"]}},
            },
            {
                "type": "object",
                "additionalProperties": {
                    "type": "object",
                    "minProperties": 1,
                    "additionalProperties": {"type": "number", "minimum": 0},
                },
            },
        ]
    },
}


def _load_knobs(schema: dict[str, Any]) -> dict[str, Any]:
    """The load knobs by name, so that an editor completes and explains them."""
    return {name: {**schema, "description": knob.help} for name, knob in LOAD_KNOBS.items()}


def _map_of(name: str) -> WithJsonSchema:
    schema = shared(name)
    return WithJsonSchema({"type": "object", "properties": _load_knobs(schema), "additionalProperties": schema})


Axes = Annotated[dict[str, Any], _map_of("axis")]
Match = Annotated[dict[str, Any], _map_of("match")]
Values = Annotated[dict[str, Any], WithJsonSchema(shared("knobs"))]


def _name_or_values(raw: Any) -> Any:
    if isinstance(raw, str | dict):
        return raw
    raise PydanticCustomError("name_or_values", "expected the name of a configuration, or its knobs")


NameOrValues = Annotated[
    Any,
    BeforeValidator(_name_or_values),
    WithJsonSchema({"anyOf": [{"type": "string"}, shared("knobs")]}),
]


def _refuse_or_fill(raw: Any) -> Any:
    if raw == "refuse" or (isinstance(raw, dict) and set(raw) == {"fill"} and isinstance(raw["fill"], str)):
        return raw
    raise PydanticCustomError("no_text", "expected refuse, or {fill: CLASS}")


NoText = Annotated[
    Any,
    BeforeValidator(_refuse_or_fill),
    WithJsonSchema(
        {
            "anyOf": [
                {"const": "refuse"},
                {
                    "type": "object",
                    "required": ["fill"],
                    "additionalProperties": False,
                    "properties": {"fill": {"type": "string"}},
                },
            ]
        }
    ),
]


class Compare(FileModel):
    """The two arms of `ab`."""

    base: NameOrValues = Field(description="Name or knobs.")
    candidate: NameOrValues = Field(description="Name or knobs.")


class Sample(FileModel):
    """Which part of a trace is replayed."""

    sessions: int | None = Field(default=None, ge=1, description="How many sessions.")
    requests: int | None = Field(default=None, ge=1, description="How many requests, where there are no sessions.")
    seed: int = Field(default=1, ge=0, description="The same seed draws the same sample.")
    by: tuple[str, ...] = Field(default=(), description="What the sample is spread over, as in the whole trace.")


class Idle(FileModel):
    """How pauses are replayed."""

    at_most: Seconds = Field(description="Longer pauses are cut to this.")


class Trace(FileModel):
    """Recorded traffic, replayed instead of made-up prompts."""

    trace: str = Field(min_length=1, description="The file; it stays on this machine.")
    format: str = Field(default="auto", description="auto, or the name of a trace format.")
    where: Match = Field(default={}, description="Entries to use: fields and values; * is a wildcard.")
    sample: Sample | None = Field(default=None, description="Which part; everything if left out.")
    sessions: Literal["whole", "split"] = Field(default="whole", description="whole: turns in order, with prefixes.")
    arrivals: Literal["closed", "constant", "poisson", "recorded"] = Field(
        default="recorded", description="When requests are sent."
    )
    rate_per_s: float | None = Field(default=None, gt=0, description="For constant and poisson arrivals.")
    speed: float = Field(default=1.0, gt=0, description="Recorded gaps are divided by this.")
    idle: Idle | None = Field(default=None, description="What becomes of long pauses.")
    no_text: NoText = Field(default="refuse", description="Entries without prompts: lengths only, or refuse.")


class Limit(FileModel):
    """A bound that no better candidate may break."""

    at_most: float | None = Field(default=None, description="The figure may not be above this.")
    at_least: float | None = Field(default=None, description="The figure may not be below this.")


class Repeat(FileModel):
    """How often things are repeated."""

    launches: int = Field(default=1, ge=1, description="Boots of each configuration: the outermost repeat.")
    max_launches: int | None = Field(default=None, ge=1, description="Where `stop: sequential` goes on.")
    drafts: int = Field(default=400, ge=1, description="The least number of drafts per cell.")
    stop: Literal["sequential"] | None = Field(default=None, description="Stop when the answer cannot change.")


class Budget(FileModel):
    """What the sweep may cost. Enforced."""

    time: Seconds | None = Field(default=None, description="In all.")
    cell: Seconds | None = Field(default=None, description="For one cell.")
    finish_by: ClockTime | None = Field(default=None, description="The operator's server answers again by then.")


class Confirm(FileModel):
    """The last phase of `tune`."""

    best: int = Field(default=2, ge=1, description="How many candidates are measured again.")
    launches: int = Field(default=3, ge=1, description="How often each of them is launched.")


class Tune(FileModel):
    """Settings of `tune`."""

    sampler: str = Field(default="auto", description="How the next candidate is chosen.")
    max_launches: int | None = Field(default=None, ge=1, description="Launches of the search, without confirming.")
    confirm: Confirm = Field(default=Confirm(), description="The best are measured again before one is named.")


class Nightly(FileModel):
    """Settings of `nightly`."""

    configurations: tuple[str, ...] = Field(default=(), description="Which named ones; empty: all.")
    engine: Literal["attach", "launch"] = Field(default="launch", description="attach: use the running server.")
    idle_for: Seconds | None = Field(default=None, description="Wait until no request was in flight for so long.")
    yields: bool = Field(default=False, alias="yield", description="Stop when somebody else sends a request.")


class SweepFile(FileModel):
    """A sweep file as written."""

    sweep: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$", description="Its name.")
    recipe: str = Field(min_length=1, description="Which engine: a name under recipes/, or a path.")
    knobs: Axes = Field(default={}, description="Launch and load knobs; what is not named stays as it is.")
    zip: dict[str, Axes] = Field(default={}, description="Groups of knobs that vary together, by a name of the group.")
    configurations: dict[str, Values] = Field(
        default={}, description="Named ones, beside the grid, over the fixed knobs. {}: nothing changed at all."
    )
    exclude: tuple[Match, ...] = Field(default=(), description="What matches every key of one line is left out.")
    on_refused: Literal["skip", "stop"] = Field(
        default="skip", description="skip: list what cannot boot, and measure the rest."
    )
    incumbent: NameOrValues = Field(default="today", description="What gains are measured against.")
    compare: Compare | None = Field(default=None, description="The two arms of `harness ab`.")
    workload: Trace | None = Field(default=None, description="A trace, instead of `class`.")
    mix: Annotated[dict[str, Any], WithJsonSchema(shared("mix"))] | None = Field(
        default=None, description="Weights of the cells: per knob and value, multiplied; or {by: requests | tokens}."
    )
    objective: str = Field(default="seconds", description="seconds, or the name of a metric.")
    limits: dict[str, Limit] = Field(default={}, description="By metric and statistic, for example ttft_s.p95.")
    repeat: Repeat = Field(default=Repeat(), description="Launches, and drafts in a cell.")
    budget: Budget = Field(default=Budget(), description="What the sweep may cost.")
    margin: Ratio = Field(default=0.03, description="Smaller differences do not matter.")
    checks: tuple[str, ...] = Field(default=(), description="Commands that the site file names.")
    tune: Tune | None = Field(default=None, description="Settings of `harness tune`.")
    nightly: Nightly | None = Field(default=None, description="Settings of `harness nightly`.")


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of sweep files, for editors."""
    return editor_schema(SweepFile, title="harness sweep", definitions=DEFINITIONS)
