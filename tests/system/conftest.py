from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.system.driver import Desk, new_desk


@pytest.fixture(scope="session")
def font_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """matplotlib looks for fonts once, not in every command."""
    return tmp_path_factory.mktemp("matplotlib")


@pytest.fixture
def desk(tmp_path: Path, font_cache: Path) -> Iterator[Desk]:
    """A place to run commands in; whatever a failed test leaves behind is killed."""
    made = new_desk(tmp_path, MPLCONFIGDIR=str(font_cache))
    yield made
    made.clear()
