"""Keys never get out."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from harness.engine.redact import HIDDEN, redacted_argv, redacted_environment, redacted_text, secrets_in

KEY = "sk-1234567890"


def test_both_spellings_of_a_flag_are_hidden() -> None:
    assert redacted_argv(["serve", "--api-key", KEY, "--port", "1"]) == ("serve", "--api-key", HIDDEN, "--port", "1")
    assert redacted_argv([f"--api-key={KEY}"]) == (f"--api-key={HIDDEN}",)
    assert redacted_argv(["--api-key", KEY, "second-key", "-x"])[1:3] == (HIDDEN, HIDDEN)
    assert redacted_argv(["--hf-token", KEY]) == ("--hf-token", HIDDEN)


def test_flags_about_counts_of_tokens_are_not_secrets() -> None:
    argv = ("--max-num-batched-tokens", "8192", "--speculative-config", '{"num_speculative_tokens": 4}')

    assert redacted_argv(argv) == argv


def test_variables_that_are_named_like_a_secret_are_hidden() -> None:
    shown = redacted_environment({"VLLM_API_KEY": KEY, "HF_TOKEN": KEY, "VLLM_CPU_KVCACHE_SPACE": "1"})

    assert shown == {"HF_TOKEN": HIDDEN, "VLLM_API_KEY": HIDDEN, "VLLM_CPU_KVCACHE_SPACE": "1"}


def test_the_values_are_removed_from_texts() -> None:
    secrets = secrets_in(["--api-key", KEY], {"OTHER_SECRET": "hush-hush"})

    assert KEY not in redacted_text(f"refused {KEY} and hush-hush", secrets)
    assert redacted_text("Authorization: Bearer abc.def", ()) == f"Authorization: Bearer {HIDDEN}"


@given(st.text(min_size=6, max_size=40).filter(lambda text: text.strip() and not text.startswith("-")))
def test_whatever_the_key_is(key: str) -> None:
    assert key not in redacted_argv(["--api-key", key])
    assert key in secrets_in(["--api-key", key], {})
