"""How much is left: the plan's predicted seconds, corrected by how the finished ones really went. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from harness.records.events import RunStarted
from harness.records.plan import Plan, PlannedLaunch
from harness.run.tuning import most_launches


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeLeft:
    """What a budget still allows, at the pace seen so far."""

    limit_s: float
    spent_s: float
    pace: float  # seconds that a predicted second takes

    @property
    def left_s(self) -> float:
        """Below 0 where it is overspent."""
        return self.limit_s - self.spent_s

    def takes_s(self, predicted_s: float) -> float:
        """Return how long something takes that was predicted to take so long."""
        return self.pace * predicted_s

    def fits(self, predicted_s: float) -> bool:
        """Return whether there is time for it."""
        return self.takes_s(predicted_s) <= self.left_s


class Pace:
    """Told when launches begin and trials end; says how long the rest will take."""

    def __init__(self, plan: Plan) -> None:
        launches = [launch for launch in plan.launches if launch.fits_budget]
        self._unchosen, self._one_s = 0, 0.0  # launches of a search that may still be chosen, and what one takes
        self.at_most = plan.tune is not None
        if plan.tune is not None:
            begun = sum(any(trial.done for trial in launch.trials) for launch in launches)
            self.launches = most_launches(plan)
            self._unchosen = max(0, self.launches - begun)
            self._one_s = sum(launch.predicted_s for launch in launches) / len(launches)
            self.trials = self.launches * max(len(launch.trials) for launch in launches)
        else:
            self.launches = len(plan.launches)
            self.trials = sum(len(launch.trials) for launch in launches)
        self.done_trials = sum(trial.done for launch in launches for trial in launch.trials)
        chosen = () if plan.tune is not None else launches
        self._left_s = {
            trial.trial_id: trial.predicted_s for launch in chosen for trial in launch.trials if not trial.done
        }
        self._launches_s = {launch.ordinal: launch.predicted_launch_s for launch in chosen if not launch.done}
        self._predicted_s = 0.0  # of what has ended
        self._actual_s = 0.0
        self._boot_s = 0.0
        self._since_s = 0.0

    def started(self, run_id: str, *, launches: int) -> RunStarted:
        """The first event of a run with ``launches`` still to make, or of a search with at most as many as it plans."""
        return RunStarted(
            run_id=run_id,
            launches=min(launches, self.launches),
            at_most=self.at_most,
            trials=self.trials,
            done_trials=self.done_trials,
            predicted_s=self._remaining_s(),
        )

    def launch_begins(self, now_s: float, launch: PlannedLaunch) -> None:
        """A boot begins; it counts with the first trial after it."""
        self._since_s = now_s
        if self.at_most:
            self._unchosen = max(0, self._unchosen - 1)
            self._left_s = {trial.trial_id: trial.predicted_s for trial in launch.trials if not trial.done}
            self._boot_s = launch.predicted_launch_s
        else:
            self._boot_s = self._launches_s.pop(launch.ordinal, 0.0)

    def trial_done(self, now_s: float, trial_id: str) -> float:
        """A trial has ended; return the seconds that are left."""
        self._predicted_s += self._left_s.pop(trial_id, 0.0) + self._boot_s
        self._actual_s += now_s - self._since_s
        self._since_s, self._boot_s = now_s, 0.0
        self.done_trials = min(self.trials, self.done_trials + 1)
        return self._remaining_s()

    def scaled(self, predicted_s: float) -> float:
        """Return a predicted duration at the pace seen so far."""
        return predicted_s * (self._actual_s / self._predicted_s if self._predicted_s else 1.0)

    def _remaining_s(self) -> float:
        chosen_s = sum(self._left_s.values()) + sum(self._launches_s.values())
        return self.scaled(chosen_s + self._unchosen * self._one_s)
