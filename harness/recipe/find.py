"""A recipe's name -> its folder: a path, ./recipes/NAME, then what is packaged. The same for schemas and sweeps."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import platformdirs

from harness.errors import InputError
from harness.recipe.build import Places
from harness.recipe.load import RECIPE_FILE
from harness.yaml_model import did_you_mean

_PACKAGE = Path(__file__).resolve().parent.parent


def packaged(kind: str) -> Path:
    """Return the folder of packaged ``recipes``, ``sweeps`` or ``schemas``: in the wheel, or in the checkout."""
    in_wheel = _PACKAGE / "packaged" / kind
    return in_wheel if in_wheel.is_dir() else _PACKAGE.parent / kind


def find_recipe(name: str, *, where: str | None = None, start: Path | None = None) -> Path:
    """Return the folder or file of a recipe.

    Args:
        name: a path, or the name of a folder under recipes/.
        where: what an error points at, for example a line of a sweep.
        start: the folder in which ./recipes is looked for; the current one if None.

    Raises:
        InputError: there is no such recipe; says which there are.
    """
    start = start or Path.cwd()
    if _looks_like_path(name):
        path = start / Path(name).expanduser()
        if path.is_file() or (path / RECIPE_FILE).is_file():
            return path
        raise InputError(f'no recipe at "{name}"', where=where, hint=f"A recipe is a folder with a {RECIPE_FILE}.")
    for folder in (start / "recipes", packaged("recipes")):
        if (folder / name / RECIPE_FILE).is_file():
            return folder / name
    raise InputError(f'unknown recipe "{name}"', where=where, hint=did_you_mean(name, recipe_names(start=start)))


def recipe_names(*, start: Path | None = None) -> tuple[str, ...]:
    """Return the names that find_recipe knows."""
    folders = ((start or Path.cwd()) / "recipes", packaged("recipes"))
    return tuple(sorted({file.parent.name for folder in folders for file in folder.glob(f"*/{RECIPE_FILE}")}))


def find_sweep(name: str, *, start: Path | None = None) -> Path:
    """Return the file of a sweep: a path, else a name: here, in ./sweeps, packaged. Raises InputError."""
    start = start or Path.cwd()
    path = start / Path(name).expanduser()
    if path.is_file():
        return Path(name).expanduser()
    folders = (start / "sweeps", packaged("sweeps"))
    for folder in (start, *folders) if not _looks_like_path(name.removesuffix(".yaml")) else ():
        file = folder / f"{name.removesuffix('.yaml')}.yaml"
        if file.is_file():
            return file
    known = {file.stem for folder in folders for file in folder.glob("*.yaml")}
    raise InputError(f'no sweep file "{name}"', hint=did_you_mean(Path(name).stem, known))


def places_for(recipe: str, *, data_root: Path | None = None) -> Places:
    """Return this machine's folders for a recipe's templates.

    HARNESS_DATA_DIR, or ``data_root``, moves what is installed, HARNESS_CACHE_DIR what can be built again.
    """
    data = data_root or _named_folder("HARNESS_DATA_DIR") or platformdirs.user_data_path("harness")
    cache = _named_folder("HARNESS_CACHE_DIR") or platformdirs.user_cache_path("harness")
    return Places(
        cache_dir=cache.expanduser().absolute() / recipe,
        data_dir=data.expanduser().absolute() / recipe,
        python=Path(sys.executable),
        home=Path.home(),
    )


def _named_folder(variable: str) -> Path | None:
    named = os.environ.get(variable)
    return Path(named) if named else None


def _looks_like_path(name: str) -> bool:
    return "/" in name or name.startswith((".", "~")) or name.endswith(".yaml")
