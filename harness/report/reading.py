"""What every part of a view needs to look up: names, doubt marks, and the reference that gains are measured against."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from harness.records.cell import Configuration
from harness.records.summary import CellSummary
from harness.records.tune import NOTHING_TO_CONFIRM
from harness.report.facts import RunFacts, configurations_of
from harness.report.labels import Labels, configuration_order, labels_of, load_order, words
from harness.report.models import DoubtCase, DoubtGroup
from harness.stats.kinds import KINDS
from harness.stats.overview import Standing


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """A run with the names and orders that its report uses throughout."""

    facts: RunFacts
    labels: Labels
    doubts: tuple[DoubtGroup, ...]
    reference: Configuration | None
    reference_label: str  # "today", "no speculation", or ""

    def cells(self) -> tuple[CellSummary, ...]:
        """All cells: by load, then by configuration."""
        return tuple(
            sorted(self.facts.cells, key=lambda facts: (load_order(facts.cell.load), _configuration_key(facts)))
        )

    def marks(self, cells: Iterable[CellSummary]) -> tuple[int, ...]:
        """Numbers of the doubts that these cells have, in order."""
        kinds = {(doubt.kind, doubt.remedy, doubt.void) for facts in cells for doubt in facts.doubts}
        return tuple(group.number for group in self.doubts if (group.kind, group.remedy, group.void) in kinds)

    def of_configuration(self, configuration: Configuration) -> tuple[CellSummary, ...]:
        """The cells of one configuration, by load."""
        wanted = configuration.configuration_id
        return tuple(facts for facts in self.cells() if facts.cell.configuration.configuration_id == wanted)

    def reference_cell(self, facts: CellSummary) -> CellSummary | None:
        """The reference under the same load; None where there is none, or where the cell is the reference."""
        if self.reference is None or self.is_reference(facts.cell.configuration):
            return None
        load_id = facts.cell.load.load_id
        return next((one for one in self.of_configuration(self.reference) if one.cell.load.load_id == load_id), None)

    def is_reference(self, configuration: Configuration) -> bool:
        """Whether gains are measured against this one."""
        return self.reference is not None and self.reference.configuration_id == configuration.configuration_id

    def standing(self, configuration: Configuration) -> Standing | None:
        """How a configuration did over the whole workload."""
        wanted = configuration.configuration_id
        return next((one for one in self.facts.standings if one.configuration.configuration_id == wanted), None)

    @property
    def best(self) -> Standing | None:
        """The best configuration that has every cell, and that may be recommended."""
        return next(iter(self.facts.ranked), None)

    @property
    def pick(self) -> Configuration | None:
        """Of a search, what to run: the confirmed pick, else the incumbent. None while it is not complete."""
        tune, found = self.facts.plan.tune, self.facts.tuned
        if tune is None or (found is None and NOTHING_TO_CONFIRM not in self.facts.notes):
            return None
        if found is not None and found.pick is not None:
            return found.pick.candidate.configuration
        known = (one for one in self.facts.plan.configurations if one.configuration_id == tune.reference_id)
        return next(known, None)

    @property
    def badge(self) -> str:
        """What the one configuration is that tables point out. In a search the fastest may be a lucky one."""
        return "to run" if self.facts.plan.tune is not None else "fastest"

    def is_marked(self, configuration: Configuration) -> bool:
        """Whether it is that one."""
        best = self.best.configuration if self.best else None
        marked = self.pick if self.facts.plan.tune is not None else best
        return marked is not None and marked.configuration_id == configuration.configuration_id


def read(facts: RunFacts) -> Reading:
    """Return the run with its names."""
    refused = tuple(refusal.configuration for refusal in facts.plan.refusals)
    loads = tuple(trial.load for launch in facts.plan.launches for trial in launch.trials)
    labels = labels_of((*configurations_of(facts), *refused), (*loads, *(summary.cell.load for summary in facts.cells)))
    reference = facts.overview.reference if facts.overview else None
    return Reading(
        facts=facts,
        labels=labels,
        doubts=_group_doubts(facts.cells, labels),
        reference=reference,
        reference_label=labels.configuration(reference) if reference else "",
    )


def _group_doubts(cells: tuple[CellSummary, ...], labels: Labels) -> tuple[DoubtGroup, ...]:
    ordered = sorted(cells, key=lambda facts: (_configuration_key(facts), load_order(facts.cell.load)))
    found: dict[tuple[bool, str, str], dict[tuple[str, str], list[str]]] = {}
    for facts in ordered:
        name, load = labels.configuration(facts.cell.configuration), labels.load(facts.cell.load)
        for doubt in facts.doubts:
            group = found.setdefault((not doubt.void, doubt.kind, doubt.remedy), {})
            loads = group.setdefault((name, doubt.evidence), [])
            if load not in loads:
                loads.append(load)
    return tuple(
        DoubtGroup(
            number=number,
            kind=kind,
            title=words(kind),
            meaning=KINDS[kind].meaning if kind in KINDS else "",
            remedy=remedy,
            void=not usable,
            cases=tuple(
                DoubtCase(where=f"{name} · {_places(loads)}", evidence=evidence)
                for (name, evidence), loads in found[usable, kind, remedy].items()
            ),
        )
        for number, (usable, kind, remedy) in enumerate(sorted(found), start=1)
    )


def _places(loads: list[str]) -> str:
    return loads[0] if len(loads) == 1 else f"{len(loads)} cells"


def _configuration_key(facts: CellSummary) -> tuple[object, ...]:
    return configuration_order(facts.cell.configuration)
