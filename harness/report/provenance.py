"""Where the numbers come from: rig, versions, seeds, hashes and commands, and how each figure is defined."""

from __future__ import annotations

import shlex

from harness.records.imported import IMPORTED_MARK
from harness.records.launch import LaunchRecord
from harness.records.manifest import SIMULATED_MARK
from harness.records.metrics import METRICS
from harness.report.models import Fact
from harness.report.nodes import node_facts
from harness.report.reading import Reading
from harness.report.tables import step_seconds
from harness.units import format_bytes, format_ratio, format_tokens

_FORMULAS = {
    "ttft_s": "arrival of the first event with a token − send",
    "time_to_answer_s": "arrival of the first event with a token that is no reasoning − send",
    "decode_tokens_per_s": "(output tokens − tokens of the first event) / (last token − first token)",
    "aggregate_tokens_per_s": "all output tokens of the trial / (last token − first send)",
    "worst_stream_tokens_per_s": "the decode rate of the slowest stream",
    "acceptance_ratio": "accepted / drafted tokens, from the engine's counters around the trial",
    "acceptance_length": "1 + accepted / drafts, the bonus token included",
    "step_s": "sum over streams of (last token − first token) / drafts; without speculation the time per token",
    "iteration_s": "busy time / engine iterations",
}
_FILE_ENDINGS = (".yaml", ".yml", ".env", ".json", ".jsonl", ".gz")
_PRIVATE_OPTIONS = ("--root", "--site")


def rig_line(reading: Reading) -> str:
    """Return processor, engine and model in one line, without the name of any host."""
    host = reading.facts.manifest.host
    imported = reading.facts.imported
    parts = [", ".join(host.accelerators) or f"{host.processor}, {host.cores} cores", format_bytes(host.memory_bytes)]
    parts = [f"{IMPORTED_MARK}: measured on {host.processor}"] if imported else parts
    engines = sorted({version for launch in reading.facts.launches if (version := _engine(launch))})
    models = sorted({_file_name(launch.live.model) for launch in reading.facts.launches if launch.live})
    parts += [f"engine {', '.join(engines)}"] if engines else []
    parts += [", ".join(models)] if models else []
    parts.append(f"recipe {reading.facts.manifest.recipe}")
    mark = f"{SIMULATED_MARK}: no engine ran · " if reading.facts.manifest.simulated else ""
    return mark + " · ".join(parts)


def provenance(reading: Reading) -> tuple[Fact, ...]:
    """Return what identifies this run, in reading order."""
    manifest, plan = reading.facts.manifest, reading.facts.plan
    facts = [
        Fact(name="run", value=manifest.run_id, code=True),
        Fact(name="begun", value=manifest.started_at),
        Fact(name="command", value=shlex.join(manifest.command), private=True, code=True),
        Fact(name="sweep", value=f"{manifest.sweep_file} ({manifest.sweep})"),
        Fact(name="sweep, SHA-256", value=manifest.sweep_sha256, code=True),
        Fact(name="recipe", value=manifest.recipe),
        Fact(name="recipe, SHA-256", value=manifest.recipe_sha256, code=True),
        Fact(name="seed of the order", value=str(manifest.seed)),
        Fact(name="margin of indifference", value=format_ratio(plan.margin_ratio)),
        Fact(name="drafts wanted in a cell", value=str(plan.drafts_per_cell)),
        Fact(name="harness", value=f"{manifest.harness_version}, measuring version {manifest.measuring_version}"),
        Fact(name="rig", value=manifest.host.rig_id, private=True, code=True),
        *_machine(reading),
        Fact(name="accelerators", value=", ".join(manifest.host.accelerators) or "none"),
        Fact(name="kernel", value=manifest.host.kernel, private=True),
        Fact(name="Python", value=manifest.host.python),
        Fact(name="libraries", value=", ".join(f"{name} {is_}" for name, is_ in sorted(manifest.versions.items()))),
        *node_facts(reading),
        *_served(reading),
    ]
    return tuple(fact for fact in facts if fact.value)


def definitions(reading: Reading) -> tuple[Fact, ...]:
    """Return how each figure of the tables is defined, and which step time was used."""
    used = sorted({step_seconds(cell)[0] for cell in reading.facts.cells if step_seconds(cell)[1] is not None})
    thinks = any(cell.values.get("time_to_answer_s") is not None for cell in reading.facts.cells)
    shown = {name: formula for name, formula in _FORMULAS.items() if thinks or name != "time_to_answer_s"}
    formulas = [Fact(name=METRICS[name].label, value=formula) for name, formula in shown.items()]
    if used:
        named = " and ".join(METRICS[name].label for name in used)
        formulas.append(Fact(name="the step time shown", value=named))
    return tuple(formulas)


def public_command(command: tuple[str, ...]) -> str:
    """Return the command as it may be posted: file names without their folders, no addresses, no site."""
    kept: list[str] = []
    skip = False
    for argument in command:
        if skip:
            skip = False
            continue
        skip = argument in _PRIVATE_OPTIONS
        if not skip and not argument.startswith(tuple(f"{option}=" for option in _PRIVATE_OPTIONS)):
            kept.append(_without_place(argument))
    return shlex.join(kept)


def _without_place(argument: str) -> str:
    name, equals, value = argument.partition("=")
    if "://" in argument:
        return f"{name}=…" if equals and "://" not in name else "…"
    return f"{name}={_file_name(value)}" if equals else _file_name(name)


def _served(reading: Reading) -> list[Fact]:
    """The first launch that served: its command and environment, and what the server said of itself."""
    served = next((launch for launch in reading.facts.launches if launch.live is not None), None)
    if served is None or served.live is None:
        return []
    environment = " ".join(f"{name}={shlex.quote(value)}" for name, value in sorted(served.environment.items()))
    return [
        Fact(name="model", value=_file_name(served.live.model)),
        Fact(name="longest context", value=format_tokens(served.live.max_model_len)),
        Fact(name="engine", value=_engine(served) or "", private=False),
        Fact(name="k was proved by", value=served.live.proof),
        Fact(name="engine command of the first launch", value=shlex.join(served.command), private=True, code=True),
        Fact(name="engine environment", value=environment, private=True, code=True),
    ]


def _machine(reading: Reading) -> list[Fact]:
    host = reading.facts.manifest.host
    if reading.facts.imported:
        return [Fact(name="machine, as whoever imported it says", value=host.processor)]
    return [
        Fact(name="processor", value=f"{host.processor}, {host.cores} cores"),
        Fact(name="memory", value=format_bytes(host.memory_bytes)),
    ]


def _engine(launch: LaunchRecord) -> str | None:
    live = launch.live.engine_version if launch.live else None
    return live or (launch.boot.engine_version if launch.boot else None)


def _file_name(text: str) -> str:
    """The last part of a path; a name such as "org/model" keeps its owner."""
    is_path = text.startswith(("/", "~", ".")) or text.count("/") > 1 or text.endswith(_FILE_ENDINGS)
    return text.rsplit("/", 1)[-1] if is_path else text
