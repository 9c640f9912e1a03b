"""The state of both GPUs. A unit that is stuck in a low power state looks healthy until it has work."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from harness.engine.doctor.place import PairPlace
from harness.engine.pair.host_facts import read_hosts
from harness.errors import HarnessError
from harness.records.clock import Clock
from harness.records.finding import Finding, ok, warn
from harness.records.host import BENIGN_REASONS, NodeFacts
from harness.units import format_bytes

_HOT_C = 85.0
_LEAST_POWER_W = 30.0  # of a GB10 with work; one that was stuck drew no more
_LEAST_CLOCK_RATIO = 0.6
_PUBLISHED_STEP_S = 0.0614  # Anemll 0731, k = 5, one stream (facts of the recipe's example env)
_SLOW_RATIO = 1.25
_LOOK_AFTER_S = 1.5
_ANSWER_TOKENS = 192
_LOAD = 'curl -sS --max-time 60 -K - -o /dev/null -w "%{http_code}" "http://127.0.0.1:$1/v1/chat/completions"'
_METRICS = 'curl -sS --max-time 5 "http://127.0.0.1:$1/metrics"'
_DRAFTS = re.compile(r"^vllm:spec_decode_num_drafts_total\{[^}]*\} (\S+)$", re.MULTILINE)
_MODEL = re.compile(r'model_name="([^"]+)"')


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """A short answer that the running server gave, and both nodes while it did."""

    facts: tuple[NodeFacts, ...]
    step_s: float | None


async def hardware_findings(place: PairPlace, clock: Clock, stored_steps_s: Sequence[float]) -> list[Finding]:
    """Heat, throttling, memory and power; under load where a server runs.

    Args:
        place: the pair.
        clock: to wait on.
        stored_steps_s: step times of this rig's accepted canaries; without any, published ones stand in.
    """
    idle = await read_hosts(place.nodes, clock)
    found = [finding for facts in idle for finding in _at_rest(place, facts)]
    if not place.serving:
        remedy = "Start your server and run this again, or let a sweep compare its canaries: they see a slow boot."
        return [*found, warn("power", "power and clocks under load cannot be judged: nothing runs", remedy=remedy)]
    try:
        load = await _under_load(place, clock)
    except HarnessError as error:
        return [
            *found,
            warn("power", "the running server gave no answer", evidence=error.what, remedy=error.hint or ""),
        ]
    if load is None:
        remedy = "Is its key the one in the env file?"
        return [*found, warn("power", "the running server refused a short request", remedy=remedy)]
    return [
        *found,
        *(finding for facts in load.facts for finding in _with_work(facts)),
        *_step(load.step_s, stored_steps_s),
    ]


def _at_rest(place: PairPlace, facts: NodeFacts) -> list[Finding]:
    found = []
    if facts.temperature_c is not None and facts.temperature_c >= _HOT_C:
        remedy = "Let it cool, and see that air gets in: a hot node lowers its clocks."
        found.append(warn("heat", f"{facts.temperature_c:.0f} °C", node=facts.node, remedy=remedy))
    elif facts.temperature_c is not None:
        found.append(ok("heat", f"{facts.temperature_c:.0f} °C", node=facts.node))
    else:
        why = facts.null_reasons.get("temperature_c", "")
        found.append(
            warn("heat", "the GPU does not say how hot it is", node=facts.node, evidence=why, remedy="See nvidia-smi.")
        )
    reasons = [reason for reason in facts.throttle_reasons or () if reason not in BENIGN_REASONS]
    if reasons:
        remedy = "See `nvidia-smi -q -d PERFORMANCE`; power_brake and hw_slowdown may need the power plug pulled."
        found.append(
            warn("throttle", "the clocks are held down", node=facts.node, evidence=", ".join(reasons), remedy=remedy)
        )
    return found + _memory(place, facts)


def _memory(place: PairPlace, facts: NodeFacts) -> list[Finding]:
    total, free = facts.memory_total_bytes, facts.memory_available_bytes
    found = []
    if facts.swap_used_bytes:
        remedy = "sudo swapoff -a && sudo swapon -a once the engine is down."
        found.append(
            warn("swap", f"{format_bytes(facts.swap_used_bytes)} are swapped out", node=facts.node, remedy=remedy)
        )
    if total is None or free is None or place.serving:
        return found
    needed = place.memory_ratio * total
    if free < needed:
        evidence = f"{format_bytes(free)} of {format_bytes(total)}; the engine takes {format_bytes(needed)}"
        remedy = "End what holds memory, or reboot the node: `ps aux --sort=-rss | head`."
        found.append(warn("memory", "too little memory is free", node=facts.node, evidence=evidence, remedy=remedy))
    else:
        found.append(ok("memory", f"{format_bytes(free)} are free", node=facts.node))
    return found


async def _under_load(place: PairPlace, clock: Clock) -> Load | None:
    head = place.head
    if head is None:
        return None
    page = (await head.script(_METRICS, str(place.port))).stdout
    model = _MODEL.search(page)
    before, began_s = _drafts(page), time.monotonic()
    asking = asyncio.create_task(head.script(_LOAD, str(place.port), stdin=_request(place, model[1] if model else "")))
    await clock.sleep(_LOOK_AFTER_S)
    facts = await read_hosts(place.nodes, clock)
    done = await asking
    took_s = time.monotonic() - began_s
    if done.stdout.strip() != "200":
        return None
    after = _drafts((await head.script(_METRICS, str(place.port))).stdout)
    drafts = after - before if after is not None and before is not None else 0.0
    return Load(facts=facts, step_s=took_s / drafts if drafts > 0 else None)


def _request(place: PairPlace, model: str) -> bytes:
    """A curl configuration: a key on a command line could be read by anybody on that host."""
    body = {
        "model": model,
        "messages": [{"role": "user", "content": "Count from one to two hundred in words."}],
        "max_tokens": _ANSWER_TOKENS,
        "temperature": 0,
    }
    lines = ['header = "Content-Type: application/json"', f"data = {json.dumps(json.dumps(body))}"]
    if place.api_key:
        lines.append(f"header = {json.dumps(f'Authorization: Bearer {place.api_key}')}")
    return "\n".join(lines).encode()


def _with_work(facts: NodeFacts) -> list[Finding]:
    evidence = f"{_shown(facts.power_w, 'W')}, {_shown(facts.sm_clock_mhz, 'MHz')}"
    low_power = facts.power_w is not None and facts.power_w < _LEAST_POWER_W
    slow = None not in (facts.sm_clock_mhz, facts.max_sm_clock_mhz) and (
        (facts.sm_clock_mhz or 0) < _LEAST_CLOCK_RATIO * (facts.max_sm_clock_mhz or 0)
    )
    if low_power or slow:
        remedy = "Shut it down and pull the power plug for a minute: a stuck power state survives a reboot."
        return [
            warn(
                "power", "it has work and stays in a low power state", node=facts.node, evidence=evidence, remedy=remedy
            )
        ]
    return [ok("power", "power and clocks rise with work", node=facts.node, evidence=evidence)]


def _step(step_s: float | None, stored_steps_s: Sequence[float]) -> list[Finding]:
    if step_s is None:
        return []
    usual_s = median(stored_steps_s) if stored_steps_s else _PUBLISHED_STEP_S
    whose = f"this rig's {len(stored_steps_s)} canaries" if stored_steps_s else "published"
    evidence = f"{step_s * 1000:.1f} ms for a step of one stream, prefill included; {whose}: {usual_s * 1000:.1f} ms"
    if step_s > _SLOW_RATIO * usual_s:
        remedy = "Restart the server and look again; a hidden slow state of a node shows in nothing else."
        return [warn("step", "a step is slower than usual", evidence=evidence, remedy=remedy)]
    return [ok("step", "a step is as fast as usual", evidence=evidence)]


def _drafts(page: str) -> float | None:
    values = [float(value) for value in _DRAFTS.findall(page)]
    return sum(values) if values else None


def _shown(value: float | None, unit: str) -> str:
    return "unknown" if value is None else f"{value:.0f} {unit}"
