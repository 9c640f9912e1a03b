"""`python -m harness` is `harness`."""

from __future__ import annotations

from harness.cli.main import main

main()
