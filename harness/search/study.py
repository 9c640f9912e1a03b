"""The study: every launch of a search as a trial, in a file or a database that several harnesses share.

A trial that runs carries who runs it and until when that counts (a lease). Optuna's own heartbeat does not run under
ask and tell. Whoever finds a lease that ran out tells the trial failed and asks for its parameters again, at most
twice.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from types import MappingProxyType
from typing import Any

import optuna
from optuna.samplers import BaseSampler
from optuna.study import Study
from optuna.trial import FrozenTrial, Trial, TrialState

from harness.errors import InputError
from harness.records.observation import Observation
from harness.search.parameters import Parameters, observation_from
from harness.search.storage import opened, reached, without_password

LEASE_S = 1800.0
MOST_RETRIES = 2
_CONFIGURATION, _OBSERVATION, _LEASE, _OWNER, _RETRIES = "configuration", "observation", "lease", "owner", "retries"
_WANTED, _HELD, _BEGUN, _ENGINE = "wanted", "held", "begun", "engine_version"
_FINGERPRINT = "fingerprint"
_BOOTED = "launch_ok"
_LEAST_TOLD = 3  # launches, before any knob can be said to matter more than another
_WAIT_S, _MOST_WAITS = 0.1, 300  # for somebody who asked for the same configuration at the same moment


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a study is kept, and who writes into it."""

    url: str  # sqlite:///FILE or postgresql+DRIVER://...
    name: str
    fingerprint: str  # of what is searched: another space under the same name is refused
    owner: str  # host and process of this harness
    now_s: Callable[[], float]  # wall clock
    lease_s: float = LEASE_S
    limits: tuple[str, ...] = ()  # names of the bounds that a launch may break
    pause: Callable[[float], None] = time.sleep


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A trial that runs now."""

    number: int
    parameters: dict[str, Any]
    wanted: str | None  # configuration id, where somebody put it in line; None: the sampler's own proposal
    retries: int = 0


class SharedStudy:
    """Trials of a study, told and asked. Times are seconds of the wall clock, so that hosts agree about leases."""

    def __init__(self, place: Place, parameters: Parameters, sampler: BaseSampler) -> None:
        """Open the study, or make it.

        Raises:
            StoreError: the storage cannot be reached.
            InputError: a study of something else has this name.
        """
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        self._place = place
        self._parameters = parameters
        self._live_trials: dict[int, Trial] = {}
        self._engine_version: str | None = None
        self._storage = opened(place.url)
        with reached(place.url, "the study cannot be opened"):
            self._study: Study = optuna.create_study(
                storage=self._storage, study_name=place.name, sampler=sampler, direction="maximize", load_if_exists=True
            )
            self._study_id = self._storage.get_study_id_from_name(place.name)
            self._require_same()

    @property
    def url(self) -> str:
        """Where it is kept."""
        return self._place.url

    @property
    def trials(self) -> list[FrozenTrial]:
        """All, in the order of their numbers."""
        return self._study.get_trials(deepcopy=False)

    def measured_on(self, engine_version: str | None) -> int:
        """Say which engine runs here, and return how many launches of another one are left aside from now on."""
        self._engine_version = engine_version
        return sum(not self._is_of_this_engine(trial) for trial in self._all_told())

    def observations(self) -> list[Observation]:
        """Return what all launches of the study on this engine showed, whoever made them."""
        return [observation_from(trial.user_attrs[_OBSERVATION]) for trial in self._told()]

    def begun_s(self) -> list[float]:
        """Return when each launch of ``observations`` began, by the wall clock."""
        return [float(trial.user_attrs.get(_BEGUN, 0.0)) for trial in self._told()]

    def launches_since(self, since_s: float) -> int:
        """Return how many launches were begun since then, by anybody: told, or going on."""
        live = [trial for trial in self._running() if self._is_live(trial) and _CONFIGURATION in trial.user_attrs]
        return sum(float(trial.user_attrs.get(_BEGUN, 0.0)) >= since_s for trial in (*self._told(), *live))

    def taken(self) -> set[str]:
        """Return the configurations that somebody is launching now."""
        live = (trial for trial in self._running() if self._is_live(trial))
        return {str(trial.user_attrs[_CONFIGURATION]) for trial in live if _CONFIGURATION in trial.user_attrs}

    def ask(self) -> Asked:
        """Return the next trial: one that was put in line, else what the sampler proposes."""
        trial = self._study.ask(self._parameters.distributions)
        self._live_trials[trial.number] = trial
        self.renew(trial.number)
        said = trial.user_attrs
        return Asked(
            number=trial.number,
            parameters=trial.params,
            wanted=said.get(_WANTED),
            retries=int(said.get(_RETRIES, 0)),
        )

    def is_left_over(self) -> bool:
        """Whether something waits in line that somebody began and did not finish."""
        return any(one.state == TrialState.WAITING and one.user_attrs.get(_RETRIES) for one in self.trials)

    def put_in_line(self, parameters: Mapping[str, Any], configuration_id: str, *, retries: int = 0) -> None:
        """Ask for these parameters next. A knob that the configuration does not have is among them: its id counts."""
        self._study.enqueue_trial(dict(parameters), user_attrs={_RETRIES: retries, _WANTED: configuration_id})

    def claim(self, number: int, configuration_id: str) -> bool:
        """Return whether the configuration is this trial's to launch.

        Everyone writes down what he wants before he looks. Of two who want the same, the one that was asked first has
        it: the later one, who sees that, gives up at once. The first may have written after the later one looked, and
        then the later one holds it; so the first waits until that is known.
        """
        for name, value in ((_OWNER, self._place.owner), (_BEGUN, self._place.now_s()), (_WANTED, configuration_id)):
            self._set(number, name, value)
        self._set(number, _CONFIGURATION, configuration_id)
        for _ in range(_MOST_WAITS):
            if any(trial.user_attrs.get(_CONFIGURATION) == configuration_id for trial in self._told()):
                return False
            rivals = [one for one in self._live_of(configuration_id) if one.number != number]
            if not rivals:
                self._set(number, _HELD, True)
                return True
            if any(one.number < number or one.user_attrs.get(_HELD) for one in rivals):
                return False
            self._place.pause(_WAIT_S)
        return False

    def renew(self, number: int) -> None:
        """Say that the trial still runs. One that was given to somebody else meanwhile stays theirs."""
        if self._is_running(number):
            self._set(number, _LEASE, self._place.now_s() + self._place.lease_s)

    def tell(
        self, number: int, observation: Observation, value: float | None, *, engine_version: str | None = None
    ) -> None:
        """Store what a launch showed; one that did not boot as a broken constraint, since FAIL teaches nothing."""
        known = value if value is not None and math.isfinite(value) else self._worst()
        broken = self._constraints(booted=observation.booted, excess=observation.slo_excess)
        said = {_OBSERVATION: json.loads(json.dumps(asdict(observation))), _ENGINE: engine_version}
        if not self._is_running(number):
            self._tell_late(number, known, broken, said)
            return
        for name, one in said.items():
            self._set(number, name, one)
        self._tell(number, known, broken)

    def tell_again(self, number: int, configuration_id: str) -> bool:
        """Tell what is known of a configuration, so that a sampler does not ask for it for ever; False: nothing is."""
        told = [trial for trial in self._told() if trial.user_attrs.get(_CONFIGURATION) == configuration_id]
        known = [trial.value for trial in told if trial.value is not None]
        if known:
            self._tell(number, sum(known) / len(known), told[-1].constraints)
        return bool(known)

    def refuse(self, number: int) -> None:
        """Tell a sampler that there is no such configuration."""
        self._tell(number, self._worst(), self._constraints(booted=False))

    def give_up(self, number: int) -> None:
        """Tell a trial failed: it is somebody else's, or says nothing of its configuration."""
        self._study.tell(number, state=TrialState.FAIL, skip_if_finished=True)

    def importances(self) -> dict[str, float]:
        """Return what share of the objective's movement each knob has (PED-ANOVA); empty with one, or few launches."""
        if len(self._told()) < _LEAST_TOLD or len(self._parameters.distributions) < 2:
            return {}
        try:
            return optuna.importance.get_param_importances(self._study)
        except (ValueError, RuntimeError):
            return {}

    def running_of(self, owner: str) -> list[int]:
        """Return the numbers of the trials that an owner, or a run (the end of an owner's name), left running."""
        return [trial.number for trial in self._running() if str(trial.user_attrs.get(_OWNER)).endswith(owner)]

    def release_expired(self) -> int:
        """Tell trials failed whose lease ran out, ask for their parameters again, and return how many there were."""
        expired = [trial for trial in self._running() if not self._is_live(trial)]
        for trial in expired:
            self._release(trial)
        return len(expired)

    def release(self, numbers: Sequence[int]) -> None:
        """Do the same with trials that are known to be dead."""
        for trial in self._running():
            if trial.number in numbers:
                self._release(trial)

    def _tell(self, number: int, value: float, broken: Mapping[str, float]) -> None:
        live = self._live(number)
        for name, excess in broken.items():
            live.set_constraint(name, excess)
        self._study.tell(number, value)

    def _constraints(self, *, booted: bool, excess: Mapping[str, float] = MappingProxyType({})) -> dict[str, float]:
        """Broken above 0. Every trial has the same, which a sampler that models them needs: what is unknown is kept."""
        return {_BOOTED: 0.0 if booted else 1.0, **{name: excess.get(name, 0.0) for name in self._place.limits}}

    def _live(self, number: int) -> Trial:
        """A trial that was asked for, here or, before a resume, by another process."""
        return self._live_trials.get(number) or Trial(self._study, self._identity(number))

    def _identity(self, number: int) -> int:
        return self._storage.get_trial_id_from_study_id_trial_number(self._study_id, number)

    def _set(self, number: int, name: str, value: Any) -> None:
        self._storage.set_trial_user_attr(self._identity(number), name, value)

    def _is_running(self, number: int) -> bool:
        return self._storage.get_trial(self._identity(number)).state == TrialState.RUNNING

    def _tell_late(self, number: int, value: float, broken: Mapping[str, float], said: Mapping[str, Any]) -> None:
        """Its lease ran out and somebody released it: what was measured counts all the same, as a trial of its own."""
        old = self._storage.get_trial(self._identity(number))
        if old.state != TrialState.FAIL:
            return
        late = optuna.trial.create_trial(
            params=old.params,
            distributions=old.distributions,
            value=value,
            constraints=dict(broken),
            user_attrs={**old.user_attrs, **said},
        )
        self._study.add_trial(late)

    def _worst(self) -> float:
        return min((trial.value for trial in self._told() if trial.value is not None), default=0.0)

    def _release(self, trial: FrozenTrial) -> None:
        try:
            self._study.tell(trial.number, state=TrialState.FAIL)
        except (ValueError, RuntimeError):
            return  # somebody else was faster
        retries = int(trial.user_attrs.get(_RETRIES, 0)) + 1
        wanted = trial.user_attrs.get(_WANTED)
        if retries <= MOST_RETRIES and wanted is not None:
            self.put_in_line(trial.params, wanted, retries=retries)

    def _running(self) -> list[FrozenTrial]:
        return [trial for trial in self.trials if trial.state == TrialState.RUNNING]

    def _live_of(self, configuration_id: str) -> list[FrozenTrial]:
        wanted = [one for one in self._running() if one.user_attrs.get(_CONFIGURATION) == configuration_id]
        return [one for one in wanted if self._is_live(one)]

    def _all_told(self) -> list[FrozenTrial]:
        return [one for one in self.trials if one.state == TrialState.COMPLETE and _OBSERVATION in one.user_attrs]

    def _told(self) -> list[FrozenTrial]:
        return [trial for trial in self._all_told() if self._is_of_this_engine(trial)]

    def _is_of_this_engine(self, trial: FrozenTrial) -> bool:
        """Where nobody knows a version, here or there, nothing speaks against it."""
        said = trial.user_attrs.get(_ENGINE)
        return said is None or self._engine_version is None or said == self._engine_version

    def _is_live(self, trial: FrozenTrial) -> bool:
        """One without a lease was asked for a moment ago, or by a process that died at once: it has its time."""
        lease = trial.user_attrs.get(_LEASE)
        if lease is None:
            begun = trial.datetime_start.timestamp() if trial.datetime_start else 0.0
            return self._place.now_s() - begun < self._place.lease_s
        return float(lease) > self._place.now_s()

    def _require_same(self) -> None:
        known = self._study.user_attrs.get(_FINGERPRINT)
        if known is None:
            self._study.set_user_attr(_FINGERPRINT, self._place.fingerprint)
        elif known != self._place.fingerprint:
            raise InputError(
                f'the study "{self._place.name}" searches something else (another space, rig, workload or objective)',
                where=without_password(self._place.url),
                hint="Name another one with --study.",
            )
