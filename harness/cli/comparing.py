"""What the commands share that compare: the rig's noise floor, the judge between rounds, the exit code."""

from __future__ import annotations

from collections.abc import Callable

from harness.cli.loading import summaries_of
from harness.errors import InputError
from harness.records.journal import RunData
from harness.records.plan import PlannedComparison
from harness.records.summary import CellSummary
from harness.records.trial import MEASURING_VERSION
from harness.records.tune import NOTHING_TO_CONFIRM
from harness.records.verdict import Comparison, Verdict
from harness.report.comparison import decided_words
from harness.report.labels import counted
from harness.run.outcome import CANNOT_TELL, ENGINE_FAILED, FINE
from harness.stats.arms import Stored, comparison_of
from harness.stats.compare import BLOCK_LAUNCHES
from harness.stats.confirm import Confirmed, confirmed
from harness.stats.floor import measured_noise
from harness.stats.live import is_whole_factor, live_differences
from harness.stats.noise import NoiseBook, usable_noise
from harness.store.layout import RunFolder
from harness.store.reader import read_run
from harness.store.rig import add_noise, read_noise

WORSE = 1
_CODES: dict[Verdict, int] = {"better": FINE, "no difference": FINE, "worse": WORSE, "cannot tell": CANNOT_TELL}
_NEEDED_ROUNDS = 2  # by then each arm had its chance to come up


def book_for(folder: RunFolder, run: RunData) -> NoiseBook:
    """Return the noise floor that holds for a run: stored for its rig, by other runs, on the same engine."""
    stored = read_noise(folder.path.parent, run.manifest.host.rig_id)
    versions = [launch.live.engine_version for launch in run.launches if launch.live and launch.live.engine_version]
    others = [noise for noise in stored if noise.run_id != run.manifest.run_id]
    fits = usable_noise(others, engine_version=versions[0] if versions else None, measuring_version=MEASURING_VERSION)
    return NoiseBook(entries=fits)


def stored_comparison(folder: RunFolder, run: RunData, cells: tuple[CellSummary, ...]) -> Comparison | None:
    """Return the verdict on a run of ``ab``; None for another run."""
    return comparison_of(Stored(run=run, cells=cells), book_for(folder, run))


def stored_confirmation(folder: RunFolder, run: RunData, cells: tuple[CellSummary, ...]) -> Confirmed | None:
    """Return what a run of ``tune`` confirmed; None for another run, and before anything was."""
    return confirmed(Stored(run=run, cells=cells), book_for(folder, run))


def tuned_code(folder: RunFolder, run: RunData, cells: tuple[CellSummary, ...]) -> int:
    """Return the exit code of a search: 0 with a pick that was confirmed, "keep the default" included."""
    if run.plan is None or run.plan.tune is None:
        return CANNOT_TELL
    finalists = {step.configuration_id for step in run.tune_steps if step.phase == "confirm"}
    if not finalists:  # nothing promised more than the incumbent, which may have been measured by an earlier search
        return FINE if any(note.text == NOTHING_TO_CONFIRM for note in run.notes) else CANNOT_TELL
    names = {cell.cell.configuration.configuration_id for cell in cells if not cell.void}
    if run.plan.tune.reference_id not in names:
        return ENGINE_FAILED
    found = stored_confirmation(folder, run, cells)
    return FINE if found is not None and all(one.effect is not None for one in found.comparisons) else CANNOT_TELL


def keep_noise(folder: RunFolder, run: RunData, cells: tuple[CellSummary, ...]) -> None:
    """Store what an A/A found of its rig. Raises StoreError."""
    noise = measured_noise(Stored(run=run, cells=cells))
    if noise is not None:
        add_noise(folder.path.parent, run.manifest.host.rig_id, noise)


def block_judge(folder: RunFolder, asked: PlannedComparison) -> Callable[[int], str | None]:
    """Return what decides after each round whether another one is needed.

    It raises InputError where the arms differ in more than was asked for.
    """

    def judge(round_number: int) -> str | None:
        run = read_run(folder)
        require_one_factor(run, asked)
        missing = _never_up(run, asked) if round_number >= _NEEDED_ROUNDS else None
        if missing is not None:
            return f"{missing} never came up, so that there is nothing to compare: no more launches"
        if not asked.sequential or round_number % BLOCK_LAUNCHES or round_number >= asked.max_launches:
            return None
        comparison = stored_comparison(folder, run, summaries_of(run))
        return decided_words(comparison) if comparison else None

    return judge


def require_same_question(folder: RunFolder, earlier: RunData, asked: PlannedComparison | None) -> None:
    """Raise InputError where a run would be carried on with as another comparison than the one it was begun as.

    How many launches there may be, and when they are looked at, is decided before the first look: launches added after
    an unwelcome answer raise more false alarms than the intervals promise (docs/decisions/0008).
    """
    begun = earlier.plan.comparison if earlier.plan else None
    if begun is None or asked is None:
        return
    new = "Leave --resume out to begin a run of its own."
    if (begun.base_id, begun.candidate_id) != (asked.base_id, asked.candidate_id):
        what = f"the run compares {begun.candidate_name} with {begun.base_name}, not {asked.candidate_name} with "
        raise InputError(what + asked.base_name, where=folder.run_id, hint=new)
    if begun.objective != asked.objective:
        what = f"the run is judged by {begun.objective}, not by {asked.objective}"
        raise InputError(what, where=folder.run_id, hint=new)
    design = (begun.max_launches, begun.sequential)
    if begun.same or design == (asked.max_launches, asked.sequential):
        return
    seen = stored_comparison(folder, earlier, summaries_of(earlier))
    launches = 0 if seen is None or seen.effect is None else min(seen.effect.launches)
    if launches >= BLOCK_LAUNCHES:
        most = counted(begun.max_launches, "launch", "launches")
        way = "looks after each block" if begun.sequential else "one look at the end"
        raise InputError(
            f"the run was begun for at most {most} of each arm with {way}, and has been looked at since",
            where=folder.run_id,
            hint="Launches added after a look count for more than they show. Carry on with the same options, or leave "
            "--resume out: a new run with more launches keeps its promise.",
        )


def verdict_code(comparison: Comparison | None, code: int) -> int:
    """Return the exit code of a comparison; ``code`` is that of its run, which counts where there is no effect."""
    if comparison is None or (comparison.effect is None and code == ENGINE_FAILED):
        return code
    if comparison.same:
        return FINE if comparison.effect is not None else CANNOT_TELL
    return _CODES[comparison.verdict]


def require_one_factor(run: RunData, asked: PlannedComparison) -> None:
    """Raise InputError where the servers of the arms differ in more than was asked for, as read back from them."""
    if asked.same or asked.factors_allowed or is_whole_factor(asked.factors):
        return
    arms = [
        [launch for launch in run.launches if launch.configuration.configuration_id == wanted]
        for wanted in (asked.base_id, asked.candidate_id)
    ]
    differences = live_differences(arms[0], arms[1], asked.factors)
    if differences:
        raise InputError(
            f"the servers differ in more than {', '.join(asked.factors)}: {'; '.join(differences)}",
            where=run.manifest.run_id,
            hint="Make that equal in both arms, or add --allow-factors. What was measured is kept.",
        )


def _never_up(run: RunData, asked: PlannedComparison) -> str | None:
    for configuration_id, name in ((asked.base_id, asked.base_name), (asked.candidate_id, asked.candidate_name)):
        launches = [launch for launch in run.launches if launch.configuration.configuration_id == configuration_id]
        if launches and all(launch.live is None for launch in launches):
            return name
    return None
