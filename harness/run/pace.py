"""How much is left: the plan's predicted seconds, corrected by how the finished ones really went. Pure."""

from __future__ import annotations

from harness.records.events import RunStarted
from harness.records.plan import Plan, PlannedLaunch


class Pace:
    """Told when launches begin and trials end; says how long the rest will take."""

    def __init__(self, plan: Plan) -> None:
        launches = [launch for launch in plan.launches if launch.fits_budget]
        self.trials = sum(len(launch.trials) for launch in launches)
        self.done_trials = sum(trial.done for launch in launches for trial in launch.trials)
        self._left_s = {
            trial.trial_id: trial.predicted_s for launch in launches for trial in launch.trials if not trial.done
        }
        self._launches_s = {launch.ordinal: launch.predicted_launch_s for launch in launches if not launch.done}
        self._predicted_s = 0.0  # of what has ended
        self._actual_s = 0.0
        self._boot_s = 0.0
        self._since_s = 0.0

    def started(self, run_id: str, *, launches: int) -> RunStarted:
        """The first event of a run."""
        return RunStarted(
            run_id=run_id,
            launches=launches,
            trials=self.trials,
            done_trials=self.done_trials,
            predicted_s=self._remaining_s(),
        )

    def launch_begins(self, now_s: float, launch: PlannedLaunch) -> None:
        """A boot begins; it counts with the first trial after it."""
        self._since_s = now_s
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
        return self.scaled(sum(self._left_s.values()) + sum(self._launches_s.values()))
