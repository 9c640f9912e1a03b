"""Keys and prompts stay inside."""

from hypothesis import given
from hypothesis import strategies as st

from harness.client.redact import ApiKey, public_message, shorten

PROMPT = "The quick brown fox\njumps over the lazy dog, said nobody in this town."
KEY = ApiKey("sk-secret-0123456789", variable="MY_KEY")


def test_a_key_shows_its_variable_only() -> None:
    assert "secret" not in f"{KEY!r} {KEY} {[KEY]}"
    assert "MY_KEY" in repr(KEY)
    assert KEY.reveal() == "sk-secret-0123456789"
    assert not ApiKey("", variable="X")


def test_an_echoed_prompt_is_cut_out_in_any_spelling() -> None:
    for echo in (PROMPT, repr(PROMPT), PROMPT.replace("\n", "\\n"), PROMPT[5:40]):
        said = public_message(f"invalid input {echo} (code 7)", prompt=PROMPT, api_key=None)
        assert "brown fox" not in said
        assert said.startswith("invalid input ")
        assert said.endswith("(code 7)")


def test_a_message_without_echo_stays_as_it_is() -> None:
    message = "This model's maximum context length is 8192 tokens."
    assert public_message(message, prompt=PROMPT, api_key=KEY) == message


def test_an_echoed_key_is_masked() -> None:
    said = public_message("Incorrect API key: sk-secret-0123456789.", prompt=PROMPT, api_key=KEY)
    assert said == "Incorrect API key: ***."


def test_long_messages_become_one_short_line() -> None:
    assert shorten("a\n b\t c") == "a b c"
    assert len(shorten("x" * 5000)) == 300


@given(st.text(min_size=16, max_size=80), st.text(max_size=30), st.text(max_size=30))
def test_no_long_stretch_of_a_prompt_survives(prompt: str, before: str, after: str) -> None:
    said = public_message(f"{before}{prompt}{after}", prompt=prompt, api_key=None)
    flat = " ".join(prompt.split())
    stretches = {flat[start : start + 16] for start in range(len(flat) - 15)}
    assert not any(stretch in said for stretch in stretches)
