"""Recipe and configuration -> what to launch. Pure: paths come from the caller, nothing is looked up."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from harness.errors import InputError
from harness.recipe.build_pair import bundled_depth, pair_spec, pair_style, pair_variables
from harness.recipe.knob import Knob
from harness.recipe.load import LoadedRecipe
from harness.recipe.matcher import all_match
from harness.recipe.rules import Values, check
from harness.recipe.schema import ENV_PREFIX, Preparation, Recipe
from harness.recipe.spec import PORT, LaunchSpec, LaunchStyle, PreparationStep, boot_patterns, manners_of
from harness.recipe.template import fill, only_name
from harness.records.cell import NUM_SPECULATIVE_TOKENS, Configuration, KnobValue

_STYLES: dict[str, LaunchStyle] = {"local_process": "local_process", "attach": "attach"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """Folders of this machine that templates may name."""

    cache_dir: Path  # can be made again: downloads
    data_dir: Path  # what the preparation builds, for this recipe alone
    python: Path  # the interpreter that runs the harness
    home: Path  # what ~/ stands for in a knob's value


def build_launch(loaded: LoadedRecipe, configuration: Configuration, places: Places) -> LaunchSpec:
    """Return the launch of one configuration, whose knobs have neutral names (rules.canonicalise).

    Raises:
        InputError: a rule is against it, a value that the recipe needs is not set, or one would be run as code.
    """
    recipe = loaded.recipe
    verdict = check(recipe, configuration)
    if verdict.because is not None:
        raise InputError(f"{configuration.label} is refused: {verdict.because}", where=recipe.recipe)
    pair_way = pair_style(recipe, verdict.effective)
    style = pair_way or _STYLES[recipe.launch.style]
    pair = pair_spec(loaded, verdict, pair_way) if pair_way else None
    filling = _Filling(loaded, verdict.effective, verdict.configuration.knobs, places)
    k = filling.num_speculative_tokens()
    launch, measuring = recipe.launch, recipe.measuring
    return LaunchSpec(
        recipe=recipe.recipe,
        configuration=verdict.configuration,
        style=style,
        argv=tuple(filling.argv()) if style == "local_process" else (),
        environment=pair_variables(recipe, verdict, pair_way) if pair_way else filling.environment(),
        working_directory=Path(filling.text(launch.working_directory)) if launch.working_directory else None,
        base_url=filling.text(launch.base_url).rstrip("/") if launch.base_url else None,
        served_model=filling.optional(launch.served_model),
        over_ssh=filling.optional(launch.over_ssh),
        api_key_variable=launch.api_key_variable,
        preparation=tuple(filling.preparation(step) for step in launch.preparation),
        boot=boot_patterns(recipe),
        ready_timeout_s=launch.ready_timeout_s,
        stop_timeout_s=launch.stop_timeout_s,
        expected_launch_s=launch.expected_launch_s,
        num_speculative_tokens=bundled_depth(pair) if k is None and pair else k,
        k_may_be_trimmed=any(all_match(condition, verdict.effective) for condition in launch.k_may_be_trimmed_when),
        chat=launch.chat,
        prefill_tokens_per_s=measuring.prefill_tokens_per_s,
        slowest_decode_tokens_per_s=measuring.slowest_decode_tokens_per_s,
        canary_limit_ratio=measuring.canary_limit_ratio,
        warmup_limit_ratio=measuring.warmup_limit_ratio,
        manners=manners_of(recipe),
        pair=pair,
    )


class _Filling:
    """The values of one configuration, put into the recipe's templates."""

    def __init__(self, loaded: LoadedRecipe, effective: Values, named: Values, places: Places) -> None:
        self._recipe: Recipe = loaded.recipe
        self._places = places
        self._built_in = {
            "port": PORT,
            "host": loaded.recipe.launch.host,
            "recipe_dir": str(loaded.folder),
            "cache_dir": str(places.cache_dir),
            "data_dir": str(places.data_dir),
            "python": str(places.python),
        }
        self._named = named
        self._knobs = {name: knob for name, knob in loaded.recipe.launch_knobs.items() if name in effective}
        self._words = {name: self._rendered(name, knob, effective[name]) for name, knob in self._knobs.items()}
        self._effective = effective
        self._texts = self._built_in | {name: shlex.join(words) for name, words in self._words.items()}
        self._texts |= {name: words[0] for name, words in self._words.items() if self._knobs[name].type != "list"}

    def argv(self) -> Iterator[str]:
        """The whole command line: program, arguments, address, knobs in the recipe's order, speculation, free words."""
        launch = self._recipe.launch
        yield from self.words((*launch.command, *launch.args))
        if launch.host_flag:
            yield from (launch.host_flag, launch.host)
        if launch.port_flag:
            yield from (launch.port_flag, PORT)
        for name, knob in self._knobs.items():
            yield from self._flag(name, knob)
        yield from self._speculative_config()
        for name, knob in self._knobs.items():
            yield from self._argv(name, knob)

    def environment(self) -> dict[str, str]:
        """What is added to the environment; a variable that the sweep names wins over the recipe's own."""
        variables = {name: self.text(template) for name, template in self._recipe.launch.environment.items()}
        for name, knob in self._knobs.items():
            if knob.sets and knob.sets.environment:
                variables[knob.sets.environment] = self._texts[name]
        free = {name: value for name, value in self._effective.items() if name.startswith(ENV_PREFIX)}
        return variables | {name.removeprefix(ENV_PREFIX): str(value) for name, value in free.items()}

    def num_speculative_tokens(self) -> int | None:
        """k as the server must show it; 0 where nothing asks for speculation; None where the engine decides."""
        k = self._effective.get(NUM_SPECULATIVE_TOKENS)
        if isinstance(k, int):
            return k
        return 0 if self._recipe.launch.speculative_config and not self._speculative_fields() else None

    def preparation(self, step: Preparation) -> PreparationStep:
        """A preparation step with its templates filled."""
        return PreparationStep(
            name=step.name,
            says=step.says,
            creates=Path(self.text(step.creates)),
            command=tuple(self.words(step.command)),
            environment={name: self.text(template) for name, template in step.environment.items()},
        )

    def words(self, templates: tuple[str, ...]) -> Iterator[str]:
        """Templates filled; one that is a list knob and nothing else becomes its words."""
        for template in templates:
            name = only_name(template)
            if name in self._knobs and self._knobs[name].type == "list":
                yield from self._words[name]
            else:
                yield self.text(template)

    def text(self, template: str) -> str:
        """One template filled. Raises InputError where a knob that it needs has no value."""
        try:
            return fill(template, self._texts)
        except ValueError as problem:
            hint = "Name it in `knobs`, or with --set."
            raise InputError(f"recipe {self._recipe.recipe} needs a value: {problem}", hint=hint) from problem

    def optional(self, template: str | None) -> str | None:
        """One template filled; None where a knob that it names has no value."""
        if template is None:
            return None
        name = only_name(template)
        return None if name in self._recipe.knobs and name not in self._knobs else self.text(template)

    def _rendered(self, name: str, knob: Knob, value: KnobValue) -> tuple[str, ...]:
        text = knob.names.get(value, value) if isinstance(value, str) else _spelled(value)
        words = tuple(shlex.split(text)) if knob.type == "list" else (text,)
        if name not in self._named:  # a default of the recipe may name its folders; a user's text is left alone
            words = tuple(fill(word, self._built_in) for word in words)
        return tuple(str(self._places.home / word[2:]) if word.startswith("~/") else word for word in words)

    def _flag(self, name: str, knob: Knob) -> Iterator[str]:
        if knob.sets is None or knob.sets.flag is None:
            return
        if self._effective[name] is True:
            yield knob.sets.flag
        elif self._effective[name] is False:
            yield from (knob.sets.flag_off,) if knob.sets.flag_off else ()
        else:
            yield from (knob.sets.flag, *self._words[name])

    def _argv(self, name: str, knob: Knob) -> Iterator[str]:
        for template in knob.sets.argv if knob.sets else ():
            if only_name(template) == "value" and knob.type == "list":
                yield from self._words[name]
            else:
                yield fill(template, self._built_in | {"value": self._texts[name]})

    def _speculative_config(self) -> Iterator[str]:
        config = self._recipe.launch.speculative_config
        fields = self._speculative_fields()
        if config is not None and fields:
            fixed = {name: self.text(template) for name, template in config.fields.items()}
            yield from (config.flag, json.dumps(fixed | fields))

    def _speculative_fields(self) -> dict[str, KnobValue]:
        if self._effective.get(NUM_SPECULATIVE_TOKENS) == 0:
            return {}
        return {
            knob.sets.speculative: self._texts[name]
            if isinstance(self._effective[name], str)
            else self._effective[name]
            for name, knob in self._knobs.items()
            if knob.sets and knob.sets.speculative
        }


def _spelled(value: KnobValue) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)
