"""Which nights a baseline is made of: found by the words of a command line, and refused where they do not belong."""

from __future__ import annotations

import asyncio
import getpass
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.engine.shell import Command, LocalShell
from harness.errors import InputError, LaunchError, StoreError
from harness.records.acceptance import Acceptance
from harness.records.manifest import SIMULATED_MARK
from harness.records.nightly import Night
from harness.report.labels import counted, words
from harness.stats.baseline import baseline_of
from harness.stats.gate import BASELINE_NIGHTS
from harness.store.layout import LATEST, RESULTS, RunFolder, resolve_run
from harness.store.nights import read_all_nights, require_name
from harness.store.reader import read_plan

_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")
_GIT_TIMEOUT_S = 10.0
_MOST_LISTED = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceptWish:
    """What the command line says."""

    run: str
    name: str
    reason: str
    author: str | None = None  # None: whom git or the system knows
    since: str | None = None  # a day or a run
    nights: int | None = None  # at most; None: 14, with ``since`` all
    key: str | None = None  # of which series, where the run watched several


def acceptance_of(wish: AcceptWish, root: Path, *, at: str) -> Acceptance:
    """Return the acceptance of the nights that end with a run.

    Args:
        wish: of the command line.
        root: where results/ lies.
        at: wall clock, ISO 8601 with zone.

    Raises:
        InputError: no reason, no such night, none that is valid, or a name that is not for such nights.
    """
    if not wish.reason.strip():
        raise InputError("a baseline needs a reason", where="--reason", hint="Why is this normal from now on?")
    nights = read_all_nights(root / RESULTS)
    last = _night(wish, nights, root)
    require_name(wish.name, simulated=last.simulated, where="--name")
    series = [one for one in nights if _same_series(one, last) and _order(one) <= _order(last)]
    if wish.since is not None:
        series = _since(series, wish.since, nights, root)
    valid = [one for one in series if one.is_valid]
    most = wish.nights or (None if wish.since else BASELINE_NIGHTS)
    taken = valid[-most:] if most else valid
    if not taken:
        why = f"; {last.run_id}: {_why_not(last)}" if series else ""
        raise InputError(f"no valid night is among {counted(len(series), 'night')}{why}", where=wish.run)
    left_out = {one.run_id: _why_not(one) for one in series if not one.is_valid and _order(one) >= _order(taken[0])}
    baseline = baseline_of(
        taken,
        name=wish.name,
        author=wish.author or author(),
        reason=wish.reason.strip(),
        accepted_at=at,
    )
    newest = taken[-1]
    return Acceptance(
        baseline=baseline,
        identity=newest.identity,
        facts=newest.facts,
        left_out=left_out,
        mark=SIMULATED_MARK if baseline.simulated else None,
    )


def author() -> str:
    """Return who sits here: as git knows them, else the login name."""
    try:
        command = Command(argv=("git", "config", "user.name"))
        said = asyncio.run(LocalShell().run(command, timeout_s=_GIT_TIMEOUT_S))
    except (LaunchError, TimeoutError):
        name = ""
    else:
        name = said.stdout.strip() if said.returncode == 0 else ""
    if name:
        return name
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # a user id without a name, as in a container
        raise InputError("nobody knows who you are", where="--author", hint="Name yourself: --author TEXT.") from None


def _night(wish: AcceptWish, nights: Sequence[Night], root: Path) -> Night:
    run_id = _run_id(wish.run, nights, root)
    found = [one for one in nights if one.run_id == run_id]
    if wish.key is not None:
        found = [one for one in found if one.key.startswith(wish.key)]
    if len(found) > 1:
        found = [one for one in found if one.identity.get("configuration") == _deciding(run_id, root)] or found
    if len(found) == 1:
        return found[0]
    if not found:
        what = f"{run_id} has no night of a key that begins with {wish.key}"
        raise InputError(what, where="--key", hint="harness history show lists the keys.")
    keys = [f"{one.key} ({one.identity.get('configuration') or 'unknown configuration'})" for one in found]
    raise InputError(
        f"{run_id} watched {len(found)} configurations", where=wish.run, hint=f"Choose with --key: {', '.join(keys)}."
    )


def _run_id(reference: str, nights: Sequence[Night], root: Path) -> str:
    """The run of a night by what the user wrote. Its folder may be gone: its night is still known."""
    ids = list(dict.fromkeys(one.run_id for one in nights))
    if reference == LATEST and ids:
        return ids[-1]
    matches = [each for each in ids if each == reference] or [each for each in ids if each.startswith(reference)]
    if len(matches) == 1:
        return matches[0]
    if matches:
        shown = ", ".join(matches[-_MOST_LISTED:])
        raise InputError(f'"{reference}" fits {len(matches)} nights', where=str(root / RESULTS), hint=f"{shown}.")
    run_id = resolve_run(reference, root=root).run_id
    if run_id in ids:
        return run_id
    raise InputError(f"{run_id} is no night of a regression run", where=str(root / RESULTS), hint=_no_night_hint(ids))


def _no_night_hint(ids: Sequence[str]) -> str:
    if not ids:
        return "Measure one: harness nightly FILE."
    return f"Newest nights: {', '.join(reversed(ids[-_MOST_LISTED:]))}. All: harness history show."


def _deciding(run_id: str, root: Path) -> str | None:
    """The configuration by whose figures a night is judged: it alone has a baseline."""
    folder = RunFolder(path=root / RESULTS / run_id)
    try:
        plan = read_plan(folder)
    except StoreError:
        return None
    return plan.nightly.gate_id if plan is not None and plan.nightly is not None else None


def _since(series: list[Night], since: str, nights: Sequence[Night], root: Path) -> list[Night]:
    if _DAY.fullmatch(since):
        return [one for one in series if one.at[:10] >= since]
    first = next(one for one in nights if one.run_id == _run_id(since, nights, root))
    return [one for one in series if _order(one) >= _order(first)]


def _same_series(one: Night, other: Night) -> bool:
    return (one.sweep, one.key, one.simulated) == (other.sweep, other.key, other.simulated)


def _order(night: Night) -> tuple[str, str]:
    return night.at, night.run_id


def _why_not(night: Night) -> str:
    return ", ".join(words(kind) for kind in night.doubts) or "not every figure was measured"
