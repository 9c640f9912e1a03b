"""What a picture costs: learned from the usage of one tiny answer."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import httpx
import pytest

from harness.client.endpoint import Endpoint
from harness.client.pictures import PictureError, picture_tokens
from tests.fakes.byte_server import byte_server, reply

PICTURE = "data:image/png;base64,AAAA"


def answered(*replies: tuple[int, dict[str, Any]], **endpoint: Any) -> tuple[int, list[dict[str, Any]]]:
    """The cost of a picture where a server answers like this, and the bodies that it got."""

    async def main() -> tuple[int, list[dict[str, Any]]]:
        scripts = [[reply(status, json.dumps(tree).encode())] for status, tree in replies]
        async with byte_server(*scripts) as server, httpx.AsyncClient() as http:
            at = Endpoint(base_url=server.url, model="pair", **endpoint)
            added = await picture_tokens(http, at, PICTURE, thinking="off")
            return added, [json.loads(request.partition(b"\r\n\r\n")[2]) for request in server.requests]

    return asyncio.run(main())


def test_a_picture_costs_what_the_usage_has_beyond_the_text() -> None:
    added, bodies = answered((200, {"usage": {"prompt_tokens": 311}}), (200, {"count": 11}))

    assert added == 300
    picture, text = bodies[0]["messages"][0]["content"]
    assert picture == {"type": "image_url", "image_url": {"url": PICTURE}}
    assert bodies[1]["messages"] == [{"role": "user", "content": text["text"]}]
    assert (bodies[0]["max_tokens"], bodies[0]["stream"]) == (1, False)


@pytest.mark.parametrize(
    ("replies", "said"),
    [
        ([(400, {"error": {"message": "tiny is not a multimodal model"}})], "is not a multimodal model"),
        ([(200, {"choices": []})], "takes no prompt with a picture"),
        ([(200, {"usage": {"prompt_tokens": 11}}), (200, {"count": 11})], "does not count a picture"),
    ],
)
def test_a_server_that_takes_no_pictures_says_so(replies: list[tuple[int, dict[str, Any]]], said: str) -> None:
    with pytest.raises(PictureError, match=said) as caught:
        answered(*replies)
    assert caught.value.hint is not None and "vision" in caught.value.hint


def test_pictures_need_a_chat() -> None:
    with pytest.raises(PictureError, match="chat/completions"):
        answered(chat=False)
