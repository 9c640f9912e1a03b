"""A pair that serves, as the harness measures it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from harness.engine.bootlog import parse_boot_log
from harness.engine.endpoint import Endpoint, endpoint_for
from harness.engine.logfile import LogReader
from harness.engine.pair.launcher import Pair, ranks_of
from harness.engine.running import HostAccount
from harness.errors import EngineError
from harness.recipe.spec import LaunchSpec
from harness.records.clock import Clock
from harness.records.launch import BootFacts

_LOOK_EVERY_S = 5.0
_LOST_AFTER_S = 30.0  # a host that is silent for so long is taken for gone


@dataclass(frozen=True, slots=True, kw_only=True)
class PairEngine:
    """Both ranks run and the API answers."""

    spec: LaunchSpec
    pair: Pair
    project: str
    clock: Clock
    base_url: str
    model: str
    max_model_len: int | None
    ready_s: float
    log: LogReader  # of the head rank
    command: tuple[str, ...]
    hosts: HostAccount
    untested: str | None = None  # why nobody knows how the scripts that started it behave
    environment: Mapping[str, str] = field(default_factory=dict)  # redacted

    async def died(self) -> str:
        """Return which rank ended, once one has, or which host is gone."""
        answered_s = self.clock.now_s()
        while True:
            await self.clock.sleep(_LOOK_EVERY_S)
            try:
                ranks = await ranks_of(self.pair, self.project)
            except EngineError as error:
                if self.clock.now_s() - answered_s > _LOST_AFTER_S:
                    return f"a host of the pair no longer answers: {error.what}"
                continue
            answered_s = self.clock.now_s()
            if (dead := ranks.dead()) is not None:
                return dead
            for node in self.pair.nodes:
                if node.role not in ranks.by_role:
                    return f"the {node.role} rank is gone"

    def boot_facts(self) -> BootFacts | None:
        """Return what the head's log has said so far."""
        return parse_boot_log(self.log.since(0).lines)

    def jit_lines(self, since: int) -> tuple[str, ...]:
        """Return the head's log lines after the offset ``since`` that report compilation while serving."""
        return self.log.matching(since, self.spec.boot.jit)

    def endpoint(self) -> Endpoint:
        """Return a client for short questions; close it with ``async with``."""
        return endpoint_for(self.spec, self.base_url)
