"""The fake's command line and its switches.

Pace (milliseconds unless named otherwise)
    step_a_ms=3  step_b_ms=0.5     an engine step: a + b * k
    step_stream_ms=0.2             for each further stream in the step
    prefill_tokens_per_s=100000    uncached prompt tokens lengthen the step in which they are computed
    slow_factor=1                  all of it times this; slow_from_boot=N, slow_until_boot=N limit it to some boots
Acceptance
    acceptance=.85,.72,.6,...      share of drafts whose position is accepted (default 0.85 ** (position + 1))
    code_acceptance=...            the same for prompts with many symbols (default: its square)
    seed=0                         of acceptance and answers
    k_live=N                       draft N tokens, whatever was asked for
    trim=1                         draft fewer than k at times, as a confidence threshold does
Answers
    natural_tokens=60              mean length where EOS is not ignored
    loop=1                         repeat four tokens
    split_characters=1             some tokens are half a character: an event with tokens and no text
Faults
    die_at_boot=crash|oom|model|argument|cache|port   with the words of vLLM
    slow_boot_s=S                  before it listens
    die_after_tokens=N             error event, [DONE], /health 503, then the process ends
    cut_stream_after=N             the connection ends after N tokens of a stream
    half_open_after=N              nothing more is sent after N tokens, the connection stays
    no_finish_reason=1             [DONE] without saying why
    no_metrics=1  no_token_ids=1  no_continuous_usage=1  no_version=1  no_per_request_metrics=1
    counters_restart_after=N       all counters are zero again after N requests
    foreign_tokens_per_s=N         somebody else's requests in the counters
    jit_at_request=N               a compilation in the log, and a stall of 200 ms
    wants_key=KEY                  401 without it, whatever key the environment holds
    strict_arguments=1             refuse options that are not known here
    core_without_environment=1     the EngineCore carries no environment, as after it has set its title
    ignore_signals=1               only SIGKILL ends it
Where they hold
    state=FILE                     counts boots; needed for the next two and slow_from_boot
    only_boot=N                    faults hold in that boot only
    only_request=N                 stream faults hold for the N-th streamed request only (from 1)
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

KNOWN_VARIABLES = ("VLLM_CPU_", "VLLM_NO_USAGE_STATS", "VLLM_API_KEY", "VLLM_USE_", "VLLM_HOST_IP", "VLLM_LOGGING_")
EVERY_BOOT = ("k_live", "ignore_signals", "core_without_environment", "trim", "loop")


@dataclass(frozen=True)
class Options:
    """What was asked for on the command line, and the switches."""

    model: str
    served_model: str
    host: str
    port: int
    max_model_len: int
    max_num_seqs: int
    block_size: int
    prefix_caching: bool
    prompt_tokens_details: bool
    per_request_metrics: str
    reasoning: bool
    api_keys: tuple[str, ...]
    speculative: dict[str, Any]
    arguments: dict[str, Any]
    switches: dict[str, str]
    boot: int
    unknown_variables: tuple[str, ...]

    @property
    def k(self) -> int:
        """Tokens drafted in a step; 0 without speculation."""
        return int(self.switches.get("k_live", self.speculative.get("num_speculative_tokens", 0)))

    @property
    def drafts_rarely(self) -> bool:
        """ngram drafts only where the text repeats itself."""
        return self.speculative.get("method") == "ngram"

    def fault(self, name: str) -> str:
        """The value of a fault that holds in this boot; empty if it does not."""
        only = self.switches.get("only_boot")
        if only and int(only) != self.boot and name not in EVERY_BOOT:
            return ""
        value = self.switches.get(name, "")
        return "" if value == "0" else value

    def number(self, name: str, default: float) -> float:
        return float(self.fault(name) or default)

    @property
    def slowness(self) -> float:
        """What every step is multiplied with in this boot."""
        first = int(self.switches.get("slow_from_boot", 1))
        last = int(self.switches.get("slow_until_boot", 10**9))
        return float(self.switches.get("slow_factor", 1)) if first <= self.boot <= last else 1.0


def parse_options(argv: Sequence[str], environment: Mapping[str, str]) -> Options:
    """Read the command line as vLLM would; options that mean nothing here are taken and ignored."""
    if argv and argv[0] == "serve":
        argv = argv[1:]
    if argv and not argv[0].startswith("-"):
        argv = ["--model", *argv]
    known, rest = _parser().parse_known_args(list(argv))
    switches = dict(pair.split("=", 1) for pair in environment.get("FAKE_VLLM", "").split())
    switches.update(pair.split("=", 1) for pair in known.fake)
    if switches.get("strict_arguments", "0") != "0" and rest:
        _parser().error(f"unrecognized arguments: {' '.join(rest)}")
    served = known.served_model_name[0] if known.served_model_name else known.model
    return Options(
        model=known.model,
        served_model=served,
        host=known.host or "127.0.0.1",
        port=known.port,
        max_model_len=known.max_model_len,
        max_num_seqs=known.max_num_seqs,
        block_size=known.block_size,
        prefix_caching=not known.no_enable_prefix_caching,
        prompt_tokens_details=known.enable_prompt_tokens_details,
        per_request_metrics="none" if "no_per_request_metrics" in switches else known.per_request_spec_decode_metrics,
        reasoning=bool(known.reasoning_parser),
        api_keys=_api_keys(known.api_key, switches, environment),
        speculative=known.speculative_config or {},
        arguments=_non_default(known),
        switches=switches,
        boot=_count_boot(switches.get("state")),
        unknown_variables=tuple(
            name for name in sorted(environment) if name.startswith("VLLM_") and not name.startswith(KNOWN_VARIABLES)
        ),
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="api_server.py", allow_abbrev=False)
    parser.add_argument("--model", required=True)
    parser.add_argument("--host")
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--served-model-name", nargs="+")
    parser.add_argument("--max-model-len", type=int, default=8192)
    parser.add_argument("--max-num-seqs", type=int, default=256)
    parser.add_argument("--max-num-batched-tokens", type=int)
    parser.add_argument("--block-size", type=int, default=16)
    parser.add_argument("--dtype")
    parser.add_argument("--enforce-eager", action="store_true")
    parser.add_argument("--no-enable-prefix-caching", action="store_true")
    parser.add_argument("--enable-prompt-tokens-details", action="store_true")
    parser.add_argument("--per-request-spec-decode-metrics", choices=("none", "summary", "detailed"), default="none")
    parser.add_argument("--reasoning-parser")
    parser.add_argument("--api-key", nargs="+")
    parser.add_argument("--speculative-config", type=json.loads)
    parser.add_argument("--fake", action="append", default=[], metavar="KEY=VALUE")
    return parser


def _non_default(known: argparse.Namespace) -> dict[str, Any]:
    defaults = vars(_parser().parse_args(["--model", ""]))
    return {
        name: value
        for name, value in vars(known).items()
        if value != defaults[name] and name not in ("fake", "api_key")
    }


def _api_keys(named: list[str] | None, switches: Mapping[str, str], environment: Mapping[str, str]) -> tuple[str, ...]:
    if "wants_key" in switches:
        return (switches["wants_key"],)
    return tuple(named or filter(None, [environment.get("VLLM_API_KEY")]))


def _count_boot(path: str | None) -> int:
    if path is None:
        return 1
    state = Path(path)
    boot = int(state.read_text()) + 1 if state.exists() else 1
    state.write_text(str(boot))
    return boot
