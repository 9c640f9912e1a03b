"""Identities are hashes of content, so that a second run recognises what the first one did."""

from __future__ import annotations

import hashlib
import json

ID_DIGITS = 12


def content_id(content: object) -> str:
    """Return 12 hex digits of the SHA-256 of ``content`` as canonical JSON.

    Raises:
        TypeError: ``content`` holds something that JSON has no form for.
        ValueError: it holds NaN or infinity.
    """
    canonical = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return hashlib.sha256(canonical.encode()).hexdigest()[:ID_DIGITS]
