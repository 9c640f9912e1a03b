"""The study: every launch of a search as a trial, in a file or a database that several harnesses share.

A trial that runs carries who runs it and until when that counts (a lease). Optuna's own heartbeat does not run under
ask and tell. Whoever finds a lease that ran out tells the trial failed and asks for its parameters again, at most
twice.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import optuna
from optuna.samplers import BaseSampler
from optuna.storages import BaseStorage
from optuna.study import Study
from optuna.trial import FrozenTrial, Trial, TrialState

from harness.errors import InputError, StoreError
from harness.records.observation import CellObservation, Observation
from harness.search.parameters import Parameters

LEASE_S = 1800.0
_MOST_RETRIES = 2
_CONFIGURATION, _OBSERVATION, _LEASE, _OWNER, _RETRIES = "configuration", "observation", "lease", "owner", "retries"
_FINGERPRINT = "fingerprint"
_BOOTED = "launch_ok"


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a study is kept, and who writes into it."""

    url: str  # sqlite:///FILE or postgresql://...
    name: str
    fingerprint: str  # of what is searched: another space under the same name is refused
    owner: str  # host and process of this harness
    now_s: Callable[[], float]  # wall clock


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
        self._asked: dict[int, Trial] = {}
        try:
            self._storage: BaseStorage = optuna.storages.get_storage(place.url)
            self._study: Study = optuna.create_study(
                storage=self._storage, study_name=place.name, sampler=sampler, direction="maximize", load_if_exists=True
            )
            self._study_id = self._storage.get_study_id_from_name(place.name)
        except Exception as error:
            where = place.url.partition("@")[2] or place.url
            hint = "Check that it runs and that you may write there; without --storage a file in results/ is used."
            raise StoreError(f"the study cannot be opened: {_first_line(error)}", where=where, hint=hint) from error
        self._require_same()

    @property
    def trials(self) -> list[FrozenTrial]:
        """All, in the order of their numbers."""
        return self._study.get_trials(deepcopy=False)

    def observations(self) -> list[Observation]:
        """Return what all launches of the study showed, whoever made them."""
        told = [trial for trial in self.trials if trial.state == TrialState.COMPLETE]
        stored = [trial.user_attrs[_OBSERVATION] for trial in told if _OBSERVATION in trial.user_attrs]
        return [observation_from(one) for one in stored]

    def taken(self) -> set[str]:
        """Return the configurations that somebody is launching now."""
        return {str(trial.user_attrs.get(_CONFIGURATION)) for trial in self._running() if self._is_live(trial)}

    def ask(self) -> Trial:
        """Return the next trial: one that was put in line, else what the sampler proposes."""
        trial = self._study.ask(self._parameters.distributions)
        self._asked[trial.number] = trial
        return trial

    def put_in_line(self, parameters: Mapping[str, Any], *, retries: int = 0) -> None:
        """Ask for these parameters next."""
        self._study.enqueue_trial(dict(parameters), user_attrs={_RETRIES: retries})

    def claim(self, number: int, configuration_id: str) -> bool:
        """Return whether the configuration is this trial's to launch: the one that was asked first has it."""
        self._set(number, _OWNER, self._place.owner)
        self.renew(number)
        self._set(number, _CONFIGURATION, configuration_id)
        earlier = [one for one in self.trials if one.number < number]
        rivals = [one for one in earlier if one.user_attrs.get(_CONFIGURATION) == configuration_id]
        return not any(
            one.state == TrialState.COMPLETE or (one.state == TrialState.RUNNING and self._is_live(one))
            for one in rivals
        )

    def renew(self, number: int) -> None:
        """Say that the trial still runs."""
        self._set(number, _LEASE, self._place.now_s() + LEASE_S)

    def tell(self, number: int, observation: Observation, value: float | None) -> None:
        """Store what a launch showed; one that did not boot as a broken constraint, since FAIL teaches nothing."""
        self._set(number, _OBSERVATION, json.loads(json.dumps(asdict(observation))))
        live = self._live(number)
        for name, excess in {_BOOTED: 0.0 if observation.booted else 1.0, **observation.slo_excess}.items():
            live.set_constraint(name, excess)
        self._study.tell(number, value if value is not None and math.isfinite(value) else self._worst())

    def tell_known(self, number: int, value: float) -> None:
        """Tell what is known of a configuration already, so that a sampler does not ask for it for ever."""
        self._study.tell(number, value)

    def refuse(self, number: int) -> None:
        """Tell a sampler that there is no such configuration."""
        self._live(number).set_constraint(_BOOTED, 1.0)
        self._study.tell(number, self._worst())

    def give_up(self, number: int) -> None:
        """Tell a trial failed: it is somebody else's, or was interrupted."""
        self._study.tell(number, state=TrialState.FAIL)

    def value_of(self, configuration_id: str) -> float | None:
        """Return the value that is stored of a configuration; None where there is none."""
        values = [
            trial.value
            for trial in self.trials
            if trial.state == TrialState.COMPLETE and trial.user_attrs.get(_CONFIGURATION) == configuration_id
        ]
        known = [value for value in values if value is not None]
        return sum(known) / len(known) if known else None

    def importances(self) -> dict[str, float]:
        """Return what share of the objective's movement each knob has (PED-ANOVA); empty with too few launches."""
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

    def _live(self, number: int) -> Trial:
        """A trial that was asked for, here or, before a resume, by another process."""
        return self._asked.get(number) or Trial(self._study, self._identity(number))

    def _identity(self, number: int) -> int:
        return self._storage.get_trial_id_from_study_id_trial_number(self._study_id, number)

    def _set(self, number: int, name: str, value: Any) -> None:
        self._storage.set_trial_user_attr(self._identity(number), name, value)

    def _worst(self) -> float:
        values = [one.value for one in self.trials if one.state == TrialState.COMPLETE and one.value is not None]
        return min(values, default=0.0)

    def _release(self, trial: FrozenTrial) -> None:
        try:
            self._study.tell(trial.number, state=TrialState.FAIL)
        except (ValueError, RuntimeError):
            return  # somebody else was faster
        retries = int(trial.user_attrs.get(_RETRIES, 0)) + 1
        if retries <= _MOST_RETRIES and _CONFIGURATION in trial.user_attrs:
            self.put_in_line(trial.params, retries=retries)

    def _running(self) -> list[FrozenTrial]:
        return [trial for trial in self.trials if trial.state == TrialState.RUNNING]

    def _is_live(self, trial: FrozenTrial) -> bool:
        """One without a lease was asked for a moment ago, or by a process that died at once: it has its time."""
        lease = trial.user_attrs.get(_LEASE)
        if lease is None:
            begun = trial.datetime_start.timestamp() if trial.datetime_start else 0.0
            return self._place.now_s() - begun < LEASE_S
        return float(lease) > self._place.now_s()

    def _require_same(self) -> None:
        known = self._study.user_attrs.get(_FINGERPRINT)
        if known is None:
            self._study.set_user_attr(_FINGERPRINT, self._place.fingerprint)
        elif known != self._place.fingerprint:
            raise InputError(
                f'the study "{self._place.name}" searches something else (another space, rig, workload or objective)',
                where=self._place.url.partition("@")[2] or self._place.url,
                hint="Name another one with --study.",
            )


def observation_from(stored: Mapping[str, Any]) -> Observation:
    """Return an observation as a trial holds it."""
    cells = {
        name: CellObservation(**{**cell, "survival": tuple(cell["survival"])}) for name, cell in stored["cells"].items()
    }
    return Observation(**{**stored, "cells": cells})


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
