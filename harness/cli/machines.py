"""The machines that engines run on, as the command line and the site file name them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from harness.engine.pair.state import default_states
from harness.errors import InputError
from harness.recipe.spec import LaunchSpec
from harness.run.driver import EngineDriver, ProcessDriver
from harness.run.pair_driver import Lending, PairDriver
from harness.sweep.site import Site, load_site
from harness.units import parse_seconds

_PAIR_STYLES = ("two_node_checkout", "two_node_bundled")
_GIVING_BACK_S = 900.0  # a boot of the operator's server at its slowest, and its smoke test


@dataclass(frozen=True, slots=True, kw_only=True)
class Machines:
    """A site, and what may be done to its machines."""

    site: Site
    lending: Lending

    @property
    def keep_s(self) -> float:
        """How long before the end of the time giving back has to begin."""
        return _GIVING_BACK_S if self.lending.allowed else 0.0

    def driver(self, specs: Mapping[str, LaunchSpec], *, wait_limit_s: float | None = None) -> EngineDriver:
        """Return what brings these configurations up.

        Args:
            specs: by configuration.
            wait_limit_s: how long to wait for a server to be idle before it is borrowed; None: as long as it takes.
        """
        if any(spec.style in _PAIR_STYLES for spec in specs.values()):
            lending = replace(self.lending, wait_limit_s=wait_limit_s)
            return PairDriver(self.site, specs, states=default_states(), lending=lending)
        return ProcessDriver()


def machines_from(site_path: Path | None, *, borrow: bool, idle_for: str | None) -> Machines:
    """Return the machines of a site file; the command line wins. Raises InputError."""
    site = load_site(site_path)
    return Machines(
        site=site,
        lending=Lending(
            allowed=borrow or site.borrow.allowed,
            idle_for_s=site.borrow.idle_for if idle_for is None else _duration_s(idle_for),
        ),
    )


def _duration_s(text: str) -> float:
    try:
        return parse_seconds(text)
    except ValueError as error:
        raise InputError(str(error), where="--idle-for", hint="As in 2m.") from error
