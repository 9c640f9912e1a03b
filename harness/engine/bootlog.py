"""Boot log lines to facts. Pure; knows the spellings of vLLM 0.25 to 0.32, on GPU and CPU."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable

from harness.records.cell import KnobValue
from harness.records.launch import BootFacts

SpeculativeConfig = dict[str, KnobValue | None]

_VERSION = re.compile(r"\bvLLM API server version (\S+)|█\s+version (\S+)|V1 LLM engine \(v(\S+)\)")
_KV_CACHE = re.compile(r"KV cache size: ([\d,]+) tokens")
_CONCURRENCY = re.compile(r"Maximum concurrency for [\d,]+ tokens per request: ([\d.]+)x")
_MODEL_LOAD = re.compile(r"Model loading took .*?([\d.]+) seconds")
_WEIGHTS_LOAD = re.compile(r"Loading weights took ([\d.]+) seconds")
_CAPTURE_SECONDS = re.compile(r"Graph capturing finished in ([\d.]+) secs")
_CAPTURE_SIZES = re.compile(r"'?cudagraph_capture_sizes'?[=:] ?\[([\d, ]*)\]")
_BATCHED_TOKENS = re.compile(r"max_num_batched_tokens=(\d+)")
_ARGUMENTS = re.compile(r"non-default args: (\{.*\})\s*$")
_OBJECT = re.compile(r"speculative_config=(None|SpeculativeConfig\(([^)]*)\))")
_UNKNOWN = re.compile(r"Unknown vLLM environment variable detected: (\w+)")
_FIELD = re.compile(r"(\w+)=('[^']*'|\"[^\"]*\"|[^,]+)")
_SAME_FIELD = {"num_spec_tokens": "num_speculative_tokens"}  # the object's repr has a name of its own


def parse_boot_log(lines: Iterable[str]) -> BootFacts:
    """Return what the lines say. A fact whose line is missing is None.

    The speculative configuration is the engine's own object where it was printed, completed by what the command line
    asked for; an empty dict means that the engine said it has none.
    """
    facts: dict[str, object] = {}
    weights_s: list[float] = []  # target and draft each have a line
    configuration: SpeculativeConfig | None = None
    unknown: list[str] = []
    for line in lines:
        facts.update(_numbers(line))
        said = _speculative_config(line)
        if said is not None:
            configuration = {**(configuration or {}), **said}
        unknown += [name for name in _UNKNOWN.findall(line) if name not in unknown]
        weights_s += [float(seconds) for seconds in _WEIGHTS_LOAD.findall(line)]
    if weights_s:
        facts.setdefault("model_load_s", sum(weights_s))
    return BootFacts(speculative_config=configuration, unknown_environment=tuple(unknown), **facts)  # type: ignore[arg-type] # _numbers returns fields of BootFacts


def _numbers(line: str) -> dict[str, object]:
    """The fields of BootFacts that one line carries."""
    found: dict[str, object] = {}
    if match := _VERSION.search(line):
        found["engine_version"] = next(group for group in match.groups() if group)
    if match := _KV_CACHE.search(line):
        found["kv_cache_tokens"] = int(match[1].replace(",", ""))
    if match := _CONCURRENCY.search(line):
        found["max_concurrency_x"] = float(match[1])
    if match := _MODEL_LOAD.search(line):
        found["model_load_s"] = float(match[1])
    return found | _limits(line)


def _limits(line: str) -> dict[str, object]:
    found: dict[str, object] = {}
    if match := _CAPTURE_SECONDS.search(line):
        found["graph_capture_s"] = float(match[1])
    if match := _CAPTURE_SIZES.search(line):
        found["capture_sizes"] = tuple(int(size) for size in match[1].split(",") if size.strip())
    if match := _BATCHED_TOKENS.search(line):
        found["max_num_batched_tokens"] = int(match[1])
    return found


def _speculative_config(line: str) -> SpeculativeConfig | None:
    if match := _ARGUMENTS.search(line):
        return _from_arguments(match[1])
    if match := _OBJECT.search(line):
        return {} if match[1] == "None" else _from_repr(match[2])
    return None


# What literal_eval raises: an unhashable member of a set and too deep a nesting are among it.
_NO_LITERAL = (ValueError, SyntaxError, TypeError, RecursionError, MemoryError)


def _from_arguments(text: str) -> SpeculativeConfig | None:
    """The entry in the dict that vLLM prints of its command line; None where it has none or is no literal."""
    try:
        arguments = ast.literal_eval(text)
    except _NO_LITERAL:
        return None
    configuration = arguments.get("speculative_config") if isinstance(arguments, dict) else None
    if not isinstance(configuration, dict):
        return None
    return {str(name): value for name, value in configuration.items() if _is_plain(value)}


def _from_repr(text: str) -> SpeculativeConfig:
    return {_SAME_FIELD.get(name, name): _literal(value) for name, value in _FIELD.findall(text)}


def _literal(text: str) -> KnobValue | None:
    try:
        value = ast.literal_eval(text.strip())
    except _NO_LITERAL:
        return text.strip()
    return value if _is_plain(value) else text.strip()


def _is_plain(value: object) -> bool:
    return value is None or isinstance(value, (bool, int, float, str))
