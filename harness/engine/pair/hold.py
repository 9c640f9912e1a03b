"""Hold a pair for a run: look before touching, write down what has to come back, and bring it back on every way out."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

from harness.engine.orphans import is_alive
from harness.engine.pair.borrow import Lender, describe, is_of_a_run
from harness.engine.pair.launcher import Pair, remove_ranks
from harness.engine.pair.node import Role
from harness.engine.pair.snapshot import put_back, take_snapshot
from harness.engine.pair.state import PairState, PairStates, SavedFolder
from harness.engine.registry import boot_id, mark_of
from harness.errors import EngineError, HostError, LaunchError

OnNote = Callable[[str], None]
RESTORE = "harness engine restore"
# $1 folder of launches, $2 checkout or "", $3 our project: what launches of either way leave on a node.
_REMOVE_OURS = (
    'rm -rf -- "$1" "$HOME/.cache/harness/$3"; [ -z "$2" ] || rm -f -- "$2"/.harness-*.compose.yml; '
    'rmdir "$HOME/.cache/harness" 2>/dev/null || true'
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Keeping:
    """Files of the operator that launches may overwrite."""

    role: Role
    folder: str
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Restoration:
    """What is needed to put a pair back, in the run that changed it or after its death."""

    pair_id: str
    pair: Pair
    lender: Lender
    states: PairStates
    on_note: OnNote
    accept_smoke_failure: bool = False  # of a borrowed server, which runs otherwise as it did


@dataclass(frozen=True, slots=True, kw_only=True)
class Holding:
    """What a run does with a pair."""

    back: Restoration
    run_id: str
    recipe: str
    checkout: str | None
    worker_target: str
    trial_project: str
    trial_port: int
    work_folder: str
    keeping: tuple[Keeping, ...]
    may_borrow: bool
    idle_for_s: float
    wait_limit_s: float | None  # for the server to be idle; None: as long as it takes
    look: Callable[[], Awaitable[None]]  # whatever else must hold before anything is touched


@asynccontextmanager
async def held(holding: Holding) -> AsyncIterator[None]:
    """Hold the pair; afterwards its files are the operator's again, and a server that was borrowed runs again.

    Raises:
        LaunchError: the pair cannot be used: a server runs and may not be borrowed, the port is taken, another run
            has it. Nothing was touched.
        EngineError: a host does not answer; or something could not be put back, and ``harness engine restore`` will.
    """
    with holding.back.states.locked(holding.back.pair_id):
        await _finish_earlier(holding)
        await _require_free(holding)
        state = await _written_down(holding)
        holding.back.on_note(f"if anything goes wrong, this puts the pair back: {RESTORE}")
        try:
            if state.borrowed is not None:
                await _take(holding, state)
            yield
        finally:
            await _shielded(restore(holding.back))


async def restore(back: Restoration) -> None:
    """Put back what the state of the pair says, whoever wrote it. Safe to repeat.

    Raises:
        HostError: something is not back yet; the state stays, and this can be called again.
    """
    try:
        await _restore(back)
    except EngineError as error:
        raise HostError(
            f"the pair is not as it was found: {error.what}",
            where=error.where,
            hint=f"What has to come back is written down. Once both hosts and their docker answer: {RESTORE}"
            + (f"\n{error.hint}" if error.hint else ""),
        ) from error


async def _restore(back: Restoration) -> None:
    state = back.states.find(back.pair_id)
    if state is None:
        return
    await remove_ranks(back.pair, state.trial_project)
    for saved in state.saved:
        archive = back.states.kept(state.pair_id, saved.archive)
        # A start writes on the worker alone: what changed on the head is somebody's edit, and is not thrown away.
        aside = f".before-restore-{state.run_id}" if saved.role == "head" else None
        changed = await put_back(back.pair.node(saved.role), saved.folder, saved.names, archive, aside=aside)
        if changed:
            kept = f"; what was there meanwhile is kept as NAME{aside}" if aside else ""
            back.on_note(f"the operator's files are back on the {saved.role}: {', '.join(changed)}{kept}")
    for node in back.pair.nodes:
        await node.script(_REMOVE_OURS, state.work_folder, state.checkout or "", state.trial_project)
    if state.borrowed is not None and state.borrowed.stopped:
        accept = back.accept_smoke_failure
        for difference in await back.lender.give_back(state.borrowed, accept_smoke_failure=accept):
            back.on_note(f"the operator's server runs again, but {difference}")
        back.on_note(f"the operator's server runs again: {describe(state.borrowed)}")
    back.states.forget(state.pair_id)


async def _finish_earlier(holding: Holding) -> None:
    back = holding.back
    state = back.states.find(back.pair_id)
    if state is None:
        return
    if is_owned(state):
        raise LaunchError(
            f"run {state.run_id} is using the pair (process {state.owner.pid})",
            where=back.pair.head.name,
            hint="Wait for it, or stop it with Ctrl-C there.",
        )
    back.on_note(f"run {state.run_id} was killed while it had the pair: putting it back first")
    await restore(back)


def is_owned(state: PairState) -> bool:
    """The harness that changed the pair still runs, and is not this one."""
    return state.boot_id == boot_id() and state.owner.pid != os.getpid() and is_alive(state.owner)


async def _require_free(holding: Holding) -> None:
    """Look only. What is found decides whether anything may be touched."""
    pair = holding.back.pair
    for node in pair.nodes:
        await node.run("true")
    await holding.look()
    await remove_ranks(pair, holding.trial_project)  # our own project: nobody else's
    await _refuse_another_run(pair)
    running = await holding.back.lender.running()
    if running is not None and not holding.may_borrow:
        raise LaunchError(
            f"a server runs on the pair: {describe(running)}",
            where=pair.head.name,
            hint="Stop it, or let it be borrowed and given back: --borrow. Nothing was touched.",
        )
    listening = await pair.head.attempt("ss", "-ltnH", f"sport = :{holding.trial_port}")
    if listening.stdout.strip():
        raise LaunchError(
            f"port {holding.trial_port} on the head is taken",
            where=pair.head.name,
            hint="Set another trial_port in the site file.",
        )


async def _refuse_another_run(pair: Pair) -> None:
    """Its ranks are no server of the operator: it is stopped where it was started, and its files are put back there."""
    for node in pair.nodes:
        for container in await node.containers():
            if container.is_up and is_of_a_run(container):
                raise LaunchError(
                    f"a rank of another run is on the {node.role}: {container.name}",
                    where=node.name,
                    hint=f"If that run is dead: {RESTORE}, by the user and on the machine that started it. "
                    f"If that is gone too, there: docker rm -f {container.name}",
                )


async def _written_down(holding: Holding) -> PairState:
    back = holding.back
    saved = []
    for number, keeping in enumerate(holding.keeping):
        archive = await take_snapshot(back.pair.node(keeping.role), keeping.folder, keeping.names)
        name = f"{number}-{keeping.role}.tar"
        back.states.keep(back.pair_id, name, archive)
        saved.append(SavedFolder(role=keeping.role, folder=keeping.folder, names=keeping.names, archive=name))
    state = PairState(
        pair_id=back.pair_id,
        run_id=holding.run_id,
        recipe=holding.recipe,
        owner=mark_of(os.getpid()),
        boot_id=boot_id(),
        head=back.pair.head.name,
        worker=holding.worker_target,
        checkout=holding.checkout,
        trial_project=holding.trial_project,
        work_folder=holding.work_folder,
        saved=tuple(saved),
        names=back.lender.names,
        borrowed=await back.lender.running(),
    )
    back.states.record(state)
    return state


async def _take(holding: Holding, state: PairState) -> None:
    assert state.borrowed is not None
    back = holding.back
    back.on_note(f"borrowing the running server: {describe(state.borrowed)}")
    await back.lender.wait_until_idle(holding.idle_for_s, limit_s=holding.wait_limit_s)
    back.states.record(replace(state, borrowed=replace(state.borrowed, stopped=True)))
    await back.lender.stop(state.borrowed)


async def _shielded(restoring: Coroutine[None, None, None]) -> None:
    """Restore also while being cancelled again: a second Ctrl-C does not leave the pair in pieces."""
    task = asyncio.ensure_future(restoring)
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            if task.done():
                raise
    task.result()
