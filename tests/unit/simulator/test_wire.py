"""The API server's bytes beside those captured from vLLM 0.32: the same fields in the same order, the same errors."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from harness.metrics.exposition import parse
from harness.metrics.scrape import snapshot_of
from harness.simulator.engine import EngineLoop
from harness.simulator.front import EVENTS, OWNER, Call, Front, FrontSettings, Plain
from harness.simulator.loop import run_virtual
from harness.simulator.pump import Pump
from harness.simulator.transport import SimulatedTransport, Simulation
from tests.unit.simulator.engines import engine_of, scenario

WIRE = Path("tests/fixtures/vllm_wire")
PAIR = "pair"
CHAT, COMPLETIONS = "/v1/chat/completions", "/v1/completions"
PLAIN: dict[str, Any] = {}
USAGE = {"stream_options": {"include_usage": True}}
RUNNING = {"stream_options": {"include_usage": True, "continuous_usage_stats": True}}
IDS = {"return_token_ids": True, **USAGE}


@asynccontextmanager
async def served(engine: EngineLoop | None = None, **settings: Any) -> AsyncIterator[httpx.AsyncClient]:
    """A client of a server that serves one engine in virtual time."""
    engine = engine or engine_of(k=4, max_model_tokens=8192)
    loop = asyncio.get_running_loop()
    front = Front(engine, FrontSettings(model=PAIR, started_at=1.7e9, **settings), now_s=loop.time)
    transport = SimulatedTransport(Simulation(front=front, pump=Pump(engine)))
    async with httpx.AsyncClient(transport=transport, base_url="http://simulated.invalid") as http:
        yield http


def asked(path: str, **fields: Any) -> dict[str, Any]:
    prompt = {"messages": [{"role": "user", "content": "hello"}]} if path == CHAT else {"prompt": "hello"}
    return {"model": PAIR, **prompt, "max_tokens": 48, "temperature": 0, "ignore_eos": True, **fields}


def events(body: str) -> list[Any]:
    lines = [line.removeprefix("data: ") for line in body.split("\n\n") if line]
    return [line if line == "[DONE]" else json.loads(line) for line in lines]


def form(tree: Any) -> Any:
    """The names in a tree in their order, and what kind of thing stands there."""
    if isinstance(tree, dict):
        return [(name, form(value)) for name, value in tree.items()]
    if isinstance(tree, list):
        return ["list", *([form(tree[0])] if tree else [])]
    return "number" if isinstance(tree, int | float) else type(tree).__name__


def test_forms_tell_trees_apart() -> None:
    assert form({"a": 1, "b": [None]}) != form({"b": [None], "a": 1})
    assert form({"a": 1}) == form({"a": 2.5}) != form({"a": "1"})


@pytest.mark.parametrize(
    ("path", "fields", "capture"),
    [
        (CHAT, PLAIN, "draft_chat_plain"),
        (CHAT, USAGE, "draft_chat_usage"),
        (CHAT, RUNNING, "draft_chat_contusage"),
        (CHAT, {"return_token_ids": True}, "draft_chat_tokenids"),
        (COMPLETIONS, PLAIN, "draft_comp_plain"),
        (COMPLETIONS, RUNNING, "draft_comp_contusage"),
        (COMPLETIONS, {"return_token_ids": True}, "draft_comp_tokenids"),
    ],
)
def test_a_stream_has_the_form_of_a_captured_one(path: str, fields: dict[str, Any], capture: str) -> None:
    captured = events((WIRE / f"{capture}.sse").read_text())
    if "usage" in captured[-2]:
        fields = {**fields, "stream_options": {"include_usage": True, **fields.get("stream_options", {})}}

    async def main() -> None:
        async with served() as http:
            response = await http.post(path, json=asked(path, stream=True, **fields))
        assert response.headers["content-type"] == EVENTS
        ours = events(response.text)
        assert ours[-1] == captured[-1] == "[DONE]"
        first = 2 if path == CHAT else 1
        for index in (*range(first), first, -3, -2):
            assert form(_without_steps(ours[index])) == form(_without_steps(captured[index])), (index, ours[index])
        assert {name: ours[0][name] for name in ("object", "model")} == {
            name: captured[0][name] for name in ("object", "model")
        }

    run_virtual(main())


@pytest.mark.parametrize(("path", "capture"), [(CHAT, "draft_chat_nostream"), (COMPLETIONS, "detailed_comp_nostream")])
def test_a_whole_reply_has_the_form_of_a_captured_one(path: str, capture: str) -> None:
    async def main() -> None:
        async with served() as http:
            ours = (await http.post(path, json=asked(path))).json()
        assert form(_without_steps(ours)) == form(_without_steps(json.loads((WIRE / f"{capture}.json").read_text())))

    run_virtual(main())


def test_without_speculation_nothing_is_said_of_drafts() -> None:
    async def main() -> None:
        async with served(engine_of(k=0)) as http:
            whole = (await http.post(CHAT, json=asked(CHAT))).json()
            streamed = events((await http.post(CHAT, json=asked(CHAT, stream=True, **USAGE))).text)
            page = (await http.get("/metrics")).text
        assert whole["metrics"] is None
        assert "metrics" not in streamed[-2]
        assert "spec_decode" not in page

    run_virtual(main())


@pytest.mark.parametrize(
    ("capture", "path", "body"),
    [
        ("error_unknown_model", COMPLETIONS, {"model": "nope", "prompt": "x"}),
        ("error_prompt_too_long", COMPLETIONS, {"prompt": [5] * 8300}),
        (
            "error_prompt_too_long_chat_stream",
            CHAT,
            {"messages": [{"role": "user", "content": "long " * 9000}], "stream": True},
        ),
        ("error_max_tokens_too_large", COMPLETIONS, {"prompt": "x", "max_tokens": 99999}),
        ("error_max_tokens_zero", COMPLETIONS, {"prompt": "x", "max_tokens": 0}),
        ("error_temperature_negative", COMPLETIONS, {"prompt": "x", "temperature": -1}),
        ("error_empty_prompt", COMPLETIONS, {"prompt": ""}),
        ("error_empty_messages", CHAT, {"messages": []}),
        ("error_token_out_of_vocab", COMPLETIONS, {"prompt": [999999]}),
        (
            "error_stream_options_without_stream",
            COMPLETIONS,
            {"prompt": "x", "stream_options": {"include_usage": True}},
        ),
    ],
)
def test_an_error_is_the_captured_one_to_the_letter(capture: str, path: str, body: dict[str, Any]) -> None:
    async def main() -> None:
        async with served() as http:
            response = await http.post(path, json={"model": PAIR, **body})
        captured = json.loads((WIRE / f"{capture}.json").read_text())
        assert response.json() == captured
        assert response.status_code == captured["error"]["code"]

    run_virtual(main())


@pytest.mark.parametrize("body", [b"", b"{", b"[1]", b'"x"', b'{"model": "pair", "messages": 3}', b"\xff\xfe"])
def test_what_is_no_request_is_a_bad_one(body: bytes) -> None:
    async def main() -> None:
        async with served() as http:
            response = await http.post(CHAT, content=body)
        assert response.status_code == 400
        assert response.json()["error"]["type"] == "Bad Request"

    run_virtual(main())


def test_models_name_an_owner_that_cannot_be_mistaken() -> None:
    async def main() -> None:
        async with served() as http:
            ours = (await http.get("/v1/models")).json()
        captured = json.loads((WIRE / "models.json").read_text())
        assert set(ours["data"][0]) == set(captured["data"][0])
        assert set(ours["data"][0]["permission"][0]) == set(captured["data"][0]["permission"][0])
        assert ours["data"][0]["owned_by"] == OWNER == "SIMULATED"

    run_virtual(main())


def test_tokenize_counts_and_may_show_the_pieces() -> None:
    async def main() -> None:
        async with served() as http:
            plain = (await http.post("/tokenize", json={"model": PAIR, "prompt": "abcdefg"})).json()
            pieces = (await http.post("/tokenize", json={"prompt": "abcdefg", "return_token_strs": True})).json()
            messages = [{"role": "user", "content": "abcd"}]
            chat = (await http.post("/tokenize", json={"model": PAIR, "messages": messages})).json()
        captured = json.loads((WIRE / "tokenize.json").read_text())
        assert list(plain) == list(captured)
        assert (plain["count"], len(plain["tokens"]), plain["token_strs"]) == (2, 2, None)
        assert pieces["token_strs"] == ["abcd", "efg"]
        assert chat["count"] == 5

    run_virtual(main())


def test_a_key_is_asked_for_where_there_is_one() -> None:
    async def main() -> None:
        async with served(api_keys=("secret",)) as http:
            without = await http.get("/v1/models")
            wrong = await http.post(CHAT, json=asked(CHAT), headers={"authorization": "Bearer other"})
            right = await http.get("/v1/models", headers={"authorization": "Bearer secret"})
            open_to_all = await http.get("/health")
        assert (without.status_code, wrong.status_code) == (401, 401)
        assert without.json() == {"error": "Unauthorized"}
        assert (right.status_code, open_to_all.status_code) == (200, 200)

    run_virtual(main())


def test_keys_and_prompts_show_in_no_repr() -> None:
    call = Call(method="GET", path="/", headers={"authorization": "Bearer secret"}, body=b"secret")
    assert "secret" not in repr(call) + repr(FrontSettings(model="m", api_keys=("secret",)))


def test_the_metrics_page_has_labels_and_births_like_the_captured_one() -> None:
    async def main() -> None:
        async with served() as http:
            await http.post(CHAT, json=asked(CHAT))
            ours = (await http.get("/metrics")).text
        captured = Path("tests/fixtures/metrics/cpu_draft_after.txt").read_text()
        theirs = _series(captured)
        missing = [name for name in _series(ours) if name not in theirs]
        assert missing == []
        shared = [name for name in theirs if name in set(_series(ours))]
        assert shared == list(_series(ours))  # in the same order
        for name in shared:
            if "cache_config_info" not in name:
                assert _series(ours)[name] == theirs[name], name
        snapshot = snapshot_of(parse(ours, where="here"), at_s=0.0)
        assert snapshot is not None
        assert (snapshot.generation_tokens, snapshot.requests_finished, snapshot.process_start_s) == (48, 1, 1.7e9)

    run_virtual(main())


def test_thinking_comes_first_and_as_such() -> None:
    async def main() -> None:
        fields = {"chat_template_kwargs": {"thinking": True}, "stream": True}
        async with served() as http:
            chunks = events((await http.post(CHAT, json=asked(CHAT, **fields))).text)[:-1]
            whole = (await http.post(CHAT, json=asked(CHAT, chat_template_kwargs={"thinking": True}))).json()
        kinds = [next(iter(chunk["choices"][0]["delta"])) for chunk in chunks[1:]]
        assert set(kinds) == {"reasoning", "content"}
        assert kinds == sorted(kinds, reverse=True)
        assert whole["choices"][0]["message"]["reasoning"]
        assert whole["choices"][0]["message"]["content"]

    run_virtual(main())


def test_a_refusal_that_comes_late_is_an_event_of_a_stream() -> None:
    async def main() -> None:
        async with served() as http:
            plain = await http.post(CHAT, json=asked(CHAT, thinking_token_budget=8))
            streamed = await http.post(CHAT, json=asked(CHAT, thinking_token_budget=8, stream=True))
        assert (plain.status_code, streamed.status_code) == (400, 200)
        assert events(streamed.text) == [plain.json(), "[DONE]"]

    run_virtual(main())


def test_a_dead_engine_fails_what_runs_and_refuses_what_comes() -> None:
    async def main() -> None:
        async with served(engine_of(scenario(engine_dies_after_s=1.0), k=4)) as http:
            running = await http.post(CHAT, json=asked(CHAT, stream=True, max_tokens=4000))
            health = await http.get("/health")
            later = await http.post(CHAT, json=asked(CHAT))
            models = await http.get("/v1/models")
        captured = events((WIRE / "dead_stream.sse").read_text())
        assert events(running.text)[-2:] == captured[-2:]
        assert (health.status_code, models.status_code) == (503, 200)
        assert (later.status_code, later.json()) == (
            500,
            json.loads((WIRE / "dead_completions_after.json").read_text()),
        )

    run_virtual(main())


def test_batches_of_prompts_and_of_answers_are_refused() -> None:
    async def main() -> None:
        async with served() as http:
            for fields in ({"prompt": ["a", "b"]}, {"n": 2}, {"prompt": ["a", 1]}):
                assert (await http.post(COMPLETIONS, json=asked(COMPLETIONS, **fields))).status_code == 400
            assert (await http.post(COMPLETIONS, json=asked(COMPLETIONS, prompt=["a"]))).status_code == 200

    run_virtual(main())


def test_replies_to_plain_calls_know_their_length() -> None:
    async def main() -> None:
        front = Front(engine_of(), FrontSettings(model=PAIR), now_s=lambda: 0.0)
        answer = front.answer(Call(method="PUT", path="/health"))
        assert isinstance(answer, Plain)
        assert (answer.status, dict(answer.headers)["allow"]) == (405, "GET")
        assert int(dict(answer.headers)["content-length"]) == len(answer.body)

    run_virtual(main())


def _without_steps(tree: Any) -> Any:
    """Without what only a server of another option shows."""
    if isinstance(tree, dict):
        return {name: _without_steps(value) for name, value in tree.items() if not name.startswith("per_step_")}
    return [_without_steps(each) for each in tree] if isinstance(tree, list) else tree


def _series(page: str) -> dict[str, str]:
    """Each series of the engine and the names of its labels in order, buckets aside."""
    lines = [line for line in page.splitlines() if line and not line.startswith("#") and "_bucket" not in line]
    named = {}
    for line in lines:
        name, _, rest = line.partition("{")
        if name.startswith("vllm:"):
            named[name] = ",".join(part.partition("=")[0] for part in rest.partition("}")[0].split(","))
    return named
