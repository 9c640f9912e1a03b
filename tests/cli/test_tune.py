"""`harness tune`, simulated and through the real command: order, confirmation, exit codes, the study, carrying on."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import optuna
import pytest

from harness.cli.main import main
from harness.records.journal import RunData
from harness.store.layout import RunFolder, resolve_run
from harness.store.reader import read_run

SWEEP = """\
sweep: small
recipe: dspark-2x-spark
knobs:
  checkpoint: vision-exp
  image: anemll-0.1.1
  block_k: 1
  num_speculative_tokens: {depths}
  class: code
  context_tokens: 256
  concurrency: 1
  output_tokens: 64
  temperature: 0.6
incumbent: {{num_speculative_tokens: {incumbent}}}
repeat: {{drafts: 40}}
tune: {{confirm: {{best: {best}, launches: {launches}}}}}
"""


class Place:
    """A folder with a sweep, in which commands run one after the other."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.write()

    def write(
        self, *, depths: str = "[3, 5, 6]", incumbent: int = 6, best: int = 1, launches: int = 2, more: str = ""
    ) -> None:
        text = SWEEP.format(depths=depths, incumbent=incumbent, best=best, launches=launches)
        (self.folder / "small.yaml").write_text(text + more)

    def tune(self, *arguments: str, scenario: str = "quiet", seed: int = 1) -> int:
        """Run it and return the exit code."""
        engine = ("--engine", "simulated", "--scenario", scenario, "--seed", str(seed))
        words = ["tune", str(self.folder / "small.yaml"), *engine, "--root", str(self.folder), *arguments]
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sys, "argv", ["harness", *words])
            with pytest.raises(SystemExit) as ended:
                main(words)
        return int(ended.value.code or 0)

    def latest(self) -> RunFolder:
        return resolve_run("latest", root=self.folder)

    def run(self) -> RunData:
        return read_run(self.latest())

    def launches(self) -> list[tuple[str, int | None]]:
        """Phase and k of each launch that was decided, in their order."""
        k = {one.configuration_id: one.num_speculative_tokens for one in _planned(self.run())}
        return [(step.phase, k[step.configuration_id]) for step in self.run().tune_steps]

    def notes(self) -> list[str]:
        return [note.text for note in self.run().notes]

    def page(self, name: str = "report.md") -> str:
        (page,) = self.folder.glob(f"reports/*{self.latest().run_id}/simulated-{name}")
        return page.read_text()

    def headline(self) -> str:
        return next(line for line in self.page().replace("\\", "").splitlines() if line.startswith("**"))


def _planned(run: RunData):  # type: ignore[no-untyped-def]
    assert run.plan is not None
    return run.plan.configurations


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HARNESS_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture
def place(tmp_path: Path, cache: None) -> Place:
    return Place(tmp_path)


@pytest.fixture(scope="module")
def searched(tmp_path_factory: pytest.TempPathFactory, cache: None) -> Place:
    """A place with one whole search, from a poor incumbent: without speculation it is half as fast as with six."""
    made = Place(tmp_path_factory.mktemp("searched"))
    made.write(depths="[0, 6]", incumbent=0, launches=3)
    assert made.tune() == 0
    return made


def test_the_incumbent_and_no_speculation_are_launched_first(place: Place) -> None:
    place.write(depths="[3, 5, 6]", incumbent=5)
    place.tune("--max-launches", "2")
    assert place.launches()[:2] == [("reference", 5), ("reference", 0)]


def test_confirmation_alternates_in_launches_of_its_own(searched: Place) -> None:
    confirming = [k for phase, k in searched.launches() if phase == "confirm"]
    assert confirming == [0, 6, 6, 0, 0, 6]
    rounds = {launch.launch_id: launch.round for launch in searched.run().launches}
    assert sorted(rounds.values()) == [1, 1, 2, 2, 3, 3, 4, 4]


def test_the_pick_is_confirmed_and_can_be_pasted(searched: Place) -> None:
    assert searched.headline().startswith("**Run k=6: +")
    assert "over no speculation, confirmed by 3 launches of each of its own" in searched.headline()
    env = searched.page("best.env")
    assert "\nMTP_NUM_TOKENS=6\n" in env
    assert "no engine ran" in env or "SIMULATED" in env


def test_the_report_shows_each_launch_with_what_it_promised(searched: Place) -> None:
    page = searched.page()
    assert "Launch by launch" in page
    assert "Finalists against no speculation, in launches of their own" in page
    assert "launching each of the 2 configurations once would have taken about" in page


def test_why_each_launch_was_made_is_in_the_journal(searched: Place) -> None:
    because = [step.because for step in searched.run().tune_steps]
    assert because[0] == "every gain is measured against it"
    assert because[1].startswith("expected at ")
    assert because[-1] == "a finalist again, 3 of 3"
    assert any(note.startswith("the search ended: ") for note in searched.notes())


