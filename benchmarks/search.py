"""How many launches does a search need? On landscapes of many kinds, as Markdown tables for docs/tuning.md.

    python -m benchmarks.search                       # ours, TPE, random, grid: 33 landscapes, 20 seeds (an hour)
    python -m benchmarks.search --only gp --seeds 10  # needs torch
    python -m benchmarks.search --landscapes 6 --seeds 3 --only ours tpe

Even landscapes were looked at while the search was written, odd ones only for the table. Every search begins with the
incumbent and no speculation; a pick is right where it is within 2 % of the true best.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from statistics import fmean

import numpy as np
import optuna

from benchmarks.landscapes import KINDS, Landscape, landscape
from harness.records.observation import Observation
from harness.search.choice import best_launched, is_worth_it, next_choice
from harness.search.model import value_of
from harness.search.parameters import Parameters

AFTER = (3, 5, 8, 12, 20)
RIGHT_RATIO = 0.02
MARGIN_RATIO = 0.03
CONFIDENCES = tuple(round(0.05 * step, 2) for step in range(21))
SPACES = {"k and method (25)": (0.0,), "k, method and confidence (505)": CONFIDENCES}
Picks = dict[int, float]  # regret of the pick after so many launches
Told = tuple[float, float]  # value of a trial, and its constraint, which is broken above 0
_BOOTED = "launch_ok"


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One search."""

    method: str
    landscape: int
    seed: int
    confidences: tuple[float, ...]
    launches: int


def search(job: Job) -> Picks:
    """Return the regret of what a method would pick after so many launches."""
    land = landscape(job.landscape, confidences=job.confidences)
    observed = [
        land.launch(land.space.reference_id, seed=job.seed, number=0),
        land.launch("off", seed=job.seed, number=1),
    ]
    proposals = METHODS[job.method](land, observed, job.seed)
    picks: Picks = {}
    pick = _believed if job.method == "ours" else _best_mean
    for name in proposals:
        observed.append(land.launch(name, seed=job.seed, number=len(observed)))
        if len(observed) in AFTER:
            picks[len(observed)] = land.regret(pick(land, observed))
        if len(observed) >= job.launches:
            break
    final = land.regret(pick(land, observed))
    return {after: picks.get(after, final) for after in AFTER if after <= job.launches}


def _believed(land: Landscape, observed: Sequence[Observation]) -> str:
    return best_launched(land.space, observed)[0]


def _best_mean(land: Landscape, observed: Sequence[Observation]) -> str:
    values = [(value_of(land.space.cells, one.cells), one.configuration_id) for one in observed if one.booted]
    return max((value, name) for value, name in values if value is not None)[1]


def _ours(land: Landscape, observed: list[Observation], _: int) -> Iterator[str]:
    while (choice := next_choice(land.space, observed)) is not None:
        yield choice.configuration_id


def _random(land: Landscape, _: list[Observation], seed: int) -> Iterator[str]:
    names = _others(land)
    yield from np.random.default_rng([seed, 7]).permutation(names).tolist()


def _grid(land: Landscape, _: list[Observation], __: int) -> Iterator[str]:
    yield from _others(land)


def _optuna(
    sampler: Callable[[int], optuna.samplers.BaseSampler],
    most_repeats: int,
    land: Landscape,
    observed: list[Observation],
    seed: int,
) -> Iterator[str]:
    """Whatever a sampler asks for; where it only repeats itself, one at random of those that are left."""
    left = np.random.default_rng([seed, 11]).permutation(_others(land)).tolist()
    parameters = Parameters(land.space.candidates)
    study = optuna.create_study(direction="maximize", sampler=sampler(seed))
    known: dict[str, Told] = {}
    told = 0
    while len(known) < len(land.space.candidates):
        for one in observed[told:]:
            trial = _asked(study, parameters, land, one.configuration_id)
            worst = min((value for value, _ in known.values()), default=0.0)
            known[one.configuration_id] = _tell(study, trial, land, one, worst)
        told = len(observed)
        name = _proposed(study, parameters, known, most_repeats)
        yield name if name is not None else next(one for one in left if one not in known)


