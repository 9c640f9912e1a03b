"""What must not reach a log or a record: API keys, and the user's prompts."""

from __future__ import annotations

import json

_MESSAGE_CHARACTERS = 300
_ECHO_CHARACTERS = 16  # that many characters in a row of the prompt are an echo of it


class ApiKey:
    """A key and the environment variable it came from. Shows only the variable."""

    __slots__ = ("_value", "variable")

    def __init__(self, value: str, *, variable: str) -> None:
        self._value = value
        self.variable = variable

    def reveal(self) -> str:
        """Return the key itself, for the request header and nothing else."""
        return self._value

    def __repr__(self) -> str:
        return f"ApiKey(from {self.variable})"

    def __bool__(self) -> bool:
        return bool(self._value)


def shorten(message: str) -> str:
    """Return ``message`` on one line, at most 300 characters."""
    line = " ".join(message.split())
    return line if len(line) <= _MESSAGE_CHARACTERS else f"{line[: _MESSAGE_CHARACTERS - 1]}…"


def public_message(message: str, *, prompt: str, api_key: ApiKey | None) -> str:
    """Return what a server said, shortened, without the key and without any stretch of the prompt that it echoes."""
    if api_key:
        message = message.replace(api_key.reveal(), "***")
    return shorten(_without_echo(" ".join(message.split())[: 4 * _MESSAGE_CHARACTERS], prompt))


def _without_echo(message: str, prompt: str) -> str:
    # Servers echo input as it is, as JSON or as a Python literal; white space is compared as one blank.
    forms = [" ".join(form.split()) for form in (prompt, json.dumps(prompt), repr(prompt))]
    length = min([_ECHO_CHARACTERS, *(len(form) for form in forms[:1])]) or _ECHO_CHARACTERS
    kept, index = [], 0
    while index < len(message):
        end = index
        while end + length <= len(message) and any(message[end : end + length] in form for form in forms):
            end += 1
        if end > index:
            kept.append("…")
            index = end + length - 1
        else:
            kept.append(message[index])
            index += 1
    return "".join(kept)
