"""The scripts of a checkout: which state of the recipe they are of, and which compose file they start from."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping

from harness.engine.pair.node import Node
from harness.engine.pair.rig import operators_compose
from harness.errors import HarnessError, InputError
from harness.recipe.pair import GENERATION, Checkout, recognise
from harness.records.finding import Finding, fail, ok, warn


async def script_findings(
    head: Node, checkout: Checkout, folder: str, environment: Mapping[str, str], *, recipe: str
) -> list[Finding]:
    """Return what was found about the scripts in ``folder`` on the head.

    Args:
        head: where the checkout lies.
        checkout: what the recipe knows of it.
        folder: absolute.
        environment: the operator's env file.
        recipe: its name, for a remedy.
    """
    path = posixpath.join(folder, checkout.scripts.start)
    try:
        content = await head.read_file(path)
        home = (await head.run("sh", "-c", 'printf %s "$HOME"')).strip()
    except HarnessError as error:
        remedy = error.hint or "See that it can be read."
        return [fail(GENERATION, error.what, node="head", evidence=path, remedy=remedy)]
    if content is None:
        remedy = "Name the recipe's folder: --checkout DIR."
        return [fail(GENERATION, "the checkout has no start script", node="head", evidence=path, remedy=remedy)]
    found = [_generation(checkout, content.decode(errors="replace"), path, recipe)]
    try:
        operators_compose(environment, folder, home, checkout.compose_file)
    except InputError as error:
        remedy = error.hint or "Correct COMPOSE_FILE in the env file."
        found.append(fail("compose_file", error.what, node="head", remedy=remedy))
    return found


def _generation(checkout: Checkout, start_script: str, path: str, recipe: str) -> Finding:
    name = recognise(checkout.generations, start_script)
    if name is not None:
        return ok(GENERATION, f"the scripts are of the {name} generation", node="head", evidence=path)
    known = ", ".join(each.name for each in checkout.generations)
    return warn(
        GENERATION,
        "untested generation: the scripts are of no state of the recipe that was tested",
        node="head",
        evidence=path,
        remedy=f"Try one launch before a sweep: harness engine up {recipe} --set {GENERATION}=NAME, with the nearest "
        f"of {known}, whose rules are then taken. Every report will call it untested.",
    )
