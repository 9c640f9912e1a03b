"""Launches on a pair of hosts: the pair is held for the whole run, and each configuration is brought up on it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass

from harness.client.transport import StampedTransport
from harness.engine.launch import LaunchSetting
from harness.engine.pair.bundled_launcher import BundledLauncher
from harness.engine.pair.checkout import CheckoutLauncher
from harness.engine.pair.hold import Restoration, held
from harness.engine.pair.inventory import load_inventory
from harness.engine.pair.launcher import PairLauncher
from harness.engine.pair.names import names_of
from harness.engine.pair.preflight import require_generation, require_passed_on, require_same_on_both
from harness.engine.pair.rig import Rig, Use, checkout_rig, holding_of, inventory_rig
from harness.engine.pair.run import HeldPair, require_reachable
from harness.engine.pair.state import PairStates
from harness.errors import InputError
from harness.recipe.pair import Pair as PairData
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
    wait_limit_s: float | None = None  # for it to be idle; None: as long as it takes


@dataclass(frozen=True, slots=True, kw_only=True)
class _Way:
    """One of the two ways to launch, ready."""

    rig: Rig
    launcher: PairLauncher
    look: Callable[[], Awaitable[None]]  # what must hold of the hosts before anything is touched
    described_as: tuple[str, ...]
    untested: str | None = None


class PairDriver:
    """Engines on two hosts, or on one through docker."""

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

        way = await self._way(setting)
        back = Restoration(
            pair_id=way.rig.pair_id,
            pair=way.rig.pair,
            lender=way.rig.lender(setting.clock, note),
            states=self._states,
            on_note=note,
        )

        async def look() -> None:
            await require_reachable(way.rig.pair.head, self._site.trial_port)
            await way.look()

        use = Use(
            run_id=setting.run_id,
            recipe=next(iter(self._specs.values())).recipe,
            may_borrow=self._lending.allowed,
            idle_for_s=self._lending.idle_for_s,
            wait_limit_s=self._lending.wait_limit_s,
            look=look,
        )
        async with held(holding_of(way.rig, back, use)):
            self._pair = HeldPair(
                pair=way.rig.pair,
                launcher=way.launcher,
                project=way.rig.trial_project,
                port=self._site.trial_port,
                described_as=way.described_as,
                untested=way.untested,
            )
            if way.untested is not None:
                note(way.untested)
            yield

    @asynccontextmanager
    async def launched(self, spec: LaunchSpec, setting: LaunchSetting) -> AsyncIterator[Reached]:
        """Bring one configuration up on the pair that is held."""
        assert self._pair is not None  # the session holds it
        async with self._pair.launched(spec, setting) as engine:
            transport = StampedTransport()
            yield Reached(engine=engine, measuring=transport, prewarm=transport.prewarm, asking=None)

    async def _way(self, setting: RunSetting) -> _Way:
        styles = {spec.style for spec in self._specs.values()}
        if len(styles) > 1:
            raise InputError(
                "some configurations are launched through a checkout and some without one",
                hint="Measure them in two runs, and compare the runs.",
            )
        return await (self._bundled(setting) if styles == {"two_node_bundled"} else self._through_checkout(setting))

    async def _through_checkout(self, setting: RunSetting) -> _Way:
        specs = tuple(self._specs.values())
        data = _pair_of(specs[0])
        names = names_of(data)
        rig = await checkout_rig(self._site, self._checkout(), names)
        assert rig.checkout is not None and rig.compose_file is not None  # of this kind of rig
        untested = await require_generation(rig.pair.head, rig.checkout, specs)
        await require_passed_on(rig.pair.head, rig.checkout, specs, compose_file=rig.compose_file)
        launcher = CheckoutLauncher(
            pair=rig.pair,
            folder=rig.checkout,
            work_folder=rig.work_folder,
            clock=setting.clock,
            names=names,
            compose_file=rig.compose_file,
        )
        return _Way(
            rig=rig,
            launcher=launcher,
            look=lambda: require_same_on_both(rig.pair, specs, rig.environment, data.variables),
            described_as=(f"./{names.start}",),
            untested=untested,
        )

    async def _bundled(self, setting: RunSetting) -> _Way:
        inventory_file = self._site.inventory_file
        if inventory_file is None:
            raise InputError(
                "no pair.yaml is named, so a launch without a checkout does not know its nodes",
                hint="Copy recipes/dspark-2x-spark/pair.example.yaml, and name it as `inventory` in the site file.",
            )
        data = _pair_of(next(iter(self._specs.values())))
        inventory = load_inventory(inventory_file, nodes=data.nodes)
        rig = await inventory_rig(self._site, inventory)
        launcher = BundledLauncher(pair=rig.pair, inventory=inventory, clock=setting.clock)
        return _Way(rig=rig, launcher=launcher, look=_nothing_more, described_as=("docker", "compose", "up", "-d"))

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


def _pair_of(spec: LaunchSpec) -> PairData:
    assert spec.pair is not None  # of a two_node style
    return spec.pair.data


async def _nothing_more() -> None:
    """Each launch makes sure of its own image and checkpoint."""
