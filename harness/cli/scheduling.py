"""`harness nightly FILE --install-timer`: the same night, every night, without anybody who types it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import click

from harness.engine.timer import install_timer, kept_environment, remove_timer, this_program
from harness.engine.timer_units import DEFAULT_AT, DEFAULT_TIME_LIMIT_S, TimerRequest
from harness.errors import InputError
from harness.recipe.find import find_sweep
from harness.store.layout import slug
from harness.sweep.load import load_sweep
from harness.units import parse_seconds

_INSTALL, _REMOVE = "--install-timer", "--remove-timer"
_WITH_VALUE = ("--at", "--time-limit")
_ONE_NIGHT = ("--resume", "--as-of")  # of one night, not of every night


@dataclass(frozen=True, slots=True, kw_only=True)
class TimerWish:
    """What the command line says of the timer."""

    install: bool
    remove: bool
    at: str | None
    time_limit: str | None

    @property
    def asked(self) -> bool:
        """Nothing is measured now."""
        return self.install or self.remove


def require_sense(wish: TimerWish) -> None:
    """Raise InputError where the options of a timer contradict each other, or stand without one."""
    if wish.install and wish.remove:
        raise InputError(f"{_INSTALL} and {_REMOVE} at once", hint="Name one of them.")
    lone = [name for name, value in zip(_WITH_VALUE, (wish.at, wish.time_limit), strict=True) if value is not None]
    if lone and not wish.install:
        raise InputError(f"{lone[0]} is about a timer", where=lone[0], hint=f"Add {_INSTALL}; --finish-by ends a run.")


def schedule(file: str, wish: TimerWish, words: Sequence[str]) -> None:
    """Install or remove the timer of a sweep, and say what came of it.

    Args:
        file: of the sweep, as the user named it.
        wish: of the command line.
        words: of the command after `nightly`, as typed: what the timer will run.

    Raises:
        InputError: the sweep cannot be read, or what is asked cannot be installed.
        HostError: the system refuses.
    """
    path = find_sweep(file)
    name = slug(load_sweep(path).name)
    if wish.remove:
        lines = remove_timer(name)
    else:
        lines = install_timer(
            TimerRequest(
                slug=name,
                file=path.resolve(),
                arguments=_arguments(file, words),
                at=wish.at or DEFAULT_AT,
                time_limit_s=_time_limit_s(wish.time_limit),
                program=this_program(),
                working_directory=Path.cwd(),
                environment=kept_environment(),
            )
        )
    for line in lines:
        click.echo(line, err=True)


def _time_limit_s(text: str | None) -> float:
    if text is None:
        return DEFAULT_TIME_LIMIT_S
    try:
        return parse_seconds(text)
    except ValueError as error:
        raise InputError(str(error), where="--time-limit", hint="As in 2h.") from error


def _arguments(file: str, words: Sequence[str]) -> tuple[str, ...]:
    """What was typed, without FILE and what is about the timer itself."""
    kept: list[str] = []
    left = list(words)
    valued = _options_with_value()
    while left:
        word = left.pop(0)
        option = word.partition("=")[0]
        if option in _ONE_NIGHT:
            raise InputError(f"{option} is of one night", where=option, hint=f"Leave it out beside {_INSTALL}.")
        if option in _WITH_VALUE:
            if "=" not in word and left:
                left.pop(0)
        elif word in valued and left:
            kept += [word, left.pop(0)]  # a value may be called like FILE
        elif word not in (_INSTALL, _REMOVE, file):
            kept.append(word)
    return tuple(kept)


def _options_with_value() -> frozenset[str]:
    """Of the command that runs, as it declares them."""
    options = [one for one in click.get_current_context().command.params if isinstance(one, click.Option)]
    return frozenset(name for one in options if not one.is_flag for name in one.opts)
