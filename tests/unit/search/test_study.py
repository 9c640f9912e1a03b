"""The shared study: who may launch what, what a dead harness leaves behind, and how failures are told."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from optuna.samplers import BaseSampler, RandomSampler
from optuna.trial import TrialState

from harness.errors import InputError, StoreError
from harness.search.parameters import Parameters
from harness.search.study import MOST_RETRIES, Place, SharedStudy
from tests.unit.search.spaces import observed, space

SPACE = space()
K3, K5 = (SPACE.candidate(name) for name in ("k3", "k5"))
PARAMETERS = Parameters(SPACE.candidates)
LEASE_S = 100.0


class Wall:
    """A wall clock that is set by hand."""

    def __init__(self) -> None:
        self.at_s = 1_000_000.0

    def __call__(self) -> float:
        return self.at_s


class Shelf:
    """A file in which several harnesses open the study."""

    def __init__(self, folder: Path) -> None:
        self.url = f"sqlite:///{folder / 'study.db'}"
        self.wall = Wall()

    def open(
        self,
        owner: str = "one:1:run",
        *,
        fingerprint: str = "f",
        pause: Callable[[float], None] = lambda seconds: None,
        sampler: BaseSampler | None = None,
        limits: tuple[str, ...] = (),
    ) -> SharedStudy:
        where = Place(
            url=self.url,
            name="study",
            fingerprint=fingerprint,
            owner=owner,
            now_s=self.wall,
            lease_s=LEASE_S,
            limits=limits,
            pause=pause,
        )
        return SharedStudy(where, PARAMETERS, sampler or RandomSampler(seed=1))


@pytest.fixture
def place(tmp_path: Path) -> Shelf:
    return Shelf(tmp_path)


def asked(study: SharedStudy, name: str = "k3") -> int:
    study.put_in_line(PARAMETERS.of(SPACE.candidate(name)), name)
    return study.ask().number


def states(study: SharedStudy) -> list[TrialState]:
    return [trial.state for trial in study.trials]


def test_of_two_who_want_the_same_the_first_has_it(place: Shelf) -> None:
    one, two = place.open("one:1:a"), place.open("two:1:b")
    first, second = asked(one), asked(two)
    assert one.claim(first, "k3")
    assert not two.claim(second, "k3")
    assert two.taken() == {"k3"}


def test_the_later_one_keeps_what_it_holds_already(place: Shelf) -> None:
    one, two = place.open("one:1:a"), place.open("two:1:b")
    first, second = asked(one), asked(two)
    assert two.claim(second, "k3")
    assert not one.claim(first, "k3")


@pytest.mark.parametrize("gives_up", [True, False])
def test_the_first_waits_until_it_is_known_whether_the_later_one_holds_it(place: Shelf, gives_up: bool) -> None:
    two = place.open("two:1:b")
    waited: list[float] = []

    def pause(seconds: float) -> None:
        """The later one goes on in the meantime: it looked before the first one wrote, or after."""
        waited.append(seconds)
        if gives_up:
            two.give_up(second)
        else:
            two._set(second, "held", True)

    one = place.open("one:1:a", pause=pause)
    first, second = asked(one), asked(two)
    two._set(second, "configuration", "k3")  # written, and not decided yet
    assert one.claim(first, "k3") is gives_up
    assert len(waited) == 1


def test_what_was_measured_is_claimed_by_nobody(place: Shelf) -> None:
    one, two = place.open("one:1:a"), place.open("two:1:b")
    number = asked(one)
    assert one.claim(number, "k3")
    one.tell(number, observed(K3), -1.0)
    assert not two.claim(asked(two), "k3")
    assert two.observations() == [observed(K3)]


def test_a_lease_that_ran_out_frees_the_configuration_twice_and_no_more(place: Shelf) -> None:
    one = place.open()
    for retry in range(MOST_RETRIES + 1):
        number = asked(one) if retry == 0 else one.ask().number
        assert one.claim(number, "k3")
        assert one.release_expired() == 0
        place.wall.at_s += LEASE_S + 1
        assert one.taken() == set()
        assert one.release_expired() == 1
    waiting = [trial for trial in one.trials if trial.state == TrialState.WAITING]
    assert not waiting
    assert states(one) == [TrialState.FAIL] * (MOST_RETRIES + 1)


def test_a_released_trial_is_asked_for_again_with_its_parameters(place: Shelf) -> None:
    one, two = place.open("one:1:a"), place.open("two:1:b")
    number = asked(one)
    assert one.claim(number, "k3")
    two.release([number])
    again = two.ask()
    assert (again.wanted, again.retries) == ("k3", 1)
    assert again.parameters == PARAMETERS.of(K3)


def test_a_lease_that_is_renewed_holds(place: Shelf) -> None:
    one, two = place.open("one:1:a"), place.open("two:1:b")
    number = asked(one)
    assert one.claim(number, "k3")
    place.wall.at_s += LEASE_S - 1
    one.renew(number)
    place.wall.at_s += LEASE_S - 1
    assert two.release_expired() == 0
    assert two.taken() == {"k3"}


def test_one_that_was_given_up_for_dead_still_counts(place: Shelf) -> None:
    one, two = (place.open(owner, limits=("ttft",)) for owner in ("one:1:a", "two:1:b"))
    number = asked(one)
    assert one.claim(number, "k3")
    place.wall.at_s += LEASE_S + 1
    assert two.release_expired() == 1
    one.renew(number)
    one.tell(number, observed(K3, excess={"ttft": 0.2}), -1.0, engine_version="1")
    (late,) = [trial for trial in two.trials if trial.state == TrialState.COMPLETE]
    assert late.constraints == {"launch_ok": 0.0, "ttft": 0.2}
    assert two.observations() == [observed(K3, excess={"ttft": 0.2})]
    assert not two.claim(two.ask().number, "k3"), "it was in line again, and is known by now"


def test_a_boot_that_failed_is_a_broken_constraint(place: Shelf) -> None:
    study = place.open()
    for name, booted, value in (("k5", True, -2.0), ("k3", False, None)):
        number = asked(study, name)
        assert study.claim(number, name)
        study.tell(number, observed(SPACE.candidate(name), booted=booted), value)
    failed = study.trials[-1]
    assert failed.state == TrialState.COMPLETE, "FAIL would teach the sampler nothing"
    assert failed.constraints == {"launch_ok": 1.0}
    assert failed.value == -2.0, "as bad as the worst"
    assert study._study.best_trial.number == 0


def test_every_trial_has_the_same_constraints_whatever_is_told_of_it(place: Shelf) -> None:
    study = place.open(limits=("ttft", "gap"))
    shown = {"k5": observed(K5, excess={"gap": -0.1, "ttft": 0.2}), "k3": observed(K3, booted=False)}
    for name, seen in shown.items():
        number = asked(study, name)
        assert study.claim(number, name)
        study.tell(number, seen, -2.0)
    assert study.tell_again(asked(study, "k5"), "k5")
    assert study.tell_again(asked(study, "k3"), "k3")
    number = asked(study, "k7")
    assert not study.tell_again(number, "k7"), "nothing is known of it"
    study.refuse(number)
    kept, failed = ({"launch_ok": 0.0, "ttft": 0.2, "gap": -0.1}, {"launch_ok": 1.0, "ttft": 0.0, "gap": 0.0})
    assert [trial.constraints for trial in study.trials] == [kept, failed, kept, failed, failed]


def test_an_objective_that_is_no_number_counts_as_the_worst(place: Shelf) -> None:
    study = place.open()
    for name, value in (("k5", -2.0), ("k3", float("nan"))):
        study.tell(asked(study, name), observed(SPACE.candidate(name)), value)
    assert [trial.value for trial in study.trials] == [-2.0, -2.0]


def test_what_another_version_of_the_engine_did_is_left_aside(place: Shelf) -> None:
    one = place.open("one:1:a")
    number = asked(one)
    assert one.claim(number, "k3")
    one.tell(number, observed(K3), -1.0, engine_version="0.26")
    two = place.open("two:1:b")
    assert two.measured_on("0.26") == 0
    assert len(two.observations()) == 1
    assert two.measured_on("0.27") == 1
    assert two.observations() == []
    assert not two.tell_again(asked(two), "k3")
    assert two.claim(asked(two), "k3"), "it may be measured again"


def test_launches_are_counted_from_a_moment_on(place: Shelf) -> None:
    study = place.open()
    study.tell(number := asked(study), observed(K3), -1.0)
    number = asked(study, "k5")
    place.wall.at_s += 50
    assert study.claim(number, "k5")
    assert study.launches_since(place.wall.at_s) == 1
    assert study.launches_since(0.0) == 2
    assert study.begun_s() == [0.0]


def test_what_a_run_left_running_is_found_by_its_id(place: Shelf) -> None:
    one = place.open("host:1:run-a")
    number = asked(one)
    assert one.claim(number, "k3")
    assert place.open("host:2:run-a").running_of("run-a") == [number]
    assert place.open("host:2:run-b").running_of("run-b") == []


def test_a_study_of_something_else_is_refused(place: Shelf) -> None:
    place.open()
    with pytest.raises(InputError, match="searches something else"):
        place.open(fingerprint="g")


def test_a_storage_that_cannot_be_reached_is_named_without_its_password() -> None:
    place = Place(
        url="postgresql+pg8000://user:s3cret@127.0.0.1:9/db",
        name="study",
        fingerprint="f",
        owner="one",
        now_s=lambda: 0.0,
    )
    pytest.importorskip("pg8000")
    with pytest.raises(StoreError) as failed:
        SharedStudy(place, PARAMETERS, RandomSampler())
    assert "s3cret" not in str(failed.value)
    assert "127.0.0.1:9" in str(failed.value)


def test_a_file_that_is_no_database_is_named(tmp_path: Path) -> None:
    (tmp_path / "study.db").write_text("nonsense " * 200)
    with pytest.raises(StoreError, match="not a database"):
        Shelf(tmp_path).open()
