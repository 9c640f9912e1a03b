"""Boots that a new one is compared with: accepted ones of this run, and of this rig under the same engine. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from harness.records.launch import LaunchRecord
from harness.records.trial import MEASURING_VERSION
from harness.run.canary import CanaryReference, family
from harness.store.rig import StoredCanary


def known_boots(
    records: Iterable[LaunchRecord], stored: Iterable[StoredCanary], *, engine_version: str | None
) -> list[CanaryReference]:
    """Return the canaries that count: stored ones first, then those of this run."""
    here = [
        CanaryReference(
            configuration_id=record.configuration.configuration_id,
            family=family(record.configuration),
            num_speculative_tokens=record.configuration.num_speculative_tokens,
            reading=record.canary_before,
            at=record.started_at,
        )
        for record in records
        if record.outcome == "measured" and record.canary_before is not None
    ]
    earlier = [
        CanaryReference(
            configuration_id=canary.configuration_id,
            family=None,
            num_speculative_tokens=None,
            reading=canary.reading,
            at=canary.at,
        )
        for canary in stored
        if canary.measuring_version == MEASURING_VERSION and canary.engine_version == engine_version
    ]
    return [*earlier, *here]
