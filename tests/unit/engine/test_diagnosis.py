"""The cause of a failed boot, and what to do about it."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.engine.diagnosis import ending, remedy_for, root_cause


def test_the_cause_is_found_under_the_tracebacks_of_its_consequences() -> None:
    lines = Path("tests/fixtures/engine/gpu_failed_boot.log").read_text().splitlines()

    assert root_cause(lines) == "ModuleNotFoundError: No module named 'flashinfer'"
    assert "missing module" in (remedy_for(lines, 1) or "")


def test_a_dead_engine_names_its_assertion() -> None:
    lines = Path("tests/fixtures/engine/cpu_engine_dead.log").read_text().splitlines()

    assert root_cause(lines) == "AssertionError: Synthetic acceptance not supported with CPU sampling"


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("OSError: [Errno 98] Address already in use", "port is taken"),
        ("api_server.py: error: unrecognized arguments: --no-such-flag", "does not know this argument"),
        ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.", "out of memory"),
        ("ValueError: No available memory for the cache blocks. Try increasing", "no room for the KV cache"),
        (
            "huggingface_hub.errors.HFValidationError: Repo id must be in the form 'repo_name': '/no/such/model'.",
            "model was not found",
        ),
        ("OSError: /x does not appear to have a file named config.json.", "model was not found"),
        ("WARNING Unknown vLLM environment variable detected: VLLM_X", "check the spelling"),
        ("OSError: [Errno 28] No space left on device", "disk is full"),
    ],
)
def test_known_causes_have_a_remedy(line: str, says: str) -> None:
    assert says in (remedy_for(["something before", line], 1) or "")


def test_an_unknown_cause_has_none() -> None:
    assert remedy_for(["all is well"], 1) is None
    assert root_cause(["all is well"]) is None


def test_a_silent_sigkill_is_most_likely_memory() -> None:
    assert "memory ran out" in (remedy_for(["Loading weights"], -9) or "")


def test_endings_in_words() -> None:
    assert ending(1) == "ended with exit code 1"
    assert ending(-9) == "was ended by signal 9"


def test_a_cause_of_many_pages_is_cut() -> None:
    assert len(root_cause(["ValueError: " + "x" * 10_000]) or "") <= 400
