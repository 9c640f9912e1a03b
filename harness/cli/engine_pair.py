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
from harness.errors import HarnessError, HostError, Interrupted, StoreError


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


@dataclass(frozen=True, slots=True, kw_only=True)
class PairList:
    """Pairs that have something to be put back."""

    entries: tuple[PairEntry, ...]
    unreadable: tuple[StoreError, ...]  # records that a crash or a newer harness left

    def say(self) -> None:
        """Print a line for each, and what to do with what cannot be read."""
        for pair in self.entries:
            _say(pair.line + ("" if pair.owned else f"; `{RESTORE}` puts it back"))
        for error in self.unreadable:
            _say(f"a pair is not listed: {error}")

    def documents(self) -> dict[str, list[dict[str, object]]]:
        """For JSON."""
        unreadable: list[dict[str, object]] = [
            {"where": error.where, "what": error.what, "hint": error.hint} for error in self.unreadable
        ]
        return {"pairs": [pair.document() for pair in self.entries], "unreadable_pairs": unreadable}


def list_pairs(states: PairStates) -> PairList:
    """Return the pairs that have something to be put back, and the records of them that cannot be read."""
    entries: list[PairEntry] = []
    unreadable: list[StoreError] = []
    for found in states.each():
        if isinstance(found, StoreError):
            unreadable.append(found)
        else:
            entries.append(PairEntry(state=found, owned=is_owned(found)))
    return PairList(entries=tuple(entries), unreadable=tuple(unreadable))


def restore_pairs(states: PairStates, *, accept_smoke_failure: bool = False) -> list[PairEntry]:
    """Put back every pair whose harness is dead; return them.

    Args:
        states: of all pairs.
        accept_smoke_failure: take a borrowed server for given back where only its smoke test fails.

    Raises:
        HostError: one is still in use.
        EngineError, StoreError: one could not be put back; the others are.
        Interrupted: by a signal; it can be called again.
    """
    try:
        return asyncio.run(_restore(states, accept_smoke_failure=accept_smoke_failure))
    except asyncio.CancelledError:
        raise Interrupted("not everything is back yet", hint=f"Carry on with: {RESTORE}") from None


async def _restore(states: PairStates, *, accept_smoke_failure: bool) -> list[PairEntry]:
    task = asyncio.current_task()
    assert task is not None
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, task.cancel)
    restored: list[PairEntry] = []
    failures: list[HarnessError] = []
    for found in states.each():
        try:
            if isinstance(found, StoreError):
                raise found
            entry = PairEntry(state=found, owned=is_owned(found))
            await _restore_one(entry, states, accept_smoke_failure=accept_smoke_failure)
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


async def _restore_one(entry: PairEntry, states: PairStates, *, accept_smoke_failure: bool) -> None:
    if entry.owned:
        raise HostError(
            f"{entry.line} (process {entry.state.owner.pid})",
            hint="Stop that run with Ctrl-C: it puts the pair back.",
        )
    back = restoration_from(
        entry.state, states, clock=SystemClock(), on_note=_say, accept_smoke_failure=accept_smoke_failure
    )
    with states.locked(entry.state.pair_id):
        await restore(back)


def _say(text: str) -> None:
    click.echo(text, err=True)
