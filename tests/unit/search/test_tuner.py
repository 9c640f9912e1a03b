"""Which launches are asked for, in which order, and when it ends."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from harness.errors import InputError
from harness.records.observation import Candidate, Observation
from harness.search.parameters import Parameters
from harness.search.samplers import sampler_of
from harness.search.space import Space
from harness.search.study import Place, SharedStudy
from harness.search.tuner import Search, Tuner
from tests.unit.search.spaces import candidate, cells, observed, space

Show = Callable[[Candidate], Observation]


def opened(folder: Path, searched: Space, sampler: str, owner: str = "one:1:run") -> SharedStudy:
    place = Place(
        url=f"sqlite:///{folder / 'study.db'}",
        name="study",
        fingerprint="f",
        owner=owner,
        now_s=lambda: 1000.0,
        pause=lambda seconds: None,
    )
    return SharedStudy(place, Parameters(searched.candidates), sampler_of(sampler, 1))


def tuner(
    folder: Path,
    searched: Space,
    sampler: str = "auto",
    *,
    most: int = 20,
    begun_s: float = 0.0,
    owner: str = "one:1:run",
) -> Tuner:
    search = Search(space=searched, sampler=sampler, max_launches=most, margin_ratio=0.03, begun_s=begun_s)
    return Tuner(opened(folder, searched, sampler, owner), search)


def carried_out(found: Tuner, show: Show = observed) -> list[str]:
    """Launch whatever is asked for, and return it."""
    names = []
    while (proposal := found.next()) is not None:
        names.append(proposal.candidate.configuration_id)
        found.tell(proposal.trial_number, show(proposal.candidate))
    return names


@pytest.mark.parametrize("sampler", ["auto", "grid", "random", "tpe", "nsga2"])
def test_the_incumbent_and_no_speculation_come_first_and_nothing_comes_twice(tmp_path: Path, sampler: str) -> None:
    names = carried_out(tuner(tmp_path, space(), sampler))
    assert names[:2] == ["k5", "k0"]
    assert len(names) == len(set(names)) <= 5


def test_a_grid_launches_everything(tmp_path: Path) -> None:
    found = tuner(tmp_path, space(), "grid")
    assert sorted(carried_out(found)) == ["k0", "k3", "k5", "k7", "k9"]
    assert found.ended_because == "the grid is done"


def test_no_more_than_was_asked_for(tmp_path: Path) -> None:
    found = tuner(tmp_path, space(), "grid", most=3)
    assert len(carried_out(found)) == 3
    assert found.ended_because == "3 launches are the most that were asked for"


def test_what_an_earlier_search_measured_is_known_and_does_not_count(tmp_path: Path) -> None:
    first = carried_out(tuner(tmp_path, space(), "grid", most=3))
    second = carried_out(tuner(tmp_path, space(), "grid", most=1, begun_s=1001.0, owner="one:2:later"))
    assert not set(first) & set(second), "nothing is measured again"
    assert len(second) == 2, "launches at a clock that stands count for the earlier search"


def test_all_is_known(tmp_path: Path) -> None:
    carried_out(tuner(tmp_path, space(), "grid"))
    assert carried_out(tuner(tmp_path, space(), begun_s=1001.0)) == []


def test_one_launch_without_speculation_is_enough(tmp_path: Path) -> None:
    candidates = tuple(candidate(k, seqs=seqs) for k in (0, 3, 5) for seqs in (2, 4, 8))
    searched = Space(candidates=candidates, cells=cells(), reference_id="k5-seqs=4")
    found = tuner(tmp_path, searched)
    first, second = found.next(), found.next()
    assert first is not None and second is not None
    assert (first.candidate.configuration_id, second.candidate.configuration_id) == ("k5-seqs=4", "k0-seqs=4")
    third = found.next()
    assert third is not None and third.phase == "search"


def test_a_configuration_that_lacks_a_knob_is_asked_for_by_its_id(tmp_path: Path) -> None:
    candidates = (candidate(5, block=0), candidate(3, block=0), candidate(3, block=1), candidate(7))
    searched = Space(candidates=candidates, cells=cells(), reference_id="k5-block=0")
    assert sorted(carried_out(tuner(tmp_path, searched, "grid"))) == sorted(one.configuration_id for one in candidates)


def test_two_share_a_study_and_launch_nothing_twice(tmp_path: Path) -> None:
    one, two = (tuner(tmp_path, space(), "grid", owner=f"{name}:1:{name}") for name in ("a", "b"))
    begun = []
    while (proposals := [found.next() for found in (one, two)]) != [None, None]:
        for found, proposal in zip((one, two), proposals, strict=True):
            if proposal is not None:
                begun.append(proposal.candidate.configuration_id)
                found.tell(proposal.trial_number, observed(proposal.candidate))
    assert sorted(begun) == ["k0", "k3", "k5", "k7", "k9"]


def test_what_somebody_left_unfinished_comes_before_the_rest(tmp_path: Path) -> None:
    searched = space()
    found = tuner(tmp_path, searched, "grid")
    left = [found.next() for _ in range(3)][-1]
    assert left is not None and left.candidate.configuration_id == "k3"
    opened(tmp_path, searched, "grid").release([left.trial_number])
    again = found.next()
    assert again is not None
    assert (again.candidate.configuration_id, again.because) == ("k3", "it was begun before, and not finished")


def test_one_that_breaks_a_limit_is_no_finalist(tmp_path: Path) -> None:
    def show(one: Candidate) -> Observation:
        faster = one.configuration_id in ("k3", "k7")
        over = {"ttft_s p95": 0.3} if one.configuration_id == "k3" else {"ttft_s p95": -0.2}
        return observed(one, gain=1.3 if faster else 1.0, excess=over)

    found = tuner(tmp_path, space(), "grid")
    carried_out(found, show)
    assert found.finalists(2)[0] == "k7"
    assert "k3" not in found.finalists(5)
    assert found.broken_limits() == {"k3": {"ttft_s p95": 0.3}}


def test_what_was_measured_far_better_than_the_model_sees_is_confirmed(tmp_path: Path) -> None:
    found = tuner(tmp_path, space((0, 3, 5)), "grid")
    carried_out(found, lambda one: observed(one, gain=1.4 if one.num_speculative_tokens == 3 else 1.0))
    assert found.finalists(2) == ["k3"]


def test_no_speculation_may_be_a_finalist_and_the_incumbent_is_none(tmp_path: Path) -> None:
    found = tuner(tmp_path, space(), "grid")
    carried_out(found, lambda one: observed(one, gain=4.0 if one.num_speculative_tokens == 0 else 1.0))
    assert found.finalists(5)[0] == "k0"
    assert "k5" not in found.finalists(5)


def test_what_did_not_boot_is_not_asked_for_again(tmp_path: Path) -> None:
    names = carried_out(
        tuner(tmp_path, space((0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10))),
        lambda one: observed(one, booted=one.num_speculative_tokens <= 5),
    )
    assert len(names) == len(set(names))


def test_an_unknown_sampler_is_named() -> None:
    with pytest.raises(InputError, match='unknown sampler "magic"'):
        sampler_of("magic", 1)


def test_a_sampler_whose_package_is_missing_says_which(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(InputError, match="needs the package torch"):
        sampler_of("gp", 1)
