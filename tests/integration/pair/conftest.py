from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.pair.bed import BedSettings, PairBed, new_settings, opened_bed
from tests.integration.pair.checkouts import Checkout

PUBLIC_CHECKOUT = "HARNESS_DSPARK_CHECKOUT"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what needs a public checkout where none is named."""
    if PUBLIC_CHECKOUT in os.environ:
        return
    left_out = [item for item in items if item.get_closest_marker("recipe_checkout")]
    items[:] = [item for item in items if item not in left_out]
    config.hook.pytest_deselected(items=left_out)


@pytest.fixture(scope="session")
def public_checkout() -> Path:
    """The folder of a public checkout of the two-node recipe."""
    return Path(os.environ[PUBLIC_CHECKOUT]).resolve(strict=True)


@pytest.fixture(scope="session")
def settings(tmp_path_factory: pytest.TempPathFactory) -> BedSettings:
    """What all beds share; fails where the machine cannot have one."""
    return new_settings(tmp_path_factory.mktemp("pair"))


@pytest.fixture
def bed(settings: BedSettings) -> Iterator[PairBed]:
    """A fresh pair without a checkout; nothing of it is left afterwards."""
    with opened_bed(settings) as made:
        yield made


@pytest.fixture
def checkout(bed: PairBed) -> Checkout:
    """Our own checkout of the August generation on both hosts of the bed."""
    return bed.install_standin_checkout()
