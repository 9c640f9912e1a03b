"""Recipe and configuration -> the simulated engine that stands in for them. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatchcase

from harness.errors import InputError
from harness.recipe.load import RECIPE_FILE, LoadedRecipe
from harness.recipe.matcher import all_match
from harness.recipe.rules import Values, check
from harness.recipe.schema import ModelInput, Recipe, Simulation
from harness.recipe.spec import LaunchSpec, SimulatedSpec, boot_patterns, manners_of
from harness.records.cell import NUM_SPECULATIVE_TOKENS, Configuration

_NOT_MODEL = ("condition", "inert")


def build_simulated(loaded: LoadedRecipe, configuration: Configuration) -> LaunchSpec:
    """Return the launch of a simulated engine in place of one configuration, whatever the recipe's own style is.

    Raises:
        InputError: a rule of the recipe is against it, or it cannot be simulated.
    """
    recipe = loaded.recipe
    simulation = require_simulation(loaded)
    verdict = check(recipe, configuration)
    if verdict.because is not None:
        raise InputError(f"{configuration.label} is refused: {verdict.because}", where=recipe.recipe)
    require_simulated(loaded, verdict.configuration.knobs)
    values = _values(recipe, simulation, verdict.effective)
    for rule in simulation.rules:
        if all_match(rule.when, values) and not (rule.require and all_match(rule.require, values)):
            raise InputError(f"{configuration.label} cannot be simulated: {rule.because}", where=recipe.recipe)
    launch, measuring = recipe.launch, recipe.measuring
    simulated = SimulatedSpec(
        truth=_truth(simulation, values),
        inputs=_inputs(simulation, values),
        truncated_graphs=any(all_match(condition, values) for condition in simulation.truncates_graphs_when),
    )
    k = simulated.inputs.get(NUM_SPECULATIVE_TOKENS)
    return LaunchSpec(
        recipe=recipe.recipe,
        configuration=verdict.configuration,
        style="simulated",
        argv=(),
        environment={},
        working_directory=None,
        base_url=None,
        served_model=_plain_name(launch.served_model),
        api_key_variable=None,
        preparation=(),
        boot=boot_patterns(recipe),
        ready_timeout_s=launch.ready_timeout_s,
        stop_timeout_s=launch.stop_timeout_s,
        expected_launch_s=launch.expected_launch_s,
        num_speculative_tokens=k if isinstance(k, int) else None,
        k_may_be_trimmed=any(all_match(condition, values) for condition in launch.k_may_be_trimmed_when),
        chat=launch.chat,
        prefill_tokens_per_s=measuring.prefill_tokens_per_s,
        slowest_decode_tokens_per_s=measuring.slowest_decode_tokens_per_s,
        canary_limit_ratio=measuring.canary_limit_ratio,
        warmup_limit_ratio=measuring.warmup_limit_ratio,
        manners=manners_of(recipe),
        simulation=simulated,
    )


def require_simulation(loaded: LoadedRecipe) -> Simulation:
    """Return what the recipe says of its simulation. Raises InputError: nothing."""
    if loaded.recipe.simulation is None:
        raise InputError(
            f"recipe {loaded.recipe.recipe} does not say how to simulate its engine",
            where=str(loaded.folder / RECIPE_FILE),
            hint="Add `simulation` to it: a truth, and what each knob is in the model.",
        )
    return loaded.recipe.simulation


def require_simulated(loaded: LoadedRecipe, knobs: Iterable[str]) -> None:
    """Raise InputError for knobs of which the recipe does not say what they are in the model."""
    unknown = unsimulated(loaded.recipe, knobs)
    if unknown:
        raise InputError(
            f"{unknown[0]} cannot be simulated: recipe {loaded.recipe.recipe} does not say what it does",
            where=str(loaded.folder / RECIPE_FILE),
            hint=unsimulated_hint(unknown[0]),
        )


def unsimulated(recipe: Recipe, knobs: Iterable[str]) -> tuple[str, ...]:
    """Return those of ``knobs`` that the recipe's simulation does not name."""
    simulation = recipe.simulation
    return tuple(name for name in knobs if simulation is not None and _input_of(simulation, name) is None)


def unsimulated_hint(knob: str) -> str:
    """Return what to do about a knob that is not simulated."""
    return f"Leave it out of the rehearsal, or add `{knob}: inert` to simulation.knobs if it changes nothing measured."


def _plain_name(template: str | None) -> str | None:
    """The name that requests ask for, where it needs no knob."""
    return template if template and "{" not in template else None


def _input_of(simulation: Simulation, knob: str) -> ModelInput | None:
    exact = simulation.knobs.get(knob)
    if exact is not None:
        return exact
    return next((each for pattern, each in simulation.knobs.items() if fnmatchcase(knob, pattern)), None)


def _values(recipe: Recipe, simulation: Simulation, effective: Values) -> Values:
    """What is in effect, with what is assumed of the operator's file; no value for what is inert here."""
    assumed = {name: value for name, value in simulation.assumes.items() if name not in effective}
    values = effective | assumed
    inert = {
        name
        for name in assumed
        if any(all_match(condition, values) for condition in recipe.inert_conditions.get(name, ()))
    }
    return {name: value for name, value in values.items() if name not in inert}


def _truth(simulation: Simulation, values: Values) -> str:
    return next((choice.truth for choice in simulation.truths if all_match(choice.when, values)), simulation.truth)


def _inputs(simulation: Simulation, values: Values) -> Values:
    inputs = {name: _input_of(simulation, name) for name in values}
    return {each: values[name] for name, each in inputs.items() if each is not None and each not in _NOT_MODEL}