def test_a_rehearsal_is_repeated_to_the_byte(searched: Place, place: Place) -> None:
    place.write(depths="[0, 6]", incumbent=0, launches=3)
    assert place.tune() == 0
    kept = [[step.because for step in one.run().tune_steps] for one in (searched, place)]
    assert kept[0] == kept[1]
    assert not list(place.folder.glob("results/studies/*")), "it knows nothing of other rehearsals, nor they of it"


def test_it_can_be_shown_again(searched: Place, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["show", str(searched.latest().path)])
    assert not ended.value.code
    shown = capsys.readouterr().err
    assert "Run k=6: +" in shown
    assert "Finalists against no speculation" in shown


def test_its_study_can_be_opened_by_others(searched: Place) -> None:
    storage = f"sqlite:///{searched.latest().path / 'study.db'}"
    (name,) = optuna.get_all_study_names(storage)
    study = optuna.load_study(study_name=name, storage=storage)
    assert name.startswith("small-")
    told = [trial for trial in study.trials if trial.state.is_finished()]
    assert [trial.params for trial in told] == [{"num_speculative_tokens": k} for k in (0, 6)]
    assert all(trial.value is not None and trial.value < 0 for trial in told), "minus the logarithm of seconds"
    assert study.best_trial.params == {"num_speculative_tokens": 6}
    assert all(trial.user_attrs["observation"]["capture_sizes"] for trial in told), "as the boot logs name them"


def test_the_default_stays_where_nothing_is_better(place: Place) -> None:
    place.write(depths="[0, 6]", incumbent=6)
    assert place.tune() == 0
    assert place.launches() == [("reference", 6), ("reference", 0)]
    assert place.headline().startswith("**Keep k=6"), place.headline()
    assert "MTP_NUM_TOKENS=6" in place.page("best.env")


def test_no_more_launches_than_allowed(place: Place) -> None:
    assert place.tune("--max-launches", "2") in (0, 4)
    phases = [phase for phase, _ in place.launches()]
    assert phases.count("reference") + phases.count("search") == 2
    assert any("2 launches are the most that were asked for" in note for note in place.notes())


@pytest.mark.parametrize("sampler", ["tpe", "random", "grid"])
def test_other_samplers_by_name(place: Place, sampler: str) -> None:
    assert place.tune("--sampler", sampler) in (0, 4)
    searching = [k for phase, k in place.launches() if phase != "confirm"]
    assert searching[:2] == [6, 0]
    assert set(searching[2:]) == {3, 5} and len(searching) == 4, "all of so small a space, and none twice"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--sampler", "magic"), 'unknown sampler "magic"'),
        (("--max-launches", "1"), "1 is not in the range"),
        (("--launches", "3"), "--max-launches"),
        (("--storage", "study.db"), "--storage is no URL"),
        (("--study", "a/b"), "not the name of a study"),
        (("--set", "num_speculative_tokens=0"), "the search space is empty"),
        (("--set", "objective=acceptance"), "acceptance"),
    ],
)
def test_bad_input_leaves_no_run(
    place: Place, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], said: str
) -> None:
    assert place.tune(*arguments) == 2
    assert said in capsys.readouterr().err
    assert not [path for path in place.folder.glob("results/*") if path.name not in ("studies", "rigs")]


