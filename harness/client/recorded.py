"""A request of a trace, ready to be sent again: its body as recorded, but for what the engine and the sweep decide."""

from __future__ import annotations

import json
from typing import Any

import httpx

from harness.client.endpoint import Endpoint, effort_fields, thinking_fields
from harness.client.openai import PreparedRequest
from harness.records.workload import Prompt, RecordedRequest

_COUNT_TIMEOUT = httpx.Timeout(10.0, read=120.0)
# What tells a gateway something, not an engine. Keys among it never leave the trace.
NOT_SENT = frozenset(
    (
        *("api_key", "api_base", "base_url", "custom_llm_provider", "extra_headers", "headers", "metadata", "user"),
        *("store", "service_tier", "safety_identifier", "prompt_cache_key", "litellm_params", "litellm_metadata"),
        *("stream", "stream_options", "background", "n", "best_of", "cache_salt"),
    )
)
_LENGTHS = ("max_tokens", "max_completion_tokens", "min_tokens", "ignore_eos")
_SAMPLING_SCHEMA = ("guided_json", "guided_regex", "guided_choice", "structured_outputs")


def prepare_recorded(endpoint: Endpoint, prompt: Prompt, *, stream: int, turn: int, seed: int) -> PreparedRequest:
    """Return a recorded request for this endpoint.

    Messages, tools, pictures, response_format and every other field stay as they were, in their order. Replaced are the
    model, streaming, the length of the answer, and sampling where the sweep says so; left out is what tells a gateway
    something. A seed is added where there is none.

    Args:
        endpoint: as probed.
        prompt: with what was recorded.
        stream: of the load.
        turn: position within the stream.
        seed: of the sampler, for bodies that have none.
    """
    recorded = prompt.recorded
    assert recorded is not None  # bench.prepared looks
    written: dict[str, Any] = json.loads(recorded.body)
    body = {name: value for name, value in written.items() if name not in NOT_SENT and name not in _LENGTHS}
    body["model"] = endpoint.model
    body |= _sampling(endpoint, recorded, written)
    body |= _length(endpoint, recorded, written)
    body["stream"] = True
    if "stream_options" in endpoint.accepts:
        body["stream_options"] = {"include_usage": True}
        if endpoint.token_count_source == "usage_growth":
            body["stream_options"]["continuous_usage_stats"] = True
    if endpoint.token_count_source == "token_ids":
        body["return_token_ids"] = True
    if "return_token_ids" in endpoint.accepts:  # as vLLM has it, and with it a salt of the prefix cache
        body["cache_salt"] = recorded.salt
    if "seed" in endpoint.accepts:
        body.setdefault("seed", seed)
    return PreparedRequest(
        url=f"{endpoint.base_url}/v1/{'chat/completions' if 'messages' in body else 'completions'}",
        headers={"content-type": "application/json", "accept-encoding": "identity", **endpoint.headers},
        body=_serialised(body),
        prompt=prompt,
        stream=stream,
        turn=turn,
        api_key=endpoint.api_key,
        first_event_tokens=endpoint.first_event_tokens,
    )


async def count_recorded(http: httpx.AsyncClient, endpoint: Endpoint, body: dict[str, Any]) -> int | None:
    """Return the tokens of a recorded prompt, tools and template included; None where the server cannot count it."""
    asked: dict[str, Any] = {"model": endpoint.model}
    asked |= {name: body[name] for name in ("messages", "prompt", "tools", "chat_template_kwargs") if name in body}
    if "messages" in body:
        asked["add_generation_prompt"] = True
        asked |= _effort_of_template(body)
    headers = {"content-type": "application/json", **endpoint.headers}
    url = f"{endpoint.base_url}/tokenize"
    try:
        response = await http.post(url, content=_serialised(asked), headers=headers, timeout=_COUNT_TIMEOUT)
        tree = response.json() if response.is_success else None
    except (httpx.TransportError, ValueError):
        return None
    count = tree.get("count") if isinstance(tree, dict) else None
    return count if isinstance(count, int) and count > 0 else None


def _effort_of_template(body: dict[str, Any]) -> dict[str, Any]:
    """A chat hands its effort to the template; /tokenize knows only the template's own fields."""
    if not isinstance(body.get("reasoning_effort"), str):
        return {}
    written = body.get("chat_template_kwargs")
    said = {"reasoning_effort": body["reasoning_effort"]}
    return {"chat_template_kwargs": said | (written if isinstance(written, dict) else {})}


def _sampling(endpoint: Endpoint, recorded: RecordedRequest, written: dict[str, Any]) -> dict[str, Any]:
    said: dict[str, Any] = {}
    if recorded.temperature is not None:
        said["temperature"] = recorded.temperature
    if recorded.top_p is not None:
        said["top_p"] = recorded.top_p
    if recorded.thinking is not None:
        fields = thinking_fields(endpoint, recorded.thinking)
        kept = written.get("chat_template_kwargs")
        if isinstance(kept, dict) and "chat_template_kwargs" in fields:
            fields["chat_template_kwargs"] = kept | fields["chat_template_kwargs"]
        said |= fields | effort_fields(endpoint, recorded.thinking)
    return said


def _length(endpoint: Endpoint, recorded: RecordedRequest, written: dict[str, Any]) -> dict[str, Any]:
    length: dict[str, Any] = {endpoint.length_field: recorded.output.most_tokens}
    if recorded.output.natural or _ends_by_itself(written):
        return length
    exact: dict[str, Any] = {"min_tokens": recorded.output.most_tokens, "ignore_eos": True}
    return length | {name: value for name, value in exact.items() if name in endpoint.accepts}


def _ends_by_itself(body: dict[str, Any]) -> bool:
    """A grammar decides where an answer ends: to go on after it is no answer at all."""
    choice = body.get("tool_choice")
    form = body.get("response_format")
    schema = isinstance(form, dict) and form.get("type") != "text"
    return schema or isinstance(choice, dict) or choice == "required" or any(name in body for name in _SAMPLING_SCHEMA)


def _serialised(body: dict[str, Any]) -> bytes:
    return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode("utf-8", errors="surrogatepass")
