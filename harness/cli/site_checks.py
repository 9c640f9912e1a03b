"""The checks that a sweep names, as the site file defines them."""

from __future__ import annotations

from harness.run.checking import Checks
from harness.run.setup import PlannedSweep
from harness.sweep.site import Site, require_check


def checks_of(planned: PlannedSweep, site: Site) -> Checks:
    """Return the commands of a sweep's ``checks`` by name; of a rehearsal the names alone, since it runs none.

    Raises:
        InputError: the site does not define one, or its program is not there; at its place in the sweep.
    """
    sweep = planned.sweep
    if planned.scenario is not None:
        return dict.fromkeys(sweep.file.checks)
    return {
        name: require_check(site, name, where=sweep.source.where(("checks", index), value=True))
        for index, name in enumerate(sweep.file.checks)
    }
