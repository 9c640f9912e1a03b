"""The key under which a run keeps hashes of a user's answers: made once, in its folder, for its owner alone."""

from __future__ import annotations

import os
import secrets
from contextlib import suppress
from pathlib import Path

from harness.client.digest import chained_hash
from harness.client.openai import Sent
from harness.client.stream import delivered_token_ids
from harness.errors import StoreError
from harness.run.sanity import is_greedy

FILE = "answers.key"
_KEY_BYTES = 32
REHEARSED_KEY = b"simulated"  # nobody said what a simulated engine answers, and equal runs are equal


class AnswerChains:
    """Hashes the tokens of greedy answers to a user's prompts, each over all before it, so that arms can be compared.

    A hash per token alone would be a cipher that counting letters breaks; one over all tokens before it says nothing
    but where two answers part. Without the key, which no report holds, nobody can try texts against it.
    """

    def __init__(self, folder: Path, *, simulated: bool = False) -> None:
        self._path = folder / FILE
        self._key = REHEARSED_KEY if simulated else None

    def of(self, sent: Sent) -> str | None:
        """Return the hashes of one answer; None where it cannot be compared. Raises StoreError."""
        if sent.exchange is None or not is_greedy(sent):
            return None
        token_ids = delivered_token_ids(sent.exchange)
        if not token_ids:
            return None
        return chained_hash(token_ids, key=self._read_key(), label=sent.prepared.prompt.prompt_id)

    def _read_key(self) -> bytes:
        if self._key is None:
            try:
                self._key = _kept_key(self._path)
            except OSError as error:
                raise StoreError(f"no key for answers: {error.strerror}", where=str(self._path)) from error
        return self._key


def _kept_key(path: Path) -> bytes:
    with suppress(FileNotFoundError):
        kept = path.read_bytes()
        if len(kept) == _KEY_BYTES:
            return kept
        path.unlink()  # cut by a crash: what it made is compared with nothing
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        key = secrets.token_bytes(_KEY_BYTES)
        file.write(key)
        file.flush()
        os.fsync(file.fileno())
    return key
