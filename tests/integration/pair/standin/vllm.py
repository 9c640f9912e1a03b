"""A stand-in for vLLM: `vllm serve MODEL ...` as one of the two ranks of a pair.

Rank 0 meets rank 1, writes the lines of a boot that a driver reads, and serves the simulated engine. Rank 1 only has to
be there. What cannot boot on a pair does not boot here: a k that the checkpoint's drafter does not divide, a k of 0, a
speculative config that is no JSON.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from dataclasses import dataclass
from datetime import datetime
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

from tests.integration.pair.standin import faults, places
from tests.integration.pair.standin.ranks import Hello, join_head, wait_for_worker

VERSION = "0.25.2.dev0+g752a3a504"
REDACTED = Path("/opt/.api-key-log-redacted")  # left by the hot fix that keeps keys out of the log
DEFAULTS: dict[str, Any] = {"speed": 20.0, "scenario": "quiet", "boot_s": 0.3, "seed": 1, "silence_s": 5.0}
_SWITCHES = frozenset(
    {
        *("trust-remote-code", "enable-prefix-caching", "enable-prompt-tokens-details", "async-scheduling", "headless"),
        *("enable-chunked-prefill", "enable-auto-tool-choice", "enable-flashinfer-autotune", "no-async-scheduling"),
    }
)
_MANY = frozenset({"api-key", "served-model-name"})
_JSON = frozenset({"speculative-config", "reasoning-config", "default-chat-template-kwargs"})
_STAGE_C_ONLY = ("VLLM_DSPARK_", "VLLM_DSV4_", "VLLM_USE_B12X_WO_PROJECTION")


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The command line and what else an engine is started with."""

    model: str
    arguments: dict[str, Any]  # by vLLM's own names
    stage_c: bool

    def whole(self, name: str, default: int) -> int:
        """A number of the command line."""
        return int(self.arguments.get(name, default))

    @property
    def rank(self) -> int:
        """0 serves."""
        return self.whole("node_rank", 0)

    @property
    def speculation(self) -> dict[str, Any]:
        """The speculative config; empty: none."""
        config: dict[str, Any] = self.arguments.get("speculative_config", {})
        return config

    @property
    def k(self) -> int:
        """The drafted tokens of a step."""
        return int(self.speculation.get("num_speculative_tokens", 0))

    @property
    def served_model(self) -> str:
        """What requests have to ask for."""
        return str((self.arguments.get("served_model_name") or [self.model])[0])

    @property
    def api_keys(self) -> tuple[str, ...]:
        """What clients have to send."""
        single = os.environ.get("VLLM_API_KEY")
        return tuple(self.arguments.get("api_key", ())) or ((single,) if single else ())


def main(words: list[str]) -> int:
    """Be one rank until it ends, and return the exit code."""
    if words[:1] != ["serve"]:
        print(f"vllm: error: the stand-in knows `vllm serve` only, not {words[:1]}", file=sys.stderr)
        return 2
    options = parse(words[1:])
    settings = DEFAULTS | _read(places.IN_CONTAINER / places.ENGINE)
    known_faults = faults.Faults(places.IN_CONTAINER)
    _banner(options)
    if problem := _why_not(options):
        print(f"Traceback (most recent call last):\n{problem}", file=sys.stderr)
        return 1
    if options.rank != 0:
        return _be_worker(options, settings, known_faults)
    return _be_head(options, settings, known_faults)


def parse(words: list[str]) -> Options:
    """Read the command line; exits with 2 as argparse does."""
    found: dict[str, Any] = {}
    model = ""
    left = [word for word in words if word]
    while left:
        word = left.pop(0)
        if not word.startswith("--"):
            if model:
                _refuse(f"unrecognized arguments: {word}")
            model = word
            continue
        name, equals, value = word[2:].partition("=")
        key = name.replace("-", "_")
        if name in _SWITCHES:
            found[key] = True
        elif name in _MANY:
            found[key] = [value] if equals else _until_next_option(left)
        else:
            value = value if equals else (left.pop(0) if left else _refuse(f"argument --{name}: expected one argument"))
            found[key] = _json(name, value) if name in _JSON else _number(value)
    if not model:
        _refuse("the following arguments are required: model_tag")
    stage_c = "stage-c" in os.environ.get("STANDIN_IMAGE", "")
    return Options(model=model, arguments=found, stage_c=stage_c)


def _until_next_option(left: list[str]) -> list[str]:
    values = []
    while left and not left[0].startswith("--"):
        values.append(left.pop(0))
    return values


def _number(value: str) -> Any:
    for kind in (int, float):
        try:
            return kind(value)
        except ValueError:
            continue
    return value


def _json(name: str, value: str) -> Any:
    try:
        return json.loads(value)
    except ValueError:
        _refuse(f"argument --{name}: Value {value} cannot be converted to <function loads>.")


