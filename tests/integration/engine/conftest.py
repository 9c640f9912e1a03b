from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.engine.orphans import find_engines, kill_launch
from harness.engine.registry import Registry
from tests.integration.engine.bench import Bench


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    """A place to launch from; whatever a failed test leaves behind is killed."""
    made = Bench(folder=tmp_path, registry=Registry(directory=tmp_path / "state" / "launches"))
    yield made
    for entry in find_engines(made.registry):
        kill_launch(entry.launch)
