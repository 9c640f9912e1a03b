"""Recipe and configuration -> a launch on one or two nodes: which way, with which variables. Pure."""

from __future__ import annotations

from harness.errors import InputError
from harness.recipe.load import LoadedRecipe
from harness.recipe.matcher import all_match
from harness.recipe.pair import GENERATION, Bundled, Checkout, Pair
from harness.recipe.rules import Values, Verdict
from harness.recipe.schema import IMAGE, Recipe
from harness.recipe.spec import LaunchStyle, PairSpec
from harness.recipe.variables import engine_variables, require_no_code, spelled_out
from harness.records.cell import KnobValue

CHECKPOINT = "checkpoint"


def pair_style(recipe: Recipe, effective: Values) -> LaunchStyle | None:
    """Return which of the two ways a configuration takes; None for a recipe that starts no containers."""
    if recipe.launch.style not in ("two_node_checkout", "two_node_bundled"):
        return None
    bundled = recipe.pair.bundled if recipe.pair else None
    asked = bundled is not None and effective.get(GENERATION) == bundled.generation
    return "two_node_bundled" if asked or recipe.launch.style == "two_node_bundled" else "two_node_checkout"


def pair_variables(recipe: Recipe, verdict: Verdict, style: LaunchStyle) -> dict[str, str]:
    """Return the variables that carry what the configuration names; what it does not name is the operator's.

    Raises:
        InputError: checkout: a value that the scripts would run as code; names the knob.
    """
    named = verdict.configuration.knobs
    if style == "two_node_checkout":
        require_no_code(recipe, named)
        return engine_variables(recipe, named)
    return engine_variables(recipe, _without(named, IMAGE, CHECKPOINT))  # these are worked out with pair.yaml


def pair_spec(loaded: LoadedRecipe, verdict: Verdict, style: LaunchStyle) -> PairSpec:
    """Return the rest of what such a launch needs.

    Raises:
        InputError: the recipe does not know this way.
    """
    recipe, named = loaded.recipe, verdict.configuration.knobs
    pair = recipe.pair
    if pair is None:
        raise InputError(f"recipe {recipe.recipe} has no section `pair`", where=recipe.recipe)
    generation = verdict.effective.get(GENERATION)
    return PairSpec(
        data=pair,
        folder=loaded.folder,
        generation=generation if isinstance(generation, str) else None,
        image=spelled_out(recipe, IMAGE, named),
        checkpoint=spelled_out(recipe, CHECKPOINT, named),
        overrides=_overrides(pair.checkout, verdict.effective) if style == "two_node_checkout" else (),
        defaults=_defaults(recipe, pair, verdict) if style == "two_node_bundled" else {},
    )


def bundled_depth(spec: PairSpec) -> int | None:
    """Return k of a bundled launch whose configuration does not name it."""
    text = spec.defaults.get(spec.data.bundled.depth) if spec.data.bundled else None
    return int(text) if text is not None and text.isdecimal() else None


def _overrides(checkout: Checkout | None, effective: Values) -> tuple[str, ...]:
    overrides = checkout.overrides if checkout else ()
    return tuple(each.file for each in overrides if all_match(each.when, effective))


def _defaults(recipe: Recipe, pair: Pair, verdict: Verdict) -> dict[str, str]:
    bundled = _bundled(recipe, pair)
    variables = dict(bundled.variables)
    for addition in bundled.additions:
        if all_match(addition.when, verdict.effective):
            variables |= addition.variables
    assumed = _without(verdict.effective, IMAGE, CHECKPOINT, *verdict.configuration.knobs)
    image = verdict.effective.get(IMAGE)
    honoured = {name: value for name, value in assumed.items() if _is_honoured(recipe, name, image)}
    return variables | engine_variables(recipe, honoured)


def _is_honoured(recipe: Recipe, name: str, image: KnobValue | None) -> bool:
    """Whether the image reads a knob that nobody names; what it does not read only makes it warn."""
    if not isinstance(image, str) or image not in recipe.knobs[IMAGE].names or name not in recipe.knobs:
        return True
    return recipe.knobs[name].honoured_by(image)


def _bundled(recipe: Recipe, pair: Pair) -> Bundled:
    if pair.bundled is None:
        raise InputError(f"recipe {recipe.recipe} needs a checkout", where=recipe.recipe)
    return pair.bundled


def _without(values: Values, *names: str) -> Values:
    return {name: value for name, value in values.items() if name not in names}
