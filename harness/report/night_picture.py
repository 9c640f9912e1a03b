"""The nights of a series as figure data: what was measured each night, and where it changed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class NightDot:
    """One night. Values are percent against the middle of the baseline, up is better."""

    day: float  # since the first night that is shown
    value: float
    launches: tuple[float, ...] = ()  # each launch by itself, where there was more than one
    doubtful: bool = False  # it judges nobody and is not judged
    tonight: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class NightMark:
    """A change: a line before the first night after it, with its date and size."""

    day: float
    label: str
    tone: Literal["worse", "better", "accepted"]


@dataclass(frozen=True, slots=True, kw_only=True)
class NightPanel:
    """One series over the nights."""

    title: str
    dots: tuple[NightDot, ...]
    marks: tuple[NightMark, ...]
    limit: float | None = None  # a night below it falls out of the baseline; None: nothing is accepted
    scatter: float | None = None  # half the height of the band in which nights of the baseline lie
    shown: tuple[float, float] = (-5.0, 5.0)  # from bottom to top


@dataclass(frozen=True, slots=True, kw_only=True)
class NightsPicture:
    """The headline series of a night below one another, over the same nights."""

    name: str
    title: str
    caption: str
    y_label: str
    panels: tuple[NightPanel, ...]
    ticks: tuple[tuple[float, str], ...]  # days with their dates
    simulated: bool = False
    absent_because: str | None = None
