"""What a picture costs in tokens, as one server counts them: models differ by a factor of four."""

from __future__ import annotations

import httpx

from harness.client.endpoint import Endpoint, asked, count_tokens, thinking_fields
from harness.client.openai import content_with_picture
from harness.client.redact import shorten
from harness.errors import EndpointError
from harness.workload.nonce import nonce_head

# It begins as prompts do: what stands next to a picture may be one token more or less for it.
_QUESTION = f"{nonce_head('picture')}What is in this picture?"


class PictureError(EndpointError):
    """No prompt with a picture can be made for this server."""


async def picture_tokens(http: httpx.AsyncClient, endpoint: Endpoint, picture: str, *, thinking: str) -> int:
    """Return what a picture adds to a prompt.

    An answer of one token is asked for, whose usage has the whole prompt: what /tokenize says of a picture depends on
    the version, and is often one token, or an error.

    Args:
        http: any client.
        endpoint: as probed.
        picture: a data URI; others of its size cost the same.
        thinking: of the load.

    Raises:
        PictureError: the server takes no picture, or does not say how long the prompt was.
        EndpointError: it does not answer.
    """
    if not endpoint.chat:
        raise PictureError("a picture needs /v1/chat/completions", where=endpoint.url, hint="Set launch.chat.")
    body = {
        "model": endpoint.model,
        "messages": [{"role": "user", "content": content_with_picture(_QUESTION, picture)}],
        endpoint.length_field: 1,
        "temperature": 0.0,
        "stream": False,
        **thinking_fields(endpoint, thinking),
    }
    reply = await asked(http, endpoint.url, body, endpoint)
    usage = reply.tree.get("usage")
    whole = usage.get("prompt_tokens") if isinstance(usage, dict) else None
    if not isinstance(whole, int):
        said = f": {shorten(reply.error)}" if reply.error else ""
        raise PictureError(
            f"the server takes no prompt with a picture (HTTP {reply.status}){said}",
            where=endpoint.url,
            hint="Leave class vision out, or serve a checkpoint that takes pictures.",
        )
    added = whole - await count_tokens(http, endpoint, _QUESTION, thinking=thinking)
    if added < 1:
        raise PictureError(
            "the server does not count a picture: the prompt is no longer than its text",
            where=endpoint.url,
            hint="Leave class vision out: this model does not look at pictures.",
        )
    return added
