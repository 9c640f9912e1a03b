"""What a check of a trial may look at."""

from __future__ import annotations

from dataclasses import dataclass

from harness.records.launch import LaunchRecord
from harness.records.request import RequestRecord
from harness.records.summary import TrialMetrics
from harness.records.trial import TrialRecord
from harness.stats.summary import speculates


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Where doubt begins. The defaults suit a quiet pair of hosts; a recipe may widen those of canary and identity."""

    cache_hit_ratio: float = 0.01  # of the prompt tokens of a cold cell
    reused_hit_ratio: float = 0.5  # of the prompt tokens of a warm cell: its turn is a third of it at most
    promised_ratio: float = 0.5  # of the tokens that a conversation promises to find in full blocks of the cache
    added_ratio: float = 1.5  # of the tokens that its turns add, and the engine computes; beside the next
    block_tokens: int = 128  # of each prompt, which may lie in a block that is not full
    prompt_off_ratio: float = 0.005
    prompt_off_tokens: int = 4  # whichever of the two is more
    failed_ratio: float = 0.05  # of the requests; above it the trial is void
    canary_ratio: float = 0.03
    identity_ratio: float = 0.03
    ceiling_ratio: float = 0.05  # the reference is a measurement too
    repeated_tail_ratio: float = 0.5
    reasoning_ratio: float = 0.95
    loop_lag_gaps: float = 1.0  # longest pause of the client's loop, in median event gaps
    client_cpu_ratio: float = 0.8
    coalesced_ratio: float = 0.05
    undrafted_ratio: float = 0.02  # steps without a draft, per draft
    least_drafts: int = 400  # per cell
    late_s: float = 0.25  # behind the time at which a request was due
    late_ratio: float = 0.1  # of the requests that may be later
    reuse_low_ratio: float = 0.7  # of the reuse that a trace promises
    reuse_off: float = 0.15  # of the prompt tokens: tools come first in a prompt, and are not counted in that promise
    busy_clock_ratio: float = 0.25  # that a busy node's clock may fall within a trial
    kv_tokens_ratio: float = 0.02  # between launches of one configuration


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A trial with all that bears on it."""

    trial: TrialRecord
    metrics: TrialMetrics
    launch: LaunchRecord | None
    limits: Limits
    no_speculation_tokens_per_s: float | None = None

    @property
    def k(self) -> int | None:
        """As the configuration asks; None where it leaves that to the engine."""
        return self.trial.cell.configuration.num_speculative_tokens

    @property
    def finished(self) -> tuple[RequestRecord, ...]:
        """Requests that ended as they should."""
        return tuple(request for request in self.trial.requests if request.finished and request.batches)

    @property
    def failed(self) -> tuple[RequestRecord, ...]:
        """The others."""
        return tuple(request for request in self.trial.requests if not (request.finished and request.batches))

    @property
    def events(self) -> int:
        """Events after the first one of each request."""
        return sum(len(request.batches) - 1 for request in self.trial.requests if request.batches)

    @property
    def steps(self) -> int | None:
        """Decode steps summed over streams, which is what events would be one each; None where nobody counts them."""
        if speculates(self.trial):
            return self.trial.counters.drafts
        counts = [request.output_tokens for request in self.trial.requests if request.batches]
        return sum((count or 0) - 1 for count in counts) if counts and None not in counts else None
