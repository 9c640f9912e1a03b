"""How configurations, loads and doubts are called, the same on every page."""

from __future__ import annotations

from dataclasses import dataclass

from harness.records.cell import NUM_SPECULATIVE_TOKENS, Cell, Configuration, LoadPoint
from harness.units import format_tokens
from harness.workload.spec import conversation_of

NO_SPECULATION = "no speculation"
ONLY_ONE = "as configured"  # nothing varies, and the launch knobs are in the provenance


@dataclass(frozen=True, slots=True, kw_only=True)
class Labels:
    """Names that say what differs within one report, and leave out what does not."""

    varying_knobs: tuple[str, ...] | None = None  # None: not known, so every knob is named
    varying_load: tuple[str, ...] = ("workload_class",)

    def configuration(self, configuration: Configuration) -> str:
        """The name, with k; else k and the other knobs that vary: "k=4, draft_sample_method=greedy"."""
        said = configuration.name  # a configuration that is called after a value need not repeat it
        names = [name for name in self._named(configuration) if said is None or configuration.knobs[name] != said]
        parts = [self._knob(configuration, name) for name in names]
        knobs = ", ".join(parts) or _depth(configuration.num_speculative_tokens)
        if configuration.name is None:
            return knobs or (configuration.label if self.varying_knobs is None else ONLY_ONE)
        return f"{configuration.name} ({knobs})" if knobs else configuration.name

    def others(self, configuration: Configuration) -> str:
        """The knobs besides k that vary; "" where there are none."""
        names = [name for name in self._named(configuration) if name != NUM_SPECULATIVE_TOKENS]
        return ", ".join(f"{name}={configuration.knobs[name]}" for name in names)

    def load(self, load: LoadPoint) -> str:
        """Context and streams, and whatever else varies: "code · 1K tokens · 4 streams".

        Prompts of a conversation grow "from 8K tokens" on.
        """
        parts = [getattr(load, name) for name in ("workload_class", "cache") if name in self.varying_load]
        grows = "from " if conversation_of(load) is not None else ""
        parts += [f"{grows}{format_tokens(load.context_tokens)} tokens", streams(load.concurrency)]
        for name in ("output", "temperature", "top_p", "thinking"):
            if name in self.varying_load and not _as_recorded(name, load):
                parts.append(_load_knob(name, load))
        return " · ".join(parts)

    def short_load(self, load: LoadPoint) -> str:
        """The load as a column heading: "1K × 4"."""
        parts = [getattr(load, name) for name in ("workload_class", "cache") if name in self.varying_load]
        return " ".join([*parts, f"{format_tokens(load.context_tokens)} × {load.concurrency}"])

    def cell(self, cell: Cell) -> str:
        """Configuration and load."""
        return f"{self.configuration(cell.configuration)} · {self.load(cell.load)}"

    def _named(self, configuration: Configuration) -> list[str]:
        if self.varying_knobs is None:
            return sorted(configuration.knobs, key=_knob_order)
        return [name for name in self.varying_knobs if name in configuration.knobs]

    @staticmethod
    def _knob(configuration: Configuration, name: str) -> str:
        value = configuration.knobs[name]
        return _depth(configuration.num_speculative_tokens) if name == NUM_SPECULATIVE_TOKENS else f"{name}={value}"


def labels_of(configurations: tuple[Configuration, ...], loads: tuple[LoadPoint, ...]) -> Labels:
    """Return the names for what a report covers."""
    load_names = ("workload_class", "cache", "output", "temperature", "top_p", "thinking")
    varying_load = tuple(name for name in load_names if len({getattr(load, name) for load in loads}) > 1)
    # A knob that only some configurations have (inert without speculation) is named where two of them differ in it,
    # or where nothing else tells two configurations apart.
    brief = Labels(varying_knobs=_varying(configurations, absent_differs=False), varying_load=varying_load)
    if len({brief.configuration(one) for one in configurations}) == len(
        {one.configuration_id for one in configurations}
    ):
        return brief
    return Labels(varying_knobs=_varying(configurations, absent_differs=True), varying_load=varying_load)


def _varying(configurations: tuple[Configuration, ...], *, absent_differs: bool) -> tuple[str, ...]:
    names = sorted({name for configuration in configurations for name in configuration.knobs}, key=_knob_order)
    values = {
        name: {
            configuration.knobs.get(name)
            for configuration in configurations
            if absent_differs or name in configuration.knobs
        }
        for name in names
    }
    return tuple(name for name in names if len(values[name]) > 1)


def streams(concurrency: int) -> str:
    """Return "1 stream" or "4 streams"."""
    return counted(concurrency, "stream")


def counted(count: int, noun: str, plural: str | None = None) -> str:
    """Return "1 launch" or "3 launches"."""
    return f"{count} {noun if count == 1 else plural or noun + 's'}"


def load_order(load: LoadPoint) -> tuple[object, ...]:
    """Sort key: class, cache, context, streams, then what is left."""
    return (
        load.workload_class,
        load.cache,
        load.context_tokens,
        load.concurrency,
        load.output.tokens,
        load.temperature,
        load.load_id,
    )


def configuration_order(configuration: Configuration) -> tuple[object, ...]:
    """Sort key: k first, then the other knobs as text."""
    k = configuration.num_speculative_tokens
    knobs = sorted((name, str(value)) for name, value in configuration.knobs.items() if name != NUM_SPECULATIVE_TOKENS)
    return (-1 if k is None else k, knobs, configuration.name or "")


def words(kind: str) -> str:
    """Return a snake_case name as words: "prefix_cache_hits" -> "prefix cache hits"."""
    return kind.replace("_", " ")


def _depth(k: int | None) -> str:
    if k is None:
        return ""
    return f"k={k}" if k else NO_SPECULATION


def _knob_order(name: str) -> tuple[bool, str]:
    return (name != NUM_SPECULATIVE_TOKENS, name)


def _as_recorded(name: str, load: LoadPoint) -> bool:
    """Each request has its own value of it: what stands in the load is no more than typical."""
    return load.recorded is not None and ("output_tokens" if name == "output" else name) in load.recorded.as_recorded


def _load_knob(name: str, load: LoadPoint) -> str:
    if name == "output":
        reserve = f" + {load.output.reserve_tokens} to think" if load.output.reserve_tokens else ""
        return f"{'up to ' if load.output.natural else ''}{load.output.tokens} out{reserve}"
    return f"{name} {getattr(load, name)}"
