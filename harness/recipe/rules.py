"""Which configurations boot, and which are the same server. Pure: nothing is launched or looked up to find out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

from harness.recipe.matcher import all_match
from harness.recipe.names import KnobNames, known_variable
from harness.recipe.schema import ENV_PREFIX, IMAGE, TERM, Derived, Recipe, Rule
from harness.records.cell import NUM_SPECULATIVE_TOKENS, Configuration, KnobValue

Values = dict[str, KnobValue]


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What is known of a configuration before it is launched."""

    configuration: Configuration  # neutral names, inert knobs dropped
    effective: Values  # with the recipe's defaults, inert knobs dropped
    because: str | None = None  # why it is refused; None: it boots, as far as is known
    source: str | None = None
    inert: tuple[str, ...] = ()  # knobs that the sweep names and that do nothing here
    warnings: tuple[str, ...] = ()

    @property
    def boots(self) -> bool:
        """No rule is against it."""
        return self.because is None


class _Objection(NamedTuple):
    because: str
    source: str | None


def canonicalise(recipe: Recipe, configuration: Configuration) -> tuple[Configuration, tuple[str, ...]]:
    """Return the configuration by neutral names and without inert knobs, and warnings about its spellings.

    Raises:
        InputError: a knob that the recipe does not have, or a value that it does not allow.
    """
    knobs, warnings = KnobNames(recipe).canonical(configuration.knobs)
    return check(recipe, replace(configuration, knobs=knobs)).configuration, warnings


def check(recipe: Recipe, configuration: Configuration) -> Verdict:
    """Return whether a configuration boots, and what of it matters. Its knobs are neutral names (canonicalise)."""
    named, effective = _implied(recipe, configuration.knobs)
    inert = _inert(recipe, effective)
    dropped = tuple(name for name in named if name in inert)
    kept = {name: value for name, value in named.items() if name not in inert}
    effective = {name: value for name, value in effective.items() if name not in inert}
    broken = _broken_rules(recipe, effective)
    against = _not_honoured(recipe, kept, effective)
    against += [_Objection(rule.because, rule.source) for rule in broken if rule.level == "refuse"]
    said = tuple(rule.because for rule in broken if rule.level == "warn")
    return Verdict(
        configuration=replace(configuration, knobs=kept),
        effective=effective,
        because=against[0].because if against else None,
        source=against[0].source if against else None,
        inert=dropped,
        warnings=(*said, *_token_budget(effective), *_unknown_image(recipe, kept, effective)),
    )


def same_server_key(recipe: Recipe, verdict: Verdict) -> frozenset[tuple[str, KnobValue]]:
    """Return what two configurations share exactly when they are one server.

    A local process gets the recipe's defaults, so that a default said aloud changes nothing; elsewhere the
    operator's own file decides what is not named.
    """
    values = verdict.effective if recipe.launch.style == "local_process" else verdict.configuration.knobs
    return frozenset(values.items())


def with_derived(recipe: Recipe, effective: Values) -> Values:
    """Return the values with the numbers that the recipe derives from them."""
    if not recipe.derived:
        return effective
    numbers = {name: _product(made, effective) for name, made in recipe.derived.items()}
    return effective | {name: number for name, number in numbers.items() if number is not None}


def _implied(recipe: Recipe, knobs: Mapping[str, KnobValue]) -> tuple[Values, Values]:
    named = dict(knobs)
    effective: Values = recipe.launch_defaults | named
    for implication in recipe.implies:
        if all_match(implication.when, effective):
            effective |= implication.then
            if any(name in knobs for name in implication.when):
                named |= implication.then
    return named, effective


def _inert(recipe: Recipe, effective: Values) -> set[str]:
    return {
        name
        for name, conditions in recipe.inert_conditions.items()
        if name in effective and any(all_match(condition, effective) for condition in conditions)
    }


def _not_honoured(recipe: Recipe, named: Values, effective: Values) -> list[_Objection]:
    return [*_ignored_by_image(recipe, named, effective), *_ignored_here(recipe, named, effective)]


def _ignored_here(recipe: Recipe, named: Values, effective: Values) -> list[_Objection]:
    known = {
        name: known_variable(recipe, name.removeprefix(ENV_PREFIX)) for name in named if name.startswith(ENV_PREFIX)
    }
    return [
        _Objection(f"nothing reads {name} here ({about.help.rstrip('.')}): every arm would be the same server", None)
        for name, about in known.items()
        if about is not None and any(all_match(condition, effective) for condition in about.ignored_when)
    ]


def _ignored_by_image(recipe: Recipe, named: Values, effective: Values) -> list[_Objection]:
    image = effective.get(IMAGE)
    if not isinstance(image, str) or image not in recipe.knobs[IMAGE].names:
        return []
    ignored = [name for name in named if not _honoured(recipe, name, image)]
    return [
        _Objection(f"{name} has no effect on image {image}: every arm would be the same server", None)
        for name in ignored
    ]


def _honoured(recipe: Recipe, name: str, image: str) -> bool:
    knob = recipe.knobs.get(name)
    if knob is not None:
        return knob.honoured_by(image)
    about = known_variable(recipe, name.removeprefix(ENV_PREFIX))
    return about is None or about.honoured_by(image)


def _broken_rules(recipe: Recipe, effective: Values) -> list[Rule]:
    values = with_derived(recipe, effective)
    return [rule for rule in recipe.launch_rules if all_match(rule.when, values) and not _required(rule, values)]


def _token_budget(effective: Values) -> tuple[str, ...]:
    """vLLM's V1 scheduler drops draft tokens without a word where a step cannot hold them all."""
    budget, sequences, k = (
        effective.get(name) for name in ("max_num_batched_tokens", "max_num_seqs", NUM_SPECULATIVE_TOKENS)
    )
    if not (isinstance(budget, int) and isinstance(sequences, int) and isinstance(k, int)) or k == 0:
        return ()
    needed = sequences * (k + 1)
    if budget >= needed:
        return ()
    below = f"max_num_batched_tokens {budget} is below max_num_seqs x (k + 1) = {needed}"
    return (f"{below}: draft tokens are dropped silently",)


def _unknown_image(recipe: Recipe, named: Values, effective: Values) -> tuple[str, ...]:
    image = effective.get(IMAGE)
    if image is None or IMAGE not in recipe.knobs or image in recipe.knobs[IMAGE].names:
        return ()
    unsure = [name for name in named if not _honoured(recipe, name, str(image))]
    if not unsure:
        return ()
    return (f"image {image} is not known to recipe {recipe.recipe}: it may ignore {', '.join(unsure)}",)


def _product(made: Derived, effective: Values) -> int | None:
    product = 1
    for term in made.product_of:
        match = TERM.match(term)
        value = effective.get(match[1]) if match else None
        if match is None or not isinstance(value, int):
            return None
        product *= value + int(match[2] or 0)
    return product


def _required(rule: Rule, values: Mapping[str, KnobValue]) -> bool:
    return bool(rule.require) and all_match(rule.require, values)