def _refuse(what: str) -> NoReturn:
    print(f"usage: vllm serve [model_tag] [options]\nvllm serve: error: {what}", file=sys.stderr)
    raise SystemExit(2)


def _why_not(options: Options) -> str | None:
    """Why vLLM would not boot with this k, in its words."""
    if not options.speculation:
        return None
    if options.k < 1:
        return (
            "pydantic_core._pydantic_core.ValidationError: 1 validation error for SpeculativeConfig\n"
            "num_speculative_tokens\n  Input should be greater than 0 [type=greater_than]"
        )
    n_predict = _n_predict(options)
    if options.k > n_predict and options.k % n_predict != 0:
        return f"ValueError: num_speculative_tokens:{options.k} must be divisible by n_predict={n_predict}"
    return None


def _n_predict(options: Options) -> int:
    if options.stage_c:
        return 5
    if "vision-exp" not in options.model.lower():
        return 1
    return 1 if os.environ.get("DSPARK_ENABLE_DSPARK_BLOCK_K", "0") == "1" else 3  # block k: any depth boots


def _read(path: Path) -> dict[str, Any]:
    tree: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    return tree


def say(text: str, *, process: str = "EngineCore", level: str = "INFO", where: str = "core.py:116") -> None:
    """Write lines as vLLM does."""
    stamp = datetime.now().strftime("%m-%d %H:%M:%S")
    for line in text.splitlines():
        print(f"({process} pid={os.getpid()}) {level} {stamp} [{where}] {line}", flush=True)


def _banner(options: Options) -> None:
    shown = {"model_tag": options.model, "model": options.model, **options.arguments}
    if "api_key" in shown and REDACTED.exists():
        shown["api_key"] = [f"<redacted:{len(shown['api_key'])} value(s)>"]
    say(f"vLLM API server version {VERSION}", process="APIServer", where="utils.py:293")
    say(f"non-default args: {shown}", process="APIServer", where="utils.py:233")
    for name in sorted(os.environ):
        if name.startswith(_STAGE_C_ONLY) and not options.stage_c:
            what = f"Unknown vLLM environment variable detected: {name}"
            say(what, process="APIServer", level="WARNING", where="envs.py:1458")


def _be_worker(options: Options, settings: dict[str, Any], known: faults.Faults) -> int:
    if known.happens(faults.WORKER_DIES):
        say("torch.OutOfMemoryError: CUDA out of memory.", process="Worker", level="ERROR")
        return 1
    hello = Hello(rank=1, k=options.k)
    address, port = str(options.arguments["master_addr"]), options.whole("master_port", 25000)
    tie = join_head(address, port, hello, say, silence_s=settings["silence_s"])
    ended = threading.Event()

    def lost(why: str) -> None:
        say(f"RuntimeError: head rank lost: {why}", level="ERROR")
        ended.set()

    tie.watch(lost)
    signal.signal(signal.SIGTERM, lambda number, frame: os._exit(0))
    ended.wait()
    return 1


def _be_head(options: Options, settings: dict[str, Any], known: faults.Faults) -> int:
    # The API server's modules load while the ranks meet, as on a pair the weights do.
    loading = threading.Thread(target=_load)
    loading.start()
    k_text = "None"
    if options.speculation:
        method = options.speculation.get("method")
        k_text = f"SpeculativeConfig(method={method!r}, model={options.model!r}, num_spec_tokens={options.k})"
    batched = options.whole("max_num_batched_tokens", 8192)
    say(
        f"Initializing a V1 LLM engine (v{VERSION}) with config: model={options.model!r}, speculative_config={k_text}, "
        f"max_seq_len={options.whole('max_model_len', 1048576)}, max_num_batched_tokens={batched}"
    )
    if options.whole("nnodes", 1) > 1:
        port = options.whole("master_port", 25000)
        tie = wait_for_worker(port, Hello(rank=0, k=options.k), say, silence_s=settings["silence_s"])
        tie.watch(_lost)
    if known.happens(faults.HEAD_DIES_IN_BOOT):
        say("torch.OutOfMemoryError: CUDA out of memory during graph capture", level="ERROR")
        return 1
    if known.happens(faults.NEVER_READY):
        while True:
            time.sleep(60)
    time.sleep(settings["boot_s"] / 2)
    loading.join()
    return _serve(options, settings, known)


def _lost(why: str) -> None:
    say(f"RuntimeError: worker rank lost: {why}", level="ERROR")
    os._exit(1)


def _load() -> ModuleType:
    """Only rank 0 needs the harness, which takes most of a boot to load."""
    return import_module("tests.integration.pair.standin.rank_zero")


def _serve(options: Options, settings: dict[str, Any], known: faults.Faults) -> int:
    code: int = _load().run(options, settings, known)
    return code