def _asked(study: optuna.Study, parameters: Parameters, land: Landscape, name: str) -> optuna.Trial:
    study.enqueue_trial(parameters.of(land.space.candidate(name)))
    return study.ask(parameters.distributions)


def _tell(study: optuna.Study, trial: optuna.Trial, land: Landscape, one: Observation, worst: float) -> Told:
    measured = value_of(land.space.cells, one.cells) if one.booted else None
    value, broken = (worst, 1.0) if measured is None else (measured, 0.0)
    trial.set_constraint(_BOOTED, broken)
    study.tell(trial, value)
    return value, broken


def _proposed(study: optuna.Study, parameters: Parameters, known: dict[str, Told], most_repeats: int) -> str | None:
    """What the sampler asks for and nobody launched yet; a known one is told again."""
    for _ in range(most_repeats):
        trial = study.ask(parameters.distributions)
        candidate = parameters.candidate(trial.params)
        if candidate is not None and candidate.configuration_id not in known:
            study.tell(trial, state=optuna.trial.TrialState.FAIL)  # it is asked for again with what it showed
            return candidate.configuration_id
        value, broken = (min(value for value, _ in known.values()), 1.0)
        if candidate is not None:
            value, broken = known[candidate.configuration_id]
        trial.set_constraint(_BOOTED, broken)
        study.tell(trial, value)
    return None


def _others(land: Landscape) -> list[str]:
    skip = (land.space.reference_id, "off")
    return [one.configuration_id for one in land.space.candidates if one.configuration_id not in skip]


def _tpe(seed: int) -> optuna.samplers.BaseSampler:
    return optuna.samplers.TPESampler(seed=seed, n_startup_trials=5)


def _gp(seed: int) -> optuna.samplers.BaseSampler:
    return optuna.samplers.GPSampler(seed=seed, n_startup_trials=5)


METHODS: dict[str, Callable[[Landscape, list[Observation], int], Iterator[str]]] = {
    "ours": _ours,
    "tpe": partial(_optuna, _tpe, 100),
    "gp": partial(_optuna, _gp, 5),  # each costs it a tenth of a second, and more the more there were
    "random": _random,
    "grid": _grid,
}


def table(
    title: str, jobs: dict[str, list[Job]], pool: ProcessPoolExecutor, *, launches: int
) -> tuple[str, dict[str, list[Picks]]]:
    """Return a table with a row for each method, and what each search picked."""
    after = [count for count in AFTER if count <= launches]
    lines = [
        f"### {title}",
        "",
        f"| method | {' | '.join(f'after {count}' for count in after)} | mean regret after 8 |",
        f"|---|{'---|' * (len(after) + 1)}",
    ]
    found = {}
    for method, of in jobs.items():
        found[method] = list(pool.map(search, of, chunksize=5))
        shares = [fmean(one[count] <= RIGHT_RATIO for one in found[method]) for count in after]
        regret = fmean(one[8] for one in found[method])
        lines.append(f"| {method} | {' | '.join(f'{share:.2f}' for share in shares)} | {regret:.1%} |")
        print(lines[-1], flush=True)
    return "\n".join([*lines, ""]), found


def kinds_table(found: dict[str, list[Picks]], jobs: dict[str, list[Job]]) -> str:
    """Return the share of right picks after 5 launches by kind of landscape."""
    lines = ["### After 5 launches, by kind", "", f"| kind | {' | '.join(found)} |", f"|---|{'---|' * len(found)}"]
    for at, kind in enumerate(KINDS):
        right = [
            [pick[5] <= RIGHT_RATIO for pick, job in zip(found[method], jobs[method], strict=True) if _is(job, at)]
            for method in found
        ]
        if all(right):
            lines.append(f"| {kind} | {' | '.join(f'{fmean(of):.2f}' for of in right)} |")
    return "\n".join([*lines, ""])


