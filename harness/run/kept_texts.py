"""Prompts and answers of measured requests, where the user asked to keep them. Nothing else ever writes a text."""

from __future__ import annotations

import json
import os
from pathlib import Path

from harness.client.load import LoadResult
from harness.client.openai import Sent
from harness.client.stream import delivered_text
from harness.errors import StoreError

FILE = "texts.jsonl"


class KeptTexts:
    """Appends to one file of a run's folder that only its owner may read."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / FILE

    def keep(self, trial_id: str, result: LoadResult) -> None:
        """Write the texts of one trial. Raises StoreError where the disk takes no more."""
        lines = "".join(json.dumps(_kept(trial_id, sent), separators=(",", ":")) + "\n" for sent in result.sent)
        try:
            descriptor = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                file.write(lines)
        except OSError as error:
            raise StoreError(f"texts cannot be kept: {error.strerror}", where=str(self._path)) from error


def _kept(trial_id: str, sent: Sent) -> dict[str, object]:
    prepared = sent.prepared
    reasoning, answer = delivered_text(sent.exchange) if sent.exchange is not None else ("", "")
    return {
        "trial_id": trial_id,
        "prompt_id": prepared.prompt.prompt_id,
        "stream": prepared.stream,
        "turn": prepared.turn,
        "body": json.loads(prepared.body.decode("utf-8", errors="surrogatepass")),
        "reasoning": reasoning,
        "answer": answer,
    }
