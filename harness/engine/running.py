"""What a run needs of an engine that answers: started here, attached to, or simulated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Protocol

from harness.recipe.spec import LaunchSpec
from harness.records.host import NodeFacts, NodeSample
from harness.records.launch import BootFacts


@dataclass(frozen=True, slots=True, kw_only=True)
class HostAccount:
    """The machines under an engine."""

    facts: tuple[NodeFacts, ...]  # before it was started
    samples: Sequence[NodeSample]  # since it answered; grows until it is stopped


class EngineLog(Protocol):
    """A log that grows."""

    def size(self) -> int:
        """The offset that marks now."""


class Questions(Protocol):
    """Short questions to an engine."""

    async def health(self) -> int | None:
        """Return the status of /health; None where nothing answers."""

    async def version(self) -> str | None:
        """Return what /version says; None where it says nothing."""


class Engine(Protocol):
    """A running engine. ``RunningEngine`` is one; the simulator has its own."""

    @property
    def spec(self) -> LaunchSpec:
        """How it was launched."""

    @property
    def base_url(self) -> str:
        """Its address, without /v1."""

    @property
    def model(self) -> str:
        """What it serves."""

    @property
    def max_model_len(self) -> int | None:
        """As /v1/models says."""

    @property
    def ready_s(self) -> float:
        """From its start until it answered."""

    @property
    def log(self) -> EngineLog:
        """Its log."""

    @property
    def command(self) -> tuple[str, ...]:
        """Redacted."""

    @property
    def hosts(self) -> HostAccount | None:
        """The machines under it; None where nobody looks at them."""

    @property
    def untested(self) -> str | None:
        """Why nobody knows how what started it behaves; None where it is known."""

    @property
    def environment(self) -> Mapping[str, str]:
        """What was added to it; redacted."""

    async def died(self) -> str:
        """Return how it ended, once it has."""

    def boot_facts(self) -> BootFacts | None:
        """Return what the log has said so far."""

    def jit_lines(self, since: int) -> tuple[str, ...]:
        """Return log lines after the offset ``since`` that report compilation while serving."""

    def endpoint(self) -> AbstractAsyncContextManager[Questions]:
        """Return a client for short questions."""