def _is(job: Job, kind: int) -> bool:
    return job.landscape % len(KINDS) == kind


def kept_default(landscapes: Sequence[int], seeds: int) -> tuple[int, int, float]:
    """Return how often the incumbent stays where nothing beats it by the margin, of how many, and launches used."""
    kept, of, used = 0, 0, []
    for number in landscapes:
        land = landscape(number)
        best = max(land.true_values.values()) - land.true_values[land.space.reference_id]
        if best > np.log1p(MARGIN_RATIO):
            continue
        for seed in range(seeds):
            observed = [
                land.launch(land.space.reference_id, seed=seed, number=0),
                land.launch("off", seed=seed, number=1),
            ]
            while (choice := next_choice(land.space, observed)) is not None and len(observed) < 8:
                if not is_worth_it(choice, MARGIN_RATIO):
                    break
                observed.append(land.launch(choice.configuration_id, seed=seed, number=len(observed)))
            used.append(len(observed))
            of += 1
            kept += _confirmed_keep(land, observed, seed)
    return kept, of, fmean(used) if used else 0.0


def _confirmed_keep(land: Landscape, observed: list[Observation], seed: int) -> bool:
    """Whether the confirmation keeps the incumbent: three launches of each, by the t interval of harness.stats."""
    from harness.stats.effect import effect_of
    from harness.stats.verdict import verdict_of

    ranked = best_launched(land.space, observed, count=3)
    finalists = [name for name in ranked if name != land.space.reference_id][:2]
    number = 100
    for name in finalists:
        arms = []
        for arm in (land.space.reference_id, name):
            values = []
            for _ in range(3):
                number += 1
                cells = land.launch(arm, seed=seed, number=number).cells
                values.append(value_of(land.space.cells, cells))
            arms.append(np.array(values, dtype=float)[:, None])
        if verdict_of(effect_of(arms[0], arms[1]), MARGIN_RATIO) == "better":
            return False
    return True


def _quiet() -> None:
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--landscapes", type=int, default=3 * len(KINDS))
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--only", nargs="*", choices=METHODS, default=["ours", "tpe", "random", "grid"])
    parser.add_argument("--spaces", nargs="*", type=int, default=[0, 1], help="0: k and method, 1: with confidence")
    parser.add_argument("--launches", type=int, default=AFTER[-1], choices=AFTER[2:])
    parser.add_argument("--processes", type=int, default=2)
    arguments = parser.parse_args()
    numbers, launches = range(arguments.landscapes), arguments.launches
    with ProcessPoolExecutor(arguments.processes, initializer=_quiet) as pool:
        for at in arguments.spaces:
            name, confidences = list(SPACES.items())[at]
            for held_out in (False, True):
                chosen = [number for number in numbers if number % 2 == held_out]
                jobs = {
                    method: [
                        Job(method=method, landscape=one, seed=seed, confidences=confidences, launches=launches)
                        for one in chosen
                        for seed in range(arguments.seeds)
                    ]
                    for method in arguments.only
                }
                title = f"{name}, {'held out' if held_out else 'development'}: {len(chosen)} landscapes"
                text, found = table(f"{title}, {arguments.seeds} seeds", jobs, pool, launches=launches)
                print(text, flush=True)
                if at == 0:
                    print(kinds_table(found, jobs), flush=True)
        if "ours" not in arguments.only:
            return
        kept, of, used = kept_default([number for number in numbers if number % 2], max(3, arguments.seeds // 4))
        share = kept / of if of else float("nan")
        print(
            f"The incumbent is kept where nothing beats it by the margin: {kept} of {of} ({share:.2f}), "
            f"after {used:.1f} launches of the search on average."
        )


if __name__ == "__main__":
    main()
