"""Launch a pair with our own compose file: for owners without a checkout."""

from __future__ import annotations

from dataclasses import dataclass

from harness.engine.diagnosis import remedy_for, root_cause
from harness.engine.endpoint import endpoint_for
from harness.engine.pair.bundled import ApiKey, BundledLaunch
from harness.engine.pair.inventory import Inventory
from harness.engine.pair.launcher import OnOutput, OnProgress, Pair, TrialLaunch, rank_tail, ranks_of
from harness.engine.pair.ranks import prepare, start, stop
from harness.errors import EngineError, HostError, LaunchError
from harness.records.clock import Clock
from harness.units import format_seconds

_POLL_S = 0.5
_RANKS_EVERY_S = 3.0


@dataclass(frozen=True, slots=True, kw_only=True)
class BundledLauncher:
    """Starts and stops trial ranks on the nodes of a pair.yaml."""

    pair: Pair
    inventory: Inventory
    clock: Clock

    async def start(self, launch: TrialLaunch, on_progress: OnProgress) -> None:
        """Make sure of both nodes, start the worker and then the head, wait until the API answers.

        Raises:
            LaunchError, HostUnreachableError: see PairLauncher.
            InputError: pair.yaml or the configuration is wrong.
        """
        bundled = BundledLaunch(
            spec=launch.spec,
            inventory=self.inventory,
            project=launch.project,
            host=launch.host,
            port=launch.port,
            key=self._key(launch),
        )
        ranks = await prepare(bundled, self.pair.nodes)
        on_progress("starting the ranks, the worker first")
        await start(self.pair.nodes, ranks)
        await self._wait(launch)

    async def smoke_test(self, launch: TrialLaunch, on_progress: OnProgress, on_output: OnOutput) -> None:
        """There is no script to run: the requests that prove the live configuration are the first test."""

    async def stop(self, launch: TrialLaunch) -> None:
        """Remove both ranks and our files. Raises HostError where one may still run."""
        try:
            await stop(self.pair.nodes, launch.project)
        except EngineError as error:
            raise HostError(
                f"a rank of the launch may still run: {error.what}",
                where=error.where,
                hint="Nothing more is launched: a start would mix ranks. When the host is back: harness engine restore",
            ) from error

    async def _wait(self, launch: TrialLaunch) -> None:
        started_s = looked_s = self.clock.now_s()
        async with endpoint_for(launch.spec, launch.base_url) as endpoint:
            while True:
                if await endpoint.health() == 200 and await endpoint.models():
                    return
                now_s = self.clock.now_s()
                if now_s - looked_s >= _RANKS_EVERY_S:
                    looked_s = now_s
                    await self._refuse_dead_ranks(launch)
                if now_s - started_s > launch.ready_timeout_s:
                    raise await self._failure(
                        launch, f"it was not ready after {format_seconds(launch.ready_timeout_s)}"
                    )
                await self.clock.sleep(_POLL_S)

    async def _refuse_dead_ranks(self, launch: TrialLaunch) -> None:
        ranks = await ranks_of(self.pair, launch.project)
        dead = ranks.dead() or next(
            (f"the {node.role} rank is gone" for node in self.pair.nodes if node.role not in ranks.by_role), None
        )
        if dead is not None:
            raise await self._failure(launch, dead)

    async def _failure(self, launch: TrialLaunch, what: str) -> LaunchError:
        ranks = await ranks_of(self.pair, launch.project)
        tail = await rank_tail(self.pair, ranks, launch.secrets)
        cause = root_cause(tail)
        said = f"the pair failed to boot: {what}" + (f": {cause}" if cause else "")
        return LaunchError(said, where=launch.spec.recipe, hint=remedy_for(tail, None), log_tail=tail)

    def _key(self, launch: TrialLaunch) -> ApiKey | None:
        pair = launch.spec.pair
        variable = pair.data.variables.keys[0] if pair and pair.data.variables.keys else None
        return ApiKey(variable=variable, value=launch.api_key) if variable and launch.api_key else None
