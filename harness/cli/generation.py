"""Which state of the checkout's scripts a sweep is launched through, where neither file nor command line says so."""

from __future__ import annotations

from pathlib import Path

from harness.recipe.pair import GENERATION, recognise
from harness.recipe.schema import Recipe
from harness.sweep.load import Sweep
from harness.sweep.site import Site


def generation_of_site(sweep: Sweep, recipe: Recipe, site: Site) -> str | None:
    """Return the value that the knob ``generation`` has at this site; None: the recipe's default will do.

    It is read from the start script where the checkout lies on this machine; one on another host is looked at when the
    pair is held, and a run under the wrong rules is refused then.
    """
    if recipe.pair is None or _is_named(sweep):
        return None
    bundled = recipe.pair.bundled
    if site.checkout is None:
        return bundled.generation if bundled is not None and site.inventory is not None else None
    head = site.hosts.get("head")
    if recipe.pair.checkout is None or (head is not None and not head.is_local):
        return None
    start = Path(site.checkout).expanduser() / recipe.pair.checkout.scripts.start
    try:
        return recognise(recipe.pair.checkout.generations, start.read_text(encoding="utf-8", errors="replace"))
    except OSError:
        return None  # what is wrong with the checkout is said when it is used


def _is_named(sweep: Sweep) -> bool:
    return (
        GENERATION in sweep.file.knobs
        or GENERATION in sweep.set_knobs
        or any(GENERATION in knobs for knobs in sweep.file.configurations.values())
    )
