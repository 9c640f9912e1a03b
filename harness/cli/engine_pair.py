"""What `harness engine` knows of pairs: which are in somebody's hands, and how they are put back."""

from __future__ import annotations

import asyncio
import signal
from dataclasses import dataclass

import click

from harness.engine.clock import SystemClock
from harness.engine.pair.borrow import describe
from harness.engine.pair.hold import RESTORE, is_owned, restore
from harness.engine.pair.rig import restoration_from
from harness.engine.pair.state import PairState, PairStates
from harness.errors import HarnessError, HostError, Interrupted


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
    """Put back every pair whose harness is dead; return them.

    Raises:
        HostError: one is still in use.
        EngineError, StoreError: one could not be put back; the others are.
        Interrupted: by a signal; it can be called again.
    """
    try:
        return asyncio.run(_restore(states))
    except asyncio.CancelledError:
        raise Interrupted("not everything is back yet", hint=f"Carry on with: {RESTORE}") from None


async def _restore(states: PairStates) -> list[PairEntry]:
    task = asyncio.current_task()
    assert task is not None
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, task.cancel)
    restored, failures = [], []
    pairs = states.all()
    while True:
        try:
            state = next(pairs, None)
            if state is None:
                break
            entry = PairEntry(state=state, owned=is_owned(state))
            await _restore_one(entry, states)
        except HarnessError as failure:  # the others need not wait for this one
            failures.append(failure)
        else:
            restored.append(entry)
            _say(f"restored {entry.line}")
    states.remove_unused()
    for earlier in failures[:-1]:
        _say(str(earlier))
    if failures:
        raise failures[-1]
    return restored


async def _restore_one(entry: PairEntry, states: PairStates) -> None:
    if entry.owned:
        raise HostError(
            f"{entry.line} (process {entry.state.owner.pid})",
            hint="Stop that run with Ctrl-C: it puts the pair back.",
        )
    with states.locked(entry.state.pair_id):
        await restore(restoration_from(entry.state, states, clock=SystemClock(), on_note=_say))


def _say(text: str) -> None:
    click.echo(text, err=True)