def test_a_sampler_whose_package_is_missing(
    place: Place, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("harness.search.samplers.importlib.util.find_spec", lambda name: None)
    assert place.tune("--sampler", "gp") == 2
    assert "the sampler gp needs the package torch" in capsys.readouterr().err


def test_a_space_in_which_nothing_boots_lists_the_rules(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    text = (place.folder / "small.yaml").read_text().replace("block_k: 1", "block_k: 0").replace("[3, 5, 6]", "[4, 5]")
    (place.folder / "small.yaml").write_text(text.replace("incumbent: {num_speculative_tokens: 6}\n", ""))
    assert place.tune() == 2
    said = capsys.readouterr().err
    assert "num_speculative_tokens=4" in said and "num_speculative_tokens=5" in said
    assert "the launcher takes only k from 5 up that 3 divides" in said


def test_three_failures_in_a_row_end_it(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    place.write(depths="[3, 6, 9]")
    assert place.tune(scenario="stale_worker") == 3
    said = capsys.readouterr().err
    assert "the first 3 launches all failed: " in said and "--resume" in said
    assert [launch.outcome for launch in place.run().launches] == ["wrong_configuration"] * 3
    assert "Traceback" not in said


def test_an_incumbent_that_does_not_work_ends_it_as_soon_as_another_does(
    place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    place.write(depths="[5, 6]", incumbent=6)
    assert place.tune(scenario="stale_worker") == 3
    said = capsys.readouterr().err
    assert "does not work, while" in said and "Name another incumbent" in said
    assert len(place.run().launches) == 3


def test_a_second_search_makes_nothing_again(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    assert place.tune("--study", "mine") in (0, 4)
    first = [k for phase, k in place.launches() if phase != "confirm"]
    capsys.readouterr()
    assert place.tune("--study", "mine", "--max-launches", "2") in (0, 4)
    assert [k for phase, k in place.launches() if phase != "confirm" and k in first] == []
    known = next(note for note in place.notes() if note.startswith("known already"))
    assert f"{len(first)} launches of the study mine" in known
    assert "Known already: " in capsys.readouterr().err
    assert (place.folder / "results" / "studies" / "mine.db").is_file()


def test_where_all_is_known_and_nothing_better_the_incumbent_stays_without_a_launch(place: Place) -> None:
    place.write(depths="[0, 6]", incumbent=6)
    assert place.tune("--study", "mine", "--sampler", "grid") == 0
    assert place.tune("--study", "mine", "--sampler", "grid") == 0
    assert place.launches() == []
    assert place.headline().startswith("**Keep k=6")


def test_a_study_of_another_sweep_is_refused(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    assert place.tune("--study", "mine", "--max-launches", "2") in (0, 4)
    runs = list(place.folder.glob("results/*"))
    place.write(depths="[3, 5, 6, 9]")
    assert place.tune("--study", "mine") == 2
    said = capsys.readouterr().err
    assert "searches something else" in said and "--study" in said
    assert list(place.folder.glob("results/*")) == runs, "no run was begun"


def test_a_limit_that_the_best_breaks_keeps_it_out(place: Place) -> None:
    place.write(depths="[0, 6]", incumbent=0, more="limits: {inter_chunk_p50_s: {at_most: 0.055}}\n")
    assert place.tune() in (0, 4)
    assert not any(phase == "confirm" and k == 6 for phase, k in place.launches())
    assert any(note.startswith("no finalist: ") for note in place.notes())
    assert place.headline().startswith("**Keep no speculation")


def test_a_budget_that_ends_in_mid_search_is_carried_on_with(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    place.write(depths="[0, 6]", incumbent=0, more="budget: {time: 25m}\n")
    assert place.tune() == 4
    said = capsys.readouterr().err
    assert "the budget of 25 min ends here" in said
    assert "The search is not complete" in said
    before = len(place.run().trials)
    (place.folder / "small.yaml").write_text((place.folder / "small.yaml").read_text().replace("25m", "9h"))
    assert place.tune("--resume") == 0
    assert place.headline().startswith("**Run k=6: +")
    trials = [trial.trial_id for trial in place.run().trials]
    assert len(trials) > before and len(trials) == len(set(trials))


def test_a_search_leaves_its_budget_the_time_to_confirm(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    place.write(depths="[0, 3, 5, 6, 9]", incumbent=0, launches=3, more="budget: {time: 85m}\n")
    assert place.tune("--sampler", "grid") == 0
    said = capsys.readouterr().err
    assert "of the budget of 1 h 25 min about " in said and "are kept for the 6 launches that confirm" in said
    phases = [phase for phase, _ in place.launches()]
    assert 1 <= phases.count("search") < 4, "without a limit the grid has four"
    assert phases.count("confirm") == 6
    assert any(note.startswith("the search was cut short: ") for note in place.notes())
    assert "The search was cut short: " in place.page()
    assert sum(launch.total_s or 0.0 for launch in place.run().launches) < 85 * 60


def test_a_plan_says_what_a_search_may_take(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    place.write(depths="[3, 5, 6, 9, 12]", incumbent=3, launches=3, more="budget: {time: 95m}\n")
    planned = ["plan", str(place.folder / "small.yaml"), "--engine", "simulated", "--tune"]
    with pytest.raises(SystemExit) as ended:
        main(planned)
    said = capsys.readouterr().err
    assert not ended.value.code
    assert "at most 6 launches of the search and 6 that confirm" in said
    assert "are kept for the 6 launches that confirm: time for 5 of the 6 launches of the search" in said
    assert "is checked now and used by" not in said, "all keys are used"
    with pytest.raises(SystemExit) as ended:
        main([*planned, "--set", "budget.time=30m"])
    assert "too short for the first 2 launches and the 6 launches that confirm" in capsys.readouterr().err
    with pytest.raises(SystemExit) as ended:
        main([*planned, "--nightly"])
    assert ended.value.code == 2


def test_a_storage_that_cannot_be_reached_shows_no_password(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("pg8000")
    assert place.tune("--storage", "postgresql://me:s3cret@127.0.0.1:9/db") == 3
    said = capsys.readouterr()
    assert "the study cannot be opened" in said.err and "without --storage a file" in said.err
    assert "s3cret" not in said.err + said.out
    assert "Traceback" not in said.err


@pytest.mark.filterwarnings("ignore:Query string argument")
def test_a_password_is_written_nowhere(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    storage = f"sqlite:///{place.folder / 'shared.db'}?password=s3cret"
    place.tune("--storage", storage, "--max-launches", "2")
    said = capsys.readouterr()
    assert "s3cret" not in said.err + said.out
    for path in place.folder.rglob("*"):
        if path.is_file() and path.suffix != ".db":
            assert b"s3cret" not in path.read_bytes(), path
    command = json.loads((place.latest().path / "manifest.json").read_text())["command"]
    assert any("password=***" in word for word in command)
