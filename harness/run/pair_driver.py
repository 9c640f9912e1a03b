"""Launches on a pair of hosts: the pair is held for the whole run, and each configuration is brought up on it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass

from harness.client.transport import StampedTransport
from harness.engine.launch import LaunchSetting
from harness.engine.pair.checkout import CheckoutLauncher
from harness.engine.pair.hold import Restoration, held
from harness.engine.pair.names import names_of
from harness.engine.pair.preflight import require_same_on_both
from harness.engine.pair.rig import Use, checkout_rig, holding_of
from harness.engine.pair.run import HeldPair
from harness.engine.pair.state import PairStates
from harness.errors import InputError
from harness.recipe.spec import LaunchSpec
from harness.records.events import Note
from harness.run.driver import Reached, RunSetting
from harness.sweep.site import Site

CHECKOUT = "checkout"


@dataclass(frozen=True, slots=True, kw_only=True)
class Lending:
    """What the command line says about a server that runs already."""

    allowed: bool
    idle_for_s: float


class PairDriver:
    """Engines on two hosts."""

    simulated = False

    def __init__(self, site: Site, specs: Mapping[str, LaunchSpec], *, states: PairStates, lending: Lending) -> None:
        """Make a driver for the configurations ``specs``, by id. Nothing is looked at yet."""
        self._site = site
        self._specs = specs
        self._states = states
        self._lending = lending
        self._pair: HeldPair | None = None

    @asynccontextmanager
    async def held(self, setting: RunSetting) -> AsyncIterator[None]:
        """Hold the pair for a run, and put everything back afterwards."""

        def note(text: str) -> None:
            setting.on_event(Note(text=text))

        spec = next(iter(self._specs.values()))
        assert spec.pair is not None  # of a two_node style
        names = names_of(spec.pair.data)
        rig = await checkout_rig(self._site, self._checkout(), names)
        back = Restoration(
            pair_id=rig.pair_id,
            pair=rig.pair,
            lender=rig.lender(setting.clock, note),
            states=self._states,
            on_note=note,
        )
        variables, specs = spec.pair.data.variables, tuple(self._specs.values())
        use = Use(
            run_id=setting.run_id,
            recipe=spec.recipe,
            may_borrow=self._lending.allowed,
            idle_for_s=self._lending.idle_for_s,
            look=lambda: require_same_on_both(rig.pair, specs, rig.environment, variables),
        )
        async with held(holding_of(rig, back, use)):
            self._pair = HeldPair(
                pair=rig.pair,
                launcher=CheckoutLauncher(
                    pair=rig.pair,
                    folder=rig.checkout,
                    work_folder=rig.work_folder,
                    clock=setting.clock,
                    names=names,
                ),
                project=rig.trial_project,
                port=self._site.trial_port,
                described_as=(f"./{names.start}",),
            )
            yield

    @asynccontextmanager
    async def launched(self, spec: LaunchSpec, setting: LaunchSetting) -> AsyncIterator[Reached]:
        """Bring one configuration up on the pair that is held."""
        assert self._pair is not None  # the session holds it
        async with self._pair.launched(spec, setting) as engine:
            transport = StampedTransport()
            yield Reached(engine=engine, measuring=transport, prewarm=transport.prewarm, asking=None)

    def _checkout(self) -> str:
        named = {spec.configuration.knobs.get(CHECKOUT) for spec in self._specs.values()} - {None}
        folders = {str(each) for each in named} or ({self._site.checkout} if self._site.checkout else set())
        if len(folders) > 1:
            raise InputError(
                f"more than one checkout in a run: {', '.join(sorted(folders))}",
                hint="Run the sweep once for each with --set checkout=DIR, and compare the runs.",
            )
        if not folders:
            raise InputError(
                "no checkout is named",
                hint="harness doctor dspark-2x-spark --checkout DIR --write makes a site file; or --set checkout=DIR.",
            )
        return folders.pop()
