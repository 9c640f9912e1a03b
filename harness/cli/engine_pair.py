"""What `harness engine` knows of pairs: which are in somebody's hands, and how they are put back."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import click

from harness.engine.clock import SystemClock
from harness.engine.pair.borrow import describe
from harness.engine.pair.hold import is_owned, restore
from harness.engine.pair.rig import restoration_from
from harness.engine.pair.state import PairState, PairStates
from harness.errors import HostError


@dataclass(frozen=True, slots=True, kw_only=True)
class PairEntry:
    """A pair that was changed and not put back yet."""

    state: PairState
    owned: bool  # the harness that changed it still runs

    @property
    def line(self) -> str:
        """In a line."""
        state = self.state
        by = "in use by" if self.owned else "left behind by"
        borrowed = f"; borrowed: {describe(state.borrowed)}" if state.borrowed else ""
        return f"pair {state.head} and {state.worker}: {by} run {state.run_id}{borrowed}"

    def document(self) -> dict[str, object]:
        """For JSON, without what may hold keys."""
        state = self.state
        return {
            "head": state.head,
            "worker": state.worker,
            "run_id": state.run_id,
            "recipe": state.recipe,
            "state": "running" if self.owned else "orphan",
            "borrowed": describe(state.borrowed) if state.borrowed else None,
        }


def pair_entries(states: PairStates) -> list[PairEntry]:
    """Return the pairs that have something to be put back. Raises StoreError."""
    return [PairEntry(state=state, owned=is_owned(state)) for state in states.all()]


def restore_pairs(states: PairStates) -> list[PairEntry]:
    """Put back every pair whose harness is dead; return them. Raises HostError where one is still in use."""
    return asyncio.run(_restore(states))


async def _restore(states: PairStates) -> list[PairEntry]:
    restored = []
    for entry in pair_entries(states):
        if entry.owned:
            raise HostError(
                f"{entry.line} (process {entry.state.owner.pid})",
                hint="Stop that run with Ctrl-C: it puts the pair back.",
            )
        with states.locked(entry.state.pair_id):
            await restore(restoration_from(entry.state, states, clock=SystemClock(), on_note=_say))
        restored.append(entry)
    return restored


def _say(text: str) -> None:
    click.echo(text, err=True)
